"""Imputers that need no network: the usual first attempts of a scientist.

All work on standardised windows, in which the training mean of every sensor is 0, and learn from training rows alone.
Those that do not follow a sensor's level by themselves may have each window's own means taken from it first
(`without_level`); validation decides, as it does for their constants.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import PchipInterpolator
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  without it there is no IterativeImputer
from sklearn.impute import IterativeImputer
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import nan_euclidean_distances

from glaim_stream.form import interpolation, last_value
from training import closed_form
from training.closed_form import Ints, TimedFill
from training.data import Bools, Floats, GroupSeries, Scale, WindowBatch, WindowSet

DAY_MS = 86_400_000
PERIODS_MS = (DAY_MS, 7 * DAY_MS, 364 * DAY_MS)  # for steps below a day, below a week, and of a week
NEIGHBOURS = (3, 10, 30)
SHRINKAGE = (0.1, 0.3, 1.0, 3.0, 10.0)  # thresholds for singular values of a standardised window
_MOST_WINDOWS = 5_000  # windows in which neighbours are searched
_ROUNDS, _COOLING = 100, 0.9
_RIDGE = 1e-3
_CHAIN_FEATURES = 30


@dataclass(frozen=True)
class TrainingRows:
    """The training data of the methods of a data set.

    rows: the training rows, without numbers that stand for no value.
    validation: rows on which a closed form chooses its constants if the training rows are few.
    scale: scale of the windows.
    window: T, steps.
    """

    rows: GroupSeries
    validation: GroupSeries
    scale: Scale
    window: int

    @property
    def values(self) -> Floats:
        """The rows, standardised, [C, R]; NaN where there is no value."""
        standardised: Floats = self.scale.apply(self.rows.values)[0]
        return standardised

    def windows(self, level: bool) -> Floats:
        """Whole windows of the rows, [N, C, T]; without `level`, each sensor's mean in a window is 0."""
        found = WindowSet(self.values[None], self.window, minimum_observed=1.0)
        values = found.take(found.spread(_MOST_WINDOWS))
        return values if level else values - values.mean(axis=2, keepdims=True)


def untimed(fill: Callable[[Floats, Bools], Floats]) -> TimedFill:
    """Fill windows without their times; a cell without a value is 0, the training mean."""
    return lambda values, observed, _: np.nan_to_num(fill(values, observed), nan=0.0).astype(np.float32)


def without_level(fill: TimedFill) -> TimedFill:
    """Fill windows after subtracting each sensor's mean, and add it again."""

    def filled(values: Floats, observed: Bools, end_ms: Ints) -> Floats:
        level = level_of(values, observed)
        found = fill(np.where(observed, values - level, np.float32(0)), observed, end_ms) + level
        return np.where(observed, values, found)

    return filled


def level_of(values: Floats, observed: Bools) -> Floats:
    """Each sensor's mean in each window, [B, C, 1]; 0 where nothing is observed."""
    total = (values * observed).sum(axis=2, keepdims=True)
    level: Floats = (total / np.maximum(observed.sum(axis=2, keepdims=True), 1)).astype(np.float32)
    return level


def window_mean(values: Floats, observed: Bools) -> Floats:
    """The mean of the sensor's readings in the window."""
    return np.where(observed, values, level_of(values, observed))


def cubic(values: Floats, observed: Bools) -> Floats:
    """A monotone cubic spline through the sensor's readings (scipy's PCHIP); the ends are carried."""
    out = interpolation(values, observed)
    steps = np.arange(values.shape[2])
    for window, sensor in zip(*np.nonzero(observed.sum(axis=2) >= 3), strict=True):
        at = np.flatnonzero(observed[window, sensor])
        inner = slice(at[0], at[-1] + 1)
        spline = PchipInterpolator(at, values[window, sensor, at])
        out[window, sensor, inner] = spline(steps[inner])
    return np.where(observed, values, out)


def profile(training: TrainingRows) -> TimedFill:
    """Interpolate each sensor's departures from its mean at that time of the day, the week, or the year."""
    step_ms = round(training.rows.step_s * 1000)
    period = max(1, next((each for each in PERIODS_MS if each > step_ms), step_ms) // step_ms)
    values = training.values
    phase = (training.rows.times_ms // step_ms) % period
    usual = np.zeros((values.shape[0], period), np.float32)
    for each in np.unique(phase):
        here = values[:, phase == each]
        known = np.isfinite(here)
        usual[:, each] = np.where(known, here, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)

    def fill(values: Floats, observed: Bools, end_ms: Ints) -> Floats:
        back = np.arange(values.shape[2] - 1, -1, -1)
        expected = usual[:, (end_ms[:, None] // step_ms - back) % period].transpose(1, 0, 2)
        filled = np.nan_to_num(interpolation(values - expected, observed), nan=0.0) + expected
        return np.where(observed, values, filled).astype(np.float32)

    return fill


def other_sensors(windows: Floats) -> TimedFill:
    """Regress each sensor on those that are observed at the same step; interpolation where none is."""
    rows = windows.transpose(0, 2, 1).reshape(-1, windows.shape[1]).astype(np.float64)
    mean = rows.mean(axis=0)[:, None]
    covariance = np.cov(rows, rowvar=False) + _RIDGE * np.eye(rows.shape[1])

    def fill(values: Floats, observed: Bools) -> Floats:
        seen = observed.transpose(0, 2, 1)[..., None]  # [B, T, C, 1]
        both = seen & seen.swapaxes(2, 3)
        kept = np.where(both, covariance, 0.0) + np.where(seen, 0.0, 1.0) * np.eye(len(covariance))
        known = np.where(observed, values - mean, 0.0).transpose(0, 2, 1)[..., None].astype(np.float64)
        estimate = (covariance @ np.linalg.solve(kept, known))[..., 0].transpose(0, 2, 1) + mean
        filled = np.where(observed.any(axis=1, keepdims=True), estimate, interpolation(values, observed))
        return np.where(observed, values, filled)

    return untimed(fill)


def nearest_windows(windows: Floats, count: int) -> TimedFill:
    """The mean of the training windows that are nearest in the observed cells."""
    flat = windows.reshape(len(windows), -1)

    def fill(values: Floats, observed: Bools) -> Floats:
        known = np.where(observed, values, np.nan).reshape(len(values), -1)
        apart = np.nan_to_num(nan_euclidean_distances(known, flat), nan=np.inf)
        near = np.argpartition(apart, min(count, len(flat) - 1), axis=1)[:, :count]
        return np.where(observed, values, windows[near].mean(axis=1))

    return untimed(fill)


def low_rank(shrinkage: float) -> TimedFill:
    """Fill a window by a matrix of low rank: its singular values are lowered and the holes filled anew, in turns.

    The first turns lower them by more, as much as leaves the largest one alone, because small steps from the
    interpolation are slow.
    Source: Mazumder, Hastie and Tibshirani 2010, soft-impute.
    """

    def fill(values: Floats, observed: Bools) -> Floats:
        filled = np.nan_to_num(interpolation(values, observed), nan=0.0).astype(np.float64)
        for turn in range(_ROUNDS):
            squares, vectors = np.linalg.eigh(filled @ filled.swapaxes(1, 2))
            singular = np.sqrt(np.maximum(squares, 1e-12))
            lowered = np.maximum(shrinkage, _COOLING ** (turn + 1) * singular[:, -1:])
            kept = np.maximum(singular - lowered, 0.0) / singular
            low = (vectors * kept[:, None, :]) @ (vectors.swapaxes(1, 2) @ filled)
            filled = np.where(observed, values, low)
        return filled.astype(np.float32)

    return untimed(fill)


def chained(known: WindowBatch) -> TimedFill:
    """Regress every sensor on the others and on the steps before and after, in turns (scikit-learn's imputer).

    known: training windows with holes like those that it fills.
    """
    imputer = IterativeImputer(
        Ridge(alpha=1.0), max_iter=10, random_state=0, n_nearest_features=_CHAIN_FEATURES, tol=1e-2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        imputer.fit(_with_neighbours(known.values, known.observed))

    def fill(values: Floats, observed: Bools) -> Floats:
        batch, sensors, steps = values.shape
        rows = imputer.transform(_with_neighbours(values, observed))[:, sensors : 2 * sensors]
        return np.where(observed, values, rows.reshape(batch, steps, sensors).transpose(0, 2, 1))

    return untimed(fill)


def _with_neighbours(values: Floats, observed: Bools) -> Floats:
    """Rows of the step before, the step and the step after, NaN where not observed, [B * T, 3 C]."""
    known = np.where(observed, values, np.nan)
    padded = np.pad(known, ((0, 0), (0, 0), (1, 1)), constant_values=np.nan)
    parts = [padded[:, :, :-2], known, padded[:, :, 2:]]
    return np.concatenate(parts, axis=1).transpose(0, 2, 1).reshape(-1, 3 * values.shape[1])


def whole_form(training: TrainingRows) -> TimedFill:
    """The closed form of this project."""
    fitted = closed_form.fit(training.rows, training.window, training.validation, only_numbers=True)
    return closed_form.fill_of(fitted.form, training.scale)


def each_alone(training: TrainingRows) -> TimedFill:
    """A closed form for each sensor alone, which knows nothing of the others: its readings before and after."""
    scale, fills = training.scale, []
    for sensor in range(len(training.rows.sensors)):
        rows, validation = (_one(part, sensor) for part in (training.rows, training.validation))
        form = closed_form.fit(rows, training.window, validation, only_numbers=True).form
        own = Scale(*(part[sensor : sensor + 1] for part in (scale.mean, scale.std, scale.minimum, scale.maximum)))
        fills.append(closed_form.fill_of(form, own))

    def fill(values: Floats, observed: Bools, end_ms: Ints) -> Floats:
        parts = [
            each(values[:, sensor : sensor + 1], observed[:, sensor : sensor + 1], end_ms)
            for sensor, each in enumerate(fills)
        ]
        return np.concatenate(parts, axis=1)

    return fill


def _one(series: GroupSeries, sensor: int) -> GroupSeries:
    return replace(
        series, sensors=series.sensors[sensor : sensor + 1], units=series.units[sensor : sensor + 1],
        values=series.values[:, sensor : sensor + 1],
    )  # fmt: skip


FIXED: Mapping[str, TimedFill] = {
    "interpolation": untimed(interpolation),
    "last value": untimed(last_value),
    "window mean": untimed(window_mean),
    "cubic spline": untimed(cubic),
}
LEARNED: Mapping[str, Callable[[TrainingRows], TimedFill]] = {
    "profile": profile,
    "each sensor alone": each_alone,
    "closed form": whole_form,
}
# Those with choices: the constants to choose from, and the method for training windows, windows with holes like the
# cell's, and a constant.
TUNED: Mapping[str, tuple[Sequence[float], Callable[[Floats, WindowBatch, float], TimedFill]]] = {
    "nearest windows": (NEIGHBOURS, lambda windows, _, count: nearest_windows(windows, int(count))),
    "low rank": (SHRINKAGE, lambda _, __, shrinkage: low_rank(shrinkage)),
    "other sensors": ((0.0,), lambda windows, _, __: other_sensors(windows)),
    "chained regressions": ((0.0,), lambda _, known, __: chained(known)),
}
