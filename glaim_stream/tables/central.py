"""Answers of forms for long series: each hole is filled from the window whose middle is nearest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.groups import Form

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

_PARTS = 4  # windows begin every quarter of a window, so that at least 3/8 of one lie on both sides of a hole
_WINDOWS_AT_A_TIME = 128


def answers_of_all(
    forms: Sequence[Form], sensors: Sequence[str], values: Doubles, start_ms: int, wanted: Bools
) -> tuple[Doubles, Doubles]:
    """Return means and deviations [C, N] of several forms in wanted cells; NaN elsewhere and where a form declines.

    Args:
        forms: forms in order; a later one answers for the sensors that it shares with an earlier one.
        sensors: names of the C sensors.
        values: float64 [C, N], sensor units; NaN where missing.
        start_ms: time of the first step.
        wanted: bool [C, N], cells to answer.
    """
    places = {name: place for place, name in enumerate(sensors)}
    mean, deviation = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    owner = {name: number for number, form in enumerate(forms) for name in form.sensors}
    for number, form in enumerate(forms):
        rows = [row for row, name in enumerate(form.sensors) if name in places]
        ours = [places[form.sensors[row]] for row in rows]
        own = np.array([owner[form.sensors[row]] == number for row in rows], np.bool_)[:, None]
        if (wanted[ours] & own).any():
            known = np.full((len(form.sensors), values.shape[1]), np.nan)
            asked = np.zeros(known.shape, np.bool_)
            known[rows], asked[rows] = values[ours], wanted[ours] & own
            found = answers(form, known, start_ms, asked)
            mean[ours] = np.where(own, found[0][rows], mean[ours])
            deviation[ours] = np.where(own, found[1][rows], deviation[ours])
    return mean, deviation


def answers(form: Form, values: Doubles, start_ms: int, wanted: Bools) -> tuple[Doubles, Doubles]:
    """Return means and deviations [C, N] of a form in wanted cells; NaN elsewhere and where it declines.

    Args:
        form: form of C sensors.
        values: float64 [C, N], sensor units; NaN where missing.
        start_ms: time of the first step.
        wanted: bool [C, N], cells to answer; none of them has a value.
    """
    sensors, steps = values.shape
    length = form.steps
    ahead = max(0, length - steps)  # a short series ends with its window, whose first steps are empty
    if ahead:
        values = np.concatenate([np.full((sensors, ahead), np.nan), values], axis=1)
        wanted = np.concatenate([np.zeros((sensors, ahead), np.bool_), wanted], axis=1)
        start_ms -= ahead * form.step_ms
    last = values.shape[1] - length
    starts = np.unique(np.append(np.arange(0, last, max(1, length // _PARTS)), last))
    middles = (starts[:-1] + starts[1:] + length) // 2  # steps from here on are nearer to the next window's middle
    first, end = np.append(0, middles), np.append(middles, values.shape[1])
    needed = np.array([bool(wanted[:, a:b].any()) for a, b in zip(first, end, strict=True)])
    mean, deviation = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    todo = np.flatnonzero(needed)
    for batch in range(0, len(todo), _WINDOWS_AT_A_TIME):
        which = todo[batch : batch + _WINDOWS_AT_A_TIME]
        place = starts[which, None] + np.arange(length)
        windows = np.ascontiguousarray(values[:, place].transpose(1, 0, 2))
        observed = ~np.isnan(windows)
        with np.errstate(all="ignore"):
            filled = form.fill(
                np.where(observed, windows, 0.0), observed, start_ms + (starts[which] + length - 1) * form.step_ms
            )
        for number, window in enumerate(which):
            steps_of = slice(first[window], end[window])
            inside = slice(first[window] - starts[window], end[window] - starts[window])
            known = wanted[:, steps_of] & np.isfinite(filled.mean[number, :, inside])
            mean[:, steps_of][known] = filled.mean[number, :, inside][known]
            deviation[:, steps_of][known] = filled.deviation[number, :, inside][known]
    return mean[:, ahead:], deviation[:, ahead:]
