"""The transformations that a data set allows, with their constants from the training rows."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.phase import Phase
from glaim_stream.form.series import FormSeries, FormWindows
from glaim_stream.form.transform import LEAST_CELLS, Transform, deviations

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

PLAIN, PROFILE, LOGARITHM, BOTH, BY_WINDOW = "plain", "profile", "logarithm", "logarithm+profile", "window's scale"
_FULL_PERIODS = 3
_LEAST_RATIO = 1.5  # ratio of the largest to the smallest value; below it, a logarithm is a line
_UNLIKE = 3.0  # ratio of two groups' deviations above which every window has its own scale
_TINY = 1e-6  # scale of a constant sensor, as a share of its value, or of 1 if the value is 0
_CALM_SHARE = 0.005  # share of the training windows that are calmer than the calmest that counts


def transforms(series: FormSeries, windows: FormWindows, phase: Phase | None, meters: Bools) -> dict[str, Transform]:
    """Return the transformations by name, the plain one first.

    Args:
        series: training rows.
        windows: training windows.
        phase: phase of the profile; None if the step has none.
        meters: bool [C], sensors that only rise. They get neither a profile of the day nor a logarithm.
    """
    plain, unlike = _scaled(np.zeros(series.values.shape[1], np.bool_), windows)
    found = {PLAIN: plain}
    long_enough = phase is not None and series.steps * series.step_ms >= _FULL_PERIODS * phase.period_ms
    if phase is not None and long_enough:
        found[PROFILE] = dataclasses.replace(plain, profile=_profile(series, plain, phase, meters))
    growing = _growing(series) & ~meters
    if growing.any():
        found[LOGARITHM] = _scaled(growing, windows)[0]
        if phase is not None and long_enough:
            profile = _profile(series, found[LOGARITHM], phase, meters)
            found[BOTH] = dataclasses.replace(found[LOGARITHM], profile=profile)
    if unlike:
        found[BY_WINDOW] = dataclasses.replace(plain, by_window=True)
    return found


def _growing(series: FormSeries) -> Bools:
    """Sensors [C] with positive values only, over a range in which a logarithm differs from a line."""
    least = series.values.min(axis=(0, 2), where=series.observed, initial=np.inf)
    most = series.values.max(axis=(0, 2), where=series.observed, initial=0.0)
    growing: Bools = (least > 0) & (most > _LEAST_RATIO * least)
    return growing


def _scaled(logarithm: Bools, windows: FormWindows) -> tuple[Transform, bool]:
    """A transformation without profile, and whether groups differ so much that each window needs its own scale."""
    unit = np.ones(len(logarithm))
    bare = Transform(logarithm, unit * 0, unit * 0, unit, unit * 0, unit * np.inf)
    values, _ = bare.forward(windows.values, windows.observed, None)
    own, count = deviations(values, windows.observed)
    valid = count >= LEAST_CELLS
    scale, calmest, wildest, unlike = unit.copy(), unit * 0, unit * 0, False
    for sensor in range(len(unit)):
        rows = np.flatnonzero(valid[:, sensor])
        if not len(rows) or not own[rows, sensor].any():
            seen = values[:, sensor][windows.observed[:, sensor]]
            scale[sensor], moves = _rough_scale(own[:, sensor], count[:, sensor], seen)
            wildest[sensor] = np.inf if moves else 0.0
            continue
        groups, place = np.unique(windows.group[rows], return_inverse=True)
        square = np.bincount(place, own[rows, sensor] ** 2) / np.bincount(place)
        by_group = np.sqrt(square[square > 0])
        unlike |= len(groups) > 1 and bool(by_group.max() > _UNLIKE * by_group.min())
        scale[sensor] = float(np.median(by_group))
        calmest[sensor] = np.quantile(own[rows, sensor], _CALM_SHARE)
        wildest[sensor] = own[rows, sensor].max()
    chosen = logarithm[:, None] & windows.observed
    low = np.where(logarithm, values.min(axis=(0, 2), where=chosen, initial=np.inf), 0.0)
    high = np.where(logarithm, values.max(axis=(0, 2), where=chosen, initial=-np.inf), 0.0)
    return Transform(logarithm, low, high, scale, calmest, wildest), unlike


def _rough_scale(own: Doubles, count: Ints, seen: Doubles) -> tuple[float, bool]:
    """The scale of a sensor without a window of `LEAST_CELLS` differing readings, and whether it moves at all.

    The scale of a slow sensor is the deviation of its few readings within windows, or else of all its readings. No
    window has a deviation that could be called far from the others.

    Args:
        own: [n], the sensor's deviation in each window.
        count: [n], the number of its readings in each window.
        seen: all its readings.
    """
    several = count > 1
    freedom = (count[several] - 1).sum()
    square = float((count[several] * np.square(own[several])).sum() / freedom) if freedom else 0.0
    rough = float(np.sqrt(square)) or (float(seen.std()) if len(seen) else 0.0)
    largest = float(np.abs(seen).max(initial=0.0))
    if rough > _TINY * largest:
        return rough, True
    return (max(_TINY * (largest or 1.0), 1e-300) if len(seen) else 1.0), False


def _profile(series: FormSeries, transform: Transform, phase: Phase, meters: Bools) -> Doubles:
    """Mean of the sensors' values by bin [C, bins], less the mean of their day (or year), in scales."""
    times = series.times_ms
    bins, period = phase.of(times), phase.number_of(times)
    period -= period.min()
    groups, sensors, _ = series.values.shape
    bare = dataclasses.replace(transform, calmest=transform.calmest * 0, wildest=transform.wildest + np.inf)
    total, count = np.zeros((sensors, phase.bins)), np.zeros((sensors, phase.bins))
    for group in range(groups):
        values, _ = bare.forward(series.values[[group]], series.observed[[group]], None)
        for sensor in range(sensors):
            seen = series.observed[group, sensor]
            by_period = np.bincount(period[seen], minlength=period.max() + 1)
            level = np.bincount(period[seen], values[0, sensor, seen], len(by_period)) / np.maximum(by_period, 1)
            # A day with few readings has no level to compare them with.
            whole = seen & (by_period >= by_period.max() / 2)[period]
            centred = values[0, sensor, whole] - level[period[whole]]
            total[sensor] += np.bincount(bins[whole], centred, phase.bins)
            count[sensor] += np.bincount(bins[whole], minlength=phase.bins)
    mean = total / (count + 2.0)  # counts two more readings at the mean, so that few readings make no profile
    smooth = (np.roll(mean, 1, axis=1) + 2.0 * mean + np.roll(mean, -1, axis=1)) / 4.0
    profile: Doubles = np.where(meters[:, None], 0.0, smooth - smooth.mean(axis=1, keepdims=True))
    return profile
