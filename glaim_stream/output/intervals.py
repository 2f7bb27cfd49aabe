"""The 90 % intervals of filled values: half-widths from the contract and the closed form, and the ends they reach.

Ends are rounded and limited as the values are (`publishable`, `possible_range`).

The two sides of an interval are separate, [n, 2]: below the value and above it. The factor of recent errors on the
half-widths is `glaim_stream.blend.reach`. Arithmetic only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert, levels
from glaim_stream.form import Limits
from glaim_stream.output.sensor_tables import SensorTable

BAND = 1.6448536269514722  # deviations on either side of a normal distribution's mean that hold 90 %
_MOST_STEPS = 2.0**52  # beyond it, neighbouring floats are at least a resolution apart
Ints = NDArray[np.int64] | NDArray[np.int32]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HalfWidths:
    """Half-widths of the 90 % intervals of n cells, NaN where they are not known.

    A value in which the model has a part has the geometric mean of the residuals of its validation and of the closed
    form's deviation: only the former knows the model, and only the latter which cells around the hole are missing.
    Any other value has the deviation. Where one of them is not known, the other stands in.
    """

    half: Doubles  # [n, 2, 2] for values with a part of the model, and for the others; below and above the value
    level: NDArray[np.int64]  # [n, 2] levels of blend.reach

    @classmethod
    def of(cls, by_model: Doubles, by_form: Doubles, span: Doubles, gap_age: Ints, silent: Bools) -> HalfWidths:
        """Combine half-widths [n, 2] of both kinds, spans [n] of the sensors' readings in training, and gap ages.

        `silent` [n] tells where the whole group was silent.
        """
        of_form = np.where(np.isnan(by_form), by_model, by_form)
        of_model = np.sqrt(np.where(np.isnan(by_model), by_form, by_model)) * np.sqrt(of_form)
        half = np.stack([of_model, of_form], axis=1)
        return cls(half, levels(half, span, gap_age, silent))

    @classmethod
    def none(cls) -> HalfWidths:
        """Half-widths of no cell."""
        nothing = np.empty((0, 2))
        return cls.of(nothing, nothing, np.empty(0), np.empty(0, np.int64), np.empty(0, np.bool_))

    @classmethod
    def found(
        cls,
        sensor: Ints,
        gap_age: Ints,
        newest: Bools,
        silent: Bools,
        table: SensorTable,
        table_of: Callable[[str], SensorTable],
        *,
        version: Sequence[str],
        deviation: Doubles | None = None,
        form_range: tuple[Doubles, Doubles] | None = None,
    ) -> HalfWidths:
        """Collect the half-widths of cells [n].

        Args:
            sensor: [n].
            gap_age: [n], steps.
            newest: [n], True at the window's newest step.
            silent: [n], True where no sensor of the group was observed at the cell's step.
            table: the model's sensors.
            table_of: the sensors with the intervals of a version.
            version: version of the model that answered for each cell, length n; "" where none did.
            deviation: [n], deviation of the closed form; None: the model has none.
            form_range: least and largest reading that the closed form was fitted to, [C].
        """
        by_model, by_form = np.full((2, len(sensor), 2), np.nan)
        versions = set(version)
        for name in versions:
            rows = slice(None) if len(versions) == 1 else np.flatnonzero([each == name for each in version])
            below, above = residuals_at(sensor[rows], gap_age[rows], newest[rows], table_of(name) if name else table)
            by_model[rows, 0], by_model[rows, 1] = np.maximum(-below, 0.0), np.maximum(above, 0.0)
        if deviation is not None:
            by_form[:] = BAND * deviation[:, None]
        ranges = [each for each in (table.trained_range, form_range) if each is not None]
        span = (
            np.max([most - least for least, most in ranges], axis=0)[sensor] if ranges else np.full(len(sensor), np.inf)
        )
        return cls.of(by_model, by_form, span, gap_age, silent)

    def where(self, rows: slice) -> HalfWidths:
        """Some of the cells."""
        return HalfWidths(self.half[rows], self.level[rows])

    def published(self, weights: Doubles) -> tuple[Doubles, NDArray[np.int64]]:
        """Half-widths [n, 2] and levels [n] of the values that are mixed by weights of the experts [n, experts]."""
        at = np.arange(len(weights)), (weights[:, Expert.MODEL] == 0).astype(np.int64)
        return self.half[at], self.level[at]


def intervals(
    value: Doubles,
    sensor: Ints,
    gap_age: Ints,
    newest: Bools,
    table: SensorTable,
) -> tuple[Doubles, Doubles]:
    """The interval of each imputed value, from the residuals that the model had at its gap age in validation.

    A blended value in which the model has a part has the model's interval around it: its own errors are known at too
    few cells to estimate quantiles, and a mixture that follows recent error is no worse than its parts.
    `glaim_score_intervals_holding_total` counts the intervals that contain the true value.

    Args:
        value: [n], sensor units.
        sensor: [n].
        gap_age: [n], steps.
        newest: [n], True at the window's newest step.
        table: the model's sensors.

    Returns:
        Lower and upper, float64 [n]; NaN without measured residuals.
    """
    lower, upper = residuals_at(sensor, gap_age, newest, table)
    low, high, resolution = table.low[sensor], table.high[sensor], table.resolution[sensor]
    # The residuals of a biased model may exclude its own value, and those of a frozen sensor are 0.
    lower, upper = value + np.minimum(lower, -resolution), value + np.maximum(upper, resolution)
    return np.clip(lower, low, high), np.clip(upper, low, high)


def residuals_at(
    sensor: Ints,
    gap_age: Ints,
    newest: Bools,
    table: SensorTable,
) -> tuple[Doubles, Doubles]:
    """Residuals, true minus imputed, between which 90 % lay in validation; see `intervals` for arguments and result."""
    lower, upper = np.full((2, len(sensor)), np.nan)
    if table.gap_ages is None:
        return lower, upper
    # The first measured age at or above the row's: an interval may be too wide, but not that of a younger gap.
    age = np.minimum(np.searchsorted(table.gap_ages, gap_age), len(table.gap_ages) - 1)
    for edge in (True, False):
        rows = np.flatnonzero(newest == edge)
        if len(rows):
            lower[rows], upper[rows] = (each[sensor[rows], age[rows]] for each in table.residuals[edge])
    return lower, upper


def reaching(
    value: Doubles,
    half_widths: Doubles,
    sensor: Ints,
    table: SensorTable,
) -> tuple[Doubles, Doubles]:
    """The intervals that reach half-widths [n, 2] below and above values [n], rounded and limited as the values are.

    No interval is narrower than the sensor's resolution: a frozen sensor has errors that it cannot show.
    """
    low, high, resolution = table.low[sensor], table.high[sensor], table.resolution[sensor]
    below, above = (np.clip(each, resolution, np.finfo(np.float64).max / 4) for each in half_widths.T)
    lower = np.minimum(publishable(value - below, sensor, table), value)
    upper = np.maximum(publishable(value + above, sensor, table), value)
    # From a limit that is no multiple of the resolution, the next multiple is less than one resolution away.
    at_high, at_low = (value == high) & np.isfinite(lower), (value == low) & np.isfinite(upper)
    lower[at_high] = np.minimum(lower, np.maximum(value - resolution, low))[at_high]
    upper[at_low] = np.maximum(upper, np.minimum(value + resolution, high))[at_low]
    return lower, upper


def bands(
    value: Doubles,
    deviation: Doubles,
    sensor: Ints,
    table: SensorTable,
) -> tuple[Doubles, Doubles]:
    """The 90 % interval of each value of the closed form, rounded and limited as the value is.

    A blend of the closed form and the baseline has the form's band, moved to the blended value: never narrower than
    the form's. That is wide enough where the form's band is. An absolute error of a mixture is at most the mean of its
    parts' errors by their weights, and the baseline has a weight only while recent errors show the mixture to be no
    worse than the form alone. The deviation knows nothing of that, so the band is not made narrower either.

    Args:
        value: [n], sensor units, of the closed form or of a blend with it.
        deviation: [n], the closed form's standard deviation, sensor units; NaN where it is not known.
        sensor: [n].
        table: the model's sensors.

    Returns:
        Lower and upper, float64 [n]; NaN where the deviation is not known.
    """
    return reaching(value, np.stack([BAND * deviation] * 2, axis=1), sensor, table)


def publishable(
    value: NDArray[np.float64], sensor: NDArray[np.int32] | NDArray[np.int64], table: SensorTable
) -> NDArray[np.float64]:
    """Round to the sensor's resolution, because a model's last bits depend on the batch, and clip to its limits."""
    resolution = table.resolution[sensor]
    grid = np.where(resolution > 0, resolution, 1)
    with np.errstate(over="ignore"):
        steps = value / grid
    rounded = (resolution > 0) & (np.abs(steps) < _MOST_STEPS)
    value = np.where(rounded, np.rint(np.where(rounded, steps, 0)) * grid, value)
    parts = np.where(rounded, table.parts[sensor], 0.0)  # 214 / 10 is 21.4, and 214 * 0.1 is 21.400000000000002
    value = np.where(parts > 0, np.rint(value * parts) / np.maximum(parts, 1.0), value)
    return np.clip(value, table.low[sensor], table.high[sensor])


def possible_range(
    window: NDArray[np.int32] | NDArray[np.int64],
    sensor: NDArray[np.int32] | NDArray[np.int64],
    table: SensorTable,
    limits: Limits | None,
) -> tuple[Doubles, Doubles]:
    """The lowest and highest value that a filled cell [n] may have: by its sensor, and by the limits of its window."""
    low, high = table.low[sensor], table.high[sensor]
    if limits is None:
        return low, high
    return np.maximum(low, limits.lowest[window, sensor]), np.minimum(high, limits.highest[window, sensor])
