"""Audits the topics of an installation: reads them, and applies the rules partition by partition."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack

from aiokafka import TopicPartition

from glaim_stream.audit.commits import Commit
from glaim_stream.audit.letters import Letters
from glaim_stream.audit.losses import check_losses, current_losses
from glaim_stream.audit.model_columns import ModelColumns
from glaim_stream.audit.output_rows import OutputReader
from glaim_stream.audit.partition import PartitionTopics, audit_partition
from glaim_stream.audit.report import PROBLEMS, AuditReport, Finding, Findings, Offence, PartitionRange
from glaim_stream.audit.topics import Offsets, Progress, TopicReader, admin_client, at_partition
from glaim_stream.audit.warnings import warnings_of
from glaim_stream.catalogue import read_catalogue
from glaim_stream.kafka.ranges import reader
from glaim_stream.models.contract import CONTRACT_FILE, read_contract
from glaim_stream.settings import Settings


def audit(
    settings: Settings,
    *,
    from_offset: Offsets = None,
    until_offset: Offsets = None,
    since_ms: int | None = None,
    wait_s: float = 0.0,
    examples: int = 5,
    on_progress: Progress | None = None,
) -> AuditReport:
    """Audit the topics of `settings`.

    Reads without a consumer group, from the oldest record to where the topics ended at the start, and changes nothing.

    Args:
        settings: Kafka, topics, consumer group, catalogue; contracts are used where they are there.
        from_offset: of the input, for each partition by number, or one for all: read from here.
        until_offset: likewise: judge only steps with a reading below it. Later input is read all the same, since it
            may correct them.
        since_ms: read from the first record that Kafka stamped at or after this wall time, epoch ms.
        wait_s: wait up to this long until the consumer group has committed the whole input.
        examples: how many offences of each problem are kept.
        on_progress: called while records are read.

    Raises:
        SettingsError: the broker or a topic is not there.
        CatalogueError, ContractError: they cannot be used.
    """
    return asyncio.run(_audit(settings, from_offset, until_offset, since_ms, wait_s, examples, on_progress))


async def _audit(
    settings: Settings,
    from_offset: Offsets,
    until_offset: Offsets,
    since_ms: int | None,
    wait_s: float,
    examples: int,
    on_progress: Progress | None,
) -> AuditReport:
    start_s = time.monotonic()
    columns = _model_columns(settings)
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(reader(settings))
        admin = await stack.enter_async_context(admin_client(settings))
        topics = TopicReader(settings, columns, consumer, admin, on_progress)
        numbers = await topics.partitions()
        inputs, outputs, refused, late = (
            [TopicPartition(topic, number) for number in numbers.get(topic, [])]
            for topic in (settings.input_topic, settings.output_topic, settings.dlq_topic, settings.late_topic)
        )
        # In this order: what is committed is in the output, what is in the output came from the input.
        commits = await topics.commits(inputs, wait_s)
        await topics.require_group(commits)
        output_ends = await consumer.end_offsets([*outputs, *refused, *late])
        input_ends = await consumer.end_offsets(inputs)
        oldest = await consumer.beginning_offsets([*inputs, *outputs])
        begins = await topics.begins(inputs, oldest, input_ends, from_offset, since_ms)
        letters, foreign_letters = await topics.letters({tp: output_ends[tp] for tp in (*refused, *late)})

        total = Findings()
        groups_of: dict[int, set[int]] = {}
        once_from: dict[int, int | None] = {}
        foreign_rows = 0
        incomplete_outages: list[int] = []
        for tp in inputs:
            number = tp.partition
            readings, rejects, records = await topics.readings(tp, begins[tp], input_ends[tp])
            output = TopicPartition(settings.output_topic, number)
            rows = OutputReader(columns)
            if output in outputs:
                await topics.rows(rows, output, oldest[output], output_ends[output])
            has_outages = number in numbers.get(settings.outage_topic, [])
            outages, losses = await topics.outages(number) if has_outages else (None, [])
            if has_outages and outages is None:
                incomplete_outages.append(number)
            given = PartitionTopics(
                number,
                begins[tp],
                input_ends[tp],
                begins[tp] == 0,
                readings,
                rejects,
                letters.get(number, Letters()),
                rows.rows(),
                commits[tp],
                at_partition(until_offset, number),
                outages,
            )
            losses += current_losses(tp, commits[tp], oldest[tp])
            total.add(check_losses(losses, partition=number, from_offset=at_partition(from_offset, number) or 0))
            total.add(await asyncio.to_thread(audit_partition, given, columns, examples=examples))
            total.add(Findings({"records": records}, {"unreadable_output": _unreadable(number, rows.unreadable)}))
            foreign_rows += rows.foreign
            once_from[number] = rows.once_from
            groups_of[number] = set(readings.group.tolist())
    return AuditReport(
        settings.input_topic,
        settings.output_topic,
        settings.consumer_group,
        total.counts,
        {name: _shortened(total.problems.get(name, Finding(0)), examples) for name in PROBLEMS},
        _letters_by_cause(letters),
        [_range(tp, begins[tp], input_ends[tp], commits[tp], once_from[tp.partition]) for tp in inputs],
        warnings_of(
            settings, columns, inputs, oldest, commits, groups_of, foreign_rows, foreign_letters, incomplete_outages
        ),
        time.monotonic() - start_s,
    )


def _model_columns(settings: Settings) -> ModelColumns:
    catalogue = read_catalogue(settings.catalogue)
    directories = {model.name: settings.model_repository / model.name for model in catalogue.models}
    return ModelColumns(
        catalogue,
        {
            name: read_contract(directory)
            for name, directory in directories.items()
            if (directory / CONTRACT_FILE).exists()
        },
    )


def _unreadable(partition: int, count: int) -> Finding:
    return Finding(count, [Offence(partition, detail="not an Arrow stream in the schema of the rows")] if count else [])


def _shortened(finding: Finding, examples: int) -> Finding:
    return Finding(finding.count, finding.first[:examples])


def _letters_by_cause(letters: Mapping[int, Letters]) -> dict[str, int]:
    causes: Counter[str] = Counter()
    for each in letters.values():
        causes.update([*each.whole.values(), *each.single.values()])
    return dict(causes)


def _range(tp: TopicPartition, begin: int, end: int, commit: Commit | None, once_from: int | None) -> PartitionRange:
    if commit is None:
        return PartitionRange(tp.partition, begin, end, None, None, once_from)
    return PartitionRange(tp.partition, begin, end, commit.offset, commit.rebuild_from, once_from)
