"""Habits in the file of the closed form: one file, one digest, one manifest entry, so both always have the same age.

Readers of forms that know no habits ignore these arrays, and the form's own digest does not include them. The estimates
by the other sensors are not stored, because they follow from the form.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm, artefact
from glaim_stream.health.estimates import estimates_of
from glaim_stream.health.habits import DETECTORS, Habits, learn
from glaim_stream.health.live import LiveHabits
from glaim_stream.health.runs import MOST_RESTING
from glaim_stream.health.series import GridSeries
from glaim_stream.health.statistics import Units

Arrays = Mapping[str, NDArray[Any]]

_PREFIX = "health."
_SCHEMA = 1
_DRIFT = 2  # generation of the drift threshold; habits of another generation are used without drift
_CLOCK = 1  # habits without this mark were learned without stamps, and are used without the clock
_PER_SENSOR = ("longest_rest", "lowest", "highest")
log = logging.getLogger(__name__)


def form_with_habits(form: ClosedForm, groups: Sequence[GridSeries]) -> tuple[bytes, str]:
    """Learn habits for a closed form.

    Args:
        form: the new form.
        groups: readings without known faults, each with the form's sensors.

    Returns:
        Content of the form's file, and the reason if it has no habits, else "".
    """
    try:
        habits = learn(groups, form.sensors, form=form)
    except ModelError as error:
        return form.to_bytes(), str(error)
    return with_habits(form.to_bytes(), habits), ""


def with_habits(form: bytes, habits: Habits | None) -> bytes:
    """Return the content of a closed form's file with its habits replaced by these; None removes them."""
    arrays = {name: array for name, array in artefact.from_bytes(form, "the form").items() if not _is_ours(name)}
    return artefact.to_bytes(arrays if habits is None else arrays | pack(habits))


def pack(habits: Habits) -> artefact.Arrays:
    """Return habits as arrays, from which `unpack` restores them."""
    groups = list(habits.levels)
    resting = np.full((len(habits.sensors), MOST_RESTING), np.nan)
    for sensor, values in enumerate(habits.resting):
        resting[sensor, : len(values)] = values
    text = {
        "schema": _SCHEMA,
        "sensors": list(habits.sensors),
        "step_ms": habits.step_ms,
        "groups": groups,
        "drift": _DRIFT,
        "clock": _CLOCK,
    }
    arrays = {
        "text": np.frombuffer(json.dumps(text).encode(), np.uint8),
        "levels": np.array([habits.levels[each] for each in groups]),
        "judged": np.array([habits.judged[each] for each in groups]),
        "resting": resting,
        "resting_count": np.array([len(each) for each in habits.resting], np.int64),
        "units.peak": habits.units.peak,
        "units.bend": habits.units.bend,
        **{name: getattr(habits, name) for name in _PER_SENSOR},
        **{f"unit.{name}": habits.unit[name] for name in DETECTORS},
        **{f"threshold.{name}": habits.threshold[name] for name in DETECTORS},
        "residual_unit": np.full(len(habits.sensors), np.inf if habits.estimates is None else 1.0),
    }
    return {_PREFIX + name: array for name, array in arrays.items()}


def unpack(arrays: Arrays, form: ClosedForm) -> Habits | None:
    """Return the habits among the arrays of a form's file; None if there are none.

    Args:
        arrays: arrays of the file.
        form: form that the arrays belong to.

    Raises:
        ModelError: the habits are incomplete, of another schema, or of other sensors than the form's.
    """
    mine = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if _is_ours(name)}
    if not mine:
        return None
    try:
        text = json.loads(mine["text"].tobytes())
        if text["schema"] != _SCHEMA:
            raise ModelError(f"expected habits of schema {_SCHEMA}, found {text['schema']!r}")
        if (tuple(text["sensors"]), text["step_ms"]) != (form.sensors, form.step_ms):
            raise ModelError("expected habits of the closed form's sensors and step, found others")
        count, groups = len(form.sensors), text["groups"]
        expected: dict[str, tuple[int, ...]] = {name: (len(groups), count) for name in ("levels", "judged")}
        expected |= {"resting": (count, MOST_RESTING), "resting_count": (count,)}
        for name, array in mine.items():
            shape = expected.get(name, array.shape if name == "text" else (count,))
            if array.shape != shape:
                raise ModelError(f"expected habits with {name} of shape {shape}, found {array.shape}")
        threshold = {name: mine[f"threshold.{name}"] for name in DETECTORS}
        for detector, generation in (("drift", _DRIFT), ("clock", _CLOCK)):
            if text.get(detector) != generation:
                threshold[detector] = np.full(count, np.inf)
        return Habits(
            sensors=form.sensors,
            step_ms=form.step_ms,
            levels=dict(zip(groups, mine["levels"], strict=True)),
            judged=dict(zip(groups, mine["judged"], strict=True)),
            resting=[row[:used] for row, used in zip(mine["resting"], mine["resting_count"].tolist(), strict=True)],
            units=Units(mine["units.peak"], mine["units.bend"]),
            estimates=estimates_of(form) if np.isfinite(mine["residual_unit"]).any() else None,
            unit={name: mine[f"unit.{name}"] for name in DETECTORS},
            threshold=threshold,
            **{name: mine[name] for name in _PER_SENSOR},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"the habits in a closed form's file do not fit one another: {error!r}") from error


def _is_ours(name: str) -> bool:
    return name.startswith(_PREFIX)


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
