"""A row and the parts of its value, made again from its window, and the reasons for a difference from the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError, SettingsError
from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.form import ClosedForm, Kind, by_kind, with_directions
from glaim_stream.imputers import version_of
from glaim_stream.operate.explain.estimates import Estimate
from glaim_stream.operate.explain.parts import Answers, Parts, of_baseline, of_form, of_network
from glaim_stream.output import SensorTable, bands, possible_range, published

Doubles = NDArray[np.float64]

_SAME = 1e-9
ROUNDING = "rounding to the sensor's resolution and limits"
CORRECTION = "correction by the network"
OTHER_EXPERTS = "the other experts of the blend"
DIFFERENCE = "difference from the published value"
UNADAPTED = "the band is the closed form's own; a worker that probes widens or narrows it by recent errors"


@dataclass(frozen=True)
class Row:
    """The facts of a row, as it was published or as it would be."""

    value: float
    method: Method
    revision: int
    gap_age: int
    version: str = ""
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Explained:
    """A row with the parts of its value.

    recomputed: the value by its method today; None if it cannot be made again, as that of a blend.
    notes: sentences for the reader.
    """

    row: Row
    window: Estimate
    parts: Parts
    recomputed: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Means:
    """The sources of values: the closed form of the repository, the network, and the sensors' table.

    form: the closed form; None if the repository has none.
    network: makes the answers for one cell, by its lag; None without a network.
    network_version: version of `network`.
    """

    form: ClosedForm | None
    network: Callable[[int], Answers] | None
    network_version: str
    table: SensorTable

    @property
    def kinds(self) -> Sequence[Kind] | None:
        """Kinds of the sensors, by the catalogue or the closed form; None: all are numbers."""
        return with_directions(None if self.form is None else self.form.kinds, self.table.directions)

    def is_direction(self, sensor: int) -> bool:
        """Whether the sensor is a direction in degrees."""
        return self.kinds is not None and self.kinds[sensor] is Kind.ANGLE

    def possible(self, window: Estimate, sensor: int) -> tuple[Doubles, Doubles]:
        """The lowest and the highest value that a filled cell may have, [1] each."""
        limits = None
        if window.values is not None and window.observed is not None:
            of_form = None if self.form is None else (self.form.lowest, self.form.highest)
            values, observed = window.values[None], window.observed[None]
            limits = self.table.window_limits([of_form], self.kinds, of_form, values, observed)
        return possible_range(np.zeros(1, np.int64), np.array([sensor]), self.table, limits)


def explain_published(row: Row, window: Estimate, sensor: int, means: Means) -> Explained:
    """Explain a published value.

    Args:
        row: a row with a value that a method made.
        window: window of that row.
        sensor: place of the cell's sensor.
        means: the sources of values.

    Raises:
        ModelError: the method's model does not exist, or does not fill the cell.
        ImputerError: the network fails.
    """
    notes: list[str] = []
    form = None if means.form is None else of_form(means.form, window, sensor)
    if row.method is Method.GAUSSIAN or (row.method in (Method.MODEL, Method.BLEND) and form is not None):
        if form is None or means.form is None:
            raise ModelError(
                f"expected the closed form {row.version}, found "
                + ("none" if means.form is None else "one that declines")
            )
        own = version_of(means.form)
        if row.version.startswith("gaussian-") and row.version != own:
            notes.append(f"the value was made by {row.version}; the model repository has {own}")
        if row.method is not Method.GAUSSIAN:
            name = CORRECTION if row.method is Method.MODEL else OTHER_EXPERTS
            return Explained(row, window, form.completed(row.value, name), None, tuple(notes))
        return _compared(row, window, form, sensor, means, notes)
    if row.method is Method.MODEL:
        if means.network is None:
            raise ModelError(f"expected a closed form or the weights of version {row.version}, found neither")
        if row.version != means.network_version:
            notes.append(f"the value was made by version {row.version}; the repository has {means.network_version}")
        lag = len(window.values[0]) - 1 - window.step if window.values is not None else 0
        return _compared(row, window, of_network(means.network(lag), window), sensor, means, notes)
    baseline = of_baseline(window, sensor, direction=means.is_direction(sensor))
    if baseline is None:
        raise ModelError(f"expected readings of the sensor in its window for {_name(row.method)}, found none")
    parts, method = baseline
    if row.method is Method.BLEND:
        return Explained(row, window, parts.completed(row.value, OTHER_EXPERTS), None)
    if method is not row.method:
        notes.append(f"{_name(row.method)} made the value; from the window made again it would be {_name(method)}")
    return _compared(row, window, parts, sensor, means, notes)


def explain_unpublished(window: Estimate, sensor: int, means: Means) -> Explained:
    """Explain the value that a worker would publish: the closed form's, or a baseline's without one.

    Raises:
        SettingsError: neither has a value.
    """
    parts, method, version = None, Method.GAUSSIAN, ""
    lower = upper = None
    if means.form is not None and (parts := of_form(means.form, window, sensor)) is not None:
        version = version_of(means.form)
    elif (baseline := of_baseline(window, sensor, direction=means.is_direction(sensor))) is not None:
        parts, method = baseline
    if parts is None:
        raise SettingsError("expected readings from which the value follows, found none in the window")
    value = _published(parts.value, method, sensor, window, means)
    if parts.deviation is not None:
        lower, upper = _band(value, parts.deviation, sensor, window, means)
    row = Row(value, method, window.revision, window.gap_age, version, lower, upper)
    notes = () if lower is None else (UNADAPTED,)
    return Explained(row, window, parts.completed(value, ROUNDING), value, notes)


def _compared(row: Row, window: Estimate, parts: Parts, sensor: int, means: Means, notes: list[str]) -> Explained:
    """The parts of a value that its method can make again, with a note if it differs from the published value."""
    again = _published(parts.value, row.method, sensor, window, means)
    if abs(again - row.value) <= _SAME * max(abs(again), abs(row.value)):
        return Explained(row, window, parts.completed(row.value, ROUNDING), again, tuple(notes))
    parts = parts.completed(again, ROUNDING).completed(row.value, DIFFERENCE)
    if not notes:
        notes.append("the model is the same, so the window differs from the worker's")
    return Explained(row, window, parts, again, tuple(notes))


def _published(value: float, method: Method, sensor: int, window: Estimate, means: Means) -> float:
    which, how, possible = np.array([sensor]), np.array([method], np.int8), means.possible(window, sensor)
    return float(published(np.array([value]), which, how, means.table, possible, means.kinds)[0])


def _band(value: float, deviation: float, sensor: int, window: Estimate, means: Means) -> tuple[float, float]:
    """The interval of a value of the closed form, as a worker publishes it."""
    which, at, possible = np.array([sensor]), np.array([value]), means.possible(window, sensor)
    lower, upper = (np.clip(each, *possible) for each in bands(at, np.array([deviation]), which, means.table))
    if means.kinds is not None:
        lower, upper = by_kind(lower, upper, at, means.kinds, which, *possible)
    return float(lower[0]), float(upper[0])


def _name(method: Method) -> str:
    return METHODS[method].replace("_", " ")
