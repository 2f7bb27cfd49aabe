"""Chooses whether the newest steps of windows are filled from the recent half of the window only.

Older readings say little about the newest steps, and their covariance with them is partly noise. Without them an answer
costs about half. On series with long habits and much data they are still worth it, so validation windows decide.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.form import ClosedForm
from glaim_stream.form.search import CONSTANTS, Validation, form_error

Doubles = NDArray[np.float64]

_LEAST = 48  # steps; shorter windows cost little


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
