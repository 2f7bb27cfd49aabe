"""Decode, window, impute, repair: the path of a reading between the two topics, without Kafka.

The worker feeds it records as they arrive and a replay feeds it records of a file; both get the same rows.

A group code that is given to another group while something still holds it would publish rows under the wrong name.
Whatever outlives one call and holds codes is therefore registered (`HeldCodes`), and counts for as long as it exists.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert
from glaim_stream.core import metrics
from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.contract import Contract
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.vocabulary import Method
from glaim_stream.decode import Decoder, GroupIndex
from glaim_stream.health import LiveHabits
from glaim_stream.imputers import BlendedRung, WindowImputer
from glaim_stream.output import Announcement, Message, Rows, SensorTables, announce, announce_health, encode
from glaim_stream.output.quality import PartitionQuality
from glaim_stream.pipeline.accuracy import count_rows
from glaim_stream.pipeline.partition_scores import PartitionScores
from glaim_stream.pipeline.querying import Answer, Querying
from glaim_stream.pipeline.settling import Settling
from glaim_stream.pipeline.shadow import OtherVersion, Shadow
from glaim_stream.windows import (
    FEWEST_WINDOWS,
    Applied,
    Closed,
    Outage,
    PartitionWindows,
    Probes,
    SensorEvent,
    error_steps,
    joined_applied,
)

_FEWEST = 4096  # names that are kept in any case: some 1 MB
Ints = NDArray[np.int64] | NDArray[np.int32]
Doubles = NDArray[np.float64]


class Holder(Protocol):
    """Something that holds group codes."""

    def group_codes(self) -> Iterable[NDArray[np.int32]]:
        """Return the codes."""
        ...


HolderType = TypeVar("HolderType", bound=Holder)


class HeldCodes:
    """The holders of group codes, and the moments at which codes are released."""

    def __init__(self, index: GroupIndex) -> None:
        self._index = index
        self._holders: WeakSet[Holder] = WeakSet()
        self._release_at = _FEWEST

    def hold(self, holder: HolderType) -> HolderType:
        """Register a holder for as long as it exists, and return it."""
        self._holders.add(holder)
        return holder

    def release(self) -> None:
        """Release the codes without a holder once the names have doubled since the last time."""
        if len(self._index) <= self._release_at:
            return
        self._index.release(codes for holder in self._holders for codes in holder.group_codes())
        self._release_at = max(_FEWEST, 2 * len(self._index))


class Pipeline:
    """Everything that the partitions of one worker or replay share."""

    def __init__(
        self,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        imputer: WindowImputer,
        *,
        form_expert: BlendedRung | None = None,
        experts: Mapping[str, Sequence[BlendedRung]] | None = None,
        max_message_bytes: int = 1_000_000,
        score_share: float = 0.0,
        score_least: int | None = None,
        upgrades: bool = False,
        clock_kept: bool = False,
        quality: bool = False,
        habits: Callable[[str], LiveHabits | None] | None = None,
        decimals: Callable[[str], NDArray[np.int8] | None] = lambda model: None,
        shadow: OtherVersion | None = None,
        shadow_windows: int = 64,
        networks: Collection[str] | None = None,
        budget: Budget = DEFAULT,
    ) -> None:
        """Build the pipeline.

        Args:
            catalogue: the models and their groups.
            contracts: contracts by model name; a model without one has no intervals. `Contracts` know further versions.
            imputer: fills the windows.
            form_expert: fills the windows by the closed forms at the same time, as another expert of the blend; not
                used where `score_share` is 0.
            experts: registered experts by model, in the order of their numbers; not used where `score_share` is 0.
            max_message_bytes: largest size of an output message.
            score_share: share of the groups that are probed at each step, so that model and baseline can be blended
                by their recent errors, and intervals follow these errors (glaim_stream.blend.reach), also those of
                interpolated values; 0 switches off probing, blending and this.
            score_least: probe windows at each step, however few groups there are.
            upgrades: fill finals of a lower rung again when the network is back or, for a model without one, when the
                first closed form is there.
            clock_kept: whether commits record the closes by the wall clock (glaim_stream.windows.clock).
            quality: sum up the errors on the probes and on late readings as records (output.quality); not used
                where `score_share` is 0.
            habits: gives the habits of a model's sensors, by which their health is judged; None: it is not judged.
            decimals: gives the learned decimals of a model's sensors, to which filled values are rounded.
            shadow: imputes the probes by another version of the network, for comparison (glaim_stream.pipeline.shadow);
                None: no version is compared. Not used where `score_share` is 0.
            shadow_windows: greatest number of windows in one such call.
            networks: names of the models that a network serves; None: all. Live accuracy of the others has no errors
                of a network (glaim_stream.pipeline.accuracy).
            budget: limits of decoding.

        Raises:
            ContractError: a contract does not fit the catalogue.
        """
        for model in catalogue.models:
            if model.name in contracts:
                model.require_contract(contracts[model.name])
        self.catalogue, self.contracts = catalogue, contracts
        self.networks = [model.name for model in catalogue.models] if networks is None else networks
        self.scored = score_share > 0
        self.form_expert = form_expert if self.scored else None
        self.experts = (experts or {}) if self.scored else {}
        self._max_message_bytes = max_message_bytes
        self._score_share, self._score_least = score_share, score_least or FEWEST_WINDOWS
        self._upgrades, self._clock_kept = upgrades, clock_kept
        self.index = GroupIndex(catalogue)
        self._decoder = Decoder(self.index, budget)
        self._quality = quality and self.scored
        self._habits = habits
        self._budget = budget
        self.codes = HeldCodes(self.index)
        self._versions = [""]
        self.tables = SensorTables(catalogue, contracts, decimals)
        self._querying = Querying(catalogue, self.tables, imputer, self.form_expert, self.experts)
        compared = None
        if shadow is not None and self.scored:
            compared = Shadow(catalogue, self.tables, shadow, most=shadow_windows)
        self._settling = Settling(
            catalogue,
            self.tables,
            self._versions,
            self.scored,
            upgrades,
            self.networks,
            compared,
            self.expert_names,
        )

    def expert_names(self, model: str) -> list[str]:
        """The experts of a model in the order of its weights; a model without a closed form may have only two."""
        return [each.name.lower() for each in Expert] + [each.name for each in self.experts.get(model, ())]

    def windows(self) -> PartitionWindows:
        """Create empty windows for one partition."""
        return self.codes.hold(
            PartitionWindows(
                self.catalogue,
                score_share=self._score_share,
                score_least=self._score_least,
                quality=self._quality,
                group_names=self.index.names,
                clock_kept=self._clock_kept,
                trained_ranges=[self.tables[index].trained_range for index in range(len(self.catalogue.models))],
                max_groups=self._budget.groups,
                slice_bytes=self._budget.slice_bytes,
                habits=self._habits,
            )
        )

    def scores(self) -> PartitionScores:
        """Create the scores of a partition without any error yet."""
        sensors = [len(model.sensors) for model in self.catalogue.models]
        quality = PartitionQuality(self.catalogue.models, self.index.names) if self._quality else None
        return self.codes.hold(PartitionScores(sensors, quality=quality))

    @property
    def error_steps(self) -> int:
        """Number of steps whose probes make the scores of a rebuilt partition."""
        return error_steps(scored=self.scored, quality=self._quality)

    def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
        """Decode records of one partition and apply them to its windows, all at once."""
        parts = list(self.slices(windows, records, now_ms=now_ms))
        return parts[0] if len(parts) == 1 else self.codes.hold(joined_applied(parts))

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        """Decode records of one partition and apply them to its windows, in slices that fit the budget.

        The slices of a batch must be taken one after the other, and no other batch of the partition in between.
        """
        self.codes.release()
        return _timed(self._slices(windows, records, now_ms))

    def _slices(self, windows: PartitionWindows, records: Sequence[InputRecord], now_ms: int) -> Iterator[Applied]:
        done = 0
        for part in self._decoder.decode_parts(records, now_ms=now_ms, stamps=windows.stamps):
            readings = self.codes.hold(part.readings)
            for applied in windows.feed_slices(readings, arrival_ms=now_ms):
                applied.until = done
                if applied.last:
                    applied.rejects, applied.until = [*part.rejects, *applied.rejects], part.until
                yield self.codes.hold(applied)
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
        """Return the finals of a lower rung that network or closed form should fill again now."""
        return [self.codes.hold(each) for each in windows.due_upgrades(scores.upgrades)] if self._upgrades else []

    async def query(
        self,
        closed: Sequence[Closed],
        probes: Sequence[Probes] = (),
        upgrades: Sequence[Closed] = (),
        *,
        by_clock: bool = False,
    ) -> list[Answer]:
        """Query the imputer for holes, probes and upgrades; any number of queries may be pending.

        Args:
            closed: rows of closed steps.
            probes: probes of these steps.
            upgrades: final rows to fill again.
            by_clock: whether the wall clock has closed the steps.
        """
        if not closed and not probes and not upgrades:
            return []
        start_s = time.perf_counter()
        models = dict.fromkeys([each.model_index for each in closed] + [each.model_index for each in probes])
        answers = await asyncio.gather(
            *(self._querying.query(index, closed, probes, by_clock=by_clock) for index in models),
            *(self._querying.query(each.model_index, [each], (), upgrade=True) for each in upgrades),
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
            scores: scores of the partition, updated by the errors of the probes.
            answers: answers of the imputer.
            again: whether the errors were counted in the metrics before, when their steps first closed.
        """
        filled = [self._settling.settle(scores, each, again=again) for each in answers]
        for each in answers:
            self._settling.conclude(scores, each, again=again)
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


def _timed(slices: Iterator[Applied]) -> Iterator[Applied]:
    """Yield the same slices, and observe the time that each takes."""
    while True:
        start_s = time.perf_counter()
        applied = next(slices, None)
        if applied is None:
            return
        metrics.apply_seconds.observe(time.perf_counter() - start_s)
        yield applied
