"""The level of a sensor that is silent in a part of a window, where many sensors make the form cover parts alone.

Its last value before the part is one choice, what the levels of the other sensors in the part say is the other. Many
sensors tell a daily swing better than a value of hours ago does, but nothing of a sensor that goes its own way, so
validation windows decide.
"""

from __future__ import annotations

import dataclasses

from glaim_stream.form.form import ClosedForm
from glaim_stream.form.search import Validation, form_error


def choose_levels(form: ClosedForm, validation: Validation | None) -> ClosedForm:
    """Return the form, or the one whose silent parts take their levels from other sensors if its error is lower."""
    if validation is None or form.span == form.steps:
        return form
    validation.choices += 1
    other = dataclasses.replace(form, carried_levels=False)
    return min((form, other), key=lambda each: form_error(each, validation))
