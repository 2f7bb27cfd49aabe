"""Decode, window, impute, repair: the way of a reading between the two topics, without Kafka.

The worker drives it with records as they come, a replay with records of a file; both get the same rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from glaim_stream import metrics
from glaim_stream.blend.mixture import blend
from glaim_stream.blend.scores import Answers, Scores
from glaim_stream.catalogue import Catalogue
from glaim_stream.decode.dead_letters import DeadLetterCause, InputRecord, Reject
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.imputers.protocol import Imputed, Imputer, Windows
from glaim_stream.models.contract import Contract
from glaim_stream.output.announcements import Announcement, announce
from glaim_stream.output.messages import Message
from glaim_stream.output.repair import publishable, repair
from glaim_stream.output.sensor_tables import SensorTables
from glaim_stream.pipeline.accuracy import count_accuracy
from glaim_stream.pipeline.answers import blended, hole_answers, holes_of, probe_answers
from glaim_stream.records import Rows, encode
from glaim_stream.vocabulary import Method, Status
from glaim_stream.windows.closing import Closed, concatenate
from glaim_stream.windows.outages import Outage
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.probes import FEWEST_WINDOWS, Probes, joined
from glaim_stream.windows.upgrades import Upgrades

GAP_AGES = (1, 4, 16, 48)  # steps; the last of each class of glaim_filled_rows_total
GAP_AGE_NAMES = ("1", "2-4", "5-16", "17-48", "over 48")
_WITHHELD = {
    "gap": (Status.BAD_NO_COMMUNICATION, Status.BAD_NO_DATA, Status.BAD_SENSOR_FAILURE),
    "interval": (Status.BAD_AGGREGATE_INVALID_INPUTS,),
}


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch of records caused."""

    closed: list[Closed]
    rejects: list[Reject]
    readings: int = 0  # that went into windows
    dropouts: int = 0  # of these, the ones that hold no value
    superseded: int = 0  # of these, the ones for whose sensor and step another one stands
    probes: list[Probes] = field(default_factory=list)  # questions whose answers are known
    outages: list[Outage] = field(default_factory=list)
    skewed: int = 0  # readings stamped ahead of their record's time


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of one model, and its answer."""

    model_index: int
    closed: Closed | None  # rows, some of which are holes
    imputed: Imputed | None  # for these, None when there are none
    probes: Probes | None  # questions whose answers are known
    probe_imputed: Imputed | None
    upgrade: bool = False  # these rows were published before, made by a lower rung


class Pipeline:
    """Everything that the partitions of one worker share."""

    def __init__(
        self,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        imputer: Imputer,
        *,
        max_message_bytes: int = 1_000_000,
        score_share: float = 0.0,
        score_least: int = FEWEST_WINDOWS,
        upgrades: bool = False,
    ) -> None:
        """Build it.

        Args:
            catalogue: which groups there are.
            contracts: of the models, by name; a model without one is imputed without intervals. `Contracts` know
                those of further versions, from which the rows that they answer get their intervals.
            imputer: fills the windows.
            max_message_bytes: output is cut into messages of at most this size.
            score_share: of the groups that are asked at each step what is known, so that model and baseline can be
                blended by their recent errors; 0: neither is done.
            score_least: windows asked so at a step however few groups there are.
            upgrades: make finals of a lower rung again when the model answers again.

        Raises:
            ContractError: a contract does not fit the catalogue.
        """
        for model in catalogue.models:
            if model.name in contracts:
                model.require_contract(contracts[model.name])
        self.catalogue, self.contracts = catalogue, contracts
        self.scored = score_share > 0
        self.imputer = imputer
        self._max_message_bytes = max_message_bytes
        self._score_share, self._score_least = score_share, score_least
        self._upgrades = upgrades
        self.index = GroupIndex(catalogue)
        self._decoder = Decoder(self.index)
        self._tables = SensorTables(catalogue, contracts)
        self._versions = [""]

    def windows(self) -> PartitionWindows:
        """Empty windows for one partition."""
        return PartitionWindows(
            self.catalogue,
            score_share=self._score_share,
            score_least=self._score_least,
            group_names=self.index.names,
        )

    def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
        """Decode records of one partition and apply them to its windows."""
        with metrics.apply_seconds.time():
            readings, rejects = self._decoder.decode(records, now_ms=now_ms)
            fed = windows.feed(readings, arrival_ms=now_ms)
        late = fed.too_late
        for offset, position, late_by_ms in zip(
            late.offset.tolist(), late.position.tolist(), fed.late_by_ms.tolist(), strict=True
        ):
            detail = f"{late_by_ms / 1000:.0f} s behind the watermark of its partition, older than the window"
            rejects.append(Reject(offset, DeadLetterCause.TOO_LATE, detail, position, late_by_ms))
        return Applied(
            fed.closed,
            rejects,
            len(readings) - len(late),
            fed.dropouts,
            fed.superseded,
            fed.probes,
            fed.outages,
            fed.skewed,
        )

    def announcements(self, outages: Sequence[Outage]) -> list[Announcement]:
        """Messages for the outage topic."""
        return [
            announce(outage, group=self.index.names[outage.group], model=self.catalogue.models[outage.model_index].name)
            for outage in outages
        ]

    def scores(self) -> Scores:
        """What a partition knows before its first error."""
        return Scores([len(model.sensors) for model in self.catalogue.models])

    def upgrades(self, windows: PartitionWindows, scores: Scores) -> list[Closed]:
        """Finals that a lower rung made, to be made again now."""
        return windows.due_upgrades(scores.upgrades) if self._upgrades else []

    async def ask(
        self, closed: Sequence[Closed], probes: Sequence[Probes] = (), upgrades: Sequence[Closed] = ()
    ) -> list[Asked]:
        """Ask the imputer for what closed steps lack, and what is known beside it; any number may be in flight."""
        if not closed and not probes and not upgrades:
            return []
        start = time.perf_counter()
        models = dict.fromkeys([each.model_index for each in closed] + [each.model_index for each in probes])
        asked = await asyncio.gather(
            *(self._ask(model_index, closed, probes) for model_index in models),
            *(self._ask(each.model_index, [each], (), upgrade=True) for each in upgrades),
        )
        metrics.impute_seconds.observe(time.perf_counter() - start)
        return list(asked)

    def settle(self, scores: Scores, asked: Sequence[Asked], *, again: bool = False) -> list[tuple[int, Rows]]:
        """Make rows of the answers: for each, the model's index and its rows.

        One call after the other for a partition, in the order of its input: the errors that are seen here decide over
        the rows of later steps.

        Args:
            scores: of the partition; they move on.
            asked: the answers.
            again: the errors were counted before, when the steps closed first.
        """
        filled = [
            self._settle_upgrade(scores, each) if each.upgrade else self._settle(scores, each, again=again)
            for each in asked
        ]
        return [each for each in filled if each is not None]

    async def fill(self, closed: Sequence[Closed]) -> list[tuple[int, Rows]]:
        """`ask` and `settle` for those who keep no scores."""
        return self.settle(self.scores(), await self.ask(closed))

    def messages(self, filled: Sequence[tuple[int, Rows]]) -> list[Message]:
        """Rows as messages for the output topic."""
        out = []
        for model_index, rows in filled:
            model = self.catalogue.models[model_index]
            out += [
                Message(value, count, model.name)
                for value, count in encode(
                    rows,
                    group_names=self.index.names,
                    sensor_names=model.sensor_ids,
                    version_names=self._versions,
                    max_bytes=self._max_message_bytes,
                )
            ]
            _count(rows)
        return out

    async def _ask(
        self, model_index: int, closed: Sequence[Closed], probes: Sequence[Probes], *, upgrade: bool = False
    ) -> Asked:
        rows = concatenate([each for each in closed if each.model_index == model_index])
        questions = [each for each in probes if each.model_index == model_index]
        side = joined(questions) if questions else None
        holes = 0 if rows is None else len(rows.window_values)
        count = 0 if side is None else len(side)
        metrics.windows.inc(holes)
        metrics.side_windows.inc(count)
        stacked = [(each.window_values, each.window_observed) for each in [rows] if each is not None and holes]
        stacked += [(each.values, each.observed) for each in [side] if each is not None]
        if not stacked:
            return Asked(model_index, rows, None, None, None)
        model = self.catalogue.models[model_index]
        values, observed = (each[0] if len(each) == 1 else np.concatenate(each) for each in zip(*stacked, strict=True))
        answer = await self.imputer.impute(Windows(model.name, values, observed, model.revise_after + 1))
        return Asked(
            model_index,
            rows,
            answer.slice(0, holes) if holes else None,
            side,
            answer.slice(holes, holes + count) if count else None,
            upgrade,
        )

    def _settle(self, scores: Scores, asked: Asked, *, again: bool) -> tuple[int, Rows] | None:
        model = self.catalogue.models[asked.model_index]
        table = self._tables[asked.model_index]
        table_of = partial(self._tables.for_version, asked.model_index)
        imputed = asked.imputed
        if self._score_share > 0:
            holes = hole_answers(asked.closed, imputed, model.step_ms)
            questions, truth = Answers.none(), np.empty(0, np.float32)
            if asked.probes is not None and asked.probe_imputed is not None:
                questions, truth = probe_answers(asked.probes, asked.probe_imputed, table), asked.probes.truth
            of_hole, of_question = scores.models[asked.model_index].walk(holes.cells, questions, truth)
            if imputed is not None:
                imputed = blended(imputed, holes, of_hole)
            if asked.probes is not None and asked.probe_imputed is not None and not again:
                mixed = publishable(blend(questions.model, questions.baseline, of_question), questions.sensor, table)
                answered = next((version for version in asked.probe_imputed.version if version), "")
                count_accuracy(model.name, model.sensor_ids, table_of(answered), asked.probes, questions, mixed)
        if self._upgrades:
            _note(scores.upgrades[asked.model_index], asked)
        if asked.closed is None:
            return None
        return asked.model_index, repair(asked.closed, imputed, table, self._versions, table_of)

    def _settle_upgrade(self, scores: Scores, asked: Asked) -> tuple[int, Rows] | None:
        closed, imputed = asked.closed, asked.imputed
        assert closed is not None
        assert imputed is not None
        _note(scores.upgrades[asked.model_index], asked)
        if self._score_share > 0:
            holes = hole_answers(closed, imputed, self.catalogue.models[asked.model_index].step_ms)
            imputed = blended(imputed, holes, scores.models[asked.model_index].latest(holes.cells))
        table_of = partial(self._tables.for_version, asked.model_index)
        rows = repair(closed, imputed, self._tables[asked.model_index], self._versions, table_of)
        better = holes_of(closed, asked.imputed)[1] & (rows.method != Method.NONE)  # no value becomes null
        metrics.upgraded_rows.inc(int(better.sum()))
        return (asked.model_index, rows.where(better)) if better.any() else None


def _note(upgrades: Upgrades, asked: Asked) -> None:
    """Remember which finals a lower rung has made, and whether the model answers now."""
    rows, by_model = holes_of(asked.closed, asked.imputed)
    of_probes = asked.probe_imputed is not None and bool((asked.probe_imputed.method == Method.MODEL).any())
    if len(rows) or asked.probe_imputed is not None:
        upgrades.model_available = of_probes or bool(by_model.any())
    if asked.closed is not None:
        upgrades.add(asked.closed, rows[~by_model])


def _count(rows: Rows) -> None:
    for method in Method:
        metrics.rows.labels(method.name.lower()).inc(int((rows.method == method).sum()))
    metrics.revisions.inc(int((rows.revision > 0).sum()))
    filled = rows.gap_age[~rows.observed & np.isfinite(rows.value)]
    counts = np.bincount(np.searchsorted(GAP_AGES, filled), minlength=len(GAP_AGE_NAMES)).tolist()
    for name, count in zip(GAP_AGE_NAMES, counts, strict=True) if len(filled) else ():
        metrics.filled_rows.labels(name).inc(count)
    null = rows.status[rows.method == Method.NONE]
    for cause, statuses in _WITHHELD.items() if len(null) else ():
        metrics.withheld_rows.labels(cause).inc(int(np.isin(null, statuses).sum()))
