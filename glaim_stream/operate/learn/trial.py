"""The trial of a new closed form on the newest rows, which neither it nor the form in use has seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glaim_stream.core.angles import differences
from glaim_stream.form import (
    CASES,
    INTERPOLATION,
    LAST_VALUE,
    ClosedForm,
    FormSeries,
    Kind,
    are,
    carried_value,
    interpolation,
    rows_needed,
    stream_gaps,
)

MOST_WINDOWS = 512
_SHARE = 0.1  # share of the rows held out: at least a window, at most two, because the form learns nothing of them

Errors = dict[str, dict[str, float]]  # mean squared errors by method and case, in squared deviations


def held_out(series: FormSeries, steps: int, seen_until_ms: int | None) -> int:
    """Return the number of newest rows for a trial. With fewer than `steps`, also below 0, there can be none.

    Args:
        series: all rows.
        steps: T, steps of a window.
        seen_until_ms: end of the rows that the form in use has seen; None if unknown, or without such a form.
    """
    wanted = max(steps, min(2 * steps, int(_SHARE * series.steps)))
    room = series.steps - rows_needed(steps)
    if seen_until_ms is not None:
        room = min(room, (series.start_ms - seen_until_ms) // series.step_ms + series.steps)
    return min(wanted, room)


def errors_of(forms: Mapping[str, ClosedForm], series: FormSeries, held: int, steps: int) -> Errors:
    """Return the errors of closed forms, interpolation and last value at hidden cells of the newest rows.

    Windows may begin before these rows, but no cell is hidden there. All methods are scored at the same cells. Where a
    form declines, interpolation fills, as in the stream. States, directions, and meters that are reset in a window do
    not count, unless there is nothing else: half a valve has the smaller squared error, and means nothing. Directions
    are then filled and scored by the shorter way.

    Args:
        forms: closed forms by the name of the method; the first one knows the sensors' kinds.
        series: all rows.
        held: number of the newest rows that no form has seen.
        steps: T, steps of a window.
    """
    windows = series.rows(max(0, series.steps - held - steps + 1), series.steps).windows(steps, MOST_WINDOWS)
    since_ms = series.start_ms + (series.steps - held) * series.step_ms
    times_ms = windows.end_ms[:, None] - series.step_ms * np.arange(steps - 1, -1, -1)
    unit = series.rows(0, series.steps - held).deviations()[windows.group][:, :, None]
    first = next(iter(forms.values()), None)
    apart = None if first is None else first.unmixable(windows.values, windows.observed)
    counted = np.True_ if apart is None or apart.all() else ~apart[:, :, None]
    direction = np.zeros(windows.values.shape[1], np.bool_) if first is None else are(first.kinds, Kind.ANGLE)
    errors: Errors = {name: {} for name in (*forms, INTERPOLATION, LAST_VALUE)}
    for case in CASES:
        hidden = stream_gaps(case, windows.observed) & (times_ms >= since_ms)[:, None, :]
        seen = windows.observed & ~hidden
        last, line = carried_value(windows.values, seen), interpolation(windows.values, seen, direction)
        scored = hidden & np.isfinite(last) & counted
        if not scored.any():
            continue
        answers = {INTERPOLATION: line, LAST_VALUE: last}
        for name, form in forms.items():
            mean = form.fill(windows.values, seen, windows.end_ms, with_deviation=False).mean
            answers[name] = np.where(np.isfinite(mean), mean, line)
        for name, answer in answers.items():
            off = differences(answer, windows.values, direction[:, None]) / unit
            errors[name][case] = float(np.mean(np.square(off)[scored]))
    return errors


def better(errors: Errors, one: str, other: str) -> bool:
    """Whether a method has the smaller error, in the geometric mean of the cases.

    Cases in which both errors are infinite do not tell them apart: a reading of 1e200 has no square.
    """
    cases = {case: (error, errors[other][case]) for case, error in errors[one].items()}
    told = [pair for pair in cases.values() if not np.isinf(pair).all()]
    ratios = [np.log(mine + 1e-12) - np.log(theirs + 1e-12) for mine, theirs in told]
    return bool(ratios) and float(np.mean(ratios)) < 0.0
