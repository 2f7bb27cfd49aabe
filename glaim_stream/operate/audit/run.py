"""Audits the topics of an installation: reads them, and applies the rules partition by partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from aiokafka import TopicPartition
from numpy.typing import NDArray

from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import CONTRACT_FILE, read_contract
from glaim_stream.core.errors import ModelError, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import text_of_ms
from glaim_stream.form import artefact, decimals_in
from glaim_stream.kafka import reader
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.judged_steps import JudgedSteps
from glaim_stream.operate.audit.letters import LetterTable
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.output_rows import OutputReader
from glaim_stream.operate.audit.partition import Given, PartitionAudit
from glaim_stream.operate.audit.report import PROBLEMS, AuditReport, Finding, Findings, Offence, PartitionRange
from glaim_stream.operate.audit.topics import Ends, Offsets, Progress, TopicReader, admin_client, at_partition
from glaim_stream.operate.audit.warnings import check_losses, current_losses, warnings_of
from glaim_stream.operate.database import database
from glaim_stream.windows import HORIZON

_NO_END = 1 << 62
_LEAST_LEAD_MS = 3_600_000  # largest difference between the clocks of producers, broker and workers


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """The range and the options of an audit.

    Attributes:
        from_offset: first input offset to read, by partition number or one for all.
        until_offset: judge only steps with a reading below this input offset, by partition number or one for all. Later
            input is read all the same, since it may correct them.
        since_ms: judge only steps that begin at or after this time, and the rejected readings of records that Kafka
            stamped at or after it; epoch ms.
        until_ms: judge only steps that end at or before this time, and rejected readings of records stamped before it.
        wait_s: longest wait until the consumer group has committed the whole input, seconds.
        examples: most offences of each problem to keep.
        temp_folder: folder of what does not fit into memory; None for the system's.
    """

    from_offset: Offsets = None
    until_offset: Offsets = None
    since_ms: int | None = None
    until_ms: int | None = None
    wait_s: float = 0.0
    examples: int = 5
    temp_folder: Path | None = None


def audit(
    settings: Settings, request: AuditRequest | None = None, *, on_progress: Progress | None = None
) -> AuditReport:
    """Audit the topics of `settings`.

    Reads without a consumer group, from the oldest record to where the topics ended at the start, and changes nothing.
    Memory does not grow with the topics: they are sorted in a database, and what is above 128 MB of one partition lies
    in a temporary folder.

    Args:
        settings: Kafka, topics, consumer group and catalogue; contracts are used if they exist.
        request: range to judge; everything by default.
        on_progress: called while records are read.

    Raises:
        SettingsError: DuckDB, the broker or a topic is not there, the temporary folder takes no more data, or there is
            nothing to judge in the requested stretch of time.
        CatalogueError, ContractError: the catalogue or a contract cannot be used.
    """
    return asyncio.run(_audit(settings, request or AuditRequest(), on_progress))


async def _audit(settings: Settings, request: AuditRequest, on_progress: Progress | None) -> AuditReport:
    start_s = time.monotonic()
    columns = _model_columns(settings)
    judged = JudgedSteps.between(request.since_ms, request.until_ms, columns)
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(reader(settings))
        admin = await stack.enter_async_context(admin_client(settings))
        topics = TopicReader(settings, columns, consumer, admin, on_progress)
        numbers = await topics.partitions()
        inputs, outputs, refused, late = (
            [TopicPartition(topic, number) for number in numbers.get(topic, [])]
            for topic in (settings.input_topic, settings.output_topic, settings.dlq_topic, settings.late_topic)
        )
        # The order matters: committed input is in the output, and rows of the output came from the input.
        commits = await topics.commits(inputs, request.wait_s)
        await topics.require_group(commits)
        output_ends = await consumer.end_offsets([*outputs, *refused, *late])
        input_ends = await consumer.end_offsets(inputs)
        oldest = await consumer.beginning_offsets([*inputs, *outputs])
        begins = await _begins(topics, request, columns, inputs, outputs, oldest)
        records = await _judged_records(topics, request, inputs, begins, input_ends)

        letters = LetterTable(
            stack.enter_context(database(request.temp_folder)),
            settings.input_topic,
            {tp.partition: records[tp] for tp in inputs} if _dated(request) else None,
        )
        foreign_letters = await topics.letters(letters, {tp: output_ends[tp] for tp in (*refused, *late)})

        total = Findings()
        groups_of: dict[int, set[int]] = {}
        once_from: dict[int, int | None] = {}
        foreign_rows = 0
        incomplete_outages: list[int] = []
        newest_ms: int | None = None
        for tp in inputs:
            number = tp.partition
            # Everything stamped before the first record that is read lies before the judged steps.
            whole = begins[tp] == 0 or (
                request.since_ms is not None and oldest[tp] < begins[tp] and not request.from_offset
            )
            given = Given(
                number, begins[tp], input_ends[tp], whole, commits[tp], judged, records[tp],
                at_partition(request.until_offset, number),
            )  # fmt: skip
            with database(request.temp_folder) as own:
                partition = PartitionAudit(given, columns, own, examples=request.examples)
                groups_of[number] = set()
                count = 0
                async for offsets, parts in topics.input(tp, begins[tp], input_ends[tp]):
                    count += sum(offset in records[tp] for offset in offsets)
                    of_records = letters.between(number, offsets[0], offsets[-1] + 1)
                    for part in parts:
                        partition.add_input(part.readings, part.rejects, of_records)
                        groups_of[number].update(part.readings.group.tolist())
                        if len(part.readings):
                            newest_ms = max(int(part.readings.event_time_ms.max()), newest_ms or 0)
                output = TopicPartition(settings.output_topic, number)
                rows = OutputReader(columns)
                if output in outputs:
                    async for some in topics.rows(rows, output, begins[output], output_ends[output]):
                        partition.add_rows(some)
                has_outages = number in numbers.get(settings.outage_topic, [])
                known, losses = await topics.outages(number, partition.add_outages) if has_outages else (False, [])
                if has_outages and not known:
                    incomplete_outages.append(number)
                losses += current_losses(tp, commits[tp], oldest[tp])
                total.add(
                    check_losses(
                        losses, partition=number, judged=_judged_losses(request, number, records[tp], oldest[tp])
                    )
                )
                dead_letters = letters.by_partition.get(number, 0)
                total.add(await asyncio.to_thread(partition.findings, dead_letters=dead_letters, outages_known=known))
            total.add(Findings({"records": count}, {"unreadable_output": _unreadable(number, rows.unreadable)}))
            foreign_rows += rows.foreign
            once_from[number] = rows.once_from
    if _dated(request):
        _require_something(total, request, newest_ms)
    return AuditReport(
        settings.input_topic,
        settings.output_topic,
        settings.consumer_group,
        total.counts,
        {name: _shortened(total.problems.get(name, Finding(0)), request.examples) for name in PROBLEMS},
        letters.by_cause,
        [_range(tp, begins[tp], input_ends[tp], commits[tp], once_from[tp.partition]) for tp in inputs],
        warnings_of(
            settings,
            columns,
            inputs,
            [tp.partition for tp in inputs if 0 < oldest[tp] == begins[tp]],
            [tp.partition for tp in outputs if 0 < oldest[tp] == begins[tp]],
            commits,
            groups_of,
            foreign_rows,
            foreign_letters,
            incomplete_outages,
        ),
        time.monotonic() - start_s,
    )


def _dated(request: AuditRequest) -> bool:
    return request.since_ms is not None or request.until_ms is not None


async def _begins(
    topics: TopicReader,
    request: AuditRequest,
    columns: ModelColumns,
    inputs: Sequence[TopicPartition],
    outputs: Sequence[TopicPartition],
    oldest: Ends,
) -> dict[TopicPartition, int]:
    """First offset to read of each partition of input and output.

    A stretch of time needs what came before it, to know the clock and the errors that gave a blend its weights. No
    reading is taken that is further ahead of its record than `max_ahead_s`.
    """
    start_ms = None if request.since_ms is None else request.since_ms - lead_ms(columns)
    begins = dict(await topics.first_at([*inputs, *outputs], start_ms, oldest))
    for tp in inputs:
        begins[tp] = max(begins[tp], oldest[tp], at_partition(request.from_offset, tp.partition) or 0)
    return begins


def lead_ms(columns: ModelColumns) -> int:
    """The lead of reading before the first judged step, milliseconds."""
    catalogue = columns.catalogue
    ahead = max(catalogue.max_ahead_ms(model) for model in catalogue.models)
    steps = HORIZON + columns.window + columns.revise_after + 1
    return max(_LEAST_LEAD_MS, int((steps * columns.step_ms + columns.lateness_ms).max()) + ahead)


async def _judged_records(
    topics: TopicReader, request: AuditRequest, inputs: Sequence[TopicPartition], begins: Ends, ends: Ends
) -> dict[TopicPartition, range]:
    """The offsets of each partition whose rejected readings are judged."""
    first = await topics.first_at(inputs, request.since_ms, begins)
    end = await topics.first_at(inputs, request.until_ms, ends)
    return {tp: range(max(first[tp], begins[tp]), min(end[tp], ends[tp])) for tp in inputs}


def _judged_losses(request: AuditRequest, partition: int, records: range, oldest: int) -> range:
    """The offsets whose loss is judged: also those before `records` if these begin with the log."""
    first = at_partition(request.from_offset, partition) or 0
    if request.since_ms is not None and records.start > oldest:
        first = max(first, records.start)
    return range(first, records.stop if request.until_ms is not None else _NO_END)


def _require_something(total: Findings, request: AuditRequest, newest_ms: int | None) -> None:
    """Raise SettingsError if a stretch of time holds nothing to judge: that is not the same as clean."""
    if total.counts["keys"] or total.counts["rejected"] or any(each.count for each in total.problems.values()):
        return
    stretch = " ".join(
        f"{word} {text_of_ms(time_ms)}"
        for word, time_ms in (("since", request.since_ms), ("until", request.until_ms))
        if time_ms is not None
    )
    found = "no readings" if newest_ms is None else f"readings up to {text_of_ms(newest_ms)}"
    raise SettingsError(f"expected readings whose time lies {stretch}, found {found}")


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
        {model.name: _decimals(directories[model.name], len(model.sensors)) for model in catalogue.models},
    )


def _decimals(directory: Path, sensors: int) -> NDArray[np.int8] | None:
    """The decimals to which workers with the present closed form round; None without one that they can use."""
    try:
        return decimals_in(artefact.read(directory), sensors)
    except ModelError:
        return None


def _unreadable(partition: int, count: int) -> Finding:
    return Finding(count, [Offence(partition, detail="not an Arrow stream in the schema of the rows")] if count else [])


def _shortened(finding: Finding, examples: int) -> Finding:
    return Finding(finding.count, finding.first[:examples])


def _range(
    tp: TopicPartition, begin: int, end: int, commit: GroupCommit | None, once_from: int | None
) -> PartitionRange:
    if commit is None:
        return PartitionRange(tp.partition, begin, end, None, None, once_from)
    return PartitionRange(tp.partition, begin, end, commit.offset, commit.rebuild_from, once_from)
