"""Replays a file or ranges of a topic by partitions, in several processes, with parts that a later run takes up.

A partition has windows, scores and a watermark of its own, so its rows do not depend on the others. Its messages wait
on disk, in the folder of the run, and its rows are written to a file there. The files are joined at the end.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka.errors import KafkaError

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.jobs import shared_out
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.settings import Settings
from glaim_stream.core.unfinished import Unfinished, kept_parts
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import ARROW_HEADERS, Plan
from glaim_stream.feed.replay.files import Content, Dealer, Dealt, FileRecord, messages_of, records_of
from glaim_stream.feed.replay.partition import Counts
from glaim_stream.feed.replay.run import Progress, ReplayReport, Target, replay_dealt, replay_messages, replay_ranges
from glaim_stream.feed.replay.sinks import LinesFile
from glaim_stream.feed.sources import Source
from glaim_stream.files import PlainLong
from glaim_stream.kafka import Range, ensure_topic, poll_records, ranges_of, reader
from glaim_stream.output import RowFile, joined_rows

_FORM = b"form"  # of the messages of a file, in the metadata of its schema
_SLICE = 400_000  # messages that are dealt at a time
_STRETCH = 500_000  # messages of a partition that are put in order of time together
_TELL_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """How partitions are replayed.

    close: publish the steps that are open at the end.
    jobs: number of processes.
    depends_on: what the rows depend on, for a later run; None: no part is kept.
    say: called with a sentence on what an earlier run has left.
    """

    settings: Settings
    target: Target
    close: bool
    jobs: int
    depends_on: Mapping[str, object] | None = None
    say: Callable[[str], object] = print

    @property
    def apart(self) -> bool:
        """Whether partitions can be replayed apart: an output of another distribution is opened once."""
        return self.target.output in ("file", "topic")


def replay_file(job: Job, content: list[Content], on_progress: Progress) -> ReplayReport:
    """Replay the messages of a file.

    Args:
        job: how they are replayed.
        content: list with the messages, or with the plan of them; it is taken out, so that it needs no memory later.
        on_progress: called with the numbers of finished and of all records.

    Raises:
        GlaimError: the settings, the catalogue, a contract, a model, the output or a server cannot be used.
    """
    settings = job.settings
    if not job.apart:
        given = content.pop()
        return asyncio.run(
            replay_messages(
                settings, messages_of(given), partitions=settings.partitions, total=len(given), target=job.target,
                close=job.close, on_progress=on_progress,
            )
        )  # fmt: skip
    with _folder(job, settings.partitions) as folder:
        found = _finished(job, folder)
        stretches = _spilled(content.pop(), Dealer(settings.partitions, 0), folder, found)
        pa.default_memory_pool().release_unused()
        sizes = {number: sum(each.values()) for number, each in stretches.items()}
        task = partial(_replay_input, job, folder, stretches)
        return _replayed(job, folder, sizes, task, found, on_progress)


def replay_topic(job: Job, ranges: Sequence[tuple[Range, Range]], on_progress: Progress) -> ReplayReport:
    """Replay ranges of a topic.

    Args:
        job: how they are replayed.
        ranges: for each partition the range that warms the windows up (warmup.py), and the range to replay.
        on_progress: called with the numbers of finished and of all records.

    Raises:
        GlaimError: the settings, the catalogue, a contract, a model, the output or a server cannot be used.
    """
    if not job.apart:
        return asyncio.run(
            replay_ranges(job.settings, list(ranges), target=job.target, close=job.close, on_progress=on_progress)
        )
    by_partition = {part.partition: (warm, part) for warm, part in ranges}
    sizes = {number: len(warm) + len(part) for number, (warm, part) in by_partition.items()}
    with _folder(job, max(sizes) + 1) as folder:
        return _replayed(job, folder, sizes, partial(_replay_range, job, folder, by_partition), {}, on_progress)


@contextmanager
def _folder(job: Job, partitions: int) -> Iterator[Unfinished]:
    """The folder of the messages and the parts of a run."""
    out = Path(job.target.where)
    if job.target.output == "file":
        RowFile(out)  # raises on another ending
        out.parent.mkdir(parents=True, exist_ok=True)
        if job.depends_on is not None:
            with kept_parts(out.with_name(f"{out.name}.parts"), job.depends_on, finished="done-*.json") as folder:
                if folder.said:
                    job.say(folder.said)
                yield folder
            return
    elif (there := asyncio.run(_held_by_topic(job.settings, job.target.where, partitions))) > 0:
        job.say(
            f"{job.target.where} holds {there} messages already: what an earlier run has published is published again"
        )
    beside = out.parent if job.target.output == "file" else None
    with tempfile.TemporaryDirectory(prefix=".replay-", dir=beside) as name:
        yield Unfinished(Path(name))


async def _held_by_topic(settings: Settings, topic: str, partitions: int) -> int:
    """Messages of a topic; it is made if it is absent, before several processes publish on it."""
    ensure_topic(settings, topic, partitions)
    async with reader(settings) as consumer:
        return sum(map(len, await ranges_of(settings, consumer, topic)))


def _finished(job: Job, folder: Unfinished) -> dict[int, ReplayReport]:
    """The reports of the finished parts whose files are whole, by partition."""
    found = {}
    for path in folder.folder.glob("done-*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            number, document = int(path.stem.partition("-")[2]), json.loads(path.read_bytes())
            counts = document["counts"] | {"rejects": Counter(document["counts"]["rejects"])}
            if document["bytes"] == _sizes(_part(job.target, folder, number)):
                found[number] = ReplayReport(Counts(**counts))
    return found


def _keep(job: Job, folder: Unfinished, number: int, report: ReplayReport) -> None:
    """Note that a part is finished, unless a later run may do better."""
    if not report.failures and not report.counts.faults:
        counts = {each.name: getattr(report.counts, each.name) for each in fields(Counts)}
        document = {"counts": counts, "bytes": _sizes(_part(job.target, folder, number))}
        folder.write(folder.path("done", number, "json"), json.dumps(document).encode())


def _sizes(part: Target) -> list[int]:
    """Bytes of the files of a part."""
    files = [Path(part.where)] if part.output == "file" else []
    return [path.stat().st_size for path in (*files, part.rejects, part.outages) if path is not None]


# Numbers of messages by their partition, the stretch of time and the batch of the file that they are in.
Batches = dict[int, dict[tuple[int, int], int]]


def _spilled(content: Content, dealer: Dealer, folder: Unfinished, found: Collection[int]) -> Batches:
    """Write the messages of each partition that is not finished to a file.

    Raises:
        SettingsError: a file cannot be written, for example on a full disk.
    """
    batches: Batches = {}
    writers: dict[int, Any] = {}
    try:
        with ExitStack() as stack:
            for number, stretch, messages, batch in _dealt(content, dealer):
                mine = batches.setdefault(number, {})
                mine[stretch, len(mine)] = messages
                if number in found:
                    continue
                if number not in writers:
                    path = str(folder.path("input", number, "arrow"))
                    writers[number] = stack.enter_context(pa.ipc.new_file(path, batch.schema))
                writers[number].write_batch(batch)
    except OSError as error:
        raise SettingsError(f"{folder.folder} cannot be written: {error.strerror or error}") from error
    return dict(sorted(batches.items()))


def _dealt(content: Content, dealer: Dealer) -> Iterator[tuple[int, int, int, pa.RecordBatch]]:
    """Partition, stretch of time, number of messages and messages, in slices of all messages.

    The messages of a file that is not in order of time are put in order stretch by stretch (`_records`).
    """
    if isinstance(content, PlainLong):
        yield from _dealt_pieces(content, dealer)
    elif isinstance(content, Plan):
        yield from _dealt_plan(content, dealer)
    else:
        names = [("key", pa.binary()), ("value", pa.large_binary())]
        schema = pa.schema(names, {_FORM: json.dumps(bool(content[0][2]))})
        for first in range(0, len(content), _SLICE):
            part = content[first : first + _SLICE]
            numbers = [dealer.partition(key) for key, _, _ in part]
            for number in sorted(set(numbers)):
                mine = [message for message, its in zip(part, numbers, strict=True) if its == number]
                columns = [[key for key, _, _ in mine], [value for _, value, _ in mine]]
                arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
                yield number, first, len(mine), pa.record_batch(arrays, schema=schema)


def _dealt_plan(plan: Plan, dealer: Dealer) -> Iterator[tuple[int, int, int, pa.RecordBatch]]:
    source = plan.source
    form = {_FORM: json.dumps([plan.input_format.value, source.cells, True])}
    of_group = np.array([dealer.partition(group.encode()) for group in source.groups], np.int32)
    of_cell = of_group[source.group_of_cell]
    for first in range(0, len(plan), _SLICE):
        starts = plan.starts[first : first + _SLICE + 1]
        rows = slice(int(starts[0]), int(starts[-1]))
        opens = np.zeros(rows.stop - rows.start, np.bool_)
        opens[starts[:-1] - starts[0]] = True
        number_of_row = of_cell[source.cell[rows]]  # a message is of one group
        for number in np.unique(number_of_row).tolist():
            mine = number_of_row == number
            columns = {
                "cell": source.cell[rows][mine], "time_ms": source.time_ms[rows][mine],
                "value": source.value[rows][mine], "opens": opens[mine],
            }  # fmt: skip
            yield number, first, int(opens[mine].sum()), pa.record_batch(columns).replace_schema_metadata(form)


def _dealt_pieces(plain: PlainLong, dealer: Dealer) -> Iterator[tuple[int, int, int, pa.RecordBatch]]:
    form = {_FORM: json.dumps([InputFormat.SINGLE.value, plain.cells, False])}
    of_cell = np.array([dealer.partition(group.encode()) for group, _ in plain.cells], np.int64)
    count = -(-len(plain) // (dealer.partitions * _STRETCH))
    bounds = np.quantile(np.concatenate(plain.times_ms), np.arange(1, count) / count)
    for piece in plain.pieces():
        place = of_cell[piece.cell] * count + np.searchsorted(bounds, piece.time_ms, side="right")
        order = np.argsort(place, kind="stable")
        found, starts = np.unique(place[order], return_index=True)
        for each, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            columns = {
                "cell": piece.cell[rows], "time_ms": piece.time_ms[rows],
                "value": piece.value[rows], "opens": np.ones(len(rows), np.bool_),
            }  # fmt: skip
            batch = pa.record_batch(columns).replace_schema_metadata(form)
            yield each // count, each % count, len(rows), batch


def _records(path: Path, partition: int, batches: Collection[tuple[int, int]], most: int) -> Iterator[Dealt]:
    """The records of a file that `_spilled` wrote, at most `most` at a time."""
    now_ms = time.time_ns() // 1_000_000
    offset = 0
    with pa.OSFile(str(path)) as file:
        reading = pa.ipc.open_file(file)
        form = json.loads(reading.schema.metadata[_FORM])
        for _, numbers in groupby(sorted(batches), lambda batch: batch[0]):
            table = pa.Table.from_batches([reading.get_batch(number) for _, number in numbers])
            records = _records_of(table.combine_chunks(), form, offset, now_ms)
            for first in range(0, len(records), most):
                part = records[first : first + most]
                yield partition, part, offset + first + len(part)
            offset += len(records)


def _records_of(table: pa.Table, form: Any, offset: int, now_ms: int) -> Sequence[InputRecord]:
    """The records of a stretch of time."""
    if "cell" not in table.column_names:
        headers = ARROW_HEADERS if form else ()
        pairs = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        return [FileRecord(key, value, offset + at, now_ms, headers) for at, (key, value) in enumerate(pairs)]
    cell, time_ms, value, opens = (np.asarray(column) for column in table.columns)
    input_format, cells, ordered = form
    if not ordered:
        order = np.argsort(time_ms, kind="stable")
        cell, time_ms, value = cell[order], time_ms[order], value[order]
    source = Source([(group, sensor) for group, sensor in cells], cell, time_ms, value)
    starts = np.append(np.flatnonzero(opens), len(cell))
    plan = Plan(InputFormat(input_format), source, np.zeros(len(cell), np.bool_), starts, time_ms[starts[1:] - 1])
    return records_of(plan, first=offset, now_ms=now_ms)


def _replayed(
    job: Job,
    folder: Unfinished,
    sizes: Mapping[int, int],
    task: Callable[[tuple[int, int], Callable[[int], object]], ReplayReport],
    found: dict[int, ReplayReport],
    on_progress: Progress,
) -> ReplayReport:
    """Replay the partitions that are not finished, the largest first, and join the parts of all."""
    start_s = time.monotonic()
    found = {number: report for number, report in found.items() if number in sizes}
    left = sorted(set(sizes) - set(found), key=lambda number: (-sizes[number], number))
    done = {number: sizes[number] for number in found}

    def on_done(place: int, amount: int) -> None:
        done[left[place]] = amount
        on_progress(sum(done.values()), sum(sizes.values()))

    def died(part: tuple[int, int], how: str) -> str:
        kept = f"; what is finished is in {folder.folder}, and the same command goes on from there"
        return f"partition {part[0]}: its process ended by {how}: give fewer --jobs, or --jobs 1" + kept * (
            job.depends_on is not None and job.target.output == "file"
        )

    asked = [(number, sizes[number]) for number in left]
    with shared_out(task, asked, jobs=job.jobs, died=died, on_done=on_done) as results:
        for place, report in results:
            number = left[place]
            found[number] = report
            _keep(job, folder, number, report)
            folder.path("input", number, "arrow").unlink(missing_ok=True)
    _join(job.target, folder, sorted(found))
    whole = ReplayReport(seconds=time.monotonic() - start_s)
    for report in found.values():
        whole.add(report)
    return whole


def _replay_input(
    job: Job, folder: Unfinished, batches: Batches, part: tuple[int, int], tell: Callable[[int], object]
) -> ReplayReport:
    """Replay the messages of a partition that wait in their file."""
    number, size = part
    path, most = folder.path("input", number, "arrow"), poll_records(job.settings.kafka_extra)
    records = _records(path, number, batches[number], most)
    replay = replay_dealt(
        job.settings, records, partitions=job.settings.partitions, total=size, target=_part(job.target, folder, number),
        close=job.close, on_progress=_seldom(tell),
    )  # fmt: skip
    return _run(replay, folder)


def _replay_range(
    job: Job,
    folder: Unfinished,
    ranges: Mapping[int, tuple[Range, Range]],
    part: tuple[int, int],
    tell: Callable[[int], object],
) -> ReplayReport:
    """Replay the range of a partition of a topic."""
    number, _ = part
    target = _part(job.target, folder, number)
    replay = replay_ranges(
        job.settings, [ranges[number]], target=target, close=job.close, on_progress=_seldom(tell)
    )  # fmt: skip
    return _run(replay, folder)


def _run(replay: Coroutine[Any, Any, ReplayReport], folder: Unfinished) -> ReplayReport:
    try:
        return asyncio.run(replay)
    except KafkaError as error:
        raise SettingsError(f"Kafka: {error!r}") from error
    except OSError as error:
        raise SettingsError(f"{folder.folder} cannot be written or read: {error.strerror or error}") from error


def _seldom(tell: Callable[[int], object]) -> Progress:
    told_s = 0.0

    def on_progress(done: int, total: int) -> None:
        nonlocal told_s
        if done == total or time.monotonic() - told_s > _TELL_EVERY_S:
            told_s = time.monotonic()
            tell(done)

    return on_progress


def _part(target: Target, folder: Unfinished, number: int) -> Target:
    """The target of one partition, with its files in the folder."""
    return replace(
        target,
        where=str(folder.path("rows", number, "arrow")) if target.output == "file" else target.where,
        rejects=folder.path("rejects", number, "jsonl") if target.rejects else None,
        outages=folder.path("outages", number, "jsonl") if target.outages else None,
    )


def _join(target: Target, folder: Unfinished, numbers: Sequence[int]) -> None:
    """Join the files of the parts in the order of the partitions."""
    parts = [_part(target, folder, number) for number in numbers]
    if target.output == "file":
        try:
            with RowFile(Path(target.where), at_ctrl_c=False) as rows:
                for table in joined_rows([Path(part.where) for part in parts], newest_only=target.newest_only):
                    rows.add(table)
        except OSError as error:
            raise SettingsError(f"{target.where} cannot be written: {error.strerror or error}") from error
    for path, pieces in (
        (target.rejects, [part.rejects for part in parts]),
        (target.outages, [part.outages for part in parts]),
    ):
        if path is not None:
            with LinesFile(path) as lines:
                for piece in filter(None, pieces):
                    with piece.open() as file:
                        for line in file:
                            lines.write(line.removesuffix("\n"))
