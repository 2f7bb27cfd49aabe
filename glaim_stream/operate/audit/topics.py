"""Reads the topics of an audit and the consumer group's commits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from glaim_stream.core.errors import SettingsError, unknown_name
from glaim_stream.core.settings import Settings
from glaim_stream.decode import Decoded, Decoder
from glaim_stream.kafka import Loss, Range, admin_options, no_topic, read_losses, read_range, rebuild_from_metadata
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.letters import LetterTable
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.outages import OutageEvent, read_outages
from glaim_stream.operate.audit.output_rows import OutputReader, OutputRows

_COORDINATOR_S = 15.0
_POLL_S = 0.2
_PORTION_BYTES = 1 << 19  # some 10,000 readings or rows
_MOST_RECORDS = 2000  # most records in memory at a time, unpacked

Ends = Mapping[TopicPartition, int]
Offsets = Mapping[int, int] | int | None  # offsets by partition, or one for all
Progress = Callable[[str, int, int], object]  # topic and partition, records read, records in all


class TopicReader:
    """Reader of the topics of an audit."""

    def __init__(
        self,
        settings: Settings,
        columns: ModelColumns,
        consumer: AIOKafkaConsumer,
        admin: AIOKafkaAdminClient,
        on_progress: Progress | None,
    ) -> None:
        self._settings = settings
        self._columns = columns
        self._consumer = consumer
        self._admin = admin
        self._on_progress = on_progress
        self._decoder = Decoder(columns.index, settings.budget)

    async def partitions(self) -> dict[str, list[int]]:
        """Partition numbers of the existing topics, by topic.

        Raises:
            SettingsError: there is no input or no output topic.
        """
        settings = self._settings
        found = {
            topic["topic"]: sorted(part["partition"] for part in topic["partitions"])
            for topic in await self._admin.describe_topics(list(settings.topics))
            if topic["error_code"] == 0
        }
        for name in (settings.input_topic, settings.output_topic):
            if not found.get(name):
                raise await no_topic(settings, name)
        return found

    async def commits(
        self, inputs: Sequence[TopicPartition], wait_s: float
    ) -> dict[TopicPartition, GroupCommit | None]:
        """Commits of the consumer group, once they reach the end of the input or `wait_s` is over.

        Raises:
            SettingsError: the broker does not give them.
        """
        deadline_s = time.monotonic() + wait_s
        ends = await self._consumer.end_offsets(inputs)
        while True:
            found = await self._committed(inputs)
            commits = {
                tp: GroupCommit(found[tp].offset, rebuild_from_metadata(found[tp].offset, found[tp].metadata))
                if tp in found and found[tp].offset >= 0
                else None
                for tp in inputs
            }
            behind = [tp for tp in inputs if _offset(commits[tp]) < ends[tp]]
            if not behind or time.monotonic() >= deadline_s:
                return commits
            await asyncio.sleep(_POLL_S)

    async def require_group(self, commits: Mapping[TopicPartition, GroupCommit | None]) -> None:
        """Require that the consumer group exists, if it has committed nothing.

        A group that only has members exists too: its workers have just been started.

        Raises:
            SettingsError: the broker knows no such group; the message names those with commits of the input.
        """
        if any(commits.values()):
            return
        name = self._settings.consumer_group
        try:
            groups = [found[0] for found in await self._admin.list_consumer_groups()]
            if name in groups:
                return
            known = [each for each in groups if await self._reads_input(each, [*commits])]
        except KafkaError:  # this user may not list groups
            known = []
        raise SettingsError(unknown_name(f"a consumer group of {self._settings.input_topic}", name, known))

    async def _reads_input(self, group: str, inputs: Sequence[TopicPartition]) -> bool:
        found = await self._admin.list_consumer_group_offsets(group, partitions=list(inputs))
        return any(each.offset >= 0 for each in found.values())

    async def _committed(self, inputs: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
        """The group's commits. A new broker has no coordinator for a few seconds, a restarted one neither."""
        deadline_s = time.monotonic() + _COORDINATOR_S
        while True:
            try:
                return await self._admin.list_consumer_group_offsets(  # type: ignore[no-any-return]
                    self._settings.consumer_group, partitions=list(inputs)
                )
            except KafkaError as error:
                if not error.retriable or time.monotonic() >= deadline_s:
                    raise SettingsError(f"commits of group {self._settings.consumer_group}: {error!r}") from error
            await asyncio.sleep(_POLL_S)

    async def first_at(self, tps: Sequence[TopicPartition], time_ms: int | None, default: Ends) -> Ends:
        """The first offset of each partition that Kafka stamped at or after a time, or its end.

        Args:
            tps: the partitions.
            time_ms: epoch ms; None for the defaults.
            default: offsets where no time is given.
        """
        if time_ms is None or not tps:
            return {tp: default[tp] for tp in tps}
        found = await self._consumer.offsets_for_times(dict.fromkeys(tps, max(0, time_ms)))
        ends = await self._consumer.end_offsets(tps)
        return {tp: ends[tp] if (at := found.get(tp)) is None else at.offset for tp in tps}

    async def letters(self, into: LetterTable, ends: Ends) -> int:
        """Read letters; return the number of messages that are no letters of the input topic."""
        foreign = 0
        for tp, end in ends.items():
            async for records in self._read(tp, 0, end):
                foreign += sum(not into.add(record) for record in records)
        into.close()
        return foreign

    async def input(
        self, tp: TopicPartition, begin: int, end: int
    ) -> AsyncIterator[tuple[list[int], Iterator[Decoded]]]:
        """Yield a range of the input in portions: offsets of some records, and their contents."""
        async for records in self._portions(tp, begin, end):
            decoded = self._decoder.decode_parts(records, now_ms=time.time_ns() // 1_000_000)
            yield [record.offset for record in records], decoded

    async def rows(self, rows: OutputReader, tp: TopicPartition, begin: int, end: int) -> AsyncIterator[OutputRows]:
        """Yield the rows of a range of the output in portions of some messages."""
        async for records in self._portions(tp, begin, end):
            for record in records:
                rows.add(record.value or b"", record.headers)
            yield rows.rows()

    async def outages(self, number: int, into: Callable[[set[OutageEvent]], object]) -> tuple[bool, list[Loss]]:
        """Read a partition of the outage topic; return whether it is complete, and the losses of input that it reports.

        Its end is looked up after the commits, so that the events of everything committed are there. It is incomplete
        if retention or compaction has removed some: an absent event then means nothing. The markers of transactions
        have offsets too, so that fewer records than offsets prove nothing in a topic that is not compacted.
        """
        tp = TopicPartition(self._settings.outage_topic, number)
        losses: set[Loss] = set()
        begin = (await self._consumer.beginning_offsets([tp]))[tp]
        end = (await self._consumer.end_offsets([tp]))[tp]
        count = 0
        async for records in self._read(tp, begin, end):
            into(read_outages([record.value for record in records], self._columns))
            losses.update(read_losses(record.value for record in records))
            count += len(records)
        complete = count == end or (begin == 0 and not await self._compacted(tp.topic))
        return complete, [loss for loss in sorted(losses) if loss.topic == self._settings.input_topic]

    async def _compacted(self, topic: str) -> bool:
        """Whether Kafka may remove single records of a topic; True also where this user may not see that."""
        try:
            found = await self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            entries = [entry for each in found for *_, entries in each.resources for entry in entries]
        except KafkaError:
            return True
        return [entry[1] for entry in entries if entry[0] == "cleanup.policy"] != ["delete"]

    async def _portions(self, tp: TopicPartition, begin: int, end: int) -> AsyncIterator[list[Any]]:
        """Yield records of `[begin, end)`, some hundred kilobytes at a time: one may hold thousands of readings."""
        async for records in self._read(tp, begin, end):
            portion, size = [], 0
            for record in records:
                portion.append(record)
                size += len(record.value or b"")
                if size >= _PORTION_BYTES:
                    yield portion
                    portion, size = [], 0
            if portion:
                yield portion

    async def _read(self, tp: TopicPartition, begin: int, end: int) -> AsyncIterator[list[Any]]:
        """Yield records of `[begin, end)`, a poll at a time."""
        async for records in read_range(self._consumer, Range(tp.topic, tp.partition, begin, end), most=_MOST_RECORDS):
            yield records
            if self._on_progress is not None:
                self._on_progress(f"{tp.topic}-{tp.partition}", records[-1].offset + 1 - begin, end - begin)


@asynccontextmanager
async def admin_client(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    """A started admin client."""
    admin = AIOKafkaAdminClient(**admin_options(settings))
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def at_partition(offsets: Offsets, partition: int) -> int | None:
    """The offset for one partition; None if none is given."""
    return offsets if offsets is None or isinstance(offsets, int) else offsets.get(partition)


def _offset(commit: GroupCommit | None) -> int:
    return 0 if commit is None else commit.offset
