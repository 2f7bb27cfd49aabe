"""Live accuracy: errors on the probes, as counters whose rates PromQL divides, and as cells of the quality records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert, Predictions
from glaim_stream.core import metrics
from glaim_stream.core.vocabulary import GAP_AGE_NAMES
from glaim_stream.form import Kind, Limits, by_kind
from glaim_stream.output import SensorTable, bands, intervals, possible_range, reaching
from glaim_stream.output.quality import METHODS, Column, Comparison, JudgedCells, Stretch, TruthSource, age_of
from glaim_stream.windows import Place, Probes

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PublishedProbes:
    """q probe cells: the answers of the experts, and the values that would have been published."""

    probes: Probes
    answers: Predictions
    blended: Doubles  # [q]
    lower: Doubles  # [q] lower end of the interval, NaN without one
    upper: Doubles  # [q]


def published_probes(
    table: SensorTable,
    probes: Probes,
    answers: Predictions,
    blended: Doubles,
    deviation: Doubles | None = None,
    half_widths: Doubles | None = None,
    limits: Limits | None = None,
    kinds: Sequence[Kind] | None = None,
) -> PublishedProbes:
    """Draw the intervals that would have been published for probe cells [q].

    Args:
        table: the sensors, with the intervals of the version that answered.
        probes: known values that were hidden.
        answers: answers of the experts.
        blended: [q] the values that would have been published.
        deviation: [q] the closed form's, where its band would have been published, NaN elsewhere; None: nowhere.
        half_widths: [q, 2] half-widths of the intervals that would have been published. The contract or the deviation
            gives those that are NaN, or all if None.
        limits: limits of the probes' windows; None: there are none.
        kinds: kinds of the sensors, as the closed form recognised them; None: all are numbers.
    """
    lower, upper = intervals(blended, answers.sensor, probes.gap_age, probes.lag == 0, table)
    if deviation is not None:
        at = np.flatnonzero(np.isfinite(deviation))
        lower[at], upper[at] = bands(blended[at], deviation[at], answers.sensor[at], table)
    if half_widths is not None:
        at = np.flatnonzero(np.isfinite(half_widths).all(axis=1))
        lower[at], upper[at] = reaching(blended[at], half_widths[at], answers.sensor[at], table)
    if kinds is not None:
        possible = possible_range(probes.window, answers.sensor, table, limits)
        lower, upper = by_kind(lower, upper, blended, kinds, answers.sensor, *possible)
    return PublishedProbes(probes, answers, blended, lower, upper)


def count_accuracy(model: str, sensor_ids: Sequence[str], given: PublishedProbes, *, network: bool = True) -> None:
    """Add the errors on probes that all methods answered, and count the intervals that hold the true value.

    Args:
        model: name of the model.
        sensor_ids: ids of its sensors, by row.
        given: the probes.
        network: whether a network serves the model; while the network is unavailable, no probe counts.
    """
    answers, blended = given.answers, given.blended
    experts = list(Expert)[: answers.values.shape[1]]
    if not network:
        experts.remove(Expert.MODEL)
    if Expert.GAUSSIAN in experts and not np.isfinite(answers.values[:, Expert.GAUSSIAN]).any():
        experts.remove(Expert.GAUSSIAN)
    # The errors of all methods must be those of the same probes.
    known = np.flatnonzero(np.isfinite(answers.values[:, experts]).all(axis=1))
    if len(known) == 0:
        return
    truth = given.probes.truth[known]
    shape = (len(sensor_ids), len(Place))
    key = answers.sensor[known] * len(Place) + answers.place[known]
    counts = np.bincount(key, minlength=shape[0] * shape[1])
    probed = np.flatnonzero(counts)
    labels = [(sensor_ids[each // len(Place)], Place(each % len(Place)).name.lower()) for each in probed.tolist()]
    of_expert = answers.errors(given.probes.truth)
    methods = [(expert.name.lower(), of_expert[:, expert]) for expert in experts]
    for method, off in [*methods, ("blend", answers.errors(given.probes.truth, blended))]:
        errors = np.bincount(key, weights=np.abs(off[known]), minlength=len(counts))
        for (sensor, position), error in zip(labels, errors[probed].tolist(), strict=True):
            metrics.score_error.labels(model, sensor, method, position).inc(error)
    for (sensor, position), count in zip(labels, counts[probed].tolist(), strict=True):
        metrics.score_questions.labels(model, sensor, position).inc(count)
    lower, upper = given.lower[known], given.upper[known]
    drawn = np.isfinite(lower)
    for place in Place:
        here = drawn & (answers.place[known] == place)
        if here.any():
            position = place.name.lower()
            metrics.score_intervals.labels(model, position).inc(int(here.sum()))
            holding = here & (lower <= truth) & (truth <= upper)
            metrics.score_intervals_holding.labels(model, position).inc(int(holding.sum()))


def hidden_cells(given: PublishedProbes) -> JudgedCells:
    """The probes as cells of the quality records, without those that have no published value."""
    probes, answers = given.probes, given.answers
    errors = np.full((len(answers), len(Column)), np.nan)
    by_expert = np.abs(answers.errors(probes.truth))
    errors[:, Column.PUBLISHED] = np.abs(answers.errors(probes.truth, given.blended))
    errors[:, Column.MODEL] = by_expert[:, Expert.MODEL]
    if by_expert.shape[1] > Expert.GAUSSIAN:
        errors[:, Column.GAUSSIAN] = by_expert[:, Expert.GAUSSIAN]
    inside = answers.place % 2 == Place.INTERIOR
    errors[inside, Column.INTERPOLATION] = by_expert[inside, Expert.BASELINE]
    errors[~inside, Column.LAST_VALUE] = by_expert[~inside, Expert.BASELINE]
    known = np.isfinite(errors[:, Column.PUBLISHED])
    return JudgedCells(
        answers.step,
        probes.group[probes.window],
        answers.sensor,
        age_of(probes.gap_age),
        answers.place,
        np.where(np.isfinite(errors), errors, np.nan),
        given.upper - given.lower,
        (given.lower <= probes.truth) & (probes.truth <= given.upper),
    ).where(known)


def count_stretch(model: str, sensors: int, source: TruthSource, stretch: Stretch) -> None:
    """Add a finished stretch to the counters by position and gap age."""
    cells, ages = stretch.cells, len(GAP_AGE_NAMES)
    drawn = np.isfinite(cells.width)
    for counter, chosen in (
        (metrics.quality_cells, np.ones(len(cells), np.bool_)),
        (metrics.quality_intervals, drawn),
        (metrics.quality_intervals_holding, drawn & cells.held),
    ):
        found = np.bincount((cells.place * ages + cells.age)[chosen], minlength=len(Place) * ages)
        for number in np.flatnonzero(found).tolist():
            place, age = divmod(number, ages)
            position = Place(place).name.lower()
            counter.labels(model, source.value, position, GAP_AGE_NAMES[age]).inc(int(found[number]))
    if source is not TruthSource.HIDDEN:
        return
    compared = Comparison.of(cells, sensors)
    compared_age = cells.age[compared.cell]
    counts = np.bincount(compared_age, minlength=ages).tolist()
    for method, scaled in zip(METHODS, compared.scaled.T, strict=True):
        if not np.isfinite(scaled).any():
            continue
        errors = np.bincount(compared_age, scaled, minlength=ages).tolist()
        for name, count, error in zip(GAP_AGE_NAMES, counts, errors, strict=True):
            if count:
                metrics.quality_compared.labels(model, method, name).inc(count)
                metrics.quality_scaled_error.labels(model, method, name).inc(error)
