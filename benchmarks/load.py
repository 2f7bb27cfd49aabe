"""The readings for all engines, in the shapes of the input format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np

FIRST_STEP_MS = 1_700_006_400_000  # a whole hour
Shape = Literal["single", "padded", "batch", "step", "arrow", "wide"]
ARROW_HEADERS = [("content-type", b"application/vnd.apache.arrow.stream")]
Columns = dict[str, Sequence[str | int | float | None]]
Step = tuple[int, int, list[tuple[str, list[tuple[str, float]]]]]  # number, time in ms, [(group, [(sensor, value)])]
BATCH = 50
ARROW_ROWS = 1000
PADDED_BYTES = 1200  # a row of the Kafka-to-Kafka suite that Databricks has published for Flink and Spark


class Sent(NamedTuple):
    """One message of the load."""

    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]
    readings: int
    step: int  # step of its first reading, from 0


@dataclass(frozen=True)
class TopicLoad:
    """Readings of a plant, ordered by step and then by group, some of them missing."""

    readings: int
    shape: Shape = "single"
    groups: int = 400
    sensors: tuple[str, ...] = tuple(f"sensor-{number:02d}" for number in range(11))
    means: tuple[float, ...] = (25.0,) * 11  # mean of each sensor
    model: str = "plant"
    partitions: int = 4
    step_ms: int = 60_000
    missing: float = 0.05

    @property
    def lateness_steps(self) -> int:
        """Steps by which a group's readings lag behind those of others, because a batch waits until it has 50."""
        return -(-BATCH // len(self.sensors)) + 1 if self.shape == "batch" else 0

    @staticmethod
    def readings_per_message(shape: Shape) -> int:
        """The approximate number of readings in a message."""
        return {"single": 1, "padded": 1, "step": 10, "batch": BATCH}.get(shape, ARROW_ROWS)

    @property
    def readings_per_step(self) -> float:
        """The mean number of readings of all groups in a step, without the missing ones."""
        return self.groups * len(self.sensors) * (1 - self.missing)

    @property
    def catalogue(self) -> str:
        """The content of groups.yaml for this load."""
        sensors = "".join(f"      - {{id: {sensor}}}\n" for sensor in self.sensors)
        return (
            f"models:\n  - name: {self.model}\n    step_s: {self.step_ms // 1000}\n    window: 96\n"
            f"    revise_after: 8\n    lateness_s: {self.lateness_steps * self.step_ms // 1000}\n"
            f"    sensors:\n{sensors}groups:\n  - {{model: {self.model}, pattern: 'station-*'}}\n"
        )

    def messages(self) -> Iterator[Sent]:
        """All messages, in order."""
        sent = 0
        for message in getattr(self, f"_{self.shape}")():
            yield message
            sent += message.readings
            if sent >= self.readings:
                return

    def _steps(self) -> Iterator[Step]:
        """Yield the steps with the readings that are not missing."""
        random = np.random.default_rng(7)
        names = [f"station-{group:04d}" for group in range(self.groups)]
        middle = np.array(self.means)
        step = 0
        while True:
            values = middle * random.uniform(0.8, 1.2, (self.groups, len(self.sensors)))
            present = (random.random(values.shape) >= self.missing).tolist()
            rows = [
                (name, list(compress(zip(self.sensors, row, strict=True), seen)))
                for name, row, seen in zip(names, values.round(4).tolist(), present, strict=True)
            ]
            yield step, FIRST_STEP_MS + step * self.step_ms, rows
            step += 1

    def partition_of(self, group: str) -> int:
        """The partition of the input to which a group's messages go."""
        return int(group.rpartition("-")[2]) % self.partitions

    def _padded(self) -> Iterator[Sent]:
        """Single readings with a field that no engine uses."""
        for sent in self._single():
            note = "x" * (PADDED_BYTES - len(sent.value) - len(b', "note": ""'))
            yield sent._replace(value=sent.value[:-1] + f', "note": "{note}"}}'.encode())

    def _single(self) -> Iterator[Sent]:
        for step, time_ms, rows in self._steps():
            for group, (name, readings) in enumerate(rows):
                key, partition = name.encode(), group % self.partitions
                for sensor, value in readings:
                    text = f'{{"group": "{name}", "sensor": "{sensor}", "ts": {time_ms}, "value": {value}}}'
                    yield Sent(partition, key, text.encode(), [], 1, step)

    def _step(self) -> Iterator[Sent]:
        for step, time_ms, rows in self._steps():
            for group, (name, readings) in enumerate(rows):
                values = ", ".join(f'"{sensor}": {value}' for sensor, value in readings)
                text = f'{{"group": "{name}", "ts": {time_ms}, "values": {{{values}}}}}'
                yield Sent(group % self.partitions, name.encode(), text.encode(), [], len(readings), step)

    def _batch(self) -> Iterator[Sent]:
        """One gateway per group, which sends whenever it has 50 readings."""
        waiting: list[list[str]] = [[] for _ in range(self.groups)]
        begun = [0] * self.groups
        for step, time_ms, rows in self._steps():
            for group, (name, readings) in enumerate(rows):
                held = waiting[group]
                for sensor, value in readings:
                    if not held:
                        begun[group] = step
                    held.append(f'{{"sensor": "{sensor}", "ts": {time_ms}, "value": {value}}}')
                    if len(held) == BATCH:
                        text = f'{{"group": "{name}", "readings": [{", ".join(held)}]}}'
                        held.clear()
                        yield Sent(group % self.partitions, name.encode(), text.encode(), [], BATCH, begun[group])

    def _arrow(self) -> Iterator[Sent]:
        """One gateway per partition, which sends a long stream whenever it has 1,000 readings."""
        waiting: list[list[tuple[str, str, int, float]]] = [[] for _ in range(self.partitions)]
        for step, time_ms, rows in self._steps():
            for group, (name, readings) in enumerate(rows):
                held = waiting[group % self.partitions]
                held += [(name, sensor, time_ms, value) for sensor, value in readings]
                if len(held) >= ARROW_ROWS:
                    part = held[:ARROW_ROWS]
                    del held[:ARROW_ROWS]
                    columns = dict(zip(("group", "sensor", "ts", "value"), zip(*part, strict=True), strict=True))
                    value = stream({each: list(column) for each, column in columns.items()})
                    yield Sent(group % self.partitions, b"", value, ARROW_HEADERS, ARROW_ROWS, step)

    def _wide(self) -> Iterator[Sent]:
        """One gateway per partition, which sends each step as one table with a row per group."""
        for step, time_ms, rows in self._steps():
            for partition in range(self.partitions):
                mine = rows[partition :: self.partitions]
                values = [dict(readings) for _, readings in mine]
                columns: Columns = {"group": [name for name, _ in mine], "ts": [time_ms] * len(mine)}
                columns |= {sensor: [each.get(sensor) for each in values] for sensor in self.sensors}
                count = sum(map(len, values))
                yield Sent(partition, b"", stream(columns), ARROW_HEADERS, count, step)


def stream(columns: Columns) -> bytes:
    """One Arrow IPC stream."""
    import pyarrow as pa  # imported here: absent from the environments of other engines

    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())
