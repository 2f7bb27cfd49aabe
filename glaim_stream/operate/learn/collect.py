"""Collects the readings of one model, decoded as in the worker, and counts those that must not be learned.

Stretches in which a sensor repeats one value although it otherwise varies are left out, judged by its other stretches
and not by a fixed length. Rain, a valve or a solar panel at night repeat a value for long as a habit: more than a
quarter of their other readings lie in long stretches too, so all of their readings are learned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.budget import Budget
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import ModelError
from glaim_stream.core.readings import InputRecord, Readings
from glaim_stream.core.stray_times import stray_times
from glaim_stream.core.vocabulary import Quality
from glaim_stream.decode import Decoder, GroupIndex
from glaim_stream.files import Grid, put
from glaim_stream.form import FormSeries, learned_decimals
from glaim_stream.health import GridSeries, doubtful_cells

# A series without stray times may still be long: gridding takes up to 100 bytes a reading, so 1 GB here.
MOST_CELLS = 10_000_000
MOST_READINGS = 20_000_000  # each takes 25 bytes until they are gridded

_MOST_GROUPS = 2**31

Ints = NDArray[np.int64]
_Columns = tuple[Ints, Ints, NDArray[np.float64], NDArray[np.bool_]]  # cells, times, values, doubtful
Bools = NDArray[np.bool_]
_LEAST_READINGS = 12  # fewest readings of a stretch
_LONGER = 6  # factor over the usual length of the other readings' stretches
_USUAL = 0.75  # share of the other readings that lie in stretches of at most the usual length
_OTHERS = 24  # fewest readings outside of a stretch that tell the sensor's habit


class Collector:
    """The readings of one model's groups, record by record, and then as series.

    left_out: number of readings, or of cells of the series, that are not learned, by reason.
    from_table: True if the readings come from a table. It may have been resampled, so even stamps in it tell nothing
        about the clocks of the sensors; those of messages do.
    groups: readings by group once `series` was called. They include readings that stand apart and those of stuck
        sensors: the detectors of sensor health see them too.
    decimals: decimals of each sensor's readings once `series` was called, int8 [C], -1 where they are not known.
    """

    def __init__(self, catalogue: Catalogue, model: str, budget: Budget, *, most: int = MOST_READINGS) -> None:
        """Start empty.

        Args:
            catalogue: models and groups.
            model: name of a model of the catalogue.
            budget: limits of a record and of the amount decoded at once.
            most: most readings to keep; with more, the readings of every second group are dropped, until one is left.
        """
        self._groups = GroupIndex(catalogue)
        self._decoder = Decoder(self._groups, budget)
        self._place = [each.name for each in catalogue.models].index(model)
        self._model = catalogue.models[self._place]
        self._judged = np.array([sensor.plausibility for sensor in self._model.sensors])
        self._columns: list[_Columns] = []
        self._most, self._kept = most, 0
        self._every, self._first = 1, -1  # one group in `_every` is kept, among them `_first`
        self.from_table = False
        self.left_out: Counter[str] = Counter()
        self.readings = 0
        self.groups: list[GridSeries] = []
        self.decimals = np.full(len(self._model.sensors), -1, np.int8)

    def add(self, records: Sequence[InputRecord], *, now_ms: int) -> None:
        """Decode records of the input topic, in the order of their arrival.

        Args:
            records: records of one partition.
            now_ms: wall clock, epoch milliseconds.
        """
        for decoded in self._decoder.decode_parts(records, now_ms=now_ms):
            for reject in decoded.rejects:
                self.left_out[f"rejected: {reject.cause.value}"] += reject.count
            self._keep(decoded.readings)

    def _keep(self, readings: Readings) -> None:
        own = readings.model == self._place
        good = np.isfinite(readings.value)
        self._count("of other models", (~own).sum())
        self._count("bad or without a value", (own & ~good).sum())
        kept = readings.where(own & good)
        if len(kept):
            cell = kept.group.astype(np.int64) * len(self._model.sensors) + kept.sensor
            if self._first < 0:
                self._first = int(kept.group[0])
            self._add((cell, kept.event_time_ms, kept.value, kept.quality != Quality.GOOD))
            while self._kept > self._most and self._every < _MOST_GROUPS:
                self._every *= 2
                columns, self._columns, self._kept = self._columns, [], 0
                for column in columns:
                    self._add(column)

    def _add(self, columns: _Columns) -> None:
        """Keep the readings of the groups that are learned."""
        mine = (columns[0] // len(self._model.sensors) - self._first) % self._every == 0
        self._count("of groups beyond the memory", (~mine).sum())
        cell, time_ms, value, doubtful = columns
        self._columns.append((cell[mine], time_ms[mine], value[mine], doubtful[mine]))
        self._kept += int(mine.sum())

    def series(self) -> FormSeries:
        """Grid the readings to the model's steps; cells are filled by the model's bucket rule.

        Raises:
            ModelError: there are no readings.
        """
        if not self._columns:
            raise ModelError(f"expected readings of the groups of {self._model.name}, found none")
        cell, time_ms, value, doubtful = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        self._columns.clear()
        order = np.lexsort((time_ms, cell))  # stable: the later of two readings with the same time comes later
        cell, time_ms, value, doubtful = cell[order], time_ms[order], value[order], doubtful[order]
        again = np.zeros(len(cell), np.bool_)
        again[:-1] = (cell[1:] == cell[:-1]) & (time_ms[1:] == time_ms[:-1])
        self._count("duplicates", again.sum())
        self._count("of uncertain quality", (doubtful & ~again).sum())
        stray = stray_times(time_ms)
        self._count("with times far from all others", (stray & ~again & ~doubtful).sum())
        kept = ~again & ~doubtful & ~stray
        cell, time_ms, value = cell[kept], time_ms[kept], value[kept]
        if not len(cell):
            raise ModelError(f"expected readings of good quality of {self._model.name}, found none")
        return self._gridded(cell, time_ms, value)

    def _gridded(self, cell: Ints, time_ms: Ints, value: NDArray[np.float64]) -> FormSeries:
        sensors, step_ms = len(self._model.sensors), self._model.step_ms
        stamps_known = not self.from_table or not _even(cell, *np.divmod(time_ms, step_ms))
        groups, group = np.unique(cell // sensors, return_inverse=True)
        steps = MOST_CELLS // (len(groups) * sensors)
        recent = time_ms // step_ms > int(time_ms.max()) // step_ms - steps
        self._count("older than the rows that fit the memory", (~recent).sum())
        self.readings = int(recent.sum())
        cell, group, time_ms, value = cell[recent], group[recent], time_ms[recent], value[recent]
        self.decimals = learned_decimals(cell, value, sensors)
        grid = Grid.streamed(time_ms, step_ms)
        first, shape = grid.start_ms // step_ms, (len(groups), sensors, grid.steps)
        place = group * sensors + cell % sensors, grid.rows
        values, observed = np.zeros(shape), np.zeros(shape, np.bool_)
        flat = (len(groups) * sensors, grid.steps)
        directions = self._model.directions
        turning = None if directions is None else directions[cell % sensors]
        put(values.reshape(flat), place, value, bucket=self._model.bucket, turning=turning)
        observed.reshape(flat)[place] = True
        offset = np.zeros(shape) if stamps_known else None
        if offset is not None:
            put(offset.reshape(flat), place, time_ms % step_ms / step_ms)
        self.groups = [
            GridSeries(name, first, step_ms, values[at], observed[at], None if offset is None else offset[at])
            for at, name in enumerate(self._groups.names[code] for code in groups.tolist())
        ]
        observed = observed.copy()
        doubted = doubtful_cells(values, observed, self._judged)
        self._count("that stand apart from the others", doubted.sum())
        observed &= ~doubted
        stuck = stuck_cells(values, observed)
        self._count("of stuck sensors", stuck.sum())
        observed &= ~stuck
        return FormSeries(np.where(observed, values, 0.0), observed, first * step_ms, step_ms)

    def _count(self, reason: str, number: int | np.integer) -> None:
        if number:
            self.left_out[reason] += int(number)


def _even(cell: Ints, step: Ints, after_ms: Ints) -> bool:
    """Whether the last reading of each step has the same place in it, for each cell; sorted by cell and time."""
    last = np.append((cell[1:] != cell[:-1]) | (step[1:] != step[:-1]), True)
    cell, after_ms = cell[last], after_ms[last]
    return not ((after_ms[1:] != after_ms[:-1]) & (cell[1:] == cell[:-1])).any()


def stuck_cells(values: NDArray[np.float64], observed: Bools) -> Bools:
    """Return the observed cells that repeat a stuck value; the first reading of a stretch may be true and is kept.

    Args:
        values: float64 [g, C, N]; ignored where not observed.
        observed: bool [g, C, N].
    """
    out = np.zeros(observed.shape, np.bool_)
    for place in np.ndindex(observed.shape[:2]):
        seen = np.flatnonzero(observed[place])
        for first, last in _stuck_stretches(values[place][seen]):
            out[place][seen[first + 1 : last]] = True
    return out


def _stuck_stretches(readings: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Stretches `[first, last)` of one sensor's readings [k] in their order."""
    starts = np.flatnonzero(np.append(True, np.diff(readings) != 0)) if len(readings) else np.zeros(0, np.int64)
    ends = np.append(starts[1:], len(readings))
    lengths = ends - starts
    ascending = np.sort(lengths)
    within = np.cumsum(ascending)  # number of readings in stretches of at most this length
    found = []
    for stretch in np.flatnonzero(lengths >= _LEAST_READINGS):
        others = len(readings) - lengths[stretch]
        if others < _OTHERS:
            continue
        # The stretch itself is among the longer ones; where it is reached, the usual length is no shorter than it.
        usual = ascending[np.searchsorted(within, _USUAL * others)]
        if lengths[stretch] >= _LONGER * usual:
            found.append((int(starts[stretch]), int(ends[stretch])))
    return found
