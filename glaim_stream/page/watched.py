"""The published rows of a group that a browser shows, cell by cell, as long as its window.

Each cell keeps up to four rows, one of each `Kind`, so that a viewer sees the first estimate beside the final value
and the late reading that replaced both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import FINAL, FIRST_CORRECTION, METHODS, PROVISIONAL
from glaim_stream.output import SCHEMA

_COLUMNS = (
    "group", "sensor", "ts", "value", "observed", "method", "lower", "upper", "gap_age", "revision", "model_version",
)  # fmt: skip
_OPTIONS = pa.ipc.IpcReadOptions(included_fields=[SCHEMA.get_field_index(name) for name in _COLUMNS], use_threads=False)

# A row as JSON: sensor, start of the step in ms, kind, value, lower, upper, method, revision, gap age, version. Text
# takes a fifth of the memory of a list, and is sent to viewers as it is.
Line = str


class RowKind(IntEnum):
    """The kind of a published row."""

    OBSERVED = 0
    PROVISIONAL = 1  # the first estimate of a hole
    FINAL = 2  # the final value of a hole
    LATE = 3  # a reading that came after the cell was published


def read_message(value: bytes) -> pa.RecordBatch:
    """Decode the columns that the page shows from a message of this worker."""
    with pa.ipc.open_stream(value, options=_OPTIONS) as reader:
        return reader.read_next_batch()


class WatchedGroup:
    """The newest rows of one group."""

    def __init__(self, name: str, partition: int, sensors: Sequence[str], span_ms: int) -> None:
        """Start without rows.

        Args:
            name: name of the group.
            partition: partition of the group.
            sensors: sensors of the group's model; rows hold their indices.
            span_ms: age relative to the newest row at which rows are dropped.
        """
        self.name, self.partition = name, partition
        self.known_to = 0  # number of the newest message that was read
        self._place = {sensor: place for place, sensor in enumerate(sensors)}
        self._span_ms = span_ms
        self._newest_ms: int | None = None
        # Number of the message, revision and row, by time, sensor and kind; the newest message last.
        self._rows: dict[tuple[int, int, int], tuple[int, int, Line]] = {}

    def add(self, messages: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        """Take the group's rows from decoded messages with their numbers, in ascending order.

        Rows that newer ones of the same call would push out are never made. A worker that catches up publishes many
        windows of a group at once, and a viewer sees only the last.
        """
        parts = []
        for number, batch in messages:
            self.known_to = max(self.known_to, number)
            own = self._own(batch)
            if len(own):
                parts.append((number, own, _times_ms(own)))
        if not parts:
            return
        newest_ms = max(int(ts_ms.max()) for _, _, ts_ms in parts)
        self._newest_ms = newest_ms if self._newest_ms is None else max(self._newest_ms, newest_ms)
        oldest_ms = self._newest_ms - self._span_ms
        for number, own, ts_ms in parts:
            kept = np.flatnonzero(ts_ms > oldest_ms)
            if len(kept):
                self._fold(number, own.take(pa.array(kept)), ts_ms[kept])
        for key in [key for key in self._rows if key[0] <= oldest_ms]:
            del self._rows[key]

    def hold(self, first_ms: int, step_ms: int, values: NDArray[np.float64], observed: NDArray[np.bool_],
             corrections: NDArray[np.int16]) -> None:  # fmt: skip
        """Take the readings that the worker holds for steps whose messages are no longer kept.

        Args:
            first_ms: start of the first step.
            step_ms: length of a step.
            values: float64 [C, T], readings in sensor units.
            observed: bool [C, T], cells with a reading.
            corrections: int16 [C, T], number of late readings that changed the cell.
        """
        held = {}
        for sensor, step in np.argwhere(observed).tolist():
            ts_ms, count = first_ms + step * step_ms, int(corrections[sensor, step])
            kind = RowKind.LATE if count else RowKind.OBSERVED
            if (ts_ms, sensor, RowKind.OBSERVED) in self._rows or (ts_ms, sensor, RowKind.LATE) in self._rows:
                continue
            revision = FIRST_CORRECTION + count - 1 if count else PROVISIONAL
            value = float(values[sensor, step])
            line = _line(sensor, ts_ms, kind, value, None, None, METHODS[0], revision, 0, "")
            held[ts_ms, sensor, int(kind)] = (0, revision, line)
            self._newest_ms = ts_ms if self._newest_ms is None else max(self._newest_ms, ts_ms)
        self._rows = held | self._rows

    def since(self, number: int) -> list[Line]:
        """The rows of messages with a number above `number`, the oldest first."""
        found: list[Line] = []
        for of_message, _, line in reversed(self._rows.values()):
            if of_message <= number:
                break
            found.append(line)
        return found[::-1]

    @property
    def newest_ms(self) -> int | None:
        """Start of the newest step with a row; None before the first row."""
        return self._newest_ms

    def __len__(self) -> int:
        return len(self._rows)

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the group's current sensors; the catalogue may have changed since publication."""
        groups = batch.column("group")
        code = groups.dictionary.index(self.name).as_py()
        own = batch.take(pa.array(np.flatnonzero(groups.indices.to_numpy() == code)))
        return own.filter(pa.array(self._places(own) >= 0))

    def _places(self, own: pa.RecordBatch) -> NDArray[np.int64]:
        """The index of each row's sensor; -1 if the model no longer has it."""
        sensors = own.column("sensor")
        places = np.array([self._place.get(each, -1) for each in sensors.dictionary.to_pylist()], np.int64)
        found: NDArray[np.int64] = places[sensors.indices.to_numpy()]
        return found

    def _fold(self, number: int, own: pa.RecordBatch, ts_ms: NDArray[np.int64]) -> None:
        revision = own.column("revision").to_numpy()
        kinds = _kinds(own.column("observed").to_numpy(zero_copy_only=False), revision)
        rows = zip(
            self._places(own).tolist(), ts_ms.tolist(), kinds.tolist(),
            revision.tolist(), _numbers(own, "value"), _numbers(own, "lower"), _numbers(own, "upper"),
            _names(own, "method"), own.column("gap_age").to_numpy().tolist(), _names(own, "model_version"), strict=True,
        )  # fmt: skip
        for place, at_ms, kind, count, value, lower, upper, method, gap_age, version in rows:
            key = (at_ms, place, kind)
            before = self._rows.get(key)
            if before is not None and before[1] > count:
                continue
            self._rows.pop(key, None)  # reinserted below as the newest one
            line = f"[{place},{at_ms},{kind},{value},{lower},{upper},{method},{count},{gap_age},{version}]"
            self._rows[key] = (number, count, line)


def _times_ms(own: pa.RecordBatch) -> NDArray[np.int64]:
    times: NDArray[np.int64] = own.column("ts").cast(pa.int64()).to_numpy()
    return times


def _kinds(observed: NDArray[np.bool_], revision: NDArray[np.uint16]) -> NDArray[np.int64]:
    """The Kind of each row."""
    cases = [revision >= FIRST_CORRECTION, observed, revision >= FINAL]
    return np.select(cases, [RowKind.LATE, RowKind.OBSERVED, RowKind.FINAL], RowKind.PROVISIONAL)


def _numbers(own: pa.RecordBatch, name: str) -> list[str]:
    """A column of numbers as JSON; numbers that are not finite become null."""
    values = own.column(name).to_numpy(zero_copy_only=False)
    found = list(map(repr, values.tolist()))
    for at in np.flatnonzero(~np.isfinite(values)).tolist():
        found[at] = "null"
    return found


def _names(own: pa.RecordBatch, name: str) -> list[str]:
    """A column of names as JSON."""
    column = own.column(name)
    names = [json.dumps(each) for each in column.dictionary.to_pylist()]
    return [names[code] for code in column.indices.to_pylist()]


def _line(sensor: int, ts_ms: int, kind: RowKind, *fields: Any) -> Line:
    shown = [None if isinstance(each, float) and not math.isfinite(each) else each for each in fields]
    return json.dumps([sensor, ts_ms, int(kind), *shown], separators=(",", ":"))
