"""The choice of constants on validation windows.

All numbers that a person chose for the fit are in `CONSTANTS`, and they are the same for every data set. Choices by
data are counted in `Validation.choices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.form import ClosedForm
from glaim_stream.form.hiding import CASES, stream_gaps
from glaim_stream.form.levels import Levels, levels_of
from glaim_stream.form.moments import Moments, at_equal_deviations
from glaim_stream.form.phase import Phase
from glaim_stream.form.series import FormWindows
from glaim_stream.form.simplex import convex_weights, with_penalty
from glaim_stream.form.transform import Transform
from glaim_stream.form.variant import Variant

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Place = tuple[float, float, float]  # shrinkage, ridge, distance
Grid = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Constants:
    """Numbers of the fit.

    default_shrinkage, default_ridge: start of the search.
    shrinkages, ridges: values to try.
    distances, default_distance: the same for two sensors or more. In whole windows the search begins with 0.
    most_rows_per_cell: training rows of independent groups, for each cell of a whole window, below which a distance is
        tried.
    few_rows: shrinkage, ridge and distance if there are too few rows for a search.
    training_windows: most windows for moments.
    search_windows, dark_windows, weight_windows: most validation windows for shrinkage and ridge, for dark steps
        (whose choices differ little), and for everything else.
    case_weights: weights of the cases in the mean of their errors. The newest steps of all sensors count half, because
        a large ridge gains little there and loses much elsewhere.
    large_cells: C * L above which a quarter of these validation windows is used.
    least_even_gain: share of the error by which moments of windows at equal deviations must beat plain moments.
    least_gain: share of the error, with the penalty, by which several variants must beat the best single one.
    least_weight: least weight of a variant that is kept.
    hardly_better, much_error: shares of its line's error and of all squared errors. A sensor above both has chosen
        for the others (`unlike_sensors`).
    least_whole_gain: share of the error at the newest steps by which whole windows must beat their recent half.
    """

    default_shrinkage: float = 0.5
    default_ridge: float = 1e-2
    shrinkages: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    ridges: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    distances: tuple[float, ...] = (0.0, 0.03, 0.1, 0.3, 0.5, 0.7)
    default_distance: float = 0.3
    most_rows_per_cell: float = 4.0
    few_rows: Place = (0.9, 3e-2, 0.5)
    training_windows: int = 12_000
    search_windows: int = 32
    weight_windows: int = 128
    dark_windows: int = 512
    case_weights: Mapping[str, float] = field(
        default_factory=lambda: {"newest_one": 1.0, "newest_all": 0.5, "blocks": 1.0, "random": 1.0}
    )
    large_cells: int = 1_000
    least_even_gain: float = 0.05
    least_gain: float = 0.03
    least_weight: float = 0.1
    hardly_better: float = 0.9
    much_error: float = 0.5
    least_whole_gain: float = 0.02


CONSTANTS: Final = Constants()


@dataclass
class Candidate:
    """A variant before its constants are chosen: its transformation and the moments of transformed windows.

    distance: share by which covariances of different sensors, and of their levels, are reduced.
    distances: distances that the search tries.
    evened: True if all windows count as if they had the same deviation.
    """

    name: str
    transform: Transform
    moments: Moments
    phase: Phase | None
    step_ms: int
    shrinkage: float = CONSTANTS.default_shrinkage
    ridge: float = CONSTANTS.default_ridge
    distance: float = 0.0
    distances: tuple[float, ...] = (0.0,)
    evened: bool = False
    _levels: tuple[FormWindows, Levels] | None = field(default=None, repr=False)
    _kept: tuple[FormWindows, Place, Variant] | None = field(default=None, repr=False)

    @property
    def constants(self) -> Place:
        """Shrinkage, ridge and distance."""
        return self.shrinkage, self.ridge, self.distance

    @constants.setter
    def constants(self, values: Place) -> None:
        self.shrinkage, self.ridge, self.distance = values

    def bins(self, windows: FormWindows) -> NDArray[np.int64] | None:
        """Phases [n, L] of windows, if there is a profile."""
        if self.phase is None or self.transform.profile is None:
            return None
        return self.phase.of_windows(windows.end_ms, windows.values.shape[2], self.step_ms)

    def add(self, windows: FormWindows) -> None:
        """Add windows of L steps to the moments, except those that do not suit the transformation."""
        self._kept = None
        suits = self.transform.suits(windows.values, windows.observed)
        bins = self.bins(windows)
        moved, _ = self.transform.forward(
            windows.values[suits], windows.observed[suits], None if bins is None else bins[suits]
        )
        if self.evened:
            moved = at_equal_deviations(moved, windows.observed[suits])
        self.moments.add(moved, windows.observed[suits])

    def variant(self, windows: FormWindows) -> Variant:
        """Return the variant, with the levels of the windows."""
        if self._kept is not None:
            kept, constants, variant = self._kept
            if kept is windows and constants == self.constants:
                return variant
        if self._levels is None or self._levels[0] is not windows:
            self._levels = windows, self._levels_of(windows)
        return Variant(
            self.name,
            self.transform,
            self._levels[1].kept_apart(self.distance),
            self.moments.covariance(shrinkage=self.shrinkage, ridge=self.ridge, distance=self.distance),
            self.moments.level_variance(shrinkage=self.shrinkage),
        )

    def keep(self, windows: FormWindows, variant: Variant) -> None:
        """Make `variant` return this variant, whose covariance may be inverted, for these constants and windows."""
        self._kept = windows, self.constants, variant

    def _levels_of(self, windows: FormWindows) -> Levels:
        moved, _ = self.transform.forward(windows.values, windows.observed, self.bins(windows))
        seen = windows.observed.sum(axis=2)
        level = moved.sum(axis=2) / np.maximum(seen, 1)
        return levels_of(level, windows.observed, windows.group)


@dataclass
class Validation:
    """Validation windows with their hidden cells.

    independent: number of windows that would not overlap.
    unseen: bool [n, T], steps outside the training rows; only cells of these steps are hidden.
    unit: float64 [n, C], deviation of each window's group and sensor, the unit of errors.
    weight: float64 [C], factor of each sensor's errors; 0: the sensor's errors do not choose.
    choices: number of alternatives compared so far.
    by_variant: mean squared errors by variant and case, once they are known.
    """

    windows: FormWindows
    unit: Doubles
    independent: float
    unseen: Bools
    weight: Doubles
    choices: int = 0
    by_variant: dict[str, dict[str, float]] = field(default_factory=dict)

    @cached_property
    def hidden(self) -> dict[str, Bools]:
        """The hidden cells [n, C, T] of each case."""
        may = self.unseen[:, None, :]
        return {case: stream_gaps(case, self.windows.observed) & may for case in CASES}

    @property
    def counted(self) -> Bools:
        """Sensors whose errors choose, bool [C, 1]."""
        return self.weight[:, None] > 0

    def errors(self, variant: Variant, candidate: Candidate, most: int) -> dict[str, Doubles]:
        """Return errors by case at the hidden cells of some windows, in units; NaN counts as 0 levels off."""
        return {
            case: self._errors(variant, candidate, most, hidden, hidden & self.counted)
            for case, hidden in self.hidden.items()
        }

    def silent_error(self, variant: Variant, candidate: Candidate, most: int) -> float:
        """The logarithm of the mean squared error of a sensor that is silent for a window; 0 if nothing is hidden."""
        n, sensors, _ = self.windows.observed.shape
        silent = (np.arange(sensors) == np.arange(n)[:, None] % sensors)[:, :, None]  # another sensor in each window
        hidden = silent & self.windows.observed
        counted = hidden & self.unseen[:, None, :] & self.counted
        error = self._errors(variant, candidate, most, hidden, counted)
        return float(np.log(np.mean(error**2) + 1e-12)) if len(error) else 0.0

    def _errors(
        self, variant: Variant, candidate: Candidate, most: int, hidden: Bools, counted: Bools
    ) -> NDArray[np.float64]:
        steps = variant.covariance.shape[0] // self.windows.values.shape[1]
        every = slice(None, None, max(1, -(-len(self.windows) // most)))
        windows = self.windows.newest(steps)
        values, bins = windows.values[every], candidate.bins(windows)
        observed = windows.observed[every] & ~hidden[every, :, -steps:]
        mean, _ = variant.fill(values, observed, None if bins is None else bins[every], with_deviation=False)
        error = (mean - values) / self.unit[every][:, :, None] * self.weight[:, None]
        found: Doubles = np.nan_to_num(error[counted[every, :, -steps:]], nan=1.0)
        return found


def log_error(errors: Mapping[str, Doubles]) -> float:
    """The weighted mean logarithm of squared errors by case; 0 where there are none."""
    weights = {case: CONSTANTS.case_weights[case] for case, error in errors.items() if len(error)}
    logs = [weight * np.log(np.mean(errors[case] ** 2) + 1e-12) for case, weight in weights.items()]
    return float(np.sum(logs)) / max(sum(weights.values()), 1e-12)


def form_error(form: ClosedForm, validation: Validation, newest: int | None = None) -> float:
    """`log_error` of a whole form at the counted hidden cells, of the newest steps if given; NaN counts as 1 unit."""
    windows, kept, found = validation.windows, slice(0 if newest is None else -newest, None), {}
    for case, hidden in validation.hidden.items():
        seen = windows.observed & ~hidden
        filled = form.fill(windows.values, seen, windows.end_ms, newest=newest, with_deviation=False)
        error = (filled.mean - windows.values[:, :, kept]) / validation.unit[:, :, None] * validation.weight[:, None]
        found[case] = np.nan_to_num(error[(hidden & validation.counted)[:, :, kept]], nan=1.0)
    return log_error(found)


def choose_constants(
    candidate: Candidate, training: FormWindows, validation: Validation, most: int, base: Candidate | None = None
) -> float:
    """Set shrinkage, ridge and distance of a candidate; return the weighted mean logarithm of its squared errors.

    The search moves over the grid of constants, one step in one constant at a time, as long as the error falls. In
    whole windows, the cost of a distance to a silent sensor counts as a case of its own: a sensor's own past decides
    most of the other cases, and twins would be kept apart.

    Args:
        candidate: the candidate to set.
        training: training windows.
        validation: validation windows.
        most: number of validation windows.
        base: candidate with the constants from which the search begins; by default the best default.
    """
    begin = candidate if base is None else base
    tried = CONSTANTS.shrinkages, CONSTANTS.ridges, candidate.distances
    known: dict[tuple[int, ...], float] = {}
    silent: dict[tuple[int, ...], float] = {}
    whole = len(tried[2]) > 1 and training.values.shape[2] == validation.windows.values.shape[2]

    def score(place: tuple[int, ...]) -> float:
        if place not in known:
            shared = (*place[:2], 0)
            if whole and place != shared:
                score(shared)
            validation.choices += 1
            candidate.constants = _constants(tried, place)
            variant = candidate.variant(training)
            known[place] = log_error(validation.errors(variant, candidate, most))
            if whole:
                silent[place] = validation.silent_error(variant, candidate, most)
                known[place] += (silent[place] - silent[shared]) / sum(CONSTANTS.case_weights.values())
            if known[place] == min(known.values()):
                candidate.keep(training, variant)
        return known[place]

    place = tuple(values.index(value) for values, value in zip(tried, begin.constants, strict=True))
    while True:
        best = min(_around(place, tried), key=score)
        if score(best) >= score(place):
            break
        place = best
    candidate.constants = _constants(tried, place)
    return score(place)


def _constants(tried: Grid, place: tuple[int, ...]) -> Place:
    shrinkage, ridge, distance = (values[at] for values, at in zip(tried, place, strict=True))
    return shrinkage, ridge, distance


def _around(place: tuple[int, ...], tried: Grid) -> list[tuple[int, ...]]:
    """Return the places of the grid that differ by one step in one of the constants."""
    ways = [(which, step) for which in (1, 0, 2) for step in (-1, 1)]  # the first of equal errors counts
    near = [(*place[:which], place[which] + step, *place[which + 1 :]) for which, step in ways]
    return [each for each in near if all(0 <= at < len(values) for at, values in zip(each, tried, strict=True))]


def choose_weights(errors: dict[str, dict[str, Doubles]], plain: str, validation: Validation) -> dict[str, float]:
    """Return the weights of the variants that are kept; only the plain one if no cell was hidden.

    Args:
        errors: errors by variant and case.
        plain: variant whose errors make the cases comparable.
        validation: counts the choice.
    """
    validation.choices += len(errors)
    names = list(errors)
    parts = []
    for case, base in errors[plain].items():
        if len(base):
            scale = np.sqrt((np.square(base).sum() + 1e-12) / CONSTANTS.case_weights[case])
            parts.append(np.stack([errors[name][case] for name in names], axis=1) / scale)
    if not parts:
        return {plain: 1.0}
    stacked = np.concatenate(parts)
    penalty = 1.0 / validation.independent
    gram = with_penalty(stacked.T @ stacked, penalty)
    best = int(np.diagonal(gram).argmin())
    weights = convex_weights(stacked, penalty)
    kept = weights >= CONSTANTS.least_weight
    if kept.any():
        weights = np.zeros(len(names))
        weights[kept] = convex_weights(stacked[:, kept], penalty)
    if weights @ gram @ weights > (1.0 - CONSTANTS.least_gain) * gram[best, best]:
        weights = np.eye(len(names))[best]
    return {name: float(weight) for name, weight in zip(names, weights, strict=True) if weight > 0}
