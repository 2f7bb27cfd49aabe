"""Finds the even grid behind the times of a table's rows, which need not be even, ordered or unique.

The step is found from the differences of successive times. A row's step follows from the row before it in time, so
that stamps whose jitter adds up (59 s, 61 s, 60 s, ...) still get one step each. Rows of equal times share a step, and
steps without a row stay empty.

A stream has no such choice: a step of its models is always `time_ms // step_ms`, since a window closes before the next
stamp is known. `windows`, `operate.learn` and `Grid.streamed` use this rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.step_means import mean_of_each
from glaim_stream.core.times import NO_TIME, text_of_ms

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

MOST_STEPS = 20_000_000  # steps of a grid: with more, most are empty, because a time or the step is wrong

_COMMON = 0.15  # least share of the differences that equal a step
_CLOSE = 0.1  # fraction of a step by which a difference may miss a multiple of it
_FITTING = 0.9  # least share of the differences that are multiples of a step
_LEAST_ROWS = 0.1  # least share of steps with a row; with fewer, the step is the distance of two sensors' stamps
_ALONE = 0.45  # least share of the times that have a step of their own
_NEAR = 10  # steps; longer differences tell less about the length of a step
_STRETCH = 20  # differences over which rows that keep to the mean step stray from it by less than one step
_STEADY = 0.9  # least share of the stretches in which rows keep to the mean step
_CLEAR = 0.4  # least share of multiples of a step; with fewer, jitter hides whether there is another step
_KEPT = 0.5  # share of a row's deviation from the grid that the next row starts with, if it is below `_JITTER`
_JITTER = 0.25  # fraction of a step below which a deviation is jitter
_HALF = 0.6  # fraction of a step that a row may be off while its distance to the row before is a multiple
_ROUND = 0.005  # share of a step by which it may differ from a round number of seconds, minutes or hours
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000, 100, 10, 1)


@dataclass(frozen=True)
class Grid:
    """Steps `start_ms + step_ms * k` for k in 0..steps - 1, and the rows in them.

    rows: int64 [rows], step of each row; -1 for a row without a time.
    """

    start_ms: int
    step_ms: int
    steps: int
    rows: Ints

    @classmethod
    def of(cls, times_ms: Ints, step_ms: int | None = None) -> Self:
        """Lay a grid through the times of rows.

        Args:
            times_ms: int64 [rows], epoch milliseconds in any order; NO_TIME for a row without a time.
            step_ms: time between two steps; found from the times by default.

        Raises:
            SettingsError: the step is not positive, no row has a time, the times show no step, or they span more than
                MOST_STEPS steps.
        """
        if step_ms is not None and step_ms < 1:
            raise SettingsError(f"expected a step of at least 1 ms, found {step_ms} ms")
        dated = times_ms != NO_TIME
        times, inverse = np.unique(times_ms[dated], return_inverse=True)
        if not len(times):
            raise SettingsError(f"expected rows with a time, found none in {len(times_ms):,} rows")
        step = step_ms or step_of([times])
        _require_few_steps(times, step)
        place = _places(times, step)
        rows = np.full(len(times_ms), -1, np.int64)
        rows[dated] = place[inverse.reshape(-1)]
        return cls(int(times[0]), step, int(place[-1]) + 1, rows)

    @classmethod
    def streamed(cls, times_ms: Ints, step_ms: int) -> Self:
        """Place rows in steps as a worker does: step k holds the times from `k * step_ms` on.

        Args:
            times_ms: int64 [rows], epoch milliseconds in any order; NO_TIME for a row without a time.
            step_ms: step of the worker's model.

        Raises:
            SettingsError: no row has a time, or the times span more than MOST_STEPS steps.
        """
        dated = times_ms != NO_TIME
        if not dated.any():
            raise SettingsError(f"expected rows with a time, found none in {len(times_ms):,} rows")
        _require_few_steps(times_ms[dated], step_ms)
        number = times_ms[dated] // step_ms
        rows = np.full(len(times_ms), -1, np.int64)
        rows[dated] = number - number.min()
        return cls(int(number.min()) * step_ms, step_ms, int(rows.max()) + 1, rows)

    @property
    def times_ms(self) -> Ints:
        """Time of each step, int64 [steps]."""
        return self.start_ms + self.step_ms * np.arange(self.steps, dtype=np.int64)

    @property
    def empty(self) -> int:
        """Number of steps without a row."""
        return self.steps - len(np.unique(self.rows[self.rows >= 0]))

    @property
    def shared(self) -> int:
        """Number of rows whose step has another row before them."""
        dated = self.rows[self.rows >= 0]
        return len(dated) - len(np.unique(dated))


def put(
    values: Doubles, place: tuple[Ints, Ints], readings: Doubles, *, bucket: str = "last", turning: Bools | None = None
) -> None:
    """Put readings into the steps of their series.

    Args:
        values: float64 [series, steps], changed in place.
        place: int64 [n] each, series and step of each reading.
        readings: float64 [n], in order of time.
        bucket: value of a step with several readings, `last` or `mean`.
        turning: bool [n], readings in degrees, whose mean is that of unit vectors; None without any.
    """
    if bucket == "mean":
        readings = mean_of_each(readings, np.ravel_multi_index(place, values.shape), values.size, turning)
    values[place] = readings  # numpy keeps the last of repeated assignments


def _require_few_steps(times_ms: Ints, step_ms: int) -> None:
    first, last = int(times_ms.min()), int(times_ms.max())
    if (last - first) // step_ms >= MOST_STEPS:
        raise SettingsError(
            f"the times reach from {text_of_ms(first)} to {text_of_ms(last)}, which are {(last - first) // step_ms:,} "
            f"steps of {step_ms:,} ms for {len(times_ms):,} times: correct the times, or state the step"
        )


def step_of(times_ms: Sequence[Ints]) -> int:
    """Return the step of the times of one or many groups.

    Args:
        times_ms: int64 [rows] for each group, in any order; NO_TIME for a row without a time.

    Raises:
        SettingsError: no group has two different times.
    """
    unique = [np.unique(each[each != NO_TIME]) for each in times_ms]
    parts = [np.diff(each) for each in unique if len(each) > 1]
    if not parts:
        raise SettingsError("expected at least two different times to find the step from, found fewer: state the step")
    differences = np.concatenate(parts)
    lengths, count = _lengths(differences)
    common = lengths[count >= _COMMON * len(differences)]
    candidates = common if len(common) else np.array([np.median(differences)])
    candidates = np.array([step for step in candidates if _alone(differences, step) >= _ALONE] or candidates[:1])
    fitting = [(step, *_quality(differences, float(step))) for step in np.sort(candidates)]
    fit = max(quality for _, quality, _ in fitting)
    good = [(step, share) for step, quality, share in fitting if quality >= _FITTING * fit]
    dense = [step for step, share in good if share >= _LEAST_ROWS]
    step = dense[0] if dense else max(good, key=lambda each: each[1])[0]
    return _refined(differences, float(step))


def _lengths(differences: Ints) -> tuple[Doubles, Ints]:
    """Lengths that differ by less than `_CLOSE` count as one: their medians, and the number of each."""
    ordered = np.sort(differences)
    starts, at = [0], 0
    while True:
        at = int(np.searchsorted(ordered, ordered[at] * (1.0 + _CLOSE), side="right"))
        if at >= len(ordered):
            break
        starts.append(at)
    ends = [*starts[1:], len(ordered)]
    middle = [float(np.median(ordered[first:last])) for first, last in zip(starts, ends, strict=True)]
    return np.array(middle), np.diff([*starts, len(ordered)]).astype(np.int64)


def _alone(differences: Ints, step: float) -> float:
    """The share of the times that have a step of their own."""
    return float(np.count_nonzero(np.rint(differences / step)) + 1) / (len(differences) + 1)


def _quality(differences: Ints, step: float) -> tuple[float, float]:
    """The share of differences that are multiples of a step, and the share of steps that have a row."""
    multiple = np.rint(differences / step)
    close = np.abs(differences / step - multiple) <= _CLOSE
    return float(close.mean()), (np.count_nonzero(multiple) + 1) / (float(multiple.sum()) + 1)


def _refined(differences: Ints, step: float) -> int:
    """The mean step instead of the most common one, or a round number close to it.

    If the rows do not keep to the mean of all differences, only multiples of the step count. An example is a step of 10
    minutes that turns into 15: a mean step of 500 s would lie between them and fit neither.
    """
    multiple = np.rint(differences / step)
    if (differences == multiple * step).mean() >= _FITTING:
        return max(1, round(step))
    near = multiple <= _NEAR
    close = np.abs(differences / step - multiple) <= _CLOSE
    if close.mean() >= _CLEAR and not _is_kept(differences[near], multiple[near]):
        near &= close | (multiple == 0)  # the time between two rows of a step is a part of it
    steps = multiple[near].sum()
    mean = float(differences[near].sum() / steps) if steps else step
    if np.any(differences[near] != multiple[near] * step):
        for unit in _UNITS_MS:
            rounded = round(mean / unit) * unit
            if rounded and abs(rounded - mean) <= _ROUND * mean:
                return rounded
        return max(1, round(mean))
    return max(1, round(step))


def _is_kept(differences: Ints, multiple: Doubles) -> bool:
    """Whether rows keep to the mean step: jitter cancels out over a stretch, while another step adds up."""
    if not multiple.sum():
        return False
    missed = np.cumsum(differences / (differences.sum() / multiple.sum()) - multiple)
    stretch = max(1, min(_STRETCH, len(missed) // 2))
    missed = np.concatenate([[0.0], missed])
    return bool((np.abs(missed[stretch:] - missed[:-stretch]) < 1.0).mean() >= _STEADY)


def _places(times: Ints, step: int) -> Ints:
    """The step of each time; times are ascending and different."""
    places: Ints = (times - times[0]) // step
    if np.array_equal(times[0] + places * step, times):
        return places
    rest, place, out = 0.0, 0, [0]
    for difference in (np.diff(times) / step).tolist():
        position = difference + rest
        ahead = max(0, round(position))
        # After a clock restarts halfway between two steps, rounding would alternate between no step and two.
        whole = round(difference)
        if whole and abs(difference - whole) <= _CLOSE and abs(rest) <= _HALF:
            ahead = whole
        rest = position - ahead
        if ahead and abs(rest) < _JITTER:
            rest *= _KEPT
        place += ahead
        out.append(place)
    return np.array(out, np.int64)
