"""Doubtful readings: single readings that stand apart from all others of their sensor.

A reading is judged by its window only, so the judgement is a function of the topic and no state needs a rebuild. It is
doubted if all of this holds:

- it is far from the median of its sensor's readings in the window, and far from the median of the three readings on
  either side of it; far means `_FAR` and `_FAR_LOCALLY` robust deviations (1.4826 times the median absolute deviation,
  after Hampel). The first keeps the peaks of a smooth series, the second the peaks of a series that swings;
- fewer than two of these six readings are near it: a shift is believed from its third reading on, and its first two
  readings are believed once the third has come;
- no other sensor of the group jumped at that step by a similar number of deviations.

If the range of the training is known, a reading beyond it by more than that range is doubted too, however few readings
there are, and even if a dry window makes rain look unusual. A shift to such values is believed from its third reading
on, and the jump of another sensor confirms it only if that sensor is as far beyond its own range.

More than half of a sensor's readings must be sound. A sensor that repeats one value in more than half of its window
(rain, a valve) has no median deviation: the median of its other deviations takes its place. With fewer than `_FEWEST`
of these, or fewer than `FEWEST_READINGS` readings, the sensor's habits are unknown and nothing is doubted.

A direction in degrees is judged by its distance from the others on the circle: 358 does not stand apart from 2. No
direction lies beyond the ends of its circle, 0 and 360 or -180 and 180.

Source: Hampel (1974), The influence curve and its role in robust estimation; Pearson (2002), Outliers in process
modeling and identification, for its moving window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import ALMOST, TURN, around, start_of

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Range = tuple[Doubles, Doubles]  # least and largest reading of each sensor, [C] each, or [n, C] for n windows

_FAR, _FAR_LOCALLY = 5.0, 10.0  # robust deviations
_FAR_OF_REPEATED = 4.0  # factor on both for a sensor that mostly repeats one value: such sensors have heavy tails
_NORMAL = 1.4826  # deviation of a normal distribution, in median absolute deviations
_SIDE = 3  # readings on either side
_CONFIRMED = 2  # readings on either side that must be near for a reading to be believed
_NEAR = 0.5  # share of the reading's distance from the median
_JUMP, _ALIKE, _TOGETHER = 4.0, 10.0, 100.0  # deviations of another sensor's jump, ratio of two jumps, largest believed
FEWEST_READINGS = 12
_FEWEST = 3
# In most windows no reading is further from the mean than this many deviations; these windows need no closer look. In a
# window of 96, one spike of any size is 9.7 away, and five spikes of one size are 4.3 away. No reading of n is further
# away than sqrt(n - 1), so with few readings the screen is a share of that.
_SCREEN, _SCREEN_OF_FEW = 4.0, 0.9


@dataclass(frozen=True, eq=False)
class Plausibility:
    """The rule for the sensors of a model.

    judged: bool [C], sensors whose readings may be doubted.
    trained_range: least and largest reading of the training; None: not known.
    directions: bool [C], sensors whose readings are directions in degrees; None: there are none.
    """

    judged: Bools
    trained_range: Range | None = None
    directions: Bools | None = None

    def doubtful(self, values: Doubles, observed: Bools) -> Bools:
        """Return the doubted observed cells of windows, bool [n, C, T].

        Args:
            values: float64 [n, C, T], sensor units; ignored where not observed.
            observed: bool [n, C, T].
        """
        doubted = np.zeros(observed.shape, np.bool_)
        excess = self._excess(values)
        beyond = None if excess is None else observed & (excess > self._span)
        if self.directions is not None:
            values = _turned(values, observed, self.directions, self._circle)
        suspicious = _suspicious(values, observed)
        place = np.nonzero((suspicious if beyond is None else suspicious | beyond.any(axis=2)) & self.judged)
        if not len(place[0]):
            return doubted
        doubted[place] = _far(values[place], observed[place])
        if excess is not None and beyond is not None and beyond.any():
            place = np.nonzero(beyond.any(axis=2) & self.judged)
            doubted[place] |= _beyond(values[place], observed[place], excess[place], self._spans(len(values))[place])
        windows = np.flatnonzero(doubted.any(axis=(1, 2)))
        if len(windows) and values.shape[1] > 1:
            cells = values[windows].reshape(-1, values.shape[2]), observed[windows].reshape(-1, values.shape[2])
            jump = _Readings(*cells).jumps().reshape(len(windows), *values.shape[1:])
            confirmed = _confirmed(jump)
            if beyond is not None:
                far = beyond[windows]
                confirmed &= ~far | (far.sum(axis=1, keepdims=True) > 1)
            doubted[windows] &= ~confirmed
        return doubted

    @cached_property
    def _span(self) -> Doubles:
        """Width of the training's range, [..., C, 1]: readings further beyond it are doubted; infinite if unknown.

        No direction lies beyond the circle, except by rounding.
        """
        assert self.trained_range is not None
        least, most = self.trained_range
        span = np.where(most > least, most - least, np.inf)
        return (span if self.directions is None else np.where(self.directions, ALMOST, span))[..., None]

    @cached_property
    def _circle(self) -> Range:
        """The ends of the circle of each direction, [..., directions, 1]; both circles if no range tells which."""
        if self.trained_range is None:
            return np.array([[-TURN / 2]]), np.array([[TURN]])
        assert self.directions is not None
        start = start_of(self.trained_range[0][..., self.directions, None] < 0.0)
        return start, start + TURN

    def _spans(self, windows: int) -> Doubles:
        """Width of the training's range for each window and sensor, as in `_span`."""
        span = self._span[..., 0]
        return np.broadcast_to(span, (windows, span.shape[-1]))

    def _excess(self, values: Doubles) -> Doubles | None:
        """Distance of values [n, C, T] beyond the training's range, negative within it; None if it is not known."""
        if self.trained_range is None:
            return None
        least, most = (end[..., None] for end in self.trained_range)
        with np.errstate(over="ignore"):
            excess: Doubles = np.maximum(least - values, values - most)
        return excess

    def may_be_beyond(self, least: Doubles, most: Doubles) -> Bools:
        """Whether a reading between these bounds [n, C] may lie beyond the training's range by more than its width."""
        if self.trained_range is None:
            return np.zeros(least.shape, np.bool_)
        low, high = self.trained_range
        with np.errstate(over="ignore"):
            beyond: Bools = np.maximum(low - least, most - high) > self._span[..., 0]
        return beyond

    def sound(self, values: Doubles, observed: Bools) -> tuple[Doubles, Bools]:
        """Return windows without the doubted readings: values, 0 where not observed, and observed cells."""
        doubted = self.doubtful(values, observed)
        if not doubted.any():
            return values, observed
        return np.where(doubted, 0.0, values), observed & ~doubted


def _turned(values: Doubles, observed: Bools, directions: Bools, circle: Range) -> Doubles:
    """Values [n, C, T], with directions moved on their circle to within half a turn of their mean."""
    start, end = circle
    degrees = values[:, directions].astype(np.float64)
    with np.errstate(invalid="ignore"):
        known = observed[:, directions] & (degrees >= start) & (degrees <= end)
        radians = np.deg2rad(np.where(known, degrees, 0.0))
        mean = np.arctan2(*((known * part).sum(axis=2, keepdims=True) for part in (np.sin(radians), np.cos(radians))))
        mean = np.rad2deg(mean)
        out = values.astype(np.float64)
        out[:, directions] = np.where(known, mean + around(degrees - mean), degrees)
    return out


def _suspicious(values: Doubles, observed: Bools) -> Bools:
    """Whether a sensor has a reading far from its mean, bool [n, C].

    Every cell of every window passes here at each step. The masks are bits, because np.where takes ten times as long
    when the processor cannot predict which cells are observed.
    """
    values = np.asarray(values, np.float64)  # training values are float32
    every_bit = -observed.astype(np.int64)  # all bits set in observed cells, none in others
    count = np.maximum(-every_bit.sum(axis=2), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.einsum("nct->nc", (values.view(np.int64) & every_bit).view(np.float64)) / count
        away = values - mean[:, :, None]
        away.view(np.int64)[...] &= every_bit
        away *= away
        most = away.max(axis=2)
        screened: Bools = (most > screen_of(count) * (np.einsum("nct->nc", away) / count)) | ~np.isfinite(most)
    return screened


def screen_of(count: NDArray[Any]) -> Doubles:
    """Largest squared distance from the mean of `count` readings that is not suspicious, in variances."""
    screen: Doubles = np.minimum(_SCREEN**2, _SCREEN_OF_FEW**2 * (count - 1))
    return screen


class _Readings:
    """Readings [k, T] of k sensors in order, without the gaps between them; the first `count` are used."""

    def __init__(self, values: Doubles, observed: Bools) -> None:
        self._order = np.argsort(~observed, axis=1, kind="stable")
        self.count = observed.sum(axis=1)
        self.used = np.arange(observed.shape[1]) < self.count[:, None]
        self.reading = np.where(self.used, np.take_along_axis(values, self._order, axis=1), 0.0)

    def in_place(self, of_readings: NDArray[Any]) -> NDArray[Any]:
        """Return properties of readings [k, T] at the readings' steps, zeros elsewhere."""
        placed = np.zeros(of_readings.shape, of_readings.dtype)
        np.put_along_axis(placed, self._order, np.where(self.used, of_readings, placed), axis=1)
        return placed

    def beside(self, rows: NDArray[np.int64] | slice = slice(None)) -> tuple[Doubles, Bools]:
        """Return the readings on either side of each, [k, T, 2 * _SIDE], and True where there is one."""
        steps = self.reading.shape[1]
        place = np.arange(steps)[:, None] + np.array([*range(-_SIDE, 0), *range(1, _SIDE + 1)])
        inside = (place >= 0) & (place < steps)
        place = np.clip(place, 0, steps - 1)
        return self.reading[rows][:, place], self.used[rows][:, place] & inside

    def jumps(self) -> Doubles:
        """Return each reading's distance from those beside it, in deviations, at its step."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            locally = np.abs(self.reading - _median(*self.beside()))
            return self.in_place(np.where(locally > 0, locally / _scale(locally, self.used)[:, None], 0.0))


def _far(values: Doubles, observed: Bools) -> Bools:
    """Judge sensors [k, T] by their own readings."""
    readings = _Readings(values, observed)
    far = np.zeros(observed.shape, np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(readings.reading - _median(readings.reading, readings.used)[:, None])
        apart = (distance > _FAR * _scale(distance, readings.used)[:, None]) & readings.used
        apart &= (readings.count >= FEWEST_READINGS)[:, None]
        rows = np.flatnonzero(apart.any(axis=1))
        if len(rows):
            beside, there = readings.beside(rows)
            reading, used = readings.reading[rows], readings.used[rows]
            locally = np.abs(reading - _median(beside, there))
            near = there & (np.abs(beside - reading[..., None]) <= _NEAR * distance[rows][..., None])
            far[rows] = apart[rows] & (locally > _FAR_LOCALLY * _scale(locally, used)[:, None])
            far[rows] &= near.sum(axis=2) < _CONFIRMED
    placed: Bools = readings.in_place(far)
    return placed


def _beyond(values: Doubles, observed: Bools, excess: Doubles, span: Doubles) -> Bools:
    """Judge readings [k, T] by their excess [k, T] beyond their sensor's range; the range's width is `span` [k]."""
    readings, distance = _Readings(values, observed), _Readings(excess, observed).reading
    beside, there = readings.beside()
    with np.errstate(over="ignore", invalid="ignore"):
        near = there & (np.abs(beside - readings.reading[..., None]) <= _NEAR * distance[..., None])
        far = readings.used & (distance > span[:, None]) & (near.sum(axis=2) < _CONFIRMED)
    placed: Bools = readings.in_place(far)
    return placed


def _median(values: Doubles, used: Bools) -> Doubles:
    """Median over the last axis of the values used; NaN where there is none."""
    ascending = np.sort(np.where(used, values, np.inf), axis=-1)
    count = used.sum(axis=-1, keepdims=True)
    low = np.take_along_axis(ascending, np.maximum(count - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ascending, np.minimum(count // 2, values.shape[-1] - 1), axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):
        middle: Doubles = np.where(count > 0, low + (high - low) / 2, np.nan)[..., 0]
    return middle


def _scale(distance: Doubles, used: Bools) -> Doubles:
    """Robust deviation [k] given distances [k, T] from a median; infinite where nothing is known."""
    scale = _NORMAL * _median(distance, used)
    repeated = np.flatnonzero(~(scale > 0))
    if len(repeated):
        moved = used[repeated] & (distance[repeated] > 0)
        tail = _FAR_OF_REPEATED * _median(distance[repeated], moved)
        scale[repeated] = np.where(moved.sum(axis=1) >= _FEWEST, tail, np.inf)
    return scale


def _confirmed(jump: Doubles) -> Bools:
    """Cells at which another sensor made a similar jump at the same step, bool [n, C, T]; jumps are in deviations."""
    confirmed = np.zeros(jump.shape, np.bool_)
    for sensor in range(jump.shape[1]):
        own, others = jump[:, sensor : sensor + 1], np.delete(jump, sensor, axis=1)
        alike = (others >= _JUMP) & (others >= own / _ALIKE) & (others / _ALIKE <= own)
        confirmed[:, sensor] = alike.any(axis=1) & (own[:, 0] <= _TOGETHER)
    return confirmed
