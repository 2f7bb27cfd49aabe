"""An internal error loses only the records that fail: other records, their rows and the windows are kept."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.errors import ImputerError
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.imputers import Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.kafka import OffsetLedger
from glaim_stream.output import Rows, read_rows
from glaim_stream.pipeline.isolation import Isolation
from glaim_stream.pipeline.partition_scores import PartitionScores
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.pipeline.querying import Answer
from glaim_stream.windows import PartitionWindows
from glaim_stream.worker import Batch, PartitionWorker
from glaim_stream.worker.outlet import AtLeastOnce
from tests.support import (
    POISON,
    MemoryPublisher,
    MemoryRebuilder,
    PoisonedPipeline,
    Record,
    catalogue,
    header,
    json_record,
)

RULES = catalogue(sensors=2)


class Misrepairing(Pipeline):
    """A pipeline whose first `times` attempts to make rows fail."""

    times = 1

    def settle(self, scores: PartitionScores, answers: Sequence[Answer]) -> list[tuple[int, Rows]]:
        if answers and self.times:
            self.times -= 1
            raise ValueError("a bug in repair")
        return super().settle(scores, answers)


class Failing:
    """An imputer that raises, although the ladder never does."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def impute(self, windows: Windows) -> Imputed:
        raise self.error


class Misshapen:
    """An imputer whose answer does not fit its windows."""

    async def impute(self, windows: Windows) -> Imputed:
        return Imputed(np.zeros((1, 1, 1), np.float64), np.zeros((1, 1, 1), np.int8), [])


def topic(steps: Sequence[int], poison: Sequence[int] = ()) -> list[Record]:
    """One reading per step, of two sensors in turn, so that the other has a hole; `poison` lists offsets."""
    return [
        json_record(
            offset, key=POISON if offset in poison else b"g0",
            group="g0", sensor=f"s{step % 2}", ts=step * 1000, value=step,
        )
        for offset, step in enumerate(steps)
    ]  # fmt: skip


def rows_of(publisher: MemoryPublisher) -> list[tuple[Any, ...]]:
    """(step, sensor, revision, value, method, final) of every row, in a fixed order."""
    found = []
    for message in publisher.messages:
        table = read_rows(message.value)
        for ts, row in zip(table["ts"].cast(pa.int64()).to_pylist(), table.to_pylist(), strict=True):
            found.append((ts // 1000, row["sensor"], row["revision"], row["value"], row["method"], row["final"]))
    return sorted(found, key=lambda row: row[:3])


async def published(
    pipeline: Pipeline, records: Sequence[Record], cuts: Sequence[int], *, restart_at: int | None = None
) -> tuple[MemoryPublisher, PartitionWorker]:
    """Publish batches that end at `cuts` with a worker, which is replaced before `restart_at`."""
    publisher = MemoryPublisher()
    publisher.gate.set()
    ledger, crashes = OffsetLedger(), list[BaseException]()

    def worker() -> PartitionWorker:
        return PartitionWorker(
            "in", 0, pipeline, AtLeastOnce(publisher), MemoryRebuilder(records), batches_in_flight=2,
            on_crash=crashes.append, now_ms=lambda: 1_000_000,
        )  # fmt: skip

    current = worker()
    start = 0
    for end in [*cuts, len(records)]:
        if start == restart_at:
            await current.stop()
            current = worker()
        if end > start:
            done = asyncio.Event()
            await current.submit(Batch(records[start:end], ledger.deliver(start, end), done=done.set))
            async with asyncio.timeout(10):
                await done.wait()
        start = max(start, end)
    await current.stop()
    assert crashes == []
    commit = ledger.committable()
    assert commit is not None
    assert commit.offset == len(records), "everything is answered"
    return publisher, current


def poisoned() -> PoisonedPipeline:
    return PoisonedPipeline(RULES, {}, Ladder([Interpolation()]))


@settings(max_examples=50)
@given(
    steps=st.lists(st.integers(0, 20), min_size=3, max_size=20),
    poison=st.sets(st.integers(0, 19), max_size=4),
    cuts=st.sets(st.integers(1, 19), max_size=4),
    restart=st.booleans(),
)
def test_only_failing_records_are_lost(steps: list[int], poison: set[int], cuts: set[int], restart: bool) -> None:
    records = topic(steps, sorted(poison))
    bad = {record.offset for record in records if record.key == POISON}
    good = [record for record in records if record.offset not in bad]
    ends = sorted(cut for cut in cuts if cut < len(records))

    async def both() -> tuple[MemoryPublisher, list[tuple[Any, ...]]]:
        pipeline = poisoned()
        found, _ = await published(pipeline, records, ends, restart_at=ends[-1] if restart and ends else None)
        plain = Pipeline(RULES, {}, Ladder([Interpolation()]))
        applied = plain.apply(plain.windows(), good, now_ms=1_000_000)
        expected = MemoryPublisher()
        expected.messages = plain.messages(await plain.fill(applied.closed))
        return found, rows_of(expected)

    found, expected = asyncio.run(both())
    assert rows_of(found) == expected
    letters = [
        int(header(letter.headers, "glaim-offset") or -1)
        for letter in found.letters
        if header(letter.headers, "glaim-cause") == DeadLetterCause.PROCESSING
    ]
    assert sorted(letters) == sorted(bad)


async def test_the_letter_of_an_internal_error_contains_the_error_and_the_record() -> None:
    records = topic([0, 1, 2, 3], poison=[2])
    found, _ = await published(poisoned(), records, [])
    (letter,) = found.letters
    assert (letter.key, letter.value) == (POISON, records[2].value)
    assert header(letter.headers, "glaim-cause") == "processing"
    assert header(letter.headers, "glaim-detail") == "RuntimeError('a bug')"


async def test_one_failing_record_among_many_is_found_in_few_attempts() -> None:
    pipeline = poisoned()
    isolation = Isolation(pipeline, pipeline.windows())
    records = topic(list(range(1000)), poison=[613])
    attempts = sum(1 for _ in isolation.attempts(records, now_ms=1_000_000))
    applied = isolation.take_applied()
    assert [reject.offset for reject in applied.rejects] == [613]
    assert attempts < 30
    assert applied.readings == 999


def filled(imputer: WindowImputer) -> Callable[[], Pipeline]:
    return lambda: Pipeline(RULES, {}, imputer)


@pytest.mark.parametrize(
    "make",
    [
        filled(Failing(RuntimeError("a bug"))),
        filled(Failing(ImputerError("uncaught"))),
        filled(Misshapen()),
        lambda: Misrepairing(RULES, {}, Ladder([Interpolation()])),
    ],
    ids=["imputer-raises", "imputer-error-escapes", "answer-of-wrong-shape", "repair-raises"],
)
async def test_holes_are_filled_without_the_model_if_imputation_or_repair_fails(
    make: Callable[[], Pipeline],
) -> None:
    records = topic(list(range(12)))
    whole, _ = await published(Pipeline(RULES, {}, Ladder([Interpolation()])), records, [4, 8])
    found, _ = await published(make(), records, [4, 8])
    assert rows_of(found) == rows_of(whole)
    assert found.letters == []


async def test_if_no_method_works_holes_are_null_and_observed_rows_are_published() -> None:
    pipeline = Misrepairing(RULES, {}, Ladder([Interpolation()]))
    pipeline.times = 10_000
    records = topic(list(range(12)))
    whole, _ = await published(Pipeline(RULES, {}, Ladder([Interpolation()])), records, [4, 8])
    found, _ = await published(pipeline, records, [4, 8])
    keys = [(step, sensor, revision) for step, sensor, revision, *_ in rows_of(whole)]
    assert [(step, sensor, revision) for step, sensor, revision, *_ in rows_of(found)] == keys
    assert found.letters == []
    for (_, _, _, value, method, _), (_, _, _, expected, by, _) in zip(rows_of(found), rows_of(whole), strict=True):
        assert (value, method) == ((expected, by) if by == "observed" else (None, "none"))


async def test_a_batch_whose_rows_cannot_be_encoded_goes_to_the_dead_letters() -> None:
    class Mute(Pipeline):
        def messages(self, filled: Any) -> Any:
            if filled:
                raise RuntimeError("a bug in the encoder")
            return []

    records = topic(list(range(4)))
    found, _ = await published(Mute(RULES, {}, Ladder([Interpolation()])), records, [2])
    assert [header(letter.headers, "glaim-cause") for letter in found.letters] == ["processing"] * 4


async def test_processing_continues_after_a_fault_in_idle_closing() -> None:
    class Unclosable(PartitionWindows):
        def close_idle(self, now_ms: int) -> Any:
            raise RuntimeError("a bug")

    class Clocked(Pipeline):
        def windows(self) -> PartitionWindows:
            return Unclosable(self.catalogue)

    pipeline = Clocked(RULES, {}, Ladder([Interpolation()]))
    records = topic(list(range(6)))
    publisher, crashes, done = MemoryPublisher(), list[BaseException](), list[int]()
    publisher.gate.set()
    worker = PartitionWorker(
        "in", 0, pipeline, AtLeastOnce(publisher), MemoryRebuilder(records), batches_in_flight=2,
        on_crash=crashes.append, now_ms=lambda: 1_000_000,
    )  # fmt: skip
    ledger = OffsetLedger()
    await worker.submit(Batch(records[:3], ledger.deliver(0, 3), done=lambda: done.append(0)))
    await asyncio.sleep(0.01)
    await worker._close_idle()
    await worker.submit(Batch(records[3:], ledger.deliver(3, 6), done=lambda: done.append(3)))
    async with asyncio.timeout(10):
        while len(done) < 2:  # noqa: ASYNC110  the list has no event
            await asyncio.sleep(0.001)
    await worker.stop()
    assert crashes == []
    whole, _ = await published(Pipeline(RULES, {}, Ladder([Interpolation()])), records, [3])
    assert rows_of(publisher) == rows_of(whole)
