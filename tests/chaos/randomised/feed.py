"""The mixed input of a run: what is sent when, and what must become of each reading.

Everything but the absolute time follows from the seed. Event time is the wall clock's, with steps of a second. Each
reading has a value of its own, exact in 32 bits, so that a value in the output identifies the reading it came from.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pyarrow as pa

STEP_MS = 1000
GROUPS, PARTITIONS = 12, 4
SENSORS = (
    "flow",
    "speed",
    "suction_pressure",
    "discharge_pressure",
    "motor_current",
    "bearing_temperature",
    "vibration",
    "tank_level",
)  # of model_repo/plant-pump, in the order of its contract
LIMIT = 1_000_000
CATALOGUE = """
models:
  - name: plant-pump
    step_s: 1
    lateness_s: 2
    idle_timeout_s: 5  # as shipped with the plant's catalogue
    sensors: [{sensors}]
groups:
  - {{model: plant-pump, pattern: "pump-*"}}
""".format(sensors=", ".join(f"{{id: {name}, min: -{LIMIT}, max: {LIMIT}}}" for name in SENSORS))
LATENESS_S, REVISE_AFTER, MAX_GAP, WINDOW = 2, 8, 48, 96  # the latter three are the defaults of a model
ARROW = [("content-type", b"application/vnd.apache.arrow.stream")]

ACCEPTED, WHOLE = "accepted", "whole record"


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading, and its `fate`: ACCEPTED, or the cause of the letter in which it must be found."""

    group: str
    sensor: str
    ts_ms: int
    value: float
    fate: str = ACCEPTED


@dataclass(frozen=True, slots=True)
class Message:
    """A message and its readings in order; `fate` is the cause of a letter that rejects it as a whole."""

    due_ms: int
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    readings: tuple[Reading, ...]
    fate: str = ACCEPTED


def partition_of(group: str) -> int:
    """The partition of a group or of an unknown one."""
    return int(group.rsplit("-", 1)[1]) % PARTITIONS


def draw(seed: int, start_ms: int, steps: int) -> list[Message]:
    """The messages of a run in the order in which they are due.

    Args:
        seed: of the run.
        start_ms: start of the first step, epoch milliseconds; a multiple of STEP_MS.
        steps: the number of steps. The first and the last 12 are undisturbed, so that all earlier ones close.
    """
    messages = [*_Feed(seed, start_ms, steps).messages()]
    return sorted(messages, key=lambda message: message.due_ms)


class _Feed:
    def __init__(self, seed: int, start_ms: int, steps: int) -> None:
        self._random = Random(f"{seed} feed")
        self._start_ms, self._steps = start_ms, steps
        self._calm_from = steps - 12
        self._count = 0
        # One silence per partition: nothing is sent, and half of its groups deliver afterwards what they measured.
        self._silences = {}
        for partition in range(PARTITIONS):
            begin = self._random.randrange(6, max(7, self._calm_from - 14))
            self._silences[partition] = (begin, begin + self._random.randrange(7, 12))

    def messages(self) -> Iterator[Message]:
        for number in range(GROUPS):
            yield from self._group(number)
        for step in range(3, self._calm_from):
            if self._random.random() < 0.6:
                yield self._unusable(step)

    def _value(self) -> float:
        self._count += 1
        return 50 + self._count / 16

    def _group(self, number: int) -> Iterator[Message]:
        random, group = self._random, f"pump-{number}"
        style = ("single", "step", "batch", "arrow", "backfill")[number % 5]
        silent_from, silent_to = self._silences[partition_of(group)]
        buffers = random.random() < 0.5
        quiet_until = dict.fromkeys(SENSORS, 0)  # steps until which a sensor is silent
        pending: list[Reading] = []
        flush_at = 0
        for step in range(self._steps):
            calm = step == 0 or step >= self._calm_from
            measured = []
            for sensor in SENSORS:
                if random.random() < 0.02:
                    quiet_until[sensor] = step + random.randrange(2, 13)
                if not calm and (step < quiet_until[sensor] or random.random() < 0.1):
                    continue
                measured.append(self._reading(group, sensor, step))
                if random.random() < 0.03:  # a second one in the same step, earlier or later
                    measured.append(self._reading(group, sensor, step))
            end_ms = self._start_ms + (step + 1) * STEP_MS
            if silent_from <= step < silent_to:
                if buffers:
                    pending += measured
                flush_at = silent_to
                continue
            if style == "single" or step == 0:
                yield from self._singles(measured, end_ms, calm=calm)
            elif style == "step":
                yield from self._step(group, step, measured, end_ms)
            else:
                pending += measured
            if pending and step >= flush_at:
                yield self._batch(group, pending, end_ms, arrow=style in ("arrow", "backfill"), calm=calm)
                pending = []
                steps = {"batch": 1, "arrow": 2, "backfill": random.choice((8, 30))}.get(style, 1)
                flush_at = step + (1 if calm else steps)
            if step + 1 >= self._calm_from:
                flush_at = 0
        if pending:
            yield self._batch(group, pending, self._start_ms + self._steps * STEP_MS, arrow=False, calm=True)

    def _reading(self, group: str, sensor: str, step: int, fate: str = ACCEPTED) -> Reading:
        ts_ms = self._start_ms + step * STEP_MS + self._random.randrange(STEP_MS)
        return Reading(group, sensor, ts_ms, self._value(), fate)

    def _singles(self, readings: list[Reading], end_ms: int, *, calm: bool) -> Iterator[Message]:
        random = self._random
        for reading in readings:
            delay_ms = random.randrange(700)
            if not calm and random.random() < 0.04:
                delay_ms += random.randrange(4_000, 20_000)  # later than the lateness, within the window
            value = json.dumps(_fields(reading)).encode()
            message = self._message(end_ms + delay_ms, reading.group, value, [reading])
            yield message
            if not calm and random.random() < 0.05:
                yield self._message(message.due_ms + random.randrange(4_000), reading.group, value, [reading])

    def _step(self, group: str, step: int, readings: list[Reading], end_ms: int) -> Iterator[Message]:
        by_sensor = {reading.sensor: reading for reading in readings}
        if not by_sensor:
            return
        ts_ms = self._start_ms + step * STEP_MS + self._random.randrange(STEP_MS)
        at_once = [Reading(group, sensor, ts_ms, reading.value) for sensor, reading in by_sensor.items()]
        values = {reading.sensor: reading.value for reading in at_once}
        value = json.dumps({"group": group, "ts": ts_ms, "values": values}).encode()
        yield self._message(end_ms, group, value, at_once)

    def _batch(self, group: str, readings: list[Reading], end_ms: int, *, arrow: bool, calm: bool) -> Message:
        random = self._random
        readings = list(readings)
        step = (end_ms - self._start_ms) // STEP_MS - 1
        if not calm and random.random() < 0.3:
            spoilt = random.choice(("unknown-sensor", "out-of-limits", "too-late"))
            sensor = "colour" if spoilt == "unknown-sensor" else random.choice(SENSORS)
            ts_ms = self._start_ms + step * STEP_MS - (300_000 if spoilt == "too-late" else 0)
            value = 9.0 * LIMIT if spoilt == "out-of-limits" else self._value()
            readings.insert(random.randrange(len(readings) + 1), Reading(group, sensor, ts_ms, value, spoilt))
        if arrow:
            return self._message(end_ms, group, _arrow(readings), readings, ARROW)
        items = [{name: field for name, field in _fields(each).items() if name != "group"} for each in readings]
        return self._message(end_ms, group, json.dumps({"group": group, "readings": items}).encode(), readings)

    def _unusable(self, step: int) -> Message:
        random = self._random
        due_ms = self._start_ms + step * STEP_MS + random.randrange(STEP_MS)
        group = f"pump-{random.randrange(GROUPS)}"
        kind = random.randrange(6)
        if kind == 0:
            ghost = self._reading(f"ghost-{random.randrange(9)}", "flow", step, "unknown-group")
            return self._message(due_ms, ghost.group, json.dumps(_fields(ghost)).encode(), [ghost])
        if kind == 1:
            late = Reading(group, "flow", due_ms - 300_000, self._value(), "too-late")
            return self._message(due_ms, group, json.dumps(_fields(late)).encode(), [late])
        if kind == 2:
            return Message(due_ms, partition_of(group), group.encode(), b"{broken", [], (), "undecodable")
        if kind == 3:
            return Message(due_ms, partition_of(group), group.encode(), b"no arrow", ARROW, (), "undecodable")
        if kind == 4:
            return Message(due_ms, partition_of(group), group.encode(), b"[1, 2]", [], (), "malformed")
        whole = _arrow([self._reading(group, sensor, step) for sensor in SENSORS])
        return Message(due_ms, partition_of(group), group.encode(), whole[: len(whole) // 2], ARROW, (), "undecodable")

    def _message(
        self,
        due_ms: int,
        group: str,
        value: bytes,
        readings: list[Reading],
        headers: list[tuple[str, bytes]] | None = None,
    ) -> Message:
        return Message(due_ms, partition_of(group), group.encode(), value, headers or [], tuple(readings))


def _fields(reading: Reading) -> dict[str, object]:
    return {"group": reading.group, "sensor": reading.sensor, "ts": reading.ts_ms, "value": reading.value}


def _arrow(readings: list[Reading]) -> bytes:
    table = pa.table(
        {
            "group": [reading.group for reading in readings],
            "sensor": [reading.sensor for reading in readings],
            "ts": pa.array([reading.ts_ms for reading in readings], pa.timestamp("ms", tz="UTC")),
            "value": [reading.value for reading in readings],
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
