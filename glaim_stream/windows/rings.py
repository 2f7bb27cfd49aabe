"""Ring buffers of steps: the contents of every recent step, for each group of a model and each of its sensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.step_means import addends, means
from glaim_stream.core.vocabulary import Quality

Ints = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
_FIRST_ROWS = 8
_ARRAYS = ("values", "observed", "corrections", "stamp_ms", "quality")
_NO_OFFSET = np.iinfo(np.int64).max
_MOST_CORRECTIONS = 30_000  # fits 16 bits; further corrections keep this number, and the later of equal ones wins


@dataclass(frozen=True, slots=True)
class ReadingCells:
    """The cells that readings were put into, one entry per reading: row of the group, sensor, step."""

    row: Ints
    sensor: Ints
    step: Ints
    changed: NDArray[np.bool_]  # the step now holds this reading, and the cell differs from before
    filled: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # steps of the cells that were empty

    def where(self, keep: NDArray[np.bool_]) -> Self:
        """The chosen cells."""
        return type(self)(self.row[keep], self.sensor[keep], self.step[keep], self.changed[keep], self.filled)

    @property
    def taken(self) -> int:
        """Number of readings that changed their cell; the others were repeated or superseded."""
        return int(self.changed.sum())


class RowArray(Generic[Scalar]):
    """An array attached to the rings: entry k belongs to row k, and rows that no group has taken yet hold zeros."""

    def __init__(self, array: NDArray[Scalar]) -> None:
        self.array = array  # replaced by the rings as rows come and go: never keep a reference to it


class Rings:
    """State of one model's groups: arrays [rows, sensors, length] addressed by step modulo length.

    They hold the steps `[closable - window, closable + ahead)`: a closed window, and the steps that are still open.
    Rows beyond the last group hold zeros, and a group that was evicted starts again with zeros.
    """

    def __init__(
        self,
        sensors: int,
        window: int,
        ahead: int,
        *,
        mean: bool,
        directions: NDArray[np.bool_] | None = None,
        offsets_back: int = 0,
    ) -> None:
        """Start empty.

        Args:
            sensors: number of sensors of a group.
            window: closed steps to hold.
            ahead: open steps to hold.
            mean: whether a step holds the mean of its readings or the last one.
            directions: bool [sensors], True for directions in degrees, for the mean; None: no sensor is one.
            offsets_back: steps before the window for which the lowest offset is remembered too.
        """
        self.sensors = sensors
        self.window = window
        self.ahead = ahead
        self.length = window + ahead
        self.closable: int | None = None  # lowest open step; None before the first reading
        self.groups: list[int] = []  # group code by row
        self._mean = mean
        self._codes = np.empty(0, np.int32)
        self._row_of_group = np.full(_FIRST_ROWS, -1, np.int64)
        self._lowest = np.full(self.length + offsets_back, _NO_OFFSET, np.int64)
        shape = (_FIRST_ROWS, sensors, self.length)
        self.values = np.zeros(shape, np.float64)
        self.observed = np.zeros(shape, np.bool_)
        self.corrections = np.zeros(shape, np.int16)  # late readings that changed the cell once it was published
        self.stamp_ms = np.zeros(shape, np.int32)  # time of the held reading after the start of its step
        self.quality = np.zeros(shape, np.int8)  # quality of the held reading; if none: BAD after a dropout, else GOOD
        self.flagged = False  # whether any quality was ever other than GOOD: until then qualities cost nothing
        self._directions = directions
        summed = np.float64 if directions is None else np.complex128
        self._sum = np.zeros(shape if mean else (0, sensors, self.length), summed)  # sums of the addends of a mean
        self._count = np.zeros(self._sum.shape, np.int32)
        self._attached: list[RowArray[Any]] = []

    @property
    def oldest_step(self) -> int:
        """Oldest step held; a reading of an earlier step is too late."""
        return (self.closable or 0) - self.window

    @property
    def newest_step(self) -> int:
        """Newest step that there is room for."""
        return (self.closable or 0) + self.ahead - 1

    def newest_observed(self) -> int | None:
        """Newest step in which anything was observed; None when nothing is held."""
        steps = np.arange(self.oldest_step, self.newest_step + 1)
        held = np.any(self.observed[: len(self.groups)].reshape(-1, self.length), axis=0)
        steps = steps[held[self.slots(steps)]]
        return int(steps[-1]) if len(steps) else None

    @property
    def codes(self) -> NDArray[np.int32]:
        """Group code by row, int32 [R]."""
        if len(self._codes) != len(self.groups):
            self._codes = np.array(self.groups, np.int32)
        return self._codes

    def attach(self, shape: tuple[int, ...], dtype: type[Scalar]) -> RowArray[Scalar]:
        """Create an array [rows, *shape] of zeros whose rows come and go with those of the rings."""
        attached = RowArray(np.zeros((len(self.values), *shape), dtype))
        self._attached.append(attached)
        return attached

    def slots(self, steps: Ints) -> Ints:
        """Index of each step on the last axis."""
        return steps % self.length

    def past(
        self,
        array: NDArray[Any],
        rows: slice | Ints,
        step: int,
        steps: int | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Copy some rows of an array at the newest `steps` (default: a window) up to `step`, oldest step first.

        The window lies in one stretch or in two; copying these is several times as fast as gathering step by step.
        With `out` the copy is made there.
        """
        steps = self.window if steps is None else steps
        first = (step - steps + 1) % self.length
        over = max(0, first + steps - self.length)
        chosen = array[rows]
        past = np.empty((*chosen.shape[:2], steps), array.dtype) if out is None else out
        past[:, :, : steps - over] = chosen[:, :, first : first + steps]
        past[:, :, steps - over :] = chosen[:, :, :over]
        return past

    def start(self, closable: int) -> None:
        """Set the lowest open step; every step below it is closed."""
        self.closable = closable

    def advance(self, closable: int) -> None:
        """Move the lowest open step forward: steps that enter replace those that leave. It never moves back."""
        assert self.closable is not None
        moved = closable - self.closable
        if moved <= 0:
            return
        entering = np.arange(closable + self.ahead - min(moved, self.length), closable + self.ahead)
        slots = self.slots(entering)
        rows = len(self.groups)
        self.observed[:rows, :, slots] = False
        self.values[:rows, :, slots] = 0  # so that a window's values need no mask
        self.corrections[:rows, :, slots] = 0
        if self.flagged:
            self.quality[:rows, :, slots] = Quality.GOOD
        if self._mean:
            self._sum[:rows, :, slots] = 0
            self._count[:rows, :, slots] = 0
        entering = np.arange(closable + self.ahead - min(moved, len(self._lowest)), closable + self.ahead)
        self._lowest[entering % len(self._lowest)] = _NO_OFFSET
        self.closable = closable

    def rows(self, groups: NDArray[np.int32]) -> Ints:
        """Row of each group code, int64 [n]; new groups get the next rows in order of arrival."""
        highest = int(groups.max(initial=-1))
        if highest >= len(self._row_of_group):
            grown = np.full(max(2 * len(self._row_of_group), highest + 1), -1, np.int64)
            grown[: len(self._row_of_group)] = self._row_of_group
            self._row_of_group = grown
        rows = self._row_of_group[groups]
        if (rows < 0).any():
            for group in dict.fromkeys(groups[rows < 0].tolist()):
                self._row_of_group[group] = len(self.groups)
                self.groups.append(group)
            have = len(self.values)
            if len(self.groups) > have:
                self._resize(slice(have), max(len(self.groups), 2 * have))
            rows = self._row_of_group[groups]
        return rows

    def has_rows(self, groups: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each group code has a row, bool [n]."""
        known = groups < len(self._row_of_group)
        return known & (self._row_of_group[np.where(known, groups, 0)] >= 0)

    def evict(self) -> None:
        """Drop the rows of groups that hold nothing, here and in every attached array; the order stays."""
        rows = len(self.groups)
        if not rows:
            return
        held = self.observed[:rows].reshape(rows, -1).any(axis=1)
        if self.flagged:
            held |= self.quality[:rows].reshape(rows, -1).any(axis=1)
        if held.all():
            return
        kept = np.flatnonzero(held)
        self._row_of_group[self.codes] = -1
        self._codes = self.codes[kept]
        self._row_of_group[self._codes] = np.arange(len(kept))
        self.groups = self._codes.tolist()
        self._resize(kept, max(_FIRST_ROWS, len(kept)))

    def put(
        self,
        row: Ints,
        sensor: NDArray[np.int32],
        step: Ints,
        stamp_ms: NDArray[np.int32],
        value: NDArray[np.float64],
        quality: NDArray[np.int8],
    ) -> ReadingCells:
        """Put readings, in order of arrival, into their cells by the bucket rule.

        `last`: the cell holds the reading with the latest event time inside the step; of two with the same time, the
        one that arrived later. `mean`: it holds the mean of all readings of the step (`step_means`), the worst of their
        qualities and the latest of their times.

        Args:
            row: int64 [n].
            sensor: int32 [n].
            step: int64 [n], all of them held.
            stamp_ms: int32 [n], time after the start of the step.
            value: float64 [n], no NaN.
            quality: int8 [n].

        Returns:
            The cells in the same order.
        """
        flat = self.cell_codes(row, sensor, step)
        seen = self.observed.reshape(-1)[flat]
        values, stamps_ms, qualities = self.values.reshape(-1), self.stamp_ms.reshape(-1), self.quality.reshape(-1)
        value_before, stamp_before = values[flat], stamps_ms[flat]
        quality_before = qualities[flat] if self.flagged else None
        self.flagged |= bool(quality.any())
        if self._mean:
            turning = None if self._directions is None else self._directions[sensor]
            np.add.at(self._sum.reshape(-1), flat, addends(value, turning))
            np.add.at(self._count.reshape(-1), flat, 1)
            signed = np.zeros(len(flat), np.bool_)
            if turning is not None:
                # A mean is below 0 only if the one before it was, or a new reading is: vectors above have no sum below.
                values[flat[~seen]] = np.inf
                np.minimum.at(values, flat, value)
                signed = values[flat] < 0.0
            values[flat] = means(self._sum.reshape(-1)[flat], self._count.reshape(-1)[flat], value, signed, turning)
            stamps_ms[flat[~seen]] = 0
            np.maximum.at(stamps_ms, flat, stamp_ms)
            qualities[flat[~seen]] = Quality.GOOD
            np.maximum.at(qualities, flat, quality)
            held = np.ones(len(flat), np.bool_)
        else:
            newer = ~seen | (stamp_ms >= stamp_before)
            # numpy keeps the last of repeated assignments, so the latest stamp has to come last; the sort is stable
            order = np.flatnonzero(newer)[np.argsort(stamp_ms[newer], kind="stable")]
            values[flat[order]] = value[order]
            stamps_ms[flat[order]] = stamp_ms[order]
            if self.flagged:
                qualities[flat[order]] = quality[order]
            held = _same_bits(values[flat], value) & (stamps_ms[flat] == stamp_ms)
        self.observed.reshape(-1)[flat] = True
        changed = ~seen | ~_same_bits(value_before, values[flat]) | (stamp_before != stamps_ms[flat])
        if self.flagged:
            changed |= (Quality.GOOD if quality_before is None else quality_before) != qualities[flat]
        slots = _distinct(flat[~seen]) % self.length
        oldest = self.oldest_step
        return ReadingCells(row, sensor.astype(np.int64), step, held & changed, oldest + (slots - oldest) % self.length)

    def put_dropouts(self, row: Ints, sensor: NDArray[np.int32], step: Ints) -> None:
        """Record readings that hold no value: a cell without an observation gets the quality BAD."""
        self.flagged = True
        flat = self.cell_codes(row, sensor, step)
        self.quality.reshape(-1)[flat[~self.observed.reshape(-1)[flat]]] = Quality.BAD

    def correct(self, cells: ReadingCells) -> NDArray[np.int16]:
        """Count a correction of each cell, none of which occurs twice; return each cell's count, int16 [k]."""
        place = (cells.row, cells.sensor, self.slots(cells.step))
        self.corrections[place] = np.minimum(self.corrections[place] + 1, _MOST_CORRECTIONS)
        return self.corrections[place]

    def cell_codes(self, row: Ints, sensor: Ints | NDArray[np.int32], step: Ints | int) -> Ints:
        """Number of each cell: its index in the flattened arrays."""
        return (row * self.sensors + sensor) * self.length + step % self.length

    def note_offsets(self, steps: Ints, offsets: Ints) -> None:
        """Remember the lowest offset of the readings of each step."""
        np.minimum.at(self._lowest, steps % len(self._lowest), offsets)

    def lowest_offset(self) -> int:
        """Lowest offset of the steps held and of those `offsets_back`; the highest int64 when there is none."""
        return int(self._lowest.min())

    def _resize(self, kept: slice | Ints, rows: int) -> None:
        """Keep these rows of all arrays, in their order, and append rows of zeros until there are `rows`."""
        for name in (*_ARRAYS, "_sum", "_count") if self._mean else _ARRAYS:
            setattr(self, name, _resized(getattr(self, name), kept, rows))
        for attached in self._attached:
            attached.array = _resized(attached.array, kept, rows)


def _distinct(codes: Ints) -> Ints:
    """The codes in ascending order, each once; np.unique takes four times as long."""
    ascending = np.sort(codes)
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


def _same_bits(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Compare the bits of values: 0.0 and -0.0 are equal, but their bits differ."""
    same: NDArray[np.bool_] = one.view(np.int64) == other.view(np.int64)
    return same


def _resized(array: NDArray[Any], kept: slice | Ints, rows: int) -> NDArray[Any]:
    held = array[kept]
    resized = np.zeros((rows, *array.shape[1:]), array.dtype)  # rows that no group takes cost no memory
    resized[: len(held)] = held
    return resized
