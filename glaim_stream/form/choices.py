"""Variants of a fitted form that validation windows choose.

**Dark steps** get the last value or the line. All sensors of a validation window are hidden at the same steps, at its
end or before its newest readings. For each place and class of distance the fit chooses the method with the lower
product of mean absolute error and root mean squared error, in deviations of the sensor.

**The newest steps** may be filled from the recent half of the window only. Older readings say little about them, and
their covariance with them is partly noise. Without them an answer costs about half. On series with long habits and much
data they are still worth it.

**The level of a sensor that is silent in a part of a window** is its last value before the part, or the level expected
from the other sensors in the part. With many sensors the form covers only parts. Many sensors show a daily swing better
than a value of hours ago does, but say nothing about a sensor that goes its own way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.dark_steps import DISTANCES, NEWEST_PART, DarkSteps, places
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.kinds import carries, differences, simple_value
from glaim_stream.form.search import CONSTANTS, Validation, form_error

_LEAST = 48  # steps; shorter windows cost little
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_LENGTHS = (1, 2, 4, 8, 16)  # steps of a gap
_MOST_AFTER = 8  # steps with readings between a gap and the window's end
_LEAST_CELLS = 100  # hidden cells from which a class has a choice of its own
_SEED = 20_261


def choose_levels(form: ClosedForm, validation: Validation | None) -> ClosedForm:
    """Return the form, or if its error is lower, the form whose silent parts take their levels from other sensors."""
    if validation is None or form.span == form.steps:
        return form
    validation.choices += 1
    other = dataclasses.replace(form, carried_levels=False)
    return min((form, other), key=lambda each: form_error(each, validation))


def with_recent(form: ClosedForm) -> ClosedForm:
    """Return a form that fills its newest steps from the recent half; the form itself if its windows are too short."""
    recent = max(_LEAST, form.span // 2)
    if recent >= form.span:
        return form
    return dataclasses.replace(form, variants=tuple(each.filled_from(recent) for each in form.variants))


def choose_recent(form: ClosedForm, validation: Validation | None) -> ClosedForm:
    """Return `with_recent`, or the form itself if it has the lower error at the newest steps.

    Without validation windows there are few rows, and a covariance from few rows is noisy.
    """
    shorter = with_recent(form)
    if validation is None or shorter is form:
        return shorter
    validation.choices += 1
    newest = _LEAST // 2
    loss = form_error(shorter, validation, newest) - form_error(form, validation, newest)
    return form if loss > -np.log(1.0 - CONSTANTS.least_whole_gain) else shorter


def choose_dark(form: ClosedForm, validation: Validation) -> tuple[ClosedForm, int]:
    """Return the form with its choice, which is None if it keeps all answers, and the number of alternatives compared.

    A class of fewer than 100 hidden cells takes the choice of the class before it; the first one keeps the answer.
    """
    total, cells = _errors(form, validation)
    answer, simple = total[..., 0] * np.sqrt(total[..., 1])
    places = []
    for better, enough in zip((simple < answer).tolist(), (cells >= _LEAST_CELLS).tolist(), strict=True):
        chosen = [False]
        for each, known in zip(better, enough, strict=True):
            chosen.append(each if known else chosen[-1])
        places.append(tuple(chosen[1:]))
    dark = DarkSteps(*places)
    return dataclasses.replace(form, dark_steps=dark if any(dark.between + dark.after) else None), cells.size


def _errors(form: ClosedForm, validation: Validation) -> tuple[Doubles, Ints]:
    """Return sums of absolute and squared errors [answer or simple, place, distance, 2], and the numbers of cells."""
    windows, newest = validation.windows, form.steps // NEWEST_PART
    kept = slice(form.steps - newest, form.steps)
    factor = (validation.weight / validation.unit)[:, :, None]
    cells = np.zeros((2, len(DISTANCES) + 1), np.int64)
    total = np.zeros((2, *cells.shape, 2))
    for dark in _gaps(len(windows), form.steps):
        hidden = dark[:, None, :] & windows.observed
        seen = windows.observed & ~hidden
        usable = hidden & validation.unseen[:, None, :] & validation.counted
        usable &= ~carries(form.kinds, windows.values, seen)[:, :, None]
        answer = form.fill(windows.values, seen, windows.end_ms, newest=newest, with_deviation=False).mean
        simple = simple_value(form.kinds, windows.values, seen)[:, :, kept]
        usable = usable[:, :, kept] & np.isfinite(answer) & np.isfinite(simple)
        window, _, step = np.nonzero(usable)
        place, distance = (each[:, kept][window, step] for each in places(seen))
        np.add.at(cells, (place, distance), 1)
        for filled, of_method in zip((answer, simple), total, strict=True):
            error = np.abs(differences(form.kinds, filled, windows.values[:, :, kept]) * factor)
            np.add.at(of_method, (place, distance), np.stack([error, error**2], axis=-1)[usable])
    return total, cells


def _gaps(count: int, steps: int) -> Iterator[Bools]:
    """Yield the steps [n, T] to hide: gaps of each length, at the windows' end and before their newest readings."""
    rng, step = np.random.default_rng(_SEED), np.arange(steps)
    newest = steps // NEWEST_PART
    for length in _LENGTHS:
        if length < newest:
            yield np.broadcast_to(step >= steps - length, (count, steps))
            end = steps - rng.integers(1, min(_MOST_AFTER, newest - length) + 1, size=(count, 1))
            yield (step >= end - length) & (step < end)
