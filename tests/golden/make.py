"""Make the input of tests/golden from its seeds, and freeze the output of this checkout's code.

    python -m tests.golden.make   # takes minutes, starts Kafka and Triton

The input is made for each run of the tests. `made.json` has its digests, so that it cannot change unnoticed.

`tests/integration/test_same_rows.py` replays the frozen input and compares every cell with the frozen output, so do not
regenerate the output when code is moved or rewritten. Regenerate it only for an intended change of behaviour, or when a
model or closed form of model_repo is replaced, in a commit that states this. `made.json` names the commit, the packages
and the processor that made the output. On a processor of another type the last bits of their answers differ; rounding
hides nearly all of these differences, and the test allows for the rest.

There are three inputs: JSON messages (`input.jsonl`), Arrow messages (`input.arrows`), and both kinds as records of a
topic with their times, keys and headers (`topic.parquet`). The readings are drawn around the means of the models'
contracts; nothing here imports glaim_stream. Messages of a file carry the time of the replay. So all times lie in March
2024, in the past of every replay, and future stamps lie so far ahead (2190) that the day of the replay does not matter.
Readings that are slightly ahead of their record exist in the topic only.
"""

import argparse
import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deploy.kafka import QUICK_START, kafka_from_environment
from deploy.triton import triton_from_environment
from tests.golden.compare import differences, sorted_rows
from tests.golden.runs import (
    FILE_RUNS,
    FOLDER,
    IMPUTERS,
    MODEL_REPOSITORY,
    TOPIC,
    Output,
    Topic,
    input_digests,
    model_digests,
    processor,
    replay_file,
    rows_file,
)

OUTPUT_SOURCES = ("glaim_stream", "model_repo")  # the output depends on these and on the input
START_MS = 1_709_251_200_000  # 2024-03-01T00:00:00Z
MINUTE, HOUR = 60_000, 3_600_000
STEP_MS = {"plant-pump": MINUTE, "beijing-air": HOUR}
SLOW = {"vibration": 5, "RAIN": 3}  # steps between readings, as in groups.yaml
SILENT_SENSORS = {("pump-12", "suction_pressure"), ("Dongsi", "WSPM")}  # never send a reading
UNALIGNED_MS = {"pump-12": 17_345, "Guanyuan": 421_007}
ARROW_TYPE = b"application/vnd.apache.arrow.stream"
BEIJING = timezone(timedelta(hours=8))

# The groups of each of the four partitions, as the hash of their names assigns them.
PUMPS = ("pump-3", "pump-4", "pump-12", "pump-1")
STATIONS = ("Huairou", "Tiantan", "Dongsi", "Guanyuan")
PARTITION = {name: number for names in (PUMPS, STATIONS) for number, name in enumerate(names)} | {"pump-5": 1}


@dataclass(frozen=True)
class Reading:
    group: str
    sensor: str
    ts_ms: int
    value: float | None
    quality: str | int | None = None


@dataclass(frozen=True)
class Sent:
    """A message as a producer sends it."""

    arrival_ms: int
    key: bytes | None
    value: bytes | None
    arrow: bool = False
    headers: tuple[tuple[str, bytes], ...] = ()


Pack = Callable[[int, list[Reading]], bytes]  # (message number, readings of one group over some steps) -> message


@dataclass(frozen=True)
class Scenario:
    """Which groups send readings, when, and in which message formats."""

    seed: int
    pumps: tuple[str, ...]
    stations: tuple[str, ...]
    hours: int  # duration of the stations' readings; the pumps send in two episodes within it
    first: range  # minutes after the third hour
    second: range  # minutes after hour `hours` - 10, when the first episode has left the windows
    packs: tuple[Pack, ...]  # message formats, used in turn
    steps: int  # largest number of steps per message


# Readings ------------------------------------------------------------------------------------------------------------


def signals(random: np.random.Generator, model: str, steps: int) -> tuple[list[str], NDArray[np.float64]]:
    """Sensor names and values [sensor, step]: two shared noise sources and one per sensor, scaled by the contract."""
    contract = json.loads((MODEL_REPOSITORY / model / "contract.json").read_text())
    sensors = contract["sensors"]
    noise = random.normal(size=(len(sensors) + 2, steps + 50))
    for step in range(1, steps + 50):
        noise[:, step] = 0.9 * noise[:, step - 1] + 0.43 * noise[:, step]
    shared, individual = noise[:2, 50:], noise[2:, 50:]
    values = random.normal(size=(len(sensors), 2)) @ shared * 0.5 + individual * 0.35
    mean, std, low, high = (
        np.array([sensor[name] for sensor in sensors])[:, None] for name in ("mean", "std", "minimum", "maximum")
    )
    return [sensor["id"] for sensor in sensors], np.clip(mean + std * values, low, high).round(2)


def draw_observed(random: np.random.Generator, sensors: int, steps: int, dark: range) -> NDArray[np.bool_]:
    """Which cells [sensor, step] have a reading: all but single holes, blocks of one sensor, and one block of all."""
    observed = random.random((sensors, steps)) > 0.07
    for _ in range(sensors * steps // 300):
        sensor, start, length = random.integers(sensors), random.integers(steps), random.integers(2, 34)
        observed[sensor, start : start + length] = False
    observed[:, dark.start : dark.stop] = False
    return observed


def readings_of(
    random: np.random.Generator, group: str, model: str, start_ms: int, steps: int, dark: range
) -> Iterator[list[Reading]]:
    """The readings of one group, step by step: sometimes several per sensor, some null or of doubtful quality."""
    step_ms = STEP_MS[model]
    sensors, values = signals(random, model, steps)
    observed = draw_observed(random, len(sensors), steps, dark)
    for step in range(steps):
        at_ms = start_ms + step * step_ms
        found = []
        for row, sensor in enumerate(sensors):
            slow = SLOW.get(sensor, 1)
            if not observed[row, step] or (group, sensor) in SILENT_SENSORS or (at_ms // step_ms) % slow != slow - 1:
                continue
            value: float | None = float(values[row, step])
            quality: str | int | None = None
            draw = random.random()
            if draw < 0.012:
                value = None
            elif draw < 0.03:
                quality = ("Uncertain", 0x40900000, "Bad_SensorFailure", 0x808C0000, "good", "doubtful")[step % 6]
            found.append(Reading(group, sensor, at_ms + UNALIGNED_MS.get(group, 0), value, quality))
            if random.random() < 0.04 and value is not None:
                share = (1 / 3, 2 / 3, 0.0)[int(random.integers(3))]  # 0: same time as the first reading
                more = round(value * 1.01, 2)
                found.append(Reading(group, sensor, at_ms + int(share * step_ms), more))
        yield found


# Messages ------------------------------------------------------------------------------------------------------------


def text(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def stamp(number: int, ts_ms: int) -> int | float | str:
    """A time in one of the formats that a reading may use."""
    moment = datetime.fromtimestamp(ts_ms / 1000, UTC)
    if number % 7 == 1:
        return moment.isoformat().replace("+00:00", "Z")
    if number % 7 == 4:
        return moment.astimezone(BEIJING).isoformat()
    return ts_ms + 0.4 if number % 7 == 5 else ts_ms


def as_items(number: int, readings: list[Reading]) -> bytes:
    """Many readings; in every second message each has its own time, in the others the message's time is the default."""
    first_ms = readings[0].ts_ms
    items: list[dict[str, Any]] = []
    for reading in readings:
        item: dict[str, Any] = {"sensor": reading.sensor, "value": reading.value}
        if number % 2 or reading.ts_ms != first_ms:
            item["ts"] = stamp(number, reading.ts_ms)
        if reading.quality is not None:
            item["quality"] = reading.quality
        items.append(item)
    document: dict[str, Any] = {"group": readings[0].group, "readings": items}
    return text(document if number % 2 else document | {"ts": stamp(number, first_ms)})


def as_plain_items(number: int, readings: list[Reading]) -> bytes:
    """Many readings as gateways send them, with only sensor, epoch milliseconds and value."""
    if any(reading.quality is not None for reading in readings):
        return as_items(number, readings)
    items = [{"sensor": each.sensor, "ts": each.ts_ms, "value": each.value} for each in readings]
    return text({"group": readings[0].group, "readings": items})


def as_step(number: int, readings: list[Reading]) -> bytes:
    """One step if each sensor occurs once and all have one time; else many readings."""
    values = {each.sensor: each.value for each in readings}
    if len(values) < len(readings) or len({(each.ts_ms, each.quality) for each in readings}) > 1:
        return as_items(number, readings)
    quality = {} if readings[0].quality is None else {"quality": readings[0].quality}
    return text({"group": readings[0].group, "ts": stamp(number, readings[0].ts_ms), "values": values} | quality)


def as_single(number: int, reading: Reading) -> bytes:
    document = {"group": reading.group, "sensor": reading.sensor, "ts": stamp(number, reading.ts_ms)}
    quality = {} if reading.quality is None else {"quality": reading.quality}
    return text(document | {"value": reading.value} | quality)


def stream(table: pa.Table, *, compressed: bool = False) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def as_long(number: int, readings: list[Reading]) -> bytes:
    """One row per reading; names as strings or dictionaries, times of three types, qualities as names or codes."""
    names = pa.dictionary(pa.int16(), pa.string()) if number % 2 else pa.string()
    kind = (pa.timestamp("ms", "UTC"), pa.int64(), pa.timestamp("us", "Asia/Shanghai"))[number % 3]
    scale = 1000 if number % 3 == 2 else 1
    columns = {
        "group": pa.array([each.group for each in readings]).cast(names),
        "sensor": pa.array([each.sensor for each in readings]).cast(names),
        "ts": pa.array([each.ts_ms * scale for each in readings], pa.int64()).cast(kind),
        "value": pa.array([each.value for each in readings], pa.float64() if number % 4 else pa.float32()),
    }
    codes = {"Uncertain": 0x40000000, "Bad_SensorFailure": 0x808C0000, "good": 0, "doubtful": 0x40920000}
    with_quality = [codes.get(str(each.quality), each.quality) for each in readings]
    if number % 5 == 0:
        columns["quality"] = pa.array(with_quality, pa.uint32())
    elif any(quality is not None for quality in with_quality):
        columns["quality"] = pa.array([None if each.quality is None else str(each.quality) for each in readings])
    return stream(pa.table(columns), compressed=number % 2 == 0)


def as_wide(number: int, readings: list[Reading]) -> bytes:
    """One row per time and one column per sensor, null without a reading. This format has no quality."""
    if any(each.quality is not None for each in readings):
        return as_long(number, readings)
    sensors = list(dict.fromkeys(each.sensor for each in readings))
    rows: list[dict[str, Any]] = []
    for each in sorted(readings, key=lambda each: each.ts_ms):
        if not rows or rows[-1]["ts"] != each.ts_ms or each.sensor in rows[-1]:
            rows.append({"ts": each.ts_ms})
        rows[-1][each.sensor] = each.value
    columns = {"group": pa.array([readings[0].group] * len(rows))}
    columns["ts"] = pa.array([row["ts"] for row in rows], pa.int64() if number % 2 else pa.timestamp("ms", "UTC"))
    kind = pa.float32() if number % 3 else pa.float64()
    columns |= {sensor: pa.array([row.get(sensor) for row in rows], kind) for sensor in sensors}
    return stream(pa.table(columns), compressed=number % 2 == 0)


def messages(random: np.random.Generator, scenario: Scenario, steps: list[list[Reading]]) -> Iterator[Sent]:
    """The readings of one group as messages: most on time, some readings late and alone, a few messages sent twice."""
    number, place = 0, 0
    nonempty = [step for step in steps if step]
    while place < len(nonempty):
        count = int(random.integers(1, scenario.steps + 1))
        together = [reading for step in nonempty[place : place + count] for reading in step]
        place += count
        number += 1
        group = together[0].group
        step_ms = STEP_MS["plant-pump" if group.startswith("pump") else "beijing-air"]
        late = random.random(len(together)) < 0.012
        for reading in (each for each, chosen in zip(together, late, strict=True) if chosen):
            arrival_ms = reading.ts_ms + int(random.integers(4, 70) * step_ms)
            yield Sent(arrival_ms, group.encode(), *single_message(scenario, number, reading))
        together = [each for each, chosen in zip(together, late, strict=True) if not chosen]
        if not together:
            continue
        arrival_ms = max(each.ts_ms for each in together) + int(random.integers(1, 24) * step_ms // 48)
        pack = scenario.packs[number % len(scenario.packs)]
        arrow = pack in (as_long, as_wide)
        if not arrow and number % 9 == 0:
            for each in together:
                yield Sent(arrival_ms, group.encode(), as_single(number, each))
            continue
        parts = list(by_step(together)) if pack is as_step else [together]
        for part in parts:
            sent = Sent(arrival_ms, group.encode(), pack(number, part), arrow)
            yield sent
            if number % 23 == 0:
                yield replace(sent, arrival_ms=arrival_ms + step_ms * int(random.integers(0, 9)))


def by_step(readings: list[Reading]) -> Iterator[list[Reading]]:
    """Readings that fit one step message (one time, each sensor once, no quality), then all others together."""
    with_quality = [each for each in readings if each.quality is not None]
    plain = [each for each in readings if each.quality is None]
    for ts_ms in dict.fromkeys(each.ts_ms for each in plain):
        at_once = {each.sensor: each for each in plain if each.ts_ms == ts_ms}
        yield list(at_once.values())
        with_quality += [each for each in plain if each.ts_ms == ts_ms and at_once[each.sensor] is not each]
    if with_quality:
        yield with_quality


def single_message(scenario: Scenario, number: int, reading: Reading) -> tuple[bytes, bool]:
    """A message of one reading, in a format of the scenario."""
    arrow = scenario.packs[number % len(scenario.packs)] in (as_long, as_wide)
    return (as_long(number, [reading]) if arrow else as_single(number, reading)), arrow


def ordinary(scenario: Scenario) -> list[Sent]:
    """The regular messages of all groups."""
    random = np.random.default_rng(scenario.seed)
    sent: list[Sent] = []
    for place, group in enumerate(scenario.stations):
        dark = range(40, 64) if place == 1 else range(0)
        steps = list(readings_of(random, group, "beijing-air", START_MS, scenario.hours, dark))
        sent += messages(random, scenario, steps)
    episodes = [(3, scenario.first), (scenario.hours - 10, scenario.second)]
    for place, group in enumerate(scenario.pumps):
        for hour, minutes in episodes:
            dark = range(60, 90) if place == 0 else range(0)
            start_ms = START_MS + hour * HOUR + minutes.start * MINUTE
            steps = list(readings_of(random, group, "plant-pump", start_ms, len(minutes), dark))
            sent += messages(random, scenario, steps)
    return sent


# Unusual messages -----------------------------------------------------------------------------------------------------


def corrections(scenario: Scenario, pump_ms: int, station_ms: int) -> Iterator[Sent]:
    """One cell of each model corrected three times and once with an equal value, and readings that are too late."""
    flow = Reading(scenario.pumps[0], "flow", pump_ms - 20 * MINUTE + 59_000, 99.5)
    so2 = Reading(scenario.stations[0], "SO2", station_ms - 30 * HOUR + 3_000_000, 44.0)
    for at_ms, reading in ((pump_ms, flow), (station_ms, so2)):
        late = [replace(reading, value=value) for value in (99.5, 101.25, 101.25, 87.0)]
        late.append(replace(reading, value=87.0, quality="uncertain"))  # the same value with a worse quality
        late.append(replace(reading, value=None))  # a late null
        step_ms = MINUTE if reading is flow else HOUR
        late += [replace(reading, ts_ms=at_ms - steps * step_ms) for steps in (101, 5000)]
        late.append(replace(reading, ts_ms=1_709_251_200))  # seconds instead of milliseconds: a day of 1970
        for number, each in enumerate(late):
            yield Sent(at_ms + number, each.group.encode(), *single_message(scenario, number, each))


def unusable_json(scenario: Scenario, at_ms: int) -> Iterator[Sent]:
    """Dead letters of every cause, alone and beside usable readings."""
    pump, station = scenario.pumps[1], scenario.stations[1]
    good = {"group": pump, "sensor": "flow", "ts": at_ms, "value": 130.5}
    usable = {"sensor": "speed", "ts": at_ms, "value": 2400.5}
    documents: list[dict[str, Any]] = [
        good | {"group": "turbine-9"},
        good | {"sensor": "colour"},
        good | {"sensor": "SO2"},  # of the other model
        good | {"ts": "2024-03-01T05:00:00"},
        good | {"ts": None},
        good | {"ts": "yesterday"},
        good | {"ts": at_ms * 1000},
        good | {"ts": "2190-01-01T00:00:00Z"},
        good | {"value": 400.01},
        good | {"value": -1},
        good | {"value": 1e39},
        good | {"value": "130.5"},
        good | {"values": {"flow": 1}},
        {"group": pump, "ts": at_ms, "value": 1},
        {"group": pump, "ts": at_ms, "values": {}},
        {"sensor": "flow", "ts": at_ms, "value": 1},
        {"group": 7, "sensor": "flow", "ts": at_ms, "value": 1},
        {"group": pump, "readings": [usable, usable | {"sensor": "colour"}, usable | {"value": 9999}, {"ts": at_ms}]},
        {"group": pump, "readings": [usable | {"value": 2401.5}, usable | {"sensor": "colour"}, usable | {"ts": None}]},
        # Readings of another group of the same partition: one usable, one too late.
        {
            "group": pump,
            "ts": at_ms,
            "readings": [
                {"sensor": "speed", "value": 2402.5},
                {"group": station, "sensor": "TEMP", "value": 12.5},
                {"group": station, "sensor": "TEMP", "ts": at_ms - 99 * HOUR, "value": 11.5},
                {"group": station, "sensor": "flow", "value": 11.5},
            ],
        },
        {"group": pump, "ts": at_ms, "values": {"flow": 401, "speed": None, "motor_current": 70.5}},
    ]
    lines = [text(document) for document in documents]
    lines += [
        b"rubbish \xff\xfe",
        b'{"group":"' + pump.encode() + b'","sensor":"flow"',
    ]
    # Not JSON, but some encoders write it. In a file such a message has no key, so it goes to the first partition.
    first = scenario.pumps[0].encode()
    for value in (b"NaN", b"Infinity", b"1e999"):
        lines.append(b'{"group":"%b","sensor":"flow","ts":%d,"value":%b}' % (first, at_ms + 1, value))
    for number, line in enumerate(lines):
        yield Sent(at_ms + number, key_of(line), line)


def key_of(line: bytes) -> bytes | None:
    """The group that a message names, found as `replay` finds it."""
    try:
        group = json.loads(line)["group"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return group.encode() if isinstance(group, str) else None


def unusable_arrow(scenario: Scenario, at_ms: int) -> Iterator[Sent]:
    """Dead letters of every cause as Arrow streams."""
    pump, station = scenario.pumps[1], scenario.stations[1]
    utc = pa.timestamp("ms", "UTC")
    ahead_ms = 6_942_672_000_000  # 2190
    rows = [  # group, sensor, time, value
        (pump, "flow", at_ms, 131.5),
        ("turbine-9", "flow", at_ms, 1.0),
        (pump, "flow", None, 1.0),
        (pump, "flow", ahead_ms, 1.0),
        (pump, None, at_ms, 1.0),
        (None, "flow", at_ms, 1.0),
        (pump, "colour", at_ms, 1.0),
        (pump, "flow", at_ms - 99 * HOUR, 1.0),
        (pump, "flow", at_ms, -1.0),
    ]
    # One stream with all rows that name the pump or no group, then one stream per row except the first.
    some = [[each for each in rows if each[0] in (pump, None)], *([each] for each in rows[1:])]
    kinds = {"group": pa.string(), "sensor": pa.string(), "ts": utc, "value": pa.float64()}
    tables = [
        pa.table(
            {
                name: pa.array(column, kind)
                for (name, kind), column in zip(kinds.items(), zip(*part, strict=True), strict=True)
            }
        )
        for part in some
    ]
    tables += [
        pa.table(
            {
                "group": [pump, pump],
                "ts": pa.array([at_ms, at_ms + MINUTE], utc),
                "flow": [132.5, 9999.0],
                "colour": [1.0, None],
                "speed": [None, float("inf")],
            }
        ),
        pa.table({"group": [station], "sensor": ["TEMP"], "value": [1.0]}),
        pa.table({"group": [station], "sensor": ["TEMP"], "ts": pa.array([at_ms], pa.timestamp("ms")), "value": [1.0]}),
        pa.table({"group": [station], "sensor": ["TEMP"], "ts": pa.array([at_ms], utc), "value": ["cold"]}),
        pa.table({"group": [station], "ts": pa.array([at_ms], utc)}),
        pa.table({"sensor": ["TEMP"], "ts": pa.array([at_ms], utc), "value": [1.0]}),
    ]
    for number, table in enumerate(tables):
        group = table["group"][0].as_py() if "group" in table.column_names else None
        yield Sent(at_ms + number, None if group is None else group.encode(), stream(table), arrow=True)


def topic_only_messages(scenario: Scenario, at_ms: int) -> Iterator[Sent]:
    """Cases that only records of a topic can have: empty, a key but no group, requeued, ahead of the record's time."""
    pump, station = scenario.pumps[2], scenario.stations[2]
    key = pump.encode()
    yield Sent(at_ms, key, None)
    yield Sent(at_ms + 1, key, b"")
    yield Sent(at_ms + 2, key, text({"sensor": "flow", "ts": at_ms, "value": 120.5}), headers=(("trace", b"\x00\xff"),))
    yield Sent(
        at_ms + 3, key, text({"ts": at_ms, "values": {"speed": 2300.5, "colour": 1}}), headers=(("trace", b"1"),)
    )
    wide = pa.table({"ts": pa.array([at_ms], pa.timestamp("ms", "UTC")), "motor_current": [71.5]})
    yield Sent(at_ms + 4, key, stream(wide), arrow=True)
    yield Sent(at_ms + 5, key, b"no stream at all", arrow=True)
    yield Sent(at_ms + 6, b"\xff\xfe", text({"sensor": "flow", "ts": at_ms, "value": 1}))
    unknown_value = {"group": pump, "sensor": "flow", "ts": at_ms - 12 * MINUTE, "value": 118.25}
    for number in range(3):  # requeued: the second and third change nothing and are still published
        sent_back = (("glaim-requeued", b"%d" % number), ("trace", b"2")) if number else ()
        yield Sent(at_ms + 7 + number, key, text(unknown_value), headers=sent_back)
    rejected = text(unknown_value | {"sensor": "colour"})
    yield Sent(at_ms + 10, key, rejected, headers=(("glaim-requeued", b"1"), ("glaim-cause", b"undecodable")))
    for minute in range(6):  # a clock that is ahead by up to max_ahead_s, and once by more
        for ahead_ms in (100_000, 239_999, 240_000, 240_001):
            arrival_ms = at_ms + 20 + minute * MINUTE
            reading = Reading(pump, "bearing_temperature", arrival_ms + ahead_ms, 42.25 + minute)
            yield Sent(arrival_ms, key, as_single(0, reading))
        reading = Reading(station, "PRES", at_ms + minute * MINUTE + 200_000, 1011.5)
        yield Sent(at_ms + 21 + minute * MINUTE, station.encode(), as_single(0, reading))


# The three inputs ----------------------------------------------------------------------------------------------------

JSON_FORMS: tuple[Pack, ...] = (as_step, as_step, as_plain_items, as_step, as_items)
ARROW_FORMS: tuple[Pack, ...] = (as_long, as_wide, as_long, as_wide, as_wide)
AS_JSON = Scenario(1, (*PUMPS, "pump-5"), STATIONS, 122, range(118), range(70), JSON_FORMS, 2)
AS_ARROW = Scenario(2, PUMPS[:2], STATIONS[:2], 112, range(112), range(50), ARROW_FORMS, 7)
AS_TOPIC = Scenario(3, PUMPS, STATIONS, 112, range(112), range(50), (*JSON_FORMS, *ARROW_FORMS[:3]), 3)


def in_order(sent: Sequence[Sent]) -> list[Sent]:
    return sorted(sent, key=lambda each: each.arrival_ms)


def arrivals(scenario: Scenario) -> tuple[int, int]:
    """Whole minutes in the two episodes at which the unusual messages are sent."""
    first_ms = START_MS + 3 * HOUR + (len(scenario.first) - 6) * MINUTE
    return first_ms, START_MS + (scenario.hours - 10) * HOUR + 30 * MINUTE


def write_input(folder: Path) -> None:
    """Write the three inputs into a folder."""
    for scenario, unusable, name in ((AS_JSON, unusable_json, "jsonl"), (AS_ARROW, unusable_arrow, "arrows")):
        first_ms, second_ms = arrivals(scenario)
        sent = [*ordinary(scenario), *corrections(scenario, first_ms, second_ms), *unusable(scenario, second_ms)]
        values = [each.value or b"" for each in in_order(sent)]
        end = b"\n" if name == "jsonl" else b""
        (folder / f"input.{name}").write_bytes(b"".join(value + end for value in values))
    first_ms, second_ms = arrivals(AS_TOPIC)
    sent = [
        *ordinary(AS_TOPIC),
        *corrections(AS_TOPIC, first_ms, second_ms),
        *unusable_json(AS_TOPIC, second_ms),
        *unusable_arrow(AS_TOPIC, second_ms + MINUTE),
        *topic_only_messages(AS_TOPIC, second_ms + 2 * MINUTE),
    ]
    records: list[dict[str, Any]] = []
    for each in in_order(sent):
        group = (each.key or b"").decode(errors="replace")
        headers = [*([("content-type", ARROW_TYPE)] if each.arrow else []), *each.headers]
        records.append(
            {
                "partition": PARTITION.get(group, 0),
                "timestamp_ms": each.arrival_ms,
                "key": each.key,
                "value": each.value,
                "headers": [{"name": name, "value": value} for name, value in headers],
            }
        )
    schema = pa.schema(
        {
            "partition": pa.int32(),
            "timestamp_ms": pa.int64(),
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()})),
        }
    )
    table = pa.Table.from_pylist(records, schema)
    pq.write_table(table, folder / "topic.parquet", compression="zstd", compression_level=19)


# The output ----------------------------------------------------------------------------------------------------------


def write_output() -> None:
    """Run the code of this checkout on the three inputs and freeze its output."""
    assert not git("status", "--porcelain", "--", *OUTPUT_SOURCES), f"commit changes of {OUTPUT_SOURCES} first"
    runs: dict[str, dict[str, Output]] = {}
    with (
        triton_from_environment(MODEL_REPOSITORY) as triton,
        kafka_from_environment(jvm_options=QUICK_START) as kafka,
        tempfile.TemporaryDirectory() as scratch,
    ):
        for imputer in IMPUTERS:
            folder = Path(scratch) / imputer
            for run in FILE_RUNS:
                out = replay_file(run, imputer, folder / run.name, triton=triton.grpc_url)
                runs.setdefault(run.name, {})[imputer] = out
            topic = Topic(kafka.bootstrap_servers, f"golden-{imputer}-", imputer, triton.grpc_url)
            topic.send()
            found = topic.work(folder / "worker.log")
            assert not differences(topic.replay(folder / TOPIC), found), "the replay differs from the worker's output"
            runs.setdefault(TOPIC, {})[imputer] = found
    for name, by_imputer in runs.items():
        freeze(FOLDER / name, by_imputer)
    made = {
        "commit": git("log", "-1", "--format=%H", "--", *OUTPUT_SOURCES),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "pyarrow", "msgspec", "tritonclient")},
        "processor": processor(),
        "input": input_digests(),
        "models": model_digests(),
    }
    (FOLDER / "made.json").write_text(json.dumps(made, indent=2) + "\n")


def git(*arguments: str) -> str:
    root = FOLDER.parents[1]
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def freeze(folder: Path, by_imputer: dict[str, Output]) -> None:
    """Write the output of a run. Rejects and outages do not depend on the imputer, so they are written once."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    first, *others = by_imputer.values()
    for other in others:
        assert not differences(replace(other, rows=first.rows), first), folder
    freeze_documents(folder, first)
    for imputer, output in by_imputer.items():
        pq.write_table(
            sorted_rows(output.rows), rows_file(folder, imputer), compression="zstd", compression_level=19,
            use_dictionary=["group", "sensor", "method", "quality", "status", "model_version"],
            column_encoding=dict.fromkeys(("value", "lower", "upper"), "BYTE_STREAM_SPLIT")
            | dict.fromkeys(("ts", "event_time"), "DELTA_BINARY_PACKED"),
        )  # fmt: skip


def freeze_documents(folder: Path, output: Output) -> None:
    """Write rejects and outages in an order that does not depend on the worker's batches."""
    rejects = sorted(output.rejects, key=lambda each: (each["partition"], int(each["offset"]), each["cause"]))
    outages = sorted(output.outages, key=lambda each: each["group"])
    for name, documents in (("rejects", rejects), ("outages", outages)):
        lines = [json.dumps(document, sort_keys=True, ensure_ascii=False) + "\n" for document in documents]
        (folder / f"{name}.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_output()
