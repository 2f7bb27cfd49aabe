"""A closed form fitted to the series of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError
from glaim_stream.form import DAY_MS, ClosedForm, Report, fit, phase_for, refused_if_unsolvable
from glaim_stream.tables.groups import Group

Doubles = NDArray[np.float64]

# An offline fill knows past and future, so short windows suffice: at 800 to 3,000 rows, windows of 16 to 32 steps
# have half the error of 48, whose covariance has more numbers than so few rows determine. At 10,000 rows of 12 sensors,
# 32, 48 and 96 have the same error within 2 %, and 32 take an eighth of the time of 96.
_LONGEST_WINDOW = 32  # steps
_SHORTEST_WINDOW = 8
_USUAL_WINDOW = 12  # least steps, if there are enough rows
_ROWS_A_STEP = 40
_MOST_WINDOW_CELLS = 400  # most C * T of windows longer than usual
_WINDOWS = 4  # windows that the rows must fill: with fewer, the fit has no validation
_LEAST_READINGS = 16  # readings of each sensor in the form
_MOST_CELLS = 20_000_000  # cells of the series that a form is fitted to: 160 MB
MOST_TOGETHER = 40  # sensors that share a form
_CLUSTER = 40  # most sensors of a cluster; a fit takes about as long for 16 as for 40
_MOST_STEPS = 20_000  # newest steps of a group that correlations are computed from


def window_length(groups: Sequence[Group], sensors: int) -> int:
    """Return the number of steps of a window for these groups; 0 if their series are too short."""
    rows = [len(each.times_ms) for each in groups]
    longest = min(_LONGEST_WINDOW, max(_USUAL_WINDOW, _MOST_WINDOW_CELLS // max(sensors, 1)))
    length = min(max(_USUAL_WINDOW, sum(rows) // _ROWS_A_STEP), longest, max(rows, default=0) // _WINDOWS)
    return length if length >= _SHORTEST_WINDOW else 0


def _rows(groups: Sequence[Group], step_ms: int | None) -> int:
    return max((len(each.times_ms) for each in groups), default=0) if step_ms else 0


def fit_form(
    groups: Sequence[Group],
    series: Sequence[Doubles],
    sensors: Sequence[str],
    step_ms: int | None,
    timezone: str,
) -> tuple[ClosedForm, Report]:
    """Fit a closed form to the readings of sensors.

    The form leaves out sensors that are constant or have hardly any readings.

    Args:
        groups: groups on even grids with the same step.
        series: readings of each group, float64 [C, N]; NaN where no reading counts.
        sensors: names of the C sensors.
        step_ms: step of the groups; None where none has two steps.
        timezone: time zone of daily habits.

    Raises:
        ModelError: there are too few rows or readings, or they are too far apart for the arithmetic; the message says
            which.
    """
    length = window_length(groups, len(sensors))
    if not length or step_ms is None:
        raise ModelError(f"a closed form needs {_WINDOWS * _SHORTEST_WINDOW} rows, found {_rows(groups, step_ms)}")
    spread = spread_of(series, len(sensors))
    readings = sum((~np.isnan(each)).sum(axis=1) for each in series)
    places = np.flatnonzero((readings >= _LEAST_READINGS) & (spread > 0)).tolist()
    if not places:
        raise ModelError(f"a closed form needs a sensor with {_LEAST_READINGS} readings that differ, found none")
    values, start_ms = _on_one_axis(groups, [each[places] for each in series], step_ms)
    observed = ~np.isnan(values)
    with np.errstate(all="ignore"):
        fitted = fit(
            np.where(observed, values, 0.0),
            observed,
            start_ms=start_ms,
            step_ms=step_ms,
            sensors=[sensors[place] for place in places],
            steps=length,
            timezone=timezone,
        )
        with refused_if_unsolvable():
            for variant in fitted.form.variants:
                variant.inverted()
    return fitted.form, fitted.report


def _on_one_axis(groups: Sequence[Group], series: Sequence[Doubles], step_ms: int) -> tuple[Doubles, int]:
    """Series of all groups as one array [g, C, N], and the time of its first step.

    Groups of different years are moved by whole days, or years for slow data, so that the array has few empty steps.
    If there are very many groups, only every second, third, ... one is used.
    """
    longest = max(each.shape[1] for each in series)
    starts = np.array([int(each.times_ms[0]) for each in groups if len(each.times_ms)])
    ends = np.array([int(each.times_ms[-1]) for each in groups if len(each.times_ms)])
    series = [each for each in series if each.shape[1]]
    if (ends.max() - starts.min()) // step_ms + 1 > 2 * longest:
        phase = phase_for(step_ms, "UTC")
        period_ms = phase.period_ms if phase is not None else DAY_MS
        starts = starts + (ends.max() - ends) // period_ms * period_ms
    first = np.rint((starts - starts.min()) / step_ms).astype(np.int64)
    total = int(max(at + each.shape[1] for at, each in zip(first, series, strict=True)))
    every = max(1, -(-total * sum(map(len, series)) // _MOST_CELLS))
    chosen = range(0, len(series), every)
    out = np.full((len(chosen), len(series[0]), total), np.nan)
    for row, number in enumerate(chosen):
        out[row, :, first[number] : first[number] + series[number].shape[1]] = series[number]
    most = max(1, _MOST_CELLS // max(1, len(chosen) * len(series[0])))
    cut = max(0, total - most)  # the newest steps of a single, very long group
    return out[:, :, cut:], int(starts.min()) + cut * step_ms


def spread_of(series: Sequence[Doubles], sensors: int) -> Doubles:
    """Deviation of each sensor's readings around their mean [C]; 0 where they are constant or absent."""
    out = np.zeros(sensors)
    for place in range(sensors):
        seen = [values[place][~np.isnan(values[place])] for values in series]
        readings = np.concatenate(seen) if seen else np.zeros(0)
        if len(readings) and readings.min() < readings.max():
            out[place] = readings.std()
    return out


def clusters_of(series: Sequence[Doubles]) -> list[list[int]]:
    """Divide sensors into clusters of about equal size, each around the sensor most correlated with the rest.

    A form for hundreds of sensors at once would take minutes and gigabytes.

    Args:
        series: readings of each group, float64 [C, N]; NaN where missing.
    """
    count = len(series[0])
    if count <= MOST_TOGETHER:
        return [list(range(count))]
    strength = _correlations(series)
    most = -(-count // -(-count // _CLUSTER))
    free, found = list(range(count)), []
    while free:
        rest = np.array(free)
        first = rest[strength[np.ix_(rest, rest)].sum(axis=1).argmax()]
        nearest = rest[np.argsort(-strength[first, rest], kind="stable")][:most]
        found.append(sorted(nearest.tolist()))
        free = [place for place in free if place not in found[-1]]
    return found


def _correlations(series: Sequence[Doubles]) -> Doubles:
    """Absolute correlations [C, C] of standardised readings, over steps with readings of both sensors."""
    count = len(series[0])
    products, pairs = np.zeros((count, count)), np.zeros((count, count))
    for values in series:
        recent = values[:, -_MOST_STEPS:]
        seen = ~np.isnan(recent)
        number = np.maximum(seen.sum(axis=1, keepdims=True), 1)
        centred = np.where(seen, recent, 0.0)
        centred = np.where(seen, centred - centred.sum(axis=1, keepdims=True) / number, 0.0)
        scale = np.sqrt(np.square(centred).sum(axis=1, keepdims=True) / number)
        standard = np.where(scale > 0, centred / np.where(scale > 0, scale, 1.0), 0.0)
        products += standard @ standard.T
        pairs += seen.astype(np.float64) @ seen.T.astype(np.float64)
    strength: Doubles = np.abs(products) / np.maximum(pairs, 1.0) + 2.0 * np.eye(count)  # each is its own nearest
    return strength
