"""Holds output, dead letters and late topic against the input: what is missing, wrong, contradictory, uncommitted.

Reads without a consumer group, from what is there now to where the topics ended at the start, and changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from glaim_stream.audit.columns import Cells, Letters, OutputReader, collect_letter
from glaim_stream.audit.keys import Commit, PartitionAudit, PartitionInput, merged
from glaim_stream.audit.outages import Told, told_outages
from glaim_stream.audit.report import PROBLEMS, AuditReport, Finding, Offence, PartitionRange
from glaim_stream.audit.rules import PartitionRules
from glaim_stream.audit.warnings import warnings_of
from glaim_stream.catalogue import read_catalogue
from glaim_stream.decode.dead_letters import Reject
from glaim_stream.decode.decoder import Decoder
from glaim_stream.decode.readings import Readings
from glaim_stream.errors import SettingsError
from glaim_stream.kafka.connection import kafka_options
from glaim_stream.kafka.offsets import rebuild_from_metadata
from glaim_stream.kafka.ranges import Range, read_range, reader
from glaim_stream.models.contract import CONTRACT_FILE, read_contract
from glaim_stream.settings import Settings

_COORDINATOR_S = 15.0

Progress = Callable[[str, int, int], object]  # what, records read, records in all


def audit(
    settings: Settings,
    *,
    from_offset: Mapping[int, int] | int | None = None,
    until_offset: Mapping[int, int] | int | None = None,
    since_ms: int | None = None,
    wait_s: float = 0.0,
    examples: int = 5,
    on_progress: Progress | None = None,
) -> AuditReport:
    """Audit the topics of `settings`.

    Args:
        settings: Kafka, topics, consumer group, catalogue; contracts are used where they are there.
        from_offset: of the input, for each partition by number, or one for all: read from here.
        until_offset: likewise: judge only steps with a reading below it. Later input is read all the same, since it
            may correct them.
        since_ms: read from the first record that Kafka stamped at or after this wall time, epoch ms.
        wait_s: wait up to this long until the consumer group has committed the whole input.
        examples: how many first cases of each problem are kept.
        on_progress: called while records are read.

    Raises:
        SettingsError: the broker or a topic is not there.
        CatalogueError, ContractError: they cannot be used.
    """
    return asyncio.run(
        _Auditor(settings, examples, on_progress).run(
            from_offset=from_offset, until_offset=until_offset, since_ms=since_ms, wait_s=wait_s
        )
    )


class _Auditor:
    def __init__(self, settings: Settings, examples: int, on_progress: Progress | None) -> None:
        self._settings = settings
        self._examples = examples
        self._on_progress = on_progress
        catalogue = read_catalogue(settings.catalogue)
        directories = {model.name: settings.model_repository / model.name for model in catalogue.models}
        contracts = {
            name: read_contract(directory)
            for name, directory in directories.items()
            if (directory / CONTRACT_FILE).exists()
        }
        self._cells = Cells(catalogue, contracts)
        self._decoder = Decoder(self._cells.index)

    async def run(
        self,
        *,
        from_offset: Mapping[int, int] | int | None,
        until_offset: Mapping[int, int] | int | None,
        since_ms: int | None,
        wait_s: float,
    ) -> AuditReport:
        start_s = time.monotonic()
        settings = self._settings
        async with reader(settings) as consumer, _admin(settings) as admin:
            numbers = await self._partitions(admin)
            inputs, outputs, refused, late = (
                [TopicPartition(topic, number) for number in numbers.get(topic, [])]
                for topic in (settings.input_topic, settings.output_topic, settings.dlq_topic, settings.late_topic)
            )
            outages = numbers.get(settings.outage_topic, [])
            letters_of = [*refused, *late]
            # In this order: what is committed is in the output, what is in the output came from the input.
            commits = await self._commits(consumer, admin, inputs, wait_s)
            output_ends = await consumer.end_offsets([*outputs, *letters_of])
            input_ends = await consumer.end_offsets(inputs)
            oldest = await consumer.beginning_offsets([*inputs, *outputs])
            begins = await self._begins(consumer, inputs, oldest, input_ends, from_offset, since_ms)

            letters: dict[int, Letters] = {}
            foreign_letters = 0
            for tp in letters_of:
                async for records in self._read(consumer, tp, 0, output_ends[tp]):
                    foreign_letters += sum(
                        not collect_letter(record, letters, topic=settings.input_topic) for record in records
                    )
            audits: list[PartitionAudit] = []
            groups_of: dict[int, set[int]] = {}
            foreign_rows = 0
            untold: list[int] = []
            for tp in inputs:
                number = tp.partition
                readings, rejects, count = await self._input(consumer, tp, begins[tp], input_ends[tp])
                output_rows = OutputReader(self._cells)
                output = TopicPartition(settings.output_topic, number)
                if output in outputs:
                    async for records in self._read(consumer, output, oldest[output], output_ends[output]):
                        for record in records:
                            output_rows.add(record.value or b"")
                given = PartitionInput(
                    number,
                    begins[tp],
                    input_ends[tp],
                    begins[tp] == 0,
                    readings,
                    rejects,
                    letters.get(number, Letters()),
                    output_rows.rows(),
                    commits[tp],
                    _of_partition(until_offset, number),
                    await self._told(consumer, number) if number in outages else None,
                )
                if given.told is None and number in outages:
                    untold.append(number)
                found = await asyncio.to_thread(PartitionRules(given, self._cells, examples=self._examples).run)
                found.counts["records"] = count
                found.problems["unreadable_output"] = Finding(
                    output_rows.unreadable,
                    [Offence(number, detail="not an Arrow stream in our schema")] if output_rows.unreadable else [],
                )
                audits.append(found)
                foreign_rows += output_rows.foreign
                groups_of[number] = set(readings.group.tolist())
        counts, problems = merged(audits, examples=self._examples)
        causes: dict[str, int] = {}
        for each in letters.values():
            for cause in [*each.whole.values(), *each.single.values()]:
                causes[cause] = causes.get(cause, 0) + 1
        return AuditReport(
            settings.input_topic,
            settings.output_topic,
            settings.consumer_group,
            counts,
            {name: problems.get(name, Finding(0)) for name in PROBLEMS},
            causes,
            [_range(tp, begins[tp], input_ends[tp], commits[tp]) for tp in inputs],
            warnings_of(
                settings, self._cells, inputs, oldest, commits, groups_of, foreign_rows, foreign_letters, untold
            ),
            time.monotonic() - start_s,
        )

    async def _partitions(self, admin: AIOKafkaAdminClient) -> dict[str, list[int]]:
        """Partition numbers of the topics that bear on an audit."""
        settings = self._settings
        names = list(settings.topics)
        found = {
            topic["topic"]: sorted(part["partition"] for part in topic["partitions"])
            for topic in await admin.describe_topics(names)
            if topic["error_code"] == 0
        }
        for name in (settings.input_topic, settings.output_topic):
            if not found.get(name):
                raise SettingsError(f"expected the topic {name} at {settings.kafka}, found none of that name")
        return found

    async def _commits(
        self,
        consumer: AIOKafkaConsumer,
        admin: AIOKafkaAdminClient,
        inputs: Sequence[TopicPartition],
        wait_s: float,
    ) -> dict[TopicPartition, Commit | None]:
        deadline_s = time.monotonic() + wait_s
        ends = await consumer.end_offsets(inputs)
        while True:
            found = await self._offsets(admin, inputs)
            commits = {
                tp: Commit(found[tp].offset, rebuild_from_metadata(found[tp].metadata))
                if tp in found and found[tp].offset >= 0
                else None
                for tp in inputs
            }
            behind = [tp for tp in inputs if ends[tp] and (commits[tp] or _NOTHING).offset < ends[tp]]
            if not behind or time.monotonic() >= deadline_s:
                return commits
            await asyncio.sleep(0.2)

    async def _offsets(self, admin: AIOKafkaAdminClient, inputs: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
        """The group's commits. A new broker has no coordinator for a few seconds, a restarted one neither."""
        deadline_s = time.monotonic() + _COORDINATOR_S
        while True:
            try:
                return await admin.list_consumer_group_offsets(  # type: ignore[no-any-return]
                    self._settings.consumer_group, partitions=list(inputs)
                )
            except KafkaError as error:
                if not error.retriable or time.monotonic() >= deadline_s:
                    raise SettingsError(f"commits of group {self._settings.consumer_group}: {error!r}") from error
            await asyncio.sleep(0.2)

    async def _begins(
        self,
        consumer: AIOKafkaConsumer,
        inputs: Sequence[TopicPartition],
        oldest: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        from_offset: Mapping[int, int] | int | None,
        since_ms: int | None,
    ) -> dict[TopicPartition, int]:
        begins = {tp: max(oldest[tp], _of_partition(from_offset, tp.partition) or 0) for tp in inputs}
        if since_ms is not None:
            found = await consumer.offsets_for_times(dict.fromkeys(inputs, since_ms))
            for tp in inputs:
                at = found.get(tp)
                begins[tp] = max(begins[tp], ends[tp] if at is None else at.offset)
        return begins

    async def _input(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, begin: int, end: int
    ) -> tuple[Readings, list[Reject], int]:
        import numpy as np

        from glaim_stream.decode.readings import no_readings

        parts: list[Readings] = [no_readings()]
        rejects: list[Reject] = []
        count = 0
        async for records in self._read(consumer, tp, begin, end):
            decoded, refused = self._decoder.decode(records, now_ms=time.time_ns() // 1_000_000)
            parts.append(decoded)
            rejects += refused
            count += len(records)
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in Readings.__slots__]
        return Readings(*columns), rejects, count

    async def _told(self, consumer: AIOKafkaConsumer, number: int) -> set[Told] | None:
        """Events by event time on a partition of the outage topic; looked at after the commits, so all there are.

        None where retention or compaction has removed some: what is absent says nothing then.
        """
        tp = TopicPartition(self._settings.outage_topic, number)
        told: set[Told] = set()
        begin, end = (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]
        count = 0
        async for records in self._read(consumer, tp, begin, end):
            told |= told_outages([record.value for record in records], self._cells)
            count += len(records)
        return told if count == end else None

    async def _read(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, begin: int, end: int
    ) -> AsyncIterator[list[Any]]:
        """Records of `[begin, end)`, a poll at a time."""
        async for records in read_range(consumer, Range(tp.topic, tp.partition, begin, end)):
            yield records
            if self._on_progress is not None:
                self._on_progress(f"{tp.topic}-{tp.partition}", records[-1].offset + 1 - begin, end - begin)


_NOTHING = Commit(-1, None)


def _of_partition(offsets: Mapping[int, int] | int | None, partition: int) -> int | None:
    return offsets if offsets is None or isinstance(offsets, int) else offsets.get(partition)


@asynccontextmanager
async def _admin(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**kafka_options(settings))
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def _range(tp: TopicPartition, begin: int, end: int, commit: Commit | None) -> PartitionRange:
    if commit is None:
        return PartitionRange(tp.partition, begin, end, None, None)
    return PartitionRange(tp.partition, begin, end, commit.offset, commit.rebuild_from)
