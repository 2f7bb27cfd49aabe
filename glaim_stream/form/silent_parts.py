"""The level of a sensor that is silent in a part of a window; with many sensors the form covers only parts.

One choice is its last value before the part, the other the level expected from the other sensors in the part. Many
sensors show a daily swing better than a value of hours ago does, but say nothing about a sensor that goes its own way,
so validation windows decide.
"""

from __future__ import annotations

import dataclasses

from glaim_stream.form.form import ClosedForm
from glaim_stream.form.search import Validation, form_error


def choose_levels(form: ClosedForm, validation: Validation | None) -> ClosedForm:
    """Return the form, or if its error is lower, the form whose silent parts take their levels from other sensors."""
    if validation is None or form.span == form.steps:
        return form
    validation.choices += 1
    other = dataclasses.replace(form, carried_levels=False)
    return min((form, other), key=lambda each: form_error(each, validation))
