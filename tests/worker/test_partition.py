"""The live work on one partition, with its edges in memory: order, acknowledgement, back-pressure, idleness."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import REGISTRY

from glaim_stream import metrics
from glaim_stream.catalogue import Catalogue
from glaim_stream.decode.dead_letters import InputRecord
from glaim_stream.decode.stamps import Tick, ticks_of
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.protocol import Imputed, Imputer, Windows
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.kafka.offsets import Commit, OffsetLedger
from glaim_stream.pipeline.pipeline import Applied, Pipeline
from glaim_stream.records import read_rows
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.worker import partition as module
from glaim_stream.worker import restore
from glaim_stream.worker.partition import PartitionWorker, Work
from tests.support import MemoryPublisher, MemoryRebuilder, Neighbours, Record, catalogue, header, json_record

RULES = catalogue(sensors=1)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_CHECK_S", 0.01)
    monkeypatch.setattr(restore, "pauses_s", lambda: repeat(0.001))


@dataclass
class Bench:
    """A worker and everything around it."""

    worker: PartitionWorker
    publisher: MemoryPublisher
    rebuilder: MemoryRebuilder
    ledger: OffsetLedger
    now_ms: list[int]
    crashes: list[BaseException]
    done: list[int] = field(default_factory=list)

    async def submit(self, records: Sequence[Record]) -> None:
        delivery = self.ledger.deliver(records[0].offset, records[-1].offset + 1)
        await self.worker.submit(Work(records, delivery, lambda: self.done.append(records[0].offset)))

    async def work(self, *batches: Sequence[Record]) -> None:
        """Submit batches and wait until all of them are answered."""
        wanted = len(self.done) + len(batches)
        for batch in batches:
            await self.submit(batch)
        await until(lambda: len(self.done) == wanted)

    @property
    def values(self) -> list[tuple[int, float, int]]:
        """(step, value, revision) of every row that was published."""
        tables = [read_rows(message.value) for message in self.publisher.messages]
        return [
            (ts // 1000, row["value"], row["revision"])
            for table in tables
            for ts, row in zip(table["ts"].cast(pa.int64()).to_pylist(), table.to_pylist(), strict=True)
        ]


@asynccontextmanager
async def bench(
    imputer: Imputer | None = None,
    *,
    in_flight: int = 2,
    topic: Sequence[Record] = (),
    rules: Catalogue = RULES,
    rebuilder: MemoryRebuilder | None = None,
    score_share: float = 0.0,
) -> AsyncIterator[Bench]:
    publisher = MemoryPublisher()
    publisher.gate.set()
    rebuilder = rebuilder or MemoryRebuilder(topic)
    now_ms, crashes = [1_000_000], list[BaseException]()
    worker = PartitionWorker(
        "in",
        3,
        Pipeline(rules, {}, imputer or Ladder([Interpolation()]), score_share=score_share),
        publisher,
        rebuilder,
        batches_in_flight=in_flight,
        on_crash=crashes.append,
        now_ms=lambda: now_ms[0],
    )
    try:
        yield Bench(worker, publisher, rebuilder, OffsetLedger(), now_ms, crashes)
    finally:
        await worker.stop()


def steps(*numbers: int, first_offset: int = 0, **fields: Any) -> list[Record]:
    """One reading per step with the step as its value, at consecutive offsets."""
    return [
        json_record(first_offset + n, **{"group": "g0", "sensor": "s0", "ts": step * 1000, "value": step} | fields)
        for n, step in enumerate(numbers)
    ]


async def until(condition: Callable[[], bool], within_s: float = 30) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  the condition has no event to wait for
            await asyncio.sleep(0.001)


async def settle() -> None:
    """Run the event loop until everything that can go on has gone on."""
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)


async def test_nothing_is_answered_before_its_output_is_acknowledged() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        await it.submit(steps(0, 1, 2))
        await until(lambda: it.publisher.begun == 1)
        await settle()
        assert (it.done, it.ledger.committable()) == ([], None)
        it.publisher.gate.set()
        await until(lambda: it.done == [0])
        assert it.ledger.committable() == Commit(3, 0)


async def test_a_batch_without_output_is_answered_too() -> None:
    async with bench() as it:
        await it.work(steps(0))
        assert it.values == []
        assert it.ledger.committable() == Commit(1, 0)


async def test_output_keeps_the_order_of_the_input_also_when_the_imputer_does_not() -> None:
    class Slower:
        """The first batch takes longest."""

        def __init__(self) -> None:
            self.calls = 0

        async def impute(self, windows: Windows) -> Imputed:
            self.calls += 1
            await asyncio.sleep(0.05 / self.calls)
            return await Interpolation().impute(windows)

    async with bench(Slower(), in_flight=4) as it:
        batches = [steps(0, 2)] + [steps(2 * n, first_offset=n) for n in range(2, 6)]  # every other step is a hole
        await it.work(*batches)
        assert it.done == [0, 2, 3, 4, 5]
        firsts = [step for step, _, revision in it.values if revision == 0]
        assert firsts == sorted(firsts)
        assert [origin.offset for origin in it.publisher.origins] == [1, 2, 3, 4, 5]


async def test_each_output_names_the_last_record_that_it_includes() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        for n in range(3):
            await it.submit(steps(n, first_offset=n))
        await settle()
        it.publisher.gate.set()
        await until(lambda: len(it.done) == 3)
        assert [origin.offset for origin in it.publisher.origins] == [0, 1, 2]


async def test_readings_that_cannot_be_used_become_one_letter_a_record() -> None:
    items = [{"sensor": "s0", "value": 1}, {"sensor": "x"}, {"sensor": "y"}]
    batch = [*steps(0), json_record(1, group="g0", ts=0, readings=items), Record(b"\xff", 2)]
    async with bench() as it:
        await it.work(batch)
        found = [
            (
                header(each.headers, "glaim-offset"),
                header(each.headers, "glaim-cause"),
                header(each.headers, "glaim-positions"),
            )
            for each in it.publisher.letters
        ]
        assert found == [("1", "unknown-sensor", "[1, 2]"), ("2", "undecodable", None)]
        assert header(it.publisher.letters[0].headers, "glaim-partition") == "3"


async def test_a_publisher_that_hangs_stops_the_intake_with_few_batches_in_memory() -> None:
    async with bench(in_flight=2) as it:
        it.publisher.gate.clear()
        accepted = 0

        async def produce() -> None:
            nonlocal accepted
            for n in range(100):
                await it.submit(steps(n, first_offset=n))
                accepted += 1

        producing = asyncio.create_task(produce())
        await settle()
        assert accepted <= 2 + 4, "in flight, and one each being published, applied, waiting and handed over"
        held = accepted
        await settle()
        assert accepted == held
        it.publisher.gate.set()
        await producing
        await until(lambda: len(it.done) == 100)
        assert it.done == list(range(100))


async def test_idle_steps_are_published_by_the_wall_clock_and_answer_nothing() -> None:
    async with bench() as it:
        await it.work(steps(0, 1))
        assert it.values == [(0, 0, 0)]
        before = it.ledger.committable()
        await settle()
        assert it.values == [(0, 0, 0)], "not idle for long enough"
        it.now_ms[0] += 5_000
        await until(lambda: it.values == [(0, 0, 0), (1, 1, 0)])
        assert it.done == [0]
        assert it.ledger.committable() == before
        it.now_ms[0] += 60_000
        await until(lambda: len(it.values) >= 5)
        assert it.values[2:] == [(2, 1, 0), (3, 1, 0), (4, 1, 0)], "a blackout, until max_gap"
        it.now_ms[0] += 60_000
        await settle()
        assert len(it.values) == 5


async def test_the_position_is_compared_once_after_an_assignment() -> None:
    async with bench() as it:
        await it.work(steps(0))
        it.worker.check_position()
        await it.work(steps(1, first_offset=1), steps(2, first_offset=10))
        assert it.rebuilder.calls == [0], "the first batch followed; the gap before the second is compaction"


async def test_the_windows_are_rebuilt_before_the_first_batch() -> None:
    topic = steps(0, 1, 2)
    async with bench(topic=topic) as it:
        await it.work(steps(3, first_offset=3))
        assert it.rebuilder.calls == [3]
        assert it.values == [(2, 2, 0)], "records that are read again are not published again"


async def test_a_position_that_did_not_move_keeps_the_windows() -> None:
    async with bench() as it:
        await it.work(steps(0, 1))
        it.worker.check_position()
        await it.work(steps(2, first_offset=2))
        assert it.rebuilder.calls == [0]
        assert it.values == [(0, 0, 0), (1, 1, 0)]


async def test_the_work_of_another_worker_is_read_again() -> None:
    topic = steps(0, 1, 2, 3, 4)
    async with bench(topic=topic) as it:
        await it.work(topic[:2])
        it.worker.check_position()
        await it.work(steps(5, first_offset=5))
        assert it.rebuilder.calls == [0, 5]
        assert it.values[-1] == (4, 4, 0)


async def test_a_gap_in_the_offsets_alone_is_no_reason_to_read_again() -> None:
    async with bench() as it:
        await it.work(steps(0), steps(1, first_offset=10))
        assert it.rebuilder.calls == [0]


async def test_records_delivered_again_count_once() -> None:
    """
    delivered   [0 1 2] then, after a seek back, [1 2 3]: a mean that took 1 and 2 twice would be wrong
    """
    topic = [*steps(0), *steps(0, 0, first_offset=1, value=6), *steps(1, first_offset=3)]
    async with bench(topic=topic, rules=catalogue(sensors=1, bucket="mean")) as it:
        await it.work(topic[:3])
        it.ledger = OffsetLedger()  # as the transport begins one after a revocation
        await it.work(topic[1:])
        assert it.rebuilder.calls == [0, 1]
        assert it.values == [(0, 4.0, 0)]


async def test_an_input_that_cannot_be_read_is_tried_again() -> None:
    class Flaky(MemoryRebuilder):
        async def rebuild(
            self,
            topic: str,
            partition: int,
            next_offset: int,
            apply: Callable[[Sequence[InputRecord]], Awaitable[None]],
            recall: Callable[[Sequence[Tick], int], None],
        ) -> None:
            await super().rebuild(topic, partition, next_offset, apply, recall)
            if len(self.calls) < 3:
                raise OSError("the broker is away")

    async with bench(rebuilder=Flaky(steps(0, 1))) as it:
        await it.work(steps(2, first_offset=2))
        assert it.rebuilder.calls == [2, 2, 2]
        assert it.values == [(1, 1, 0)], "the records of failed attempts are forgotten"


async def test_an_error_that_ends_a_task_is_reported_and_answers_nothing() -> None:
    async with bench() as it:

        async def broken(*arguments: Any) -> None:
            raise RuntimeError("cannot publish")

        it.publisher.publish = broken  # type: ignore[method-assign]
        await it.submit(steps(0, 1))
        await until(lambda: len(it.crashes) == 1)
        assert (it.done, it.ledger.committable()) == ([], None)


def gauge(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"glaim_{name}", {"partition": "3"})


async def test_event_time_is_shown_from_the_first_usable_reading_on() -> None:
    for metric in (metrics.watermark_lag_seconds, metrics.newest_event_seconds, metrics.groups):
        metric.clear()
    async with bench() as it:
        it.now_ms[0] = 61_500
        await it.work([Record(b"\xff", 0)])
        assert (gauge("watermark_lag_seconds"), gauge("newest_event_timestamp_seconds")) == (None, None)
        assert gauge("groups") == 0
        await it.work(steps(59, 60, first_offset=1))
        assert (gauge("watermark_lag_seconds"), gauge("newest_event_timestamp_seconds")) == (1.5, 60)
        assert gauge("groups") == 1
        assert REGISTRY.get_sample_value("glaim_known_groups") == 1


async def test_the_latency_of_a_batch_with_rows_runs_from_its_last_record_to_the_acknowledgement() -> None:
    def latencies() -> tuple[float, float]:
        name = "glaim_output_latency_seconds"
        return REGISTRY.get_sample_value(f"{name}_count") or 0, REGISTRY.get_sample_value(f"{name}_sum") or 0

    async with bench() as it:
        count, total = latencies()
        await it.work(steps(0))
        await settle()
        assert latencies() == (count, total), "no row yet"
        first, last = steps(1, 2, first_offset=1)
        await it.work([replace(first, timestamp=5_000), replace(last, timestamp=it.now_ms[0] - 2_500)])
        await settle()
        assert latencies() == (count + 1, pytest.approx(total + 2.5))


async def test_wall_time_is_used_where_no_clock_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Clocked(Pipeline):
        def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
            seen.append(now_ms)
            return super().apply(windows, records, now_ms=now_ms)

    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    publisher, done = MemoryPublisher(), asyncio.Event()
    publisher.gate.set()
    pipeline = Clocked(RULES, {}, Ladder([Interpolation()]))
    worker = PartitionWorker("in", 3, pipeline, publisher, MemoryRebuilder(), batches_in_flight=1)
    await worker.submit(Work(steps(0), OffsetLedger().deliver(0, 1), done.set))
    await asyncio.wait_for(done.wait(), 30)
    await worker.stop()
    assert seen == [1_700_000_000_123]


async def test_a_batch_is_answered_with_what_its_own_windows_need() -> None:
    """Whatever the later batches need: this commit may be the one that the next owner finds."""
    async with bench(in_flight=4) as it:
        it.publisher.gate.clear()
        deliveries = []
        for offset in range(0, 24, 8):
            batch = steps(*range(offset, offset + 8), first_offset=offset)
            deliveries.append(it.ledger.deliver(offset, offset + 8))
            await it.worker.submit(Work(batch, deliveries[-1], lambda: it.done.append(0)))
        await settle()
        it.publisher.gate.set()
        await until(lambda: len(it.done) == 3)
        pipeline = Pipeline(RULES, {}, Ladder([Interpolation()]))
        windows, needed = pipeline.windows(), list[int]()
        for offset in range(0, 24, 8):
            pipeline.apply(windows, steps(*range(offset, offset + 8), first_offset=offset), now_ms=1_000_000)
            needed.append(windows.rebuild_from(offset + 8))
        assert [each.rebuild_from for each in deliveries] == needed
        assert len(set(needed)) == 3


async def test_stopping_cancels_the_queries_that_wait_for_the_imputer() -> None:
    """
    batches     0 closes nothing, 1 hangs in the second task, 2 and 3 wait behind it
    """
    started, cancelled = list[int](), list[int]()

    class Hanging:
        async def impute(self, windows: Windows) -> Imputed:
            number = len(started)
            started.append(number)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(number)
                raise
            raise AssertionError

    async with bench(Hanging(), in_flight=4) as it:
        for n in range(4):
            await it.submit(steps(2 * n, first_offset=n))  # every other step is a hole
        await until(lambda: len(started) == 3)
        await it.worker.stop()
        assert sorted(cancelled) == [0, 1, 2]
        assert (it.done, it.publisher.messages, it.crashes) == ([0], [], [])


async def test_stopping_drops_what_is_in_flight_without_answering() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        await it.submit(steps(0, 1))
        await until(lambda: it.publisher.begun == 1)
        await it.worker.stop()
        it.publisher.gate.set()
        await settle()
        assert (it.done, it.publisher.messages, it.crashes) == ([], [], [])


async def test_a_restarted_partition_publishes_what_an_uninterrupted_one_would() -> None:
    """Killed after each batch in turn, with nothing but the last commit to go by."""
    numbers = [0, 2, 3, 1, 7, 5, 8, 12, 11, 13, 14]
    topic = steps(*numbers)
    async with bench() as whole:
        await whole.work(*([record] for record in topic))
    for killed_after in range(1, len(topic)):
        async with bench() as first:
            await first.work(*([record] for record in topic[:killed_after]))
            commit = first.ledger.committable()
        assert commit is not None
        async with bench(rebuilder=MemoryRebuilder(topic, commit.rebuild_from)) as second:
            await second.work(*([record] for record in topic[commit.offset :]))
        assert first.values + second.values == whole.values, f"killed after offset {killed_after - 1}"


async def test_a_restarted_partition_blends_as_an_uninterrupted_one_would() -> None:
    """Weights follow from the errors of 96 steps, each of which is a function of the window before it."""
    rules = catalogue(sensors=3, window=12, max_gap=8)
    rng = np.random.default_rng(3)
    topic = []
    for step in range(260):
        common = float(rng.standard_normal())
        for sensor in range(3):
            if step % 5 or sensor != step % 3:
                value = common + sensor + 0.3 * float(rng.standard_normal())
                topic.append(json_record(len(topic), group="g0", sensor=f"s{sensor}", ts=step * 1000, value=value))
    batches = [topic[start : start + 60] for start in range(0, len(topic), 60)]
    async with bench(Neighbours(), rules=rules, score_share=1.0) as whole:
        await whole.work(*batches)
    assert "blend" in {
        method for message in whole.publisher.messages for method in read_rows(message.value)["method"].to_pylist()
    }
    for killed_after in (2, 5, 9):
        async with bench(Neighbours(), rules=rules, score_share=1.0) as first:
            await first.work(*batches[:killed_after])
            commit = first.ledger.committable()
        assert commit is not None
        rebuilder = MemoryRebuilder(topic, commit.rebuild_from)
        async with bench(Neighbours(), rules=rules, score_share=1.0, rebuilder=rebuilder) as second:
            await second.work(*batches[killed_after:])
        assert first.values + second.values == whole.values, f"killed after batch {killed_after - 1}"


async def test_a_worker_reports_rebuilding_until_its_windows_are_complete() -> None:
    class Slow(MemoryRebuilder):
        gate = asyncio.Event()

        async def rebuild(
            self,
            topic: str,
            partition: int,
            next_offset: int,
            apply: Callable[[Sequence[InputRecord]], Awaitable[None]],
            recall: Callable[[Sequence[Tick], int], None],
        ) -> None:
            await super().rebuild(topic, partition, next_offset, apply, recall)
            await self.gate.wait()

    async with bench(rebuilder=Slow(steps(0, 1))) as it:
        assert it.worker.rebuilding, "it has no windows yet"
        await it.submit(steps(2, first_offset=2))
        await until(lambda: it.rebuilder.calls == [2])
        await settle()
        assert it.worker.rebuilding
        Slow.gate.set()
        await until(lambda: it.done == [2])
        assert not it.worker.rebuilding
        Slow.gate.clear()
        it.worker.check_position()  # reassigned, and another worker has had it meanwhile
        await it.submit(steps(9, first_offset=9))
        await until(lambda: it.rebuilder.calls == [2, 9])
        assert it.worker.rebuilding
        Slow.gate.set()
        await until(lambda: not it.worker.rebuilding)


async def test_what_the_wall_clock_said_of_a_record_is_committed_and_a_rebuild_repeats_it() -> None:
    topic = [*steps(999, 1000), json_record(2, group="g0", sensor="s0", ts=1_100_000, value=9)]
    topic = [replace(record, timestamp=1_000_000 if record.offset < 2 else 1_100_000) for record in topic]
    async with bench(topic=topic) as it:
        await it.work(topic)
        assert [header(letter.headers, "glaim-cause") for letter in it.publisher.letters] == ["future"]
        commit = it.ledger.committable()
        assert commit == Commit(3, 0, "0:1000000")
    later = MemoryRebuilder(topic, recalled=(ticks_of(commit.stamps), 3))
    async with bench(rebuilder=later) as it:
        it.now_ms[0] = 2_000_000  # by now the clock has passed the record's time
        await it.work([replace(record, timestamp=1_002_000) for record in steps(1001, 1002, first_offset=3)])
        assert it.values == [(1000, 1000.0, 0), (1001, 1001.0, 0)], "the rebuilt watermark stands at 1000"
