"""Whether the newest steps of windows are filled from the recent half of the window alone.

Older readings say little about the newest steps, and what the covariance claims they say is partly noise. Without them
an answer costs about half. On series with long habits and much data they are worth it nevertheless, so validation
windows decide.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from glaim_stream.imputers.gaussian.form import ClosedForm
from glaim_stream.imputers.gaussian.search import CONSTANTS, Validation, log_error

Doubles = NDArray[np.float64]

_LEAST = 48  # steps; shorter windows cost little


def with_recent(form: ClosedForm) -> ClosedForm:
    """Return a closed form that fills its newest steps from the recent half, or the form itself if it is too short."""
    recent = max(_LEAST, form.span // 2)
    if recent >= form.span:
        return form
    return dataclasses.replace(form, variants=tuple(each.filled_from(recent) for each in form.variants))


def choose_recent(form: ClosedForm, validation: Validation | None) -> ClosedForm:
    """Return `with_recent`, or the form itself where that has the lower error at the newest steps.

    Without validation windows there are few rows, and the noise of a covariance from few rows is large.
    """
    shorter = with_recent(form)
    if validation is None or shorter is form:
        return shorter
    validation.choices += 1
    loss = log_error(_errors(shorter, validation)) - log_error(_errors(form, validation))
    return form if loss > -np.log(1.0 - CONSTANTS.least_whole_gain) else shorter


def _errors(form: ClosedForm, validation: Validation) -> dict[str, Doubles]:
    """Errors by case at the hidden cells of the newest steps, in units; NaN counts as 1 unit."""
    windows, newest, found = validation.windows, _LEAST // 2, {}
    for case, hidden in validation.hidden.items():
        filled = form.fill(windows.values, windows.observed & ~hidden, windows.end_ms, newest=newest)
        error = (filled.mean - windows.values[:, :, -newest:]) / validation.unit[:, :, None]
        found[case] = np.nan_to_num(error[hidden[:, :, -newest:]], nan=1.0)
    return found
