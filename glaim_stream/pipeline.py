"""Decode, window, impute, repair: the way of a reading between the two topics, without Kafka.

The worker drives it with records as they come, a replay with records of a file; both get the same rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glaim_stream import metrics
from glaim_stream.catalogue import Catalogue
from glaim_stream.closing import Closed
from glaim_stream.contract import Contract
from glaim_stream.deadletters import DeadLetterCause, InputRecord, Reject
from glaim_stream.decode import Decoder
from glaim_stream.groups import GroupIndex
from glaim_stream.imputers.protocol import Imputed, Imputer, Windows
from glaim_stream.records import Method, Rows, encode
from glaim_stream.repair import SensorTable, repair
from glaim_stream.status import Status
from glaim_stream.windows import PartitionWindows

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


@dataclass(frozen=True, slots=True)
class Asked:
    """Closed steps of one model and the imputer's answer for their holes, None when they have none."""

    closed: Closed
    imputed: Imputed | None


@dataclass(frozen=True, slots=True)
class Scores:
    """What one partition knows of recent errors; belongs to its windows and is made anew with them."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message for the output topic."""

    value: bytes
    rows: int
    model: str


class Pipeline:
    """Everything that the partitions of one worker share."""

    def __init__(
        self,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        imputer: Imputer,
        *,
        max_message_bytes: int = 1_000_000,
    ) -> None:
        """Build it.

        Args:
            catalogue: which groups there are.
            contracts: of the models, by name; a model without one is imputed without intervals.
            imputer: fills the windows.
            max_message_bytes: output is cut into messages of at most this size.

        Raises:
            ContractError: a contract does not fit the catalogue.
        """
        for model in catalogue.models:
            if model.name in contracts:
                model.require_contract(contracts[model.name])
        self.catalogue = catalogue
        self.imputer = imputer
        self._max_message_bytes = max_message_bytes
        self.index = GroupIndex(catalogue)
        self._decoder = Decoder(self.index)
        self._tables = [SensorTable.of(model, contracts.get(model.name)) for model in catalogue.models]
        self._versions = [""]

    def windows(self) -> PartitionWindows:
        """Empty windows for one partition."""
        return PartitionWindows(self.catalogue)

    def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
        """Decode records of one partition and apply them to its windows."""
        with metrics.apply_seconds.time():
            readings, rejects = self._decoder.decode(records, now_ms=now_ms)
            fed = windows.feed(readings, arrival_ms=now_ms)
        late = fed.too_late
        for offset, position, event_time_ms in zip(
            late.offset.tolist(), late.position.tolist(), late.event_time_ms.tolist(), strict=True
        ):
            behind_s = (windows.clock.newest_event_ms - event_time_ms) / 1000
            detail = f"{behind_s:.0f} s behind the newest reading of its partition, older than the window"
            rejects.append(Reject(offset, DeadLetterCause.TOO_LATE, detail, position))
        return Applied(fed.closed, rejects, len(readings) - len(late), fed.dropouts, fed.superseded)

    def scores(self) -> Scores:
        """What a partition knows before its first error."""
        return Scores()

    async def ask(self, closed: Sequence[Closed]) -> list[Asked]:
        """Ask the imputer for what closed steps lack; any number of calls may be in flight at a time."""
        if not closed:
            return []
        start = time.perf_counter()
        answers = await asyncio.gather(*(self._impute(each) for each in closed))
        metrics.impute_seconds.observe(time.perf_counter() - start)
        return [Asked(each, imputed) for each, imputed in zip(closed, answers, strict=True)]

    def settle(self, scores: Scores, asked: Sequence[Asked]) -> list[tuple[int, Rows]]:
        """Make rows of the answers: for each, the model's index and its rows.

        One call after the other for a partition, in the order of its input: what is settled here moves `scores` on.
        """
        return [
            (
                each.closed.model_index,
                repair(each.closed, each.imputed, self._tables[each.closed.model_index], self._versions),
            )
            for each in asked
        ]

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

    async def _impute(self, closed: Closed) -> Imputed | None:
        if len(closed.window_values) == 0:
            return None
        model = self.catalogue.models[closed.model_index]
        metrics.windows.inc(len(closed.window_values))
        return await self.imputer.impute(
            Windows(model.name, closed.window_values, closed.window_observed, model.revise_after + 1)
        )


def _count(rows: Rows) -> None:
    for method in Method:
        metrics.rows.labels(method.name.lower()).inc(int((rows.method == method).sum()))
    metrics.revisions.inc(int((rows.revision > 0).sum()))
    null = rows.status[rows.method == Method.NONE]
    for cause, statuses in _WITHHELD.items():
        metrics.withheld_rows.labels(cause).inc(int(np.isin(null, statuses).sum()))
