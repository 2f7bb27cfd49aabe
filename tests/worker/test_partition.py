"""The worker of one partition, with in-memory fakes: order, acknowledgement, back-pressure and idleness."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import OwnershipLost
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.retry import Retry
from glaim_stream.core.times import steady_ms
from glaim_stream.imputers import Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.kafka import Commit, OffsetLedger
from glaim_stream.output import read_rows
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from glaim_stream.worker import partition as module
from glaim_stream.worker import restore
from glaim_stream.worker.batches import Batch
from glaim_stream.worker.outlet import AtLeastOnce
from glaim_stream.worker.partition import PartitionWorker
from tests.support import MemoryPublisher, MemoryRebuilder, Neighbours, Record, catalogue, header, json_record, until

RULES = catalogue(sensors=1)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_CHECK_S", 0.01)
    monkeypatch.setattr(module, "HOLES_CHECK_S", 0.01)
    monkeypatch.setattr(restore, "REBUILD", Retry(0.001, 0.001))


@dataclass
class Bench:
    """A worker with its publisher, rebuilder, ledger and clock."""

    worker: PartitionWorker
    publisher: MemoryPublisher
    rebuilder: MemoryRebuilder
    ledger: OffsetLedger
    now_ms: list[int]
    crashes: list[BaseException]
    done: list[int] = field(default_factory=list)
    committed: list[int | None] = field(default_factory=lambda: [0])

    async def submit(self, records: Sequence[Record]) -> None:
        delivery = self.ledger.deliver(records[0].offset, records[-1].offset + 1)
        await self.worker.submit(Batch(records, delivery, done=lambda: self.done.append(records[0].offset)))

    async def work(self, *batches: Sequence[Record]) -> None:
        """Submit batches and wait until all of them are answered."""
        expected = len(self.done) + len(batches)
        for batch in batches:
            await self.submit(batch)
        await until(lambda: len(self.done) == expected)

    @property
    def values(self) -> list[tuple[int, float, int]]:
        """(step, value, revision) of every published row."""
        tables = [read_rows(message.value) for message in self.publisher.messages]
        return [
            (ts // 1000, row["value"], row["revision"])
            for table in tables
            for ts, row in zip(table["ts"].cast(pa.int64()).to_pylist(), table.to_pylist(), strict=True)
        ]


@asynccontextmanager
async def bench(
    imputer: WindowImputer | None = None,
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
    now_ms, crashes, committed = [1_000_000], list[BaseException](), list[int | None]([0])

    async def commit() -> int | None:
        return committed[0]

    worker = PartitionWorker(
        "in",
        3,
        Pipeline(rules, {}, imputer or Ladder([Interpolation()]), score_share=score_share),
        AtLeastOnce(publisher),
        rebuilder,
        batches_in_flight=in_flight,
        on_crash=crashes.append,
        committed=commit,
        now_ms=lambda: now_ms[0],
    )
    try:
        yield Bench(worker, publisher, rebuilder, OffsetLedger(), now_ms, crashes, committed=committed)
    finally:
        await worker.stop()


def steps(*numbers: int, first_offset: int = 0, **fields: Any) -> list[Record]:
    """One reading per step with the step as its value, at consecutive offsets."""
    return [
        json_record(first_offset + n, **{"group": "g0", "sensor": "s0", "ts": step * 1000, "value": step} | fields)
        for n, step in enumerate(numbers)
    ]


async def settle() -> None:
    """Run the event loop until no task can proceed."""
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)


async def test_a_batch_is_answered_only_after_its_output_is_acknowledged() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        await it.submit(steps(0, 1, 2))
        await until(lambda: it.publisher.begun == 1)
        await settle()
        assert (it.done, it.ledger.committable()) == ([], None)
        it.publisher.gate.set()
        await until(lambda: it.done == [0])
        assert it.ledger.committable() == Commit(3, 0)


async def test_a_batch_without_output_is_answered() -> None:
    async with bench() as it:
        await it.work(steps(0))
        assert it.values == []
        assert it.ledger.committable() == Commit(1, 0)


async def test_output_keeps_the_order_of_the_input_when_imputation_does_not() -> None:
    class Slower:
        """An imputer whose first call takes longest."""

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


async def test_each_output_states_the_last_record_that_it_includes() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        for n in range(3):
            await it.submit(steps(n, first_offset=n))
        await settle()
        it.publisher.gate.set()
        await until(lambda: len(it.done) == 3)
        assert [origin.offset for origin in it.publisher.origins] == [0, 1, 2]


async def test_unusable_readings_become_one_letter_per_record() -> None:
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


async def test_a_hanging_publisher_stops_the_intake_after_a_few_batches() -> None:
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
        assert accepted <= 2 + 4, "in flight, plus one each being published, applied, queued and submitted"
        accepted_before = accepted
        await settle()
        assert accepted == accepted_before
        it.publisher.gate.set()
        await producing
        await until(lambda: len(it.done) == 100)
        assert it.done == list(range(100))


async def test_the_wall_clock_publishes_idle_steps_without_answering_a_batch() -> None:
    async with bench() as it:
        await it.work(steps(0, 1))
        assert it.values == [(0, 0, 0)]
        before = it.ledger.committable()
        await settle()
        assert it.values == [(0, 0, 0)], "the partition is not idle for long enough"
        it.now_ms[0] += 5_000
        await until(lambda: it.values == [(0, 0, 0), (1, 1, 0)])
        assert it.done == [0]
        assert it.ledger.committable() == before
        it.now_ms[0] += 60_000
        await until(lambda: len(it.values) >= 5)
        assert it.values[2:] == [(2, 1, 0), (3, 1, 0), (4, 1, 0)], "rows of a blackout up to max_gap"
        it.now_ms[0] += 60_000
        await settle()
        assert len(it.values) == 5


async def test_a_partition_that_comes_back_closes_nothing_from_windows_that_another_worker_has_passed() -> None:
    topic = steps(*range(60))
    async with bench(topic=topic) as it:
        await it.work(topic[:10])
        published = len(it.values)
        it.worker.check_position()
        it.committed[0] = 60  # of the worker that had the partition meanwhile
        it.now_ms[0] += 60_000
        await until(lambda: it.rebuilder.calls == [0, 60])
        await settle()
        assert len(it.values) == published, "the restored windows are not idle for long enough"
        it.now_ms[0] += 60_000
        await until(lambda: len(it.values) > published + 3)
        await settle()
        # The last step was open there too; what follows is the blackout, up to max_gap.
        assert it.values[published:] == [(59, 59, 0), (60, 59, 0), (61, 59, 0), (62, 59, 0)]


@pytest.mark.parametrize("committed", [None, 0, 9])
async def test_after_an_assignment_the_clock_closes_nothing_before_the_position_is_known(committed: int | None) -> None:
    async with bench() as it:
        await it.work(steps(*range(10)))
        published = list(it.values)
        it.worker.check_position()
        it.committed[0] = committed  # less than the windows have seen: the rest will be delivered again
        it.now_ms[0] += 60_000
        await settle()
        assert it.values == published
        it.committed[0] = 10
        await until(lambda: len(it.values) > len(published))
        assert it.rebuilder.calls == [0], "the windows continue"


async def test_an_assignment_while_the_commit_is_asked_for_is_not_forgotten() -> None:
    async with bench() as it:
        await it.work(steps(*range(10)))
        published = list(it.values)
        asked = asyncio.Event()
        answer = asyncio.get_running_loop().create_future()

        async def slow() -> int | None:
            asked.set()
            return await answer

        it.worker._committed = slow
        it.worker.check_position()
        await asked.wait()
        it.worker.check_position()  # given away and back
        it.now_ms[0] += 60_000
        it.worker._committed = asyncio.Event().wait  # type: ignore[assignment]  # asked again, without an answer yet
        answer.set_result(10)
        await settle()
        assert it.values == published


async def test_a_partition_that_is_quiet_when_its_worker_starts_is_closed_by_the_clock() -> None:
    topic = steps(0, 1, 2)
    async with bench(topic=topic) as living:
        await living.work(topic)
        living.now_ms[0] += 60_000
        await until(lambda: len(living.values) >= 6)
        await settle()
    async with bench(topic=topic) as it:
        await settle()
        assert it.rebuilder.calls == [], "the group has committed nothing"
        it.committed[0] = 3
        await until(lambda: not it.worker.rebuilding)
        it.now_ms[0] += 60_000
        await until(lambda: len(it.values) >= 4)
        await settle()
        assert it.values == living.values[2:], "steps 0 and 1 are below the commit"
        assert [json.loads(each.value)["kind"] for each in it.publisher.announcements] == ["dark"]
        assert it.publisher.announcements[-1].value == living.publisher.announcements[-1].value
        await it.work(steps(70, first_offset=3))
        assert it.rebuilder.calls == [3]


async def test_the_position_is_checked_once_after_an_assignment() -> None:
    async with bench() as it:
        await it.work(steps(0))
        it.worker.check_position()
        await it.work(steps(1, first_offset=1), steps(2, first_offset=10))
        assert it.rebuilder.calls == [0], (
            "the first batch continues at the position; the gap before the second is compaction"
        )


async def test_the_windows_are_rebuilt_before_the_first_batch() -> None:
    topic = steps(0, 1, 2)
    async with bench(topic=topic) as it:
        await it.work(steps(3, first_offset=3))
        assert it.rebuilder.calls == [3]
        assert it.values == [(2, 2, 0)], "rebuilt records are not published again"


async def test_an_unchanged_position_keeps_the_windows() -> None:
    async with bench() as it:
        await it.work(steps(0, 1))
        it.worker.check_position()
        await it.work(steps(2, first_offset=2))
        assert it.rebuilder.calls == [0]
        assert it.values == [(0, 0, 0), (1, 1, 0)]


async def test_records_processed_by_another_worker_are_rebuilt() -> None:
    topic = steps(0, 1, 2, 3, 4)
    async with bench(topic=topic) as it:
        await it.work(topic[:2])
        it.worker.check_position()
        await it.work(steps(5, first_offset=5))
        assert it.rebuilder.calls == [0, 5]
        assert it.values[-1] == (4, 4, 0)


async def test_a_gap_in_the_offsets_alone_causes_no_rebuild() -> None:
    async with bench() as it:
        await it.work(steps(0), steps(1, first_offset=10))
        assert it.rebuilder.calls == [0]


async def test_records_that_are_delivered_twice_count_once() -> None:
    """
    delivered   [0 1 2] then, after a seek back, [1 2 3]: counting 1 and 2 twice would change the mean
    """
    topic = [*steps(0), *steps(0, 0, first_offset=1, value=6), *steps(1, first_offset=3)]
    async with bench(topic=topic, rules=catalogue(sensors=1, bucket="mean")) as it:
        await it.work(topic[:3])
        it.ledger = OffsetLedger()  # as the transport does after a revocation
        await it.work(topic[1:])
        assert it.rebuilder.calls == [0, 1]
        assert it.values == [(0, 4.0, 0)]


async def test_a_failed_rebuild_is_retried() -> None:
    async with bench(rebuilder=MemoryRebuilder(steps(0, 1), failures=2)) as it:
        await it.work(steps(2, first_offset=2))
        assert it.rebuilder.calls == [2, 2, 2]
        assert it.values == [(1, 1, 0)], "the records of failed attempts are dropped"


async def test_an_error_that_ends_a_task_is_reported_and_its_batch_is_not_answered() -> None:
    async with bench() as it:

        async def broken(*arguments: Any) -> None:
            raise RuntimeError("cannot publish")

        it.publisher.publish = broken  # type: ignore[method-assign]
        await it.submit(steps(0, 1))
        await until(lambda: len(it.crashes) == 1)
        assert (it.done, it.ledger.committable()) == ([], None)


def gauge(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"glaim_{name}", {"partition": "3"})


async def test_event_time_metrics_appear_with_the_first_usable_reading() -> None:
    for metric in metrics.OF_PARTITIONS:
        metric.clear()
    async with bench() as it:
        it.now_ms[0] = 61_500
        await it.work([Record(b"\xff", 0)])
        assert (gauge("watermark_lag_seconds"), gauge("newest_event_timestamp_seconds")) == (None, None)
        assert gauge("groups") == 0
        await it.work(steps(59, 60, first_offset=1))
        assert (gauge("watermark_lag_seconds"), gauge("newest_event_timestamp_seconds")) == (1.5, 60)
        assert gauge("groups") == 1
        assert gauge("watermark_updated_timestamp_seconds") == 61.5
        it.now_ms[0] = 100_000
        assert gauge("watermark_lag_seconds") == 1.5, "as of the last batch"
        assert REGISTRY.get_sample_value("glaim_known_groups") == 1


async def test_dark_groups_are_counted_until_they_return_and_new_ones_are_not() -> None:
    """
    g0  speaks at 0 and 1, is silent for longer than max_gap, and for longer than its window of 8 steps
    g1  speaks all the time
    """
    gap = RULES.models[0].max_gap
    async with bench() as it:
        await it.work(steps(0, 1))
        assert gauge("dark_groups") == 0, "no step of a new group is closed"
        await it.work(steps(*range(1, gap + 8), first_offset=2, group="g1"))
        await settle()
        assert (gauge("dark_groups"), gauge("speaking_groups")) == (1, 1)
        await it.work(steps(*range(gap + 8, gap + 60), first_offset=100, group="g1"))
        await settle()
        assert (gauge("dark_groups"), gauge("groups")) == (1, 1), "its windows are gone"
        await it.work(steps(gap + 60, gap + 61, gap + 62, first_offset=200))
        await settle()
        assert gauge("dark_groups") == 0


async def test_groups_with_holes_are_counted_while_they_send_and_miss_readings() -> None:
    """
    g0  speaks at 0 to 11, but not at 9, and then no more
    g1  speaks at each step
    """
    gap = RULES.models[0].max_gap
    async with bench() as it:
        await it.work(steps(0, first_offset=0))
        await until(lambda: gauge("groups_with_holes") == 0)
        assert gauge("groups") == 1, "no step of a new group is closed"
        await it.work(steps(*range(1, 9), first_offset=1), steps(*range(9), first_offset=20, group="g1"))
        await it.work(steps(9, first_offset=40, group="g1"))
        await until(lambda: gauge("groups_with_holes") == 0)
        await it.work(steps(10, 11, first_offset=50), steps(10, 11, 12, first_offset=60, group="g1"))
        await until(lambda: gauge("groups_with_holes") == 1)
        await it.work(steps(*range(13, 13 + gap + 3), first_offset=70, group="g1"))
        await until(lambda: gauge("dark_groups") == 1)
        await until(lambda: gauge("groups_with_holes") == 0)


OUTCOMES = ("in_time", "late")


async def test_output_latency_runs_from_the_last_record_of_a_batch_to_the_acknowledgement() -> None:
    def latencies() -> tuple[float, float]:
        name = "glaim_output_latency_seconds"
        return REGISTRY.get_sample_value(f"{name}_count") or 0, REGISTRY.get_sample_value(f"{name}_sum") or 0

    async with bench() as it:
        count, total = latencies()
        await it.work(steps(0))
        await settle()
        assert latencies() == (count, total), "no row yet"
        first, last = steps(1, 2, first_offset=1)
        timed = [REGISTRY.get_sample_value("glaim_timed_rows_total", {"outcome": each}) or 0 for each in OUTCOMES]
        await it.work([replace(first, timestamp=5_000), replace(last, timestamp=it.now_ms[0] - 2_500)])
        await settle()
        assert latencies() == (count + 1, pytest.approx(total + 2.5, rel=0, abs=1e-4))
        since = [REGISTRY.get_sample_value("glaim_timed_rows_total", {"outcome": each}) or 0 for each in OUTCOMES]
        assert np.subtract(since, timed).tolist() == [1, 1], "two rows of one record in time and one late"


async def test_the_default_clock_does_not_follow_jumps_of_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Clocked(Pipeline):
        def slices(
            self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int
        ) -> Iterator[Applied]:
            seen.append(now_ms)
            return super().slices(windows, records, now_ms=now_ms)

    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    before_ms = steady_ms()
    publisher, done = MemoryPublisher(), asyncio.Event()
    publisher.gate.set()
    pipeline = Clocked(RULES, {}, Ladder([Interpolation()]))
    worker = PartitionWorker("in", 3, pipeline, AtLeastOnce(publisher), MemoryRebuilder(), batches_in_flight=1)
    await worker.submit(Batch(steps(0), OffsetLedger().deliver(0, 1), done=done.set))
    await asyncio.wait_for(done.wait(), 30)
    await worker.stop()
    assert before_ms <= seen[0] <= steady_ms()
    assert seen[0] - 1_700_000_000_123 > 10**9, "the process started long after that"


async def test_a_batch_is_answered_with_the_rebuild_offset_of_its_windows() -> None:
    """Later batches must not change it, because the next owner may find this commit."""
    async with bench(in_flight=4) as it:
        it.publisher.gate.clear()
        deliveries = []
        for offset in range(0, 24, 8):
            batch = steps(*range(offset, offset + 8), first_offset=offset)
            deliveries.append(it.ledger.deliver(offset, offset + 8))
            await it.worker.submit(Batch(batch, deliveries[-1], done=lambda: it.done.append(0)))
        await settle()
        it.publisher.gate.set()
        await until(lambda: len(it.done) == 3)
        pipeline = Pipeline(RULES, {}, Ladder([Interpolation()]))
        windows, needed = pipeline.windows(), list[int]()
        for offset in range(0, 24, 8):
            pipeline.apply(windows, steps(*range(offset, offset + 8), first_offset=offset), now_ms=1_000_000)
            needed.append(windows.rebuild_from(offset + 8))
        assert [each.commit and each.commit.rebuild_from for each in deliveries] == needed
        assert len(set(needed)) == 3


async def test_stop_cancels_pending_imputer_calls() -> None:
    """
    batches     0 closes no step, 1 hangs in the second task, 2 and 3 wait behind it
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


async def test_no_imputer_call_of_a_batch_that_came_before_the_stop_goes_on_after_it() -> None:
    class Hanging:
        async def impute(self, windows: Windows) -> Imputed:
            await asyncio.Event().wait()
            raise AssertionError

    async with bench(Hanging()) as it:
        await it.work(steps(0))
        await it.submit(steps(2, first_offset=1))  # step 1 is a hole
        before = asyncio.all_tasks()
        await it.worker.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() <= before


async def test_stop_drops_batches_in_flight_without_answering() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        await it.submit(steps(0, 1))
        await until(lambda: it.publisher.begun == 1)
        await it.worker.stop()
        it.publisher.gate.set()
        await settle()
        assert (it.done, it.publisher.messages, it.crashes) == ([], [], [])


async def test_a_restarted_partition_publishes_the_same_rows_as_an_uninterrupted_one() -> None:
    """The worker is killed after each batch in turn and restarted from the last commit alone."""
    numbers = [0, 2, 3, 1, 7, 5, 8, 12, 11, 13, 14]
    topic = steps(*numbers)
    async with bench() as uninterrupted:
        await uninterrupted.work(*([record] for record in topic))
    for killed_after in range(1, len(topic)):
        async with bench() as first:
            await first.work(*([record] for record in topic[:killed_after]))
            commit = first.ledger.committable()
        assert commit is not None
        async with bench(rebuilder=MemoryRebuilder(topic, commit.rebuild_from)) as second:
            await second.work(*([record] for record in topic[commit.offset :]))
        assert first.values + second.values == uninterrupted.values, f"killed after offset {killed_after - 1}"


async def test_a_restarted_partition_has_the_same_blends_as_an_uninterrupted_one() -> None:
    """Weights depend on the errors of 96 steps, and each error depends on the window before its step."""
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
    async with bench(Neighbours(), rules=rules, score_share=1.0) as uninterrupted:
        await uninterrupted.work(*batches)
    assert "blend" in {
        method
        for message in uninterrupted.publisher.messages
        for method in read_rows(message.value)["method"].to_pylist()
    }
    for killed_after in (2, 5, 9):
        async with bench(Neighbours(), rules=rules, score_share=1.0) as first:
            await first.work(*batches[:killed_after])
            commit = first.ledger.committable()
        assert commit is not None
        rebuilder = MemoryRebuilder(topic, commit.rebuild_from)
        async with bench(Neighbours(), rules=rules, score_share=1.0, rebuilder=rebuilder) as second:
            await second.work(*batches[killed_after:])
        assert first.values + second.values == uninterrupted.values, f"killed after batch {killed_after - 1}"


async def test_a_worker_reports_rebuilding_until_its_windows_are_complete() -> None:
    class Slow(MemoryRebuilder):
        gate = asyncio.Event()

        async def rebuild(self, *given: Any) -> None:
            await super().rebuild(*given)
            await self.gate.wait()

    async with bench(rebuilder=Slow(steps(0, 1))) as it:
        assert it.worker.rebuilding, "the worker has no windows yet"
        await it.submit(steps(2, first_offset=2))
        await until(lambda: it.rebuilder.calls == [2])
        await settle()
        assert it.worker.rebuilding
        Slow.gate.set()
        await until(lambda: it.done == [2])
        assert not it.worker.rebuilding
        Slow.gate.clear()
        it.worker.check_position()  # reassigned after another worker had the partition
        await it.submit(steps(9, first_offset=9))
        await until(lambda: it.rebuilder.calls == [2, 9])
        assert it.worker.rebuilding
        Slow.gate.set()
        await until(lambda: not it.worker.rebuilding)


async def test_an_error_that_ends_a_task_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    async with bench() as it:

        async def broken(*arguments: Any) -> None:
            raise RuntimeError("cannot publish")

        it.publisher.publish = broken  # type: ignore[method-assign]
        await it.submit(steps(0, 1))
        await until(lambda: len(it.crashes) == 1)
    (entry,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert entry.getMessage() == "in-3: processing ended by an error"
    assert entry.exc_info is not None
    assert entry.exc_info[1] is it.crashes[0]


async def test_the_clocks_judgement_of_a_record_is_committed_and_repeated_by_a_rebuild() -> None:
    topic = [*steps(999, 1000), json_record(2, group="g0", sensor="s0", ts=1_100_000, value=9)]
    topic = [replace(record, timestamp=1_000_000 if record.offset < 2 else 1_100_000) for record in topic]
    async with bench(topic=topic) as it:
        await it.work(topic)
        assert [header(letter.headers, "glaim-cause") for letter in it.publisher.letters] == ["future"]
        commit = it.ledger.committable()
        assert commit == Commit(3, 0, stamps="0:1000000")
    later = MemoryRebuilder(topic, recalled=commit)
    async with bench(rebuilder=later) as it:
        it.now_ms[0] = 2_000_000  # by now the clock has passed the record's time
        await it.work([replace(record, timestamp=1_002_000) for record in steps(1001, 1002, first_offset=3)])
        assert it.values == [(1000, 1000.0, 0), (1001, 1001.0, 0)], "the rebuilt watermark stands at 1000"


def due(outcome: str) -> float:
    return REGISTRY.get_sample_value("glaim_due_rows_total", {"outcome": outcome}) or 0.0


async def test_due_rows_are_counted_once_the_broker_has_acknowledged_them() -> None:
    before = due("published"), due("missing")
    async with bench() as it:
        it.publisher.gate.clear()
        await it.submit(steps(0, 1, 2))
        await settle()
        assert (due("published"), due("missing")) == before
        it.publisher.gate.set()
        await until(lambda: it.done == [0])
        assert due("published") - before[0] == 2, "step 2 is open"
        it.now_ms[0] += 5_000
        await until(lambda: len(it.values) == 3)
        await settle()
        assert (due("published") - before[0], due("missing") - before[1]) == (3, 0)


async def test_rows_that_cannot_be_made_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> list[Any]:
        raise RuntimeError("cannot encode")

    before = due("published"), due("missing")
    async with bench() as it:
        await it.work(steps(0, 1))
        monkeypatch.setattr(Pipeline, "messages", broken)
        await it.work(steps(2, 3, 4, first_offset=2))
        assert len(it.publisher.letters) == 3
        monkeypatch.undo()
        await it.work(steps(5, first_offset=5))
    assert (due("published") - before[0], due("missing") - before[1]) == (2, 3)


async def test_rows_that_the_broker_does_not_acknowledge_are_overdue_after_a_minute() -> None:
    async with bench() as it:
        it.publisher.gate.clear()
        await it.submit(steps(0, 1, 2))
        await settle()
        it.now_ms[0] += 60_000
        await settle()
        assert gauge("overdue_rows") == 0
        it.now_ms[0] += 1
        await until(lambda: gauge("overdue_rows") == 2)
        it.publisher.gate.set()
        await until(lambda: it.done == [0])
        await until(lambda: gauge("overdue_rows") == 0)


async def test_readings_of_a_step_that_the_clock_cannot_close_are_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a broker that confirms the partition, the wall clock closes nothing."""

    async def nobody_answers() -> None:
        return None

    async with bench() as it:
        monkeypatch.setattr(it.worker, "_confirm", nobody_answers)
        await it.work(steps(0))
        it.now_ms[0] += 6_000 + 60_000 - 1
        await settle()
        assert gauge("overdue_rows") == 0
        it.now_ms[0] += 1
        await until(lambda: gauge("overdue_rows") == 1)


async def test_a_lost_partition_forgets_the_rows_that_waited() -> None:
    async with bench() as it:
        taken = asyncio.Event()

        async def lost(*arguments: Any) -> None:
            await taken.wait()
            raise OwnershipLost("another worker")

        it.publisher.publish = lost  # type: ignore[method-assign]
        await it.submit(steps(0, 1, 2))
        await settle()
        it.now_ms[0] += 61_000
        await until(lambda: (gauge("overdue_rows") or 0) >= 2)
        taken.set()
        await until(lambda: it.done == [0])
        assert it.ledger.committable() is None
        await until(lambda: gauge("overdue_rows") == 0)
