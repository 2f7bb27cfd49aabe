"""The rows and late readings of a topic range, sorted on disk by sensor and step, and the times of each group.

A cell may have several rows: a first estimate, a final one, corrections, and copies that a worker published again
after a crash. Its highest revision counts; on a tie the last row in the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.vocabulary import METHODS, QUALITIES, Method, Quality
from glaim_stream.decode import UNKNOWN_GROUP, UNKNOWN_SENSOR, GroupIndex
from glaim_stream.operate.completeness.tally import Bools, Cells, Ints
from glaim_stream.operate.sorting import RUN_ROWS, Rows, SortedFile
from glaim_stream.output import read_rows

NEVER_MS = int(np.iinfo(np.int64).max)
_LONGEST = RUN_ROWS  # most rows of one sensor that are counted at once
ROW = np.dtype(
    [
        ("series", "<i4"),  # a number for each sensor of each group
        ("step", "<i8"),
        ("revision", "<i4"),
        ("method", "i1"),
        ("good", "?"),
        ("delay_ms", "<f8"),
    ]
)
BY = ("series", "step")
TOO_LATE = -1  # stands for a method: a reading of the late topic, whose revision is below every row's


class RowFile:
    """Rows of the output topic, in the order of the topic.

    Memory holds two moments for each group, and what `SortedFile` needs; the disk 26 bytes a row, and up to twice that
    while they are merged.

    Attributes:
        rows: rows that begin at or after `since_ms` and before `until_ms`.
        foreign: rows of groups or sensors that the catalogue does not name.
        earliest_ms: the first step of any row in the range; NEVER_MS without one.
    """

    def __init__(
        self, folder: Path, catalogue: Catalogue, *, since_ms: int | None = None, until_ms: int | None = None,
        run_rows: int = RUN_ROWS,
    ) -> None:  # fmt: skip
        self.catalogue = catalogue
        self.index = GroupIndex(catalogue)
        self.rows = self.foreign = 0
        self.earliest_ms = NEVER_MS
        self._since_ms, self._until_ms = since_ms, until_ms
        self._step_ms = np.array([model.step_ms for model in catalogue.models], np.int64)
        self._lateness_ms = np.array([model.lateness_ms for model in catalogue.models], np.int64)
        self._width = max(len(model.sensors) for model in catalogue.models)
        self._file = SortedFile(folder, "rows", ROW, BY, run_rows=run_rows)
        self._first_ms = np.empty(0, np.int64)  # earliest time of any row or event, by group code
        self._last_ms = np.empty(0, np.int64)  # latest time of any row or event, by group code
        self._in_range = np.empty(0, np.bool_)  # True for groups with rows in the range, by group code
        self._partition = np.empty(0, np.int32)  # partition of the rows, by group code; -1 without any
        self._watermark_ms: dict[int, int] = {}  # watermark in the newest row, by partition

    def add(self, message: bytes, published_ms: int, partition: int = 0) -> int | None:
        """Add the rows of one message; return the newest step in it, epoch ms, or None without one.

        Args:
            message: an Arrow stream.
            published_ms: time at which Kafka stamped it.
            partition: partition of the message.

        Raises:
            RecordError: the message is in another format.
        """
        table = read_rows(message)
        newest = [self._add(batch, published_ms, partition) for batch in table.to_batches() if batch.num_rows]
        return max((each for each in newest if each is not None), default=None)

    def _add(self, batch: pa.RecordBatch, published_ms: int, partition: int) -> int | None:
        column: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
        group = self.index.groups(column["group"].dictionary.to_pylist())[_numpy(column["group"].indices)]
        model = self.index.models(group)
        sensors = self.index.sensors(column["sensor"].dictionary.to_pylist())
        sensor = self.index.rows(model, sensors[_numpy(column["sensor"].indices)])
        known = (group > UNKNOWN_GROUP) & (sensor > UNKNOWN_SENSOR)
        self.foreign += int((~known).sum())
        if not known.any():
            return None
        ts_ms = _numpy(column["ts"].cast(pa.int64()))
        self.met(group[known], ts_ms[known])
        self._partition[group[known]] = partition
        closed_at_ms = int((ts_ms + (self._step_ms + self._lateness_ms)[model])[known].max())
        self._watermark_ms[partition] = max(self._watermark_ms.get(partition, closed_at_ms), closed_at_ms)
        kept = known & self._is_within(ts_ms)
        newest_ms = int(ts_ms[known].max())
        if not kept.any():
            return newest_ms
        self._in_range[group[kept]] = True
        self.rows += int(kept.sum())
        self.earliest_ms = min(self.earliest_ms, int(ts_ms[kept].min()))
        methods = np.array([METHODS.index(name) for name in column["method"].dictionary.to_pylist()], np.int8)
        good = np.array([name == QUALITIES[Quality.GOOD] for name in column["quality"].dictionary.to_pylist()])
        event_time_ms = _numpy(column["event_time"].cast(pa.int64()).cast(pa.float64()))  # NaN for null
        rows = np.empty(int(kept.sum()), ROW)
        rows["series"] = (group * self._width + sensor)[kept]
        rows["step"] = (ts_ms // self._step_ms[model])[kept]
        rows["revision"] = _numpy(column["revision"])[kept]
        rows["method"] = methods[_numpy(column["method"].indices)][kept]
        rows["good"] = good[_numpy(column["quality"].indices)][kept]
        rows["delay_ms"] = published_ms - event_time_ms[kept]
        self._file.add(rows)
        return newest_ms

    def add_late(self, group: Ints, sensor: Ints, event_time_ms: Ints) -> None:
        """Add readings that came too late for their window; codes of groups, rows of sensors in their model, [n]."""
        kept = self._is_within(event_time_ms)
        group, sensor, event_time_ms = group[kept], sensor[kept], event_time_ms[kept]
        rows = np.zeros(len(group), ROW)
        rows["series"] = group * self._width + sensor
        rows["step"] = event_time_ms // self._step_ms[self.index.models(group)]
        rows["revision"] = rows["method"] = TOO_LATE
        rows["delay_ms"] = np.nan
        self._file.add(rows)

    def met(self, group: Ints, time_ms: Ints) -> None:
        """Record that groups were present at these moments; codes and epoch ms, [n]."""
        more = len(self.index.names) - len(self._first_ms)
        if more > 0:  # doubled, so that growth takes a constant time for each group
            more = max(more, len(self._first_ms))
            self._first_ms = np.append(self._first_ms, np.full(more, NEVER_MS))
            self._last_ms = np.append(self._last_ms, np.full(more, -NEVER_MS))
            self._partition = np.append(self._partition, np.full(more, -1, np.int32))
            self._in_range = np.append(self._in_range, np.zeros(more, np.bool_))
        np.minimum.at(self._first_ms, group, time_ms)
        np.maximum.at(self._last_ms, group, time_ms)

    def there(self, group: int) -> tuple[int, int]:
        """The first and the last moment at which a group was present; NEVER_MS and its negative if it never was."""
        if group >= len(self._first_ms):
            return NEVER_MS, -NEVER_MS
        return int(self._first_ms[group]), int(self._last_ms[group])

    def has_rows(self, group: int) -> bool:
        """Whether a group has rows in the range."""
        return group < len(self._in_range) and bool(self._in_range[group])

    def end_ms(self, group: int) -> int:
        """The moment up to which a group owes rows.

        Each partition has an event time of its own. A step that the group's partition has not closed is not owed yet,
        unless the partition is behind the others by more than the silence after which a group counts as dark.
        """
        code = self.index.model_of_group[group]
        model = self.catalogue.models[code]
        newest_ms = max(self._watermark_ms.values())
        partition = int(self._partition[group]) if group < len(self._partition) else -1
        own_ms = self._watermark_ms.get(partition, newest_ms)
        watermark_ms = own_ms if newest_ms - own_ms <= model.max_gap * model.step_ms else newest_ms
        return (watermark_ms - model.lateness_ms) // model.step_ms * model.step_ms

    def series(self) -> Iterator[tuple[int, int, Cells]]:
        """Codes of group and sensor with their cells, ascending; a sensor with many comes several times."""
        held = np.empty(0, ROW)
        for block in self._file.blocks():
            held = np.concatenate([held, block])
            ends = np.flatnonzero(np.diff(held["series"])) + 1
            for part in np.split(held, ends)[:-1]:
                yield self._cells(part)
            held = held[ends[-1] :] if len(ends) else held
            if len(held) > _LONGEST:
                cell = held["step"] // self._cadence(int(held["series"][0]))
                whole = int(np.searchsorted(cell, cell[-1]))  # rows of the last cell may follow
                if whole:
                    yield self._cells(held[:whole])
                    held = held[whole:]
        if len(held):
            yield self._cells(held)

    def _cells(self, rows: Rows) -> tuple[int, int, Cells]:
        series = int(rows["series"][0])
        return *divmod(series, self._width), cells_of(rows, self._cadence(series))

    def cell_ms(self, group: int, sensor: int) -> int:
        """The length of a sensor's cell in time: its step, or its cadence."""
        model = self.index.model_of_group[group]
        return int(self._step_ms[model]) * self._cadence(group * self._width + sensor)

    def _cadence(self, series: int) -> int:
        group, sensor = divmod(series, self._width)
        return self.catalogue.models[self.index.model_of_group[group]].cadences[sensor]

    def _is_within(self, time_ms: Ints) -> NDArray[np.bool_]:
        within = np.ones(len(time_ms), np.bool_)
        if self._since_ms is not None:
            within &= time_ms >= self._since_ms
        if self._until_ms is not None:
            within &= time_ms < self._until_ms
        return within


def _numpy(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def cells_of(rows: Rows, cadence: int) -> Cells:
    """The cells of one sensor.

    Args:
        rows: rows of ROW, ascending by step, and in the order of the topic within a step.
        cadence: steps in which one reading is due; they make one cell, which has arrived with any reading in it.
    """
    cell_of_row = rows["step"] // cadence
    cell, first = np.unique(cell_of_row, return_index=True)
    place = np.repeat(np.arange(len(cell)), np.diff(np.append(first, len(rows))))

    def any_of(chosen: Bools) -> Bools:
        return np.bincount(place[chosen], minlength=len(cell)) > 0

    # The topic's order within a step stays where revisions are equal, because this sort is stable.
    by_revision = np.lexsort((rows["revision"], rows["step"]))
    step = rows["step"][by_revision]
    is_newest = np.append(step[1:] != step[:-1], True)
    newest = np.zeros(len(rows), np.bool_)
    newest[by_revision[is_newest]] = True

    observed = rows["method"] == Method.OBSERVED
    marked = rows["method"] == TOO_LATE
    arrived = any_of(newest & observed)
    too_late = any_of(marked) & ~arrived
    guessed_before = any_of(~observed & ~marked)
    method = np.full(len(cell), Method.NONE, np.int8)
    counting = newest & ~observed & ~marked
    method[place[counting]] = rows["method"][counting]  # numpy keeps the last one of repeated assignments
    method[arrived] = Method.OBSERVED
    return Cells(
        cell,
        method,
        any_of(newest & observed & rows["good"]),
        (arrived & guessed_before) | too_late,
        too_late,
        any_of(~marked),
        _first(rows["delay_ms"], observed, place, len(cell)),
    )


def _first(delay_ms: NDArray[np.float64], observed: Bools, place: Ints, cells: int) -> NDArray[np.float64]:
    """The delay of each cell's first observed row: a copy of that row may come much later."""
    out = np.full(cells, np.nan)
    rows = np.flatnonzero(observed)[::-1]
    out[place[rows]] = delay_ms[rows]  # numpy keeps the last one, here the first in the topic
    return out
