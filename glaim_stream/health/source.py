"""The habits beside the closed forms in use, which may change while a worker runs."""

from __future__ import annotations

import logging
from typing import Protocol

from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm, artefact
from glaim_stream.health.live import LiveHabits
from glaim_stream.health.stored import unpack

log = logging.getLogger(__name__)


class Forms(Protocol):
    """The closed forms in use."""

    def form_of(self, model: str) -> ClosedForm | None:
        """The closed form of a model, None where it has none."""
        ...

    def beside(self, model: str) -> artefact.Arrays:
        """Arrays in the form's file besides the form."""
        ...


class HabitsSource:
    """The habits by which each model's sensors are currently judged."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._known: dict[str, tuple[ClosedForm, LiveHabits | None]] = {}

    def __deepcopy__(self, memo: object) -> HabitsSource:
        return self

    def of(self, model: str) -> LiveHabits | None:
        """The habits beside the model's closed form; None if it has no form, or no usable habits."""
        form = self._forms.form_of(model)
        if form is None:
            return None
        known = self._known.get(model)
        if known is None or known[0] is not form:
            known = self._known[model] = form, self._read(model, form)
        return known[1]

    def _read(self, model: str, form: ClosedForm) -> LiveHabits | None:
        try:
            habits = unpack(self._forms.beside(model), form)
        except ModelError as error:
            log.warning("model %s: the health of its sensors is not judged: %s", model, error)
            return None
        if habits is None:
            log.info("model %s: its closed form has no habits, so the health of its sensors is not judged", model)
            return None
        log.info("model %s: the health of its sensors is judged by the habits beside its closed form", model)
        return LiveHabits(habits)
