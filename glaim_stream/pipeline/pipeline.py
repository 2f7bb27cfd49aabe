"""Decode, window, impute, repair: the path of a reading between the two topics, without Kafka.

The worker feeds it records as they arrive and a replay feeds it records of a file; both get the same rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glaim_stream import metrics
from glaim_stream.blend.mixture import blend
from glaim_stream.blend.reach import Scored
from glaim_stream.blend.scores import Answers, ModelScores, Reaching
from glaim_stream.budget import DEFAULT, Budget
from glaim_stream.catalogue import Catalogue
from glaim_stream.decode.dead_letters import InputRecord
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.health.live import LiveHabits
from glaim_stream.imputers.form_expert import FormExpert
from glaim_stream.imputers.limits import Limits
from glaim_stream.imputers.protocol import Imputed, Imputer, Windows
from glaim_stream.models.contract import Contract
from glaim_stream.output.announcements import Announcement, announce
from glaim_stream.output.health_events import announce_health
from glaim_stream.output.messages import Message
from glaim_stream.output.repair import publishable, repair
from glaim_stream.output.sensor_tables import SensorTables
from glaim_stream.pipeline.accuracy import asked, count_accuracy, count_stretch, hidden_cells
from glaim_stream.pipeline.answers import (
    HoleAnswers,
    blended,
    form_deviation,
    hole_answers,
    holes_of,
    probe_answers,
)
from glaim_stream.pipeline.applied import Applied, joined_applied, timed, unapplied
from glaim_stream.pipeline.held_codes import HeldCodes
from glaim_stream.pipeline.partition_scores import PartitionScores
from glaim_stream.pipeline.resting import windows_to_call, with_form
from glaim_stream.pipeline.row_counts import count_rows
from glaim_stream.pipeline.widths import NO_WIDTHS, HalfWidths, half_widths
from glaim_stream.quality.partition import PartitionQuality
from glaim_stream.records import Rows, encode
from glaim_stream.vocabulary import Method
from glaim_stream.windows.closing import Closed, concatenate
from glaim_stream.windows.history import error_steps
from glaim_stream.windows.outages import Outage
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.probes import FEWEST_WINDOWS, Probes, joined
from glaim_stream.windows.sensor_health import SensorEvent
from glaim_stream.windows.upgrades import Upgrades

Ints = NDArray[np.int64] | NDArray[np.int32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """A query to one model, and the answers of the imputer and of the model's closed form."""

    model_index: int
    closed: Closed | None  # rows, some of which are holes
    imputed: Imputed | None  # for the holes; None when there are none
    probes: Probes | None
    probe_imputed: Imputed | None
    upgrade: bool = False  # these rows were published before, filled by a lower rung
    form: Imputed | None = None  # for the holes; None where the model has no closed form
    probe_form: Imputed | None = None
    called: NDArray[np.bool_] | None = None  # windows of holes for which the imputer was called; None: all
    probes_called: bool = True  # whether it was called for any probe window
    limits: Limits | None = None  # of the windows of holes, [n, C]; None: the training's range is not known
    probe_limits: Limits | None = None  # of the windows of probes


class Pipeline:
    """Everything that the partitions of one worker or replay share."""

    def __init__(
        self,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        imputer: Imputer,
        *,
        form_expert: FormExpert | None = None,
        max_message_bytes: int = 1_000_000,
        score_share: float = 0.0,
        score_least: int = FEWEST_WINDOWS,
        model_gain: float = 0.0,
        upgrades: bool = False,
        clock_kept: bool = False,
        plausibility: bool = False,
        adaptive_intervals: bool = False,
        quality: bool = False,
        habits: Callable[[str], LiveHabits | None] | None = None,
        budget: Budget = DEFAULT,
    ) -> None:
        """Build the pipeline.

        Args:
            catalogue: the models and their groups.
            contracts: by model name, without which there are no intervals; `Contracts` know further versions too.
            imputer: fills the windows.
            form_expert: fills them by the closed forms at the same time, as another expert of the blend; not used
                where `score_share` is 0.
            max_message_bytes: output is cut into messages of at most this size.
            score_share: share of the groups that are probed at each step, so that model and baseline can be blended
                by their recent errors; 0 switches off both probing and blending.
            score_least: probe windows at each step, however few groups there are.
            model_gain: share of the closed form's error that the model must save, or it rests (blend.worth); 0: it
                never rests. Used with `form_expert` only.
            upgrades: fill finals of a lower rung again when the model is back.
            clock_kept: commits record what the wall clock has published (glaim_stream.windows.clock_closes).
            plausibility: readings that stand apart from their window are uncertain and fill nothing
                (glaim_stream.windows.plausibility).
            adaptive_intervals: make the intervals wider or narrower by the recent errors on the probes
                (glaim_stream.blend.reach), and give interpolated values one; not used where `score_share` is 0.
            quality: sum up the errors on the probes and on late readings as records (glaim_stream.quality); not used
                where `score_share` is 0.
            habits: of the sensors of a model, by which their health is judged; None: it is not judged.
            budget: limits of decoding.

        Raises:
            ContractError: a contract does not fit the catalogue.
        """
        for model in catalogue.models:
            if model.name in contracts:
                model.require_contract(contracts[model.name])
        self.catalogue, self.contracts = catalogue, contracts
        self.scored = score_share > 0
        self.imputer = imputer
        self.form_expert = form_expert if self.scored else None
        self._model_gain = model_gain if self.form_expert is not None else 0.0
        self._max_message_bytes = max_message_bytes
        self._score_share, self._score_least = score_share, score_least
        self._upgrades, self._clock_kept, self._plausibility = upgrades, clock_kept, plausibility
        self.index = GroupIndex(catalogue)
        self._decoder = Decoder(self.index, budget)
        self._adaptive = adaptive_intervals
        self._quality = quality and self.scored
        self._habits = habits
        self._budget = budget
        self.codes = HeldCodes(self.index)
        self._tables = SensorTables(catalogue, contracts)
        self._versions = [""]

    def windows(self) -> PartitionWindows:
        """Create empty windows for one partition."""
        return self.codes.hold(
            PartitionWindows(
                self.catalogue,
                score_share=self._score_share,
                score_least=self._score_least,
                judged=self._model_gain > 0,
                quality=self._quality,
                copies=self._adaptive,
                group_names=self.index.names,
                clock_kept=self._clock_kept,
                plausible=self._plausibility,
                trained_ranges=[self._tables[index].trained_range for index in range(len(self.catalogue.models))],
                max_groups=self._budget.groups,
                slice_bytes=self._budget.slice_bytes,
                habits=self._habits,
            )
        )

    def scores(self) -> PartitionScores:
        """Create the scores of a partition without any error yet."""
        sensors = [len(model.sensors) for model in self.catalogue.models]
        quality = PartitionQuality(self.catalogue.models, self.index.names) if self._quality else None
        return self.codes.hold(PartitionScores(sensors, gain=self._model_gain, quality=quality))

    @property
    def error_steps(self) -> int:
        """Number of steps whose probes make the scores of a rebuilt partition."""
        return error_steps(scored=self.scored, judged=self._model_gain > 0, quality=self._quality)

    def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
        """Decode records of one partition and apply them to its windows, all at once."""
        parts = list(self.slices(windows, records, now_ms=now_ms))
        return parts[0] if len(parts) == 1 else self.codes.hold(joined_applied(parts))

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        """Decode records of one partition and apply them to its windows, in slices that fit the budget.

        The slices of a batch must be taken one after the other, and no other batch of the partition in between.
        """
        self.codes.release()
        return timed(self._slices(windows, records, now_ms))

    def _slices(self, windows: PartitionWindows, records: Sequence[InputRecord], now_ms: int) -> Iterator[Applied]:
        done = 0
        for part in self._decoder.decode_parts(records, now_ms=now_ms, stamps=windows.stamps):
            readings = self.codes.hold(part.readings)
            for fed in windows.feed_slices(readings, arrival_ms=now_ms):
                yield self.codes.hold(
                    Applied(
                        fed.closed,
                        [*part.rejects, *unapplied(fed, self._budget.groups)] if fed.last else [],
                        len(readings) - len(fed.too_late) - len(fed.refused) if fed.last else 0,
                        fed.dropouts,
                        fed.superseded,
                        fed.probes,
                        fed.outages,
                        fed.health,
                        fed.skewed,
                        fed.due_rows,
                        part.until if fed.last else done,
                    )
                )
            done = part.until

    def health_messages(self, events: Sequence[SensorEvent]) -> list[Announcement]:
        """Make the messages for the topic of sensor health."""
        return [announce_health(each, self.index.names[each.group], self.catalogue) for each in events]

    def announcements(self, outages: Sequence[Outage]) -> list[Announcement]:
        """Make the messages for the outage topic."""
        return [
            announce(outage, group=self.index.names[outage.group], model=self.catalogue.models[outage.model_index].name)
            for outage in outages
        ]

    def upgrades(self, windows: PartitionWindows, scores: PartitionScores) -> list[Closed]:
        """Return the finals of a lower rung that the model should fill again now."""
        return [self.codes.hold(each) for each in windows.due_upgrades(scores.upgrades)] if self._upgrades else []

    async def query(
        self,
        closed: Sequence[Closed],
        probes: Sequence[Probes] = (),
        upgrades: Sequence[Closed] = (),
        scores: PartitionScores | None = None,
    ) -> list[Answer]:
        """Query the imputer for holes, probes and upgrades; any number of queries may be pending.

        Args:
            closed: rows of closed steps.
            probes: of these steps.
            upgrades: final rows to fill again.
            scores: of the partition, which know where the model rests; None: it is called for every window.
        """
        if not closed and not probes and not upgrades:
            return []
        start_s = time.perf_counter()
        models = dict.fromkeys([each.model_index for each in closed] + [each.model_index for each in probes])
        answers = await asyncio.gather(
            *(self._query_model(model_index, closed, probes, scores) for model_index in models),
            *(self._query_model(each.model_index, [each], (), upgrade=True) for each in upgrades),
        )
        metrics.impute_seconds.observe(time.perf_counter() - start_s)
        return list(answers)

    def settle(
        self, scores: PartitionScores, answers: Sequence[Answer], *, again: bool = False
    ) -> list[tuple[int, Rows]]:
        """Turn answers into rows: for each, the model's index and its rows.

        The calls for a partition must follow the order of its input, because the errors of one step decide how the
        rows of later steps are blended.

        Args:
            scores: the partition's; updated by the errors of the probes.
            answers: the imputer's.
            again: the errors were counted in the metrics before, when their steps first closed.
        """
        filled = [
            self._settle_upgrade(scores, each) if each.upgrade else self._settle(scores, each, again=again)
            for each in answers
        ]
        if scores.quality is not None:
            for each in answers:
                self._note_stretches(scores.quality, each, again=again)
        return [each for each in filled if each is not None]

    async def fill(self, closed: Sequence[Closed]) -> list[tuple[int, Rows]]:
        """Query and settle closed steps without keeping scores."""
        return self.settle(self.scores(), await self.query(closed))

    def messages(self, filled: Sequence[tuple[int, Rows]]) -> list[Message]:
        """Encode rows as messages for the output topic."""
        out = []
        for model_index, rows in filled:
            model = self.catalogue.models[model_index]
            encoded = 0
            for value, count in encode(
                rows,
                group_names=self.index.names,
                sensor_names=model.sensor_ids,
                version_names=self._versions,
                max_bytes=self._max_message_bytes,
            ):
                observed = int((rows.method[encoded : encoded + count] == Method.OBSERVED).sum())
                out.append(Message(value, count, model.name, observed))
                encoded += count
            count_rows(rows)
        return out

    async def _query_model(
        self,
        model_index: int,
        closed: Sequence[Closed],
        probes: Sequence[Probes],
        scores: PartitionScores | None = None,
        *,
        upgrade: bool = False,
    ) -> Answer:
        """Send the windows of holes and of probes in one call, so that the imputer can batch them."""
        rows = concatenate([each for each in closed if each.model_index == model_index])
        of_model = [each for each in probes if each.model_index == model_index]
        probed = joined(of_model) if of_model else None
        hole_count = 0 if rows is None else len(rows.window_values)
        probe_count = 0 if probed is None else len(probed)
        metrics.windows.inc(hole_count)
        metrics.side_windows.inc(probe_count)
        model = self.catalogue.models[model_index]
        stacked: list[tuple[np.ndarray, ...]] = []
        if rows is not None and hole_count:
            stacked.append((rows.window_values, rows.window_observed, rows.window_ends_ms(model.step_ms)))
        if probed is not None:
            stacked.append((probed.values, probed.observed, probed.window_ends_ms(model.step_ms)))
        if not stacked:
            return Answer(model_index, rows, None, None, None)
        values, observed, end_ms = (
            each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*stacked, strict=True)
        )
        resolution = self._tables[model_index].resolution
        lags = (0, model.revise_after)  # of first estimates and final values, and of probes
        windows = Windows(model.name, values, observed, model.revise_after + 1, resolution, end_ms, lags)
        called = np.ones(len(windows), np.bool_)
        worth = None if scores is None else scores.models[model_index].worth
        if worth is not None:
            called = windows_to_call(rows if hole_count else None, probed, worth, model.step_ms)
        imputed, form = await self._answers(windows, called)
        ranges = [each.trained_range for each in (imputed, form) if each is not None]
        limits = self._tables[model_index].trained_limits(*ranges)
        limits = None if limits is None else limits.around(values, observed)

        def part(answer: Imputed | None, start: int, count: int) -> Imputed | None:
            return answer.slice(start, start + count) if answer is not None and count else None

        return Answer(
            model_index,
            rows,
            part(imputed, 0, hole_count),
            probed,
            part(imputed, hole_count, probe_count),
            upgrade,
            part(form, 0, hole_count),
            part(form, hole_count, probe_count),
            called[:hole_count],
            bool(called[hole_count:].any()),
            None if limits is None else limits.slice(0, hole_count),
            None if limits is None else limits.slice(hole_count, len(windows)),
        )

    async def _answers(self, windows: Windows, called: NDArray[np.bool_]) -> tuple[Imputed, Imputed | None]:
        """The answers of the imputer and of the closed form, at the same time; the imputer's for `called` windows."""
        if self.form_expert is None:
            return await self.imputer.impute(windows), None
        if self._model_gain > 0:
            metrics.model_windows.labels(windows.model, "called").inc(int(called.sum()))
            metrics.model_windows.labels(windows.model, "saved").inc(int((~called).sum()))
        if called.all():
            return await asyncio.gather(self.imputer.impute(windows), self.form_expert.answer(windows))
        by_model, form = await asyncio.gather(
            self._impute_some(windows.taken(np.flatnonzero(called))), self.form_expert.answer(windows)
        )
        if form is None or not form.form_version:  # it is gone or has failed: the imputer must fill all windows
            return await self.imputer.impute(windows), form
        return with_form(form, by_model, called), form

    async def _impute_some(self, windows: Windows) -> Imputed | None:
        return await self.imputer.impute(windows) if len(windows) else None

    def _settle(self, scores: PartitionScores, answer: Answer, *, again: bool) -> tuple[int, Rows] | None:
        model = self.catalogue.models[answer.model_index]
        table = self._tables[answer.model_index]
        table_of = partial(self._tables.for_version, answer.model_index)
        imputed, probes, probe_imputed = answer.imputed, answer.probes, answer.probe_imputed
        half = None
        if self._score_share > 0:
            holes = hole_answers(answer.closed, imputed, model.step_ms, answer.form, every=self._adaptive)
            questions, truth = Answers.none(), np.empty(0)
            if probes is not None and probe_imputed is not None:
                questions, truth = (
                    probe_answers(probes, probe_imputed, table, answer.probe_form, answer.probe_limits),
                    probes.truth,
                )
            of_model = scores.models[answer.model_index]
            drawn = np.ones(0, np.bool_) if probes is None or probe_imputed is None else ~probes.copied
            cells, questions = of_model.without_resting(holes.cells, questions, truth, drawn)
            holes = replace(holes, cells=cells)
            hole_weight, probe_weight = of_model.walk(cells, questions, truth, drawn)
            if imputed is not None:
                imputed = blended(imputed, holes, hole_weight, answer.form)
            probe_half = None
            if self._adaptive:
                half, probe_half = self._adapted(of_model, answer, holes, hole_weight, questions, probe_weight, truth)
            if probes is not None and probe_imputed is not None and not (again and scores.quality is None):
                mixed = publishable(blend(questions.values, probe_weight), questions.sensor, table)
                version = next(iter(probe_imputed.versions_of(Method.MODEL)), "")
                deviation = None
                if answer.probe_form is not None:
                    at = probe_imputed.values.shape[2] - 1 - probes.lag
                    deviation = form_deviation(answer.probe_form, questions, probe_weight, probes.window, at)
                given = asked(table_of(version), probes, questions, mixed, deviation, probe_half)
                if not again:
                    count_accuracy(model.name, model.sensor_ids, given)
                if scores.quality is not None:
                    scores.quality.models[answer.model_index].add_probes(hidden_cells(given))
        if self._upgrades:
            _note_for_upgrades(scores.upgrades[answer.model_index], answer)
        if answer.closed is None:
            return None
        rows = repair(answer.closed, imputed, table, self._versions, table_of, answer.limits, half)
        if scores.quality is not None:
            scores.quality.models[answer.model_index].add_rows(rows)
        return answer.model_index, rows

    def _settle_upgrade(self, scores: PartitionScores, answer: Answer) -> tuple[int, Rows] | None:
        closed, imputed = answer.closed, answer.imputed
        assert closed is not None
        assert imputed is not None
        _note_for_upgrades(scores.upgrades[answer.model_index], answer)
        half = None
        if self._score_share > 0:
            step_ms = self.catalogue.models[answer.model_index].step_ms
            holes = hole_answers(closed, imputed, step_ms, answer.form, every=self._adaptive)
            of_model = scores.models[answer.model_index]
            weights = of_model.latest(holes.cells)
            imputed = blended(imputed, holes, weights, answer.form)
            if self._adaptive:
                widths = self._half_widths(answer, holes.cells, holes.row, holes.window, Answers.none())[0]
                half, level = widths.published(weights)
                factors = of_model.reach.latest(weights, holes.cells.sensor, level)
                half = _by_row(closed, holes.row, half * factors[:, None])
        table_of = partial(self._tables.for_version, answer.model_index)
        table = self._tables[answer.model_index]
        rows = repair(closed, imputed, table, self._versions, table_of, answer.limits, half)
        better = holes_of(closed, answer.imputed)[1] & (rows.method != Method.NONE)  # never turn a value into null
        metrics.upgraded_rows.inc(int(better.sum()))
        if not better.any():
            return None
        rows = rows.where(better)
        if scores.quality is not None:
            scores.quality.models[answer.model_index].add_rows(rows)
        return answer.model_index, rows

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

    def _adapted(
        self,
        of_model: ModelScores,
        answer: Answer,
        holes: HoleAnswers,
        hole_weight: Doubles,
        probed: Answers,
        probe_weight: Doubles,
        truth: Doubles,
    ) -> tuple[Doubles | None, Doubles]:
        """Half-widths [n, 2] of the closed steps' rows and of the probe cells, times the factors of recent errors."""
        cells, table = holes.cells, self._tables[answer.model_index]
        of_holes, of_probes = self._half_widths(answer, cells, holes.row, holes.window, probed)
        (half, level), (probe_half, probe_level) = of_holes.published(hole_weight), of_probes.published(probe_weight)
        with np.errstate(over="ignore"):
            errors = probed.values - truth[:, None]
        slack = table.resolution[probed.sensor] / 2
        factors = of_model.reached(
            Reaching(cells.step, cells.sensor, hole_weight, level),
            Reaching(probed.step, probed.sensor, probe_weight, probe_level),
            Scored(probed.sensor, errors, of_probes.half, of_probes.level, slack),
        )
        return _by_row(answer.closed, holes.row, half * factors[0][:, None]), probe_half * factors[1][:, None]

    def _half_widths(
        self, answer: Answer, cells: Answers, row: Ints, window: Ints, probed: Answers
    ) -> tuple[HalfWidths, HalfWidths]:
        """The half-widths of the intervals of holes and of probe cells, before any factor.

        Args:
            answer: for both.
            cells: the holes, with their rows and windows.
            row: [holes], of the answer's closed steps.
            window: [holes], of the answer.
            probed: all probe cells of the answer, or none.
        """
        parts: list[tuple[Ints, Ints, Ints, list[str], Doubles]] = []
        form_range = None
        for imputed, form, at, sensor, gap_age, lag in (
            (answer.imputed, answer.form, window, cells.sensor, *_columns(answer.closed, row)),
            (answer.probe_imputed, answer.probe_form, *_probe_columns(answer.probes, probed)),
        ):
            if len(at) and imputed is not None:
                deviation = np.full(len(at), np.nan)
                if form is not None and form.deviation is not None:
                    deviation = form.deviation[at, sensor, form.values.shape[2] - 1 - lag]
                    form_range = form.trained_range
                parts.append((sensor, gap_age, lag, [imputed.version[each] for each in at.tolist()], deviation))
        if not parts:
            return NO_WIDTHS, NO_WIDTHS
        sensor, gap_age, lag, deviation = (np.concatenate([part[place] for part in parts]) for place in (0, 1, 2, 4))
        found = half_widths(
            sensor,
            gap_age,
            lag == 0,
            self._tables[answer.model_index],
            partial(self._tables.for_version, answer.model_index),
            version=[each for part in parts for each in part[3]],
            deviation=deviation,
            form_range=form_range,
        )
        return found.where(slice(0, len(cells))), found.where(slice(len(cells), None))


def _columns(closed: Closed | None, row: Ints) -> tuple[Ints, Ints]:
    """Gap age and lag of some rows."""
    return (row, row) if closed is None else (closed.gap_age[row], closed.lag[row])


def _probe_columns(probes: Probes | None, cells: Answers) -> tuple[Ints, Ints, Ints, Ints]:
    """Window, sensor, gap age and lag of the probe cells, or of none."""
    if probes is None or len(cells) == 0:
        return (cells.sensor[:0],) * 4
    return probes.window, cells.sensor, probes.gap_age, probes.lag


def _by_row(closed: Closed | None, row: Ints, half: Doubles) -> Doubles | None:
    """Half-widths [n, 2] of some rows as those of all, [rows, 2], NaN elsewhere."""
    if closed is None or len(half) == 0:
        return None
    of_row = np.full((len(closed), 2), np.nan)
    of_row[row] = half
    return of_row


def _note_for_upgrades(upgrades: Upgrades, answer: Answer) -> None:
    """Remember which finals a lower rung has filled, and whether the model answers now."""
    rows, by_model = holes_of(answer.closed, answer.imputed)
    if answer.closed is not None and answer.called is not None and len(rows):  # where it rests, nothing waits for it
        called = answer.called[answer.closed.window[rows]]
        rows, by_model = rows[called], by_model[called]
    probed_by_model = answer.probe_imputed is not None and bool((answer.probe_imputed.method == Method.MODEL).any())
    if len(rows) or (answer.probe_imputed is not None and answer.probes_called):
        upgrades.model_available = probed_by_model or bool(by_model.any())
    if answer.closed is not None:
        upgrades.add(answer.closed, rows[~by_model])
