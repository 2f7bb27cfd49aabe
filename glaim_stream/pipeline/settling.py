"""Turns answers into rows: experts are blended, intervals follow recent errors, and the probes are scored."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import ModelScores, Predictions, Reaching, Scored, blend
from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers import Imputed
from glaim_stream.output import HalfWidths, Rows, SensorTables, publishable, repair
from glaim_stream.output.quality import PartitionQuality
from glaim_stream.pipeline.accuracy import count_accuracy, count_stretch, count_weights, published_probes, scored_cells
from glaim_stream.pipeline.partition_scores import PartitionScores
from glaim_stream.pipeline.predictions import (
    HolePredictions,
    blended,
    holes_of,
    predict_holes,
    predict_probes,
)
from glaim_stream.pipeline.querying import Answer
from glaim_stream.pipeline.shadow import Shadow
from glaim_stream.windows import Closed, Place, Probes

Ints = NDArray[np.int64] | NDArray[np.int32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Settling:
    """The conversion of all partitions' answers into rows.

    versions: names of model versions, to which `Rows.version` refers; it grows.
    scored: whether probes are scored and experts blended.
    upgrades: whether finals of a lower rung are remembered, to be filled again.
    networks: names of the models that a network serves.
    shadow: scores another version of the network; None: no version is compared.
    expert_names: names of a model's experts in the order of their weights.
    """

    catalogue: Catalogue
    tables: SensorTables
    versions: list[str]
    scored: bool
    upgrades: bool
    networks: Collection[str]
    shadow: Shadow | None
    expert_names: Callable[[str], list[str]]

    def settle(self, scores: PartitionScores, answer: Answer, *, again: bool) -> tuple[int, Rows] | None:
        """Turn one answer into the model's index and its rows; None: it causes no row."""
        if answer.upgrade:
            return self._settle_upgrade(scores, answer)
        if answer.by_clock:
            return self._settle_by_clock(scores, answer)
        return self._settle_in_order(scores, answer, again=again)

    def conclude(self, scores: PartitionScores, answer: Answer, *, again: bool) -> None:
        """Sum up the live accuracy and begin the comparison of versions, once all answers of a call are settled."""
        if scores.quality is not None:
            self._note_stretches(scores.quality, answer, again=again)
        if self.shadow is not None and not again:
            self.shadow.score(answer)

    def _settle_in_order(self, scores: PartitionScores, answer: Answer, *, again: bool) -> tuple[int, Rows] | None:
        model = self.catalogue.models[answer.model_index]
        table = self.tables[answer.model_index]
        table_of = partial(self.tables.for_version, answer.model_index)
        imputed, probes, probe_imputed = answer.imputed, answer.probes, answer.probe_imputed
        half, holes, hole_weight = None, None, None
        if self.scored:
            holes = predict_holes(answer.closed, imputed, model.step_ms, answer.form, answer.kinds, answer.added)
            questions, truth = Predictions.none(), np.empty(0)
            if probes is not None and probe_imputed is not None:
                questions, truth = (
                    predict_probes(
                        probes,
                        probe_imputed,
                        table,
                        answer.probe_form,
                        answer.probe_limits,
                        answer.kinds,
                        answer.probe_added,
                    ),
                    probes.truth,
                )
            of_model = scores.models[answer.model_index]
            drawn = np.ones(0, np.bool_) if probes is None or probe_imputed is None else ~probes.copied
            hole_weight, probe_weight = of_model.walk(holes.cells, questions, truth, drawn)
            if imputed is not None:
                imputed = blended(imputed, holes, hole_weight, answer.form)
            half, probe_half = adapted(
                self.tables, of_model, answer, holes, hole_weight, questions, probe_weight, truth
            )
            self._count_probes(scores, answer, questions, probe_weight, probe_half, again=again)
        self._note_for_upgrades(scores, answer)
        if answer.closed is None:
            return None
        rows = repair(answer.closed, imputed, table, self.versions, table_of, answer.limits, half, answer.kinds)
        if holes is not None and hole_weight is not None and not again:
            count_weights(model.name, self.expert_names(model.name), holes, hole_weight, rows.method != Method.NONE)
        if scores.quality is not None:
            scores.quality.models[answer.model_index].add_rows(rows, answer.kinds)
        return answer.model_index, rows

    def _count_probes(
        self,
        scores: PartitionScores,
        answer: Answer,
        questions: Predictions,
        weight: Doubles,
        half: Doubles,
        *,
        again: bool,
    ) -> None:
        """Count the errors and intervals of the probe cells, mixed by `weight`, in the metrics and in live accuracy."""
        probes, imputed = answer.probes, answer.probe_imputed
        if probes is None or imputed is None or (again and scores.quality is None):
            return
        model, table = self.catalogue.models[answer.model_index], self.tables[answer.model_index]
        mixed = publishable(blend(questions.values, weight, questions.direction), questions.sensor, table)
        given = published_probes(table, probes, questions, mixed, half, answer.probe_limits, answer.kinds)
        if not again:
            count_accuracy(model.name, model.sensor_ids, given, network=model.name in self.networks)
        if scores.quality is not None:
            scores.quality.models[answer.model_index].add_probes(scored_cells(given))

    def _settle_upgrade(self, scores: PartitionScores, answer: Answer) -> tuple[int, Rows] | None:
        self._note_for_upgrades(scores, answer)
        better = holes_of(answer.closed, *self._best(answer))[1]
        if not better.any():  # it is away again; weights for fewer experts would forget the errors of all
            return None
        rows, weighted = self._by_latest(scores, answer)
        better &= rows.method != Method.NONE  # null replaces no value
        metrics.upgraded_rows.inc(int(better.sum()))
        if weighted is not None:
            name = self.catalogue.models[answer.model_index].name
            count_weights(name, self.expert_names(name), *weighted, better)
        if not better.any():
            return None
        rows = rows.where(better)
        if scores.quality is not None:
            scores.quality.models[answer.model_index].add_rows(rows, answer.kinds)
        return answer.model_index, rows

    def _settle_by_clock(self, scores: PartitionScores, answer: Answer) -> tuple[int, Rows] | None:
        """Make the rows of steps that the wall clock has closed.

        Event time closes these steps later, and may close earlier ones before. So the scores stay as they are:
        otherwise rows that a worker makes from the topic would depend on the time at which it read it.
        """
        if answer.closed is None:
            return None
        self._note_for_upgrades(scores, answer)
        rows, weighted = self._by_latest(scores, answer)
        if weighted is not None:
            model = self.catalogue.models[answer.model_index]
            count_weights(model.name, self.expert_names(model.name), *weighted, rows.method != Method.NONE)
        if scores.quality is not None:
            scores.quality.models[answer.model_index].add_rows(rows, answer.kinds)
        return answer.model_index, rows

    def _by_latest(
        self, scores: PartitionScores, answer: Answer
    ) -> tuple[Rows, tuple[HolePredictions, Doubles] | None]:
        """Make rows by the newest scores, without adding to them; also the holes and the experts' weights."""
        closed, imputed = answer.closed, answer.imputed
        assert closed is not None
        half, weighted = None, None
        if self.scored and imputed is not None:
            model, of_model = self.catalogue.models[answer.model_index], scores.models[answer.model_index]
            holes = predict_holes(closed, imputed, model.step_ms, answer.form, answer.kinds, answer.added)
            weights = of_model.latest(holes.cells)
            weighted = holes, weights
            imputed = blended(imputed, holes, weights, answer.form)
            half = latest(self.tables, of_model, answer, holes, weights)
        table_of = partial(self.tables.for_version, answer.model_index)
        table = self.tables[answer.model_index]
        return repair(closed, imputed, table, self.versions, table_of, answer.limits, half, answer.kinds), weighted

    def _best(self, answer: Answer) -> tuple[Imputed | None, Method]:
        """The answer for holes of the model's network, or of its closed form if it has none, and the method of each."""
        if self.catalogue.models[answer.model_index].name in self.networks:
            return answer.imputed, Method.MODEL
        return answer.imputed if answer.form is None else answer.form, Method.GAUSSIAN

    def _note_for_upgrades(self, scores: PartitionScores, answer: Answer) -> None:
        """Remember which finals a lower rung has filled, and whether network or closed form answers now."""
        if not self.upgrades:
            return
        upgrades, (best, method), probes = scores.upgrades[answer.model_index], self._best(answer), answer.probe_imputed
        rows, by_best = holes_of(answer.closed, best, method)
        if method == Method.MODEL:
            here = bool(by_best.any()) or (probes is not None and bool((probes.method == method).any()))
            if len(rows) or probes is not None:
                upgrades.available = here
        elif len(rows) or probes is not None:  # cells that the form declines have its version, and do not wait
            asked = [each for each in (best, answer.probe_form or probes) if each is not None]
            steps = answer.probes.step if answer.probes is not None else np.empty(0, np.int64)
            upgrades.note_form(
                here=any(map(any, (each.version for each in asked))), probed=steps if self.scored else None
            )
            if best is not None and answer.closed is not None:
                by_best = np.array([version != "" for version in best.version])[answer.closed.window[rows]]
        if answer.closed is not None:
            upgrades.add(answer.closed, rows[~by_best])

    def _note_stretches(self, quality: PartitionQuality, answer: Answer, *, again: bool) -> None:
        """Take the stretches that the newest probe shows to be over; those of an earlier settling were published."""
        if answer.probes is None:
            return
        over = quality.models[answer.model_index].take_until(int(answer.probes.step[-1]))
        if again:
            return
        model = self.catalogue.models[answer.model_index]
        for source, stretch in over:
            count_stretch(model.name, len(model.sensors), source, stretch)
        quality.note_over(answer.model_index, over)


def adapted(
    tables: SensorTables,
    of_model: ModelScores,
    answer: Answer,
    holes: HolePredictions,
    hole_weight: Doubles,
    probed: Predictions,
    probe_weight: Doubles,
    truth: Doubles,
) -> tuple[Doubles | None, Doubles]:
    """Half-widths [n, 2] of the closed steps' rows and of the probe cells, times the factors of recent errors."""
    cells, table = holes.cells, tables[answer.model_index]
    of_holes, of_probes = _half_widths(tables, answer, cells, holes.row, holes.window, probed)
    (half, level), (probe_half, probe_level) = of_holes.published(hole_weight), of_probes.published(probe_weight)
    slack = table.resolution[probed.sensor] / 2
    factors = of_model.reached(
        Reaching(cells.step, cells.sensor, hole_weight, level),
        Reaching(probed.step, probed.sensor, probe_weight, probe_level),
        Scored(probed.sensor, probed.errors(truth), of_probes.half, of_probes.level, slack),
    )
    return _by_row(answer.closed, holes.row, half * factors[0][:, None]), probe_half * factors[1][:, None]


def latest(
    tables: SensorTables, of_model: ModelScores, answer: Answer, holes: HolePredictions, weights: Doubles
) -> Doubles | None:
    """Half-widths [n, 2] of rows that are filled again, times the newest factors; no probe belongs to them."""
    widths = _half_widths(tables, answer, holes.cells, holes.row, holes.window, Predictions.none())[0]
    half, level = widths.published(weights)
    factors = of_model.reach.latest(weights, holes.cells.sensor, level)
    return _by_row(answer.closed, holes.row, half * factors[:, None])


def _half_widths(
    tables: SensorTables, answer: Answer, cells: Predictions, row: Ints, window: Ints, probed: Predictions
) -> tuple[HalfWidths, HalfWidths]:
    """The half-widths of the intervals of holes and of probe cells, before any factor.

    Args:
        tables: tables of the models' sensors.
        answer: answer for holes and probes.
        cells: the holes, with their rows and windows.
        row: [holes], rows of the answer's closed steps.
        window: [holes], windows of the answer.
        probed: all probe cells of the answer, or none.
    """
    parts: list[tuple[Ints, Ints, Ints, Ints, Doubles]] = []
    version: list[str] = []
    form_range = None
    for imputed, form, of, at, gap_age, lag in (
        (answer.imputed, answer.form, cells, window, *_columns(answer.closed, row)),
        (answer.probe_imputed, answer.probe_form, probed, *_probe_columns(answer.probes, probed)),
    ):
        if len(at) and imputed is not None:
            deviation = np.full(len(at), np.nan)
            if form is not None and form.deviation is not None:
                deviation = form.deviation[at, of.sensor, form.values.shape[2] - 1 - lag]
                form_range = form.trained_range
            parts.append((of.sensor, of.place, gap_age, lag, deviation))
            version += [imputed.version[each] for each in at.tolist()]
    if not parts:
        return HalfWidths.none(), HalfWidths.none()
    sensor, place, gap_age, lag, deviation = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = HalfWidths.found(
        sensor,
        gap_age,
        lag == 0,
        place >= Place.ROW_EDGE,
        tables[answer.model_index],
        partial(tables.for_version, answer.model_index),
        version=version,
        deviation=deviation,
        form_range=form_range,
    )
    return found.where(slice(0, len(cells))), found.where(slice(len(cells), None))


def _columns(closed: Closed | None, row: Ints) -> tuple[Ints, Ints]:
    """Gap age and lag of some rows."""
    return (row, row) if closed is None else (closed.gap_age[row], closed.lag[row])


def _probe_columns(probes: Probes | None, cells: Predictions) -> tuple[Ints, Ints, Ints]:
    """Window, gap age and lag of the probe cells, or of none."""
    if probes is None or len(cells) == 0:
        return (cells.sensor[:0],) * 3
    return probes.window, probes.gap_age, probes.lag


def _by_row(closed: Closed | None, row: Ints, half: Doubles) -> Doubles | None:
    """Spread half-widths [n, 2] of some rows over all rows, [rows, 2], NaN elsewhere."""
    if closed is None or len(half) == 0:
        return None
    of_row = np.full((len(closed), 2), np.nan)
    of_row[row] = half
    return of_row
