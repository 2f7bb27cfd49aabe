"""Live accuracy: errors on the probes, as counters whose rates PromQL divides, and as cells of the quality records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert, Predictions
from glaim_stream.core import metrics
from glaim_stream.core.vocabulary import GAP_AGE_NAMES, GAP_AGES, Method, Status
from glaim_stream.form import Kind, Limits, by_kind
from glaim_stream.output import Rows, SensorTable, possible_range, reaching
from glaim_stream.output.quality import METHODS, Column, Comparison, JudgedCells, Stretch, TruthSource, age_of
from glaim_stream.pipeline.predictions import HolePredictions
from glaim_stream.windows import Place, Probes

WITHHELD = {
    "gap": (Status.BAD_NO_COMMUNICATION, Status.BAD_NO_DATA, Status.BAD_SENSOR_FAILURE),
    "interval": (Status.BAD_AGGREGATE_INVALID_INPUTS,),
}
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
    half_widths: Doubles,
    limits: Limits | None = None,
    kinds: Sequence[Kind] | None = None,
) -> PublishedProbes:
    """Draw the intervals that would have been published for probe cells [q].

    Args:
        table: the sensors.
        probes: known values that were hidden.
        answers: answers of the experts.
        blended: [q] the values that would have been published.
        half_widths: [q, 2] half-widths of the intervals that would have been published, NaN where none would.
        limits: limits of the probes' windows; None: there are none.
        kinds: kinds of the sensors, as the closed form recognised them; None: all are numbers.
    """
    lower, upper = reaching(blended, half_widths, answers.sensor, table)
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
    asked = counts[probed].tolist()
    labels = [(sensor_ids[each // len(Place)], Place(each % len(Place)).name.lower()) for each in probed.tolist()]
    of_expert = answers.errors(given.probes.truth)
    methods = [(expert.name.lower(), of_expert[:, expert]) for expert in experts]
    for method, off in [*methods, ("blend", answers.errors(given.probes.truth, blended))]:
        errors = np.bincount(key, weights=np.abs(off[known]), minlength=len(counts))
        for (sensor, position), error, count in zip(labels, errors[probed].tolist(), asked, strict=True):
            metrics.score_error.labels(model, sensor, method, position).inc(error)
            metrics.score_questions.labels(model, sensor, method, position).inc(count)
    lower, upper = given.lower[known], given.upper[known]
    drawn = np.isfinite(lower)
    for place in Place:
        here = drawn & (answers.place[known] == place)
        if here.any():
            position = place.name.lower()
            metrics.score_intervals.labels(model, position).inc(int(here.sum()))
            holding = here & (lower <= truth) & (truth <= upper)
            metrics.score_intervals_holding.labels(model, position).inc(int(holding.sum()))


def scored_cells(given: PublishedProbes) -> JudgedCells:
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


def count_rows(rows: Rows) -> None:
    """Add rows to the counters."""
    by_method = np.bincount(rows.method, minlength=len(Method)).tolist()
    for method in Method:
        metrics.rows.labels(method.name.lower()).inc(by_method[method])
    metrics.revisions.inc(int((rows.revision > 0).sum()))
    metrics.doubted_rows.inc(int((rows.status == Status.UNCERTAIN_SENSOR_NOT_ACCURATE).sum()))
    filled = rows.gap_age[~rows.observed & np.isfinite(rows.value)]
    if len(filled):
        counts = np.bincount(np.searchsorted(GAP_AGES, filled), minlength=len(GAP_AGE_NAMES)).tolist()
        for name, count in zip(GAP_AGE_NAMES, counts, strict=True):
            metrics.filled_rows.labels(name).inc(count)
    null = rows.status[rows.method == Method.NONE]
    if len(null):
        for cause, statuses in WITHHELD.items():
            metrics.withheld_rows.labels(cause).inc(int(np.isin(null, statuses).sum()))


def count_weights(
    model: str,
    experts: Sequence[str],
    holes: HolePredictions,
    weights: NDArray[np.float64],
    published: NDArray[np.bool_],
) -> None:
    """Add the experts' weights in filled values to the counters.

    Args:
        model: name of the model.
        experts: names of its experts.
        holes: the filled cells.
        weights: weights of the experts in each cell, [holes, experts].
        published: whether each row of the closed steps is published with a value, [rows].
    """
    chosen = published[holes.row]
    place = holes.cells.place[chosen]
    for expert, of_expert in zip(experts, weights[chosen].T, strict=False):  # a model without a form has two
        sums = np.bincount(place, of_expert, minlength=len(Place)).tolist()
        for position, total in zip(Place, sums, strict=True):
            if total:
                metrics.expert_weight.labels(model, expert, position.name.lower()).inc(total)
