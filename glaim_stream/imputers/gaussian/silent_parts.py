"""The level of a sensor that is silent in a part of a window, where many sensors make the form cover parts alone.

Its last value before the part is one choice, what the levels of the other sensors in the part say is the other. Many
sensors tell a daily swing better than a value of hours ago does, but nothing of a sensor that goes its own way, so
validation windows decide.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from glaim_stream.imputers.gaussian.form import ClosedForm
from glaim_stream.imputers.gaussian.search import Validation, log_error


def choose_levels(form: ClosedForm, validation: Validation | None) -> ClosedForm:
    """Return the form, or the one whose silent parts take their levels from other sensors if its error is lower."""
    if validation is None or form.span == form.steps:
        return form
    validation.choices += 1
    other = dataclasses.replace(form, carried_levels=False)
    return min((form, other), key=lambda each: _error(each, validation))


def _error(form: ClosedForm, validation: Validation) -> float:
    """The weighted mean logarithm of squared errors at the hidden cells; NaN counts as 1 unit."""
    windows, found = validation.windows, {}
    for case, hidden in validation.hidden.items():
        filled = form.fill(windows.values, windows.observed & ~hidden, windows.end_ms)
        error = (filled.mean - windows.values) / validation.unit[:, :, None]
        found[case] = np.nan_to_num(error[hidden], nan=1.0)
    return log_error(found)
