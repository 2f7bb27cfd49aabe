"""A partition whose output and commits are one transaction: what is published once stays the only time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core.budget import DEFAULT, Budget
from glaim_stream.core.errors import OwnershipLost
from glaim_stream.core.readings import InputRecord
from glaim_stream.imputers import Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.kafka import Commit, OffsetLedger
from glaim_stream.output import Output, read_rows
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from glaim_stream.worker import partition
from glaim_stream.worker.batches import Batch
from glaim_stream.worker.partition import PartitionWorker
from tests.support import POISON, MemoryRebuilder, PoisonedPipeline, Record, catalogue, json_record, until

RULES = catalogue(sensors=2, revise_after=2, idle_timeout_s=10.0, window=12, max_gap=4)
SLICED = Budget(slice_bytes=1)


@dataclass
class Broker:
    """What is committed of a partition: its rows and its commit, of one transaction after the other."""

    outputs: list[Output] = field(default_factory=list)
    commit: Commit | None = None
    transactions: int = 0
    owner: object = None

    @property
    def rows(self) -> list[tuple[str, int, int, float, bool]]:
        """(sensor, step, revision, value, observed) of every row, in the order of publication."""
        return [
            (row["sensor"], ts // 1000, row["revision"], row["value"], row["observed"])
            for output in self.outputs
            for message in output.messages
            for table in [read_rows(message.value)]
            for ts, row in zip(table["ts"].cast(pa.int64()).to_pylist(), table.to_pylist(), strict=True)
        ]


class MemoryOutlet:
    """An outlet for a Broker: a later `begin` fences the earlier owner."""

    exactly_once = True

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.moved_to: list[int] = []
        self.next_seeks = 100
        self.open = asyncio.Event()  # the broker acknowledges
        self.open.set()

    async def begin(self, first_offset: int | None, seeks: int) -> tuple[int, int]:
        self._broker.owner = self
        commit = self._broker.commit
        if first_offset is None:
            return 0 if commit is None else commit.offset, seeks
        if commit is None or commit.offset == first_offset:
            return first_offset, seeks
        return commit.offset, self.continue_at(commit.offset, seeks)

    def continue_at(self, offset: int, seeks: int) -> int:
        self.moved_to.append(offset)
        return self.next_seeks

    async def publish(self, outputs: Sequence[Output], commit: Commit | None) -> None:
        await asyncio.sleep(0)
        await self.open.wait()
        if self._broker.owner is not self:
            raise OwnershipLost("fenced")
        assert commit is not None
        self._broker.outputs += outputs
        self._broker.commit = commit
        self._broker.transactions += 1

    async def close(self) -> None:
        pass


@dataclass
class Bench:
    """A worker on a broker, and the wall clock."""

    worker: PartitionWorker
    outlet: MemoryOutlet
    now_ms: list[int]
    ledger: OffsetLedger = field(default_factory=OffsetLedger)
    done: int = 0
    crashes: list[BaseException] = field(default_factory=list)

    async def work(self, records: Sequence[Record], *, seeks: int = 0) -> None:
        def answered() -> None:
            self.done += 1

        expected = self.done + 1
        delivery = self.ledger.deliver(records[0].offset, records[-1].offset + 1)
        await self.worker.submit(Batch(records, delivery, seeks, answered))
        await until(lambda: self.done >= expected)

    async def idle(self, passed_ms: int) -> None:
        """Let the wall clock pass without an arrival."""
        self.now_ms[0] += passed_ms
        await self.worker._close_idle()
        await until(lambda: self.worker._applied.empty())
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def bench(
    broker: Broker,
    topic: Sequence[Record] = (),
    *,
    ours: list[bool | None] | None = None,
    start_ms: int = 1_000_000,
    budget: Budget = DEFAULT,
    imputer: WindowImputer | None = None,
    kind: type[Pipeline] = Pipeline,
    commit_interval_s: float = 3600.0,
) -> AsyncIterator[Bench]:
    confirmed = [True] if ours is None else ours

    async def confirm() -> bool | None:
        return confirmed[0]

    commit, now_ms, outlet = broker.commit, [start_ms], MemoryOutlet(broker)
    rebuilder = MemoryRebuilder(topic, *() if commit is None else (commit.rebuild_from, 0, commit))
    pipeline = kind(RULES, {}, imputer or Ladder([Interpolation()]), clock_kept=True, budget=budget)

    async def committed() -> int:
        return 0 if broker.commit is None else broker.commit.offset

    worker = PartitionWorker(
        "in", 3, pipeline, outlet, rebuilder, batches_in_flight=2, confirm=confirm, committed=committed,
        now_ms=lambda: now_ms[0], commit_interval_s=commit_interval_s,
    )  # fmt: skip
    it = Bench(worker, outlet, now_ms)
    worker._on_crash = it.crashes.append
    try:
        yield it
        assert not it.crashes
    finally:
        await worker.stop()


def reading(offset: int, step: int, sensor: str = "s0", value: float | None = None) -> Record:
    return json_record(
        offset, group="g0", sensor=sensor, ts=step * 1000, value=float(step) if value is None else value
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "IDLE_CHECK_S", 3600.0)  # the tests move the clock


def keys(rows: Sequence[tuple[str, int, int, float, bool]]) -> list[tuple[str, int, int]]:
    return [row[:3] for row in rows]


async def test_a_batch_fetched_before_the_fence_continues_from_the_commit() -> None:
    topic = [reading(n, n) for n in range(8)]
    broker = Broker(commit=Commit(4, 0))
    async with bench(broker, topic) as it:
        await it.work(topic[2:6])  # its position was fetched when the commit stood at 2
        assert it.outlet.moved_to == [4]
        assert broker.outputs == [], "what was polled before the seek does not count"
        await it.work(topic[4:8], seeks=it.outlet.next_seeks)
        assert broker.commit is not None
        assert broker.commit.offset == 8
        assert min(step for _, step, revision, *_ in broker.rows if revision == 0) == 3, "the step that 4 closes"


async def test_what_is_delivered_again_is_not_published_again() -> None:
    topic = [reading(n, n) for n in range(8)]
    broker = Broker()
    async with bench(broker, topic) as it:
        await it.work(topic[:5])
        it.worker.check_position()  # a rebalance: the consumer goes back to an earlier commit
        await it.work(topic[2:5])
        await it.work(topic[2:8])
        assert it.ledger.answered_to == 8
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))
    assert {step for _, step, *_ in broker.rows} == set(range(7))


@pytest.mark.parametrize("ticks", range(8))
async def test_a_batch_that_arrives_in_the_moment_of_a_fence_is_dropped_like_the_others(ticks: int) -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation at the tick at which what it waits for is done."""
    topic = [reading(n, n) for n in range(12)]
    broker = Broker()
    async with bench(broker, topic) as it:
        await it.work(topic[:3])
        late = Batch(topic[6:9], it.ledger.deliver(6, 9))
        publish = it.outlet.publish

        async def arrive() -> None:
            for _ in range(ticks):
                await asyncio.sleep(0)
            await it.worker.submit(late)

        async def fenced(outputs: Sequence[Output], commit: Commit | None) -> None:
            arrivals.append(asyncio.create_task(arrive()))
            raise OwnershipLost("fenced")

        arrivals: list[asyncio.Task[None]] = []
        it.outlet.publish = fenced  # type: ignore[method-assign]
        await it.work(topic[3:6])
        await until(arrivals[0].done)
        it.outlet.publish = publish  # type: ignore[method-assign]
        await it.work(topic[3:9], seeks=it.outlet.next_seeks)
        await it.work(topic[9:12], seeks=it.outlet.next_seeks)
    assert {step for _, step, *_ in broker.rows} == set(range(11))
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))


async def test_a_fenced_owner_publishes_nothing_and_begins_again_from_the_commit() -> None:
    topic = [reading(n, n) for n in range(9)]
    broker = Broker()
    losses = REGISTRY.get_sample_value("glaim_ownership_losses_total") or 0.0
    ours: list[bool | None] = [True]
    async with bench(broker, topic, ours=ours) as first, bench(broker, topic) as second:
        await first.work(topic[:3])
        await second.work(topic[:3])  # polled from the start, because its consumer knew no commit
        await second.work(topic[3:6], seeks=second.outlet.next_seeks)
        ours[0] = None
        await first.work(topic[3:5])  # answered without output: it was fenced
        assert broker.owner is second.outlet
        await asyncio.sleep(0.2)
        assert broker.owner is second.outlet, "no broker confirms that the partition is its own"
        ours[0] = True
        await until(lambda: first.worker._begun is False and first.worker._incoming.empty())
        await first.work(topic[5:7])
        await first.work(topic[6:9], seeks=first.outlet.next_seeks)
        assert broker.owner is first.outlet
    assert REGISTRY.get_sample_value("glaim_ownership_losses_total") == losses + 1
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))
    assert {step for _, step, *_ in broker.rows} == set(range(8))


async def test_a_worker_that_is_not_confirmed_closes_nothing_by_the_clock() -> None:
    topic = [reading(0, 0), reading(1, 1)]
    broker = Broker()
    ours: list[bool | None] = [False]
    async with bench(broker, topic, ours=ours) as it:
        await it.work(topic)
        before = broker.rows
        await it.idle(60_000)
        assert broker.rows == before
        ours[0] = True
        await it.idle(0)
        assert len(broker.rows) > len(before)


async def test_a_partition_that_is_quiet_when_its_worker_starts_is_closed_by_the_clock_once() -> None:
    topic = [reading(0, 0), reading(1, 1), reading(2, 2)]
    broker = Broker()
    async with bench(broker, topic) as it:
        await it.work(topic)
    before = len(broker.rows)
    async with bench(broker, topic) as it:
        await it.idle(0)
        await it.idle(60_000)
        assert it.outlet.moved_to == []
        closed = broker.rows[before:]
        assert {step for _, step, *_ in closed} >= {2, 3}
        await it.work([reading(3, 40)])
        assert it.outlet.moved_to == [], "the batch follows the commit"
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))


async def test_what_was_dropped_in_a_quiet_partition_is_delivered_again() -> None:
    topic = [reading(offset, offset) for offset in range(4)]
    broker = Broker()
    async with bench(broker, topic) as it:
        await it.work(topic[:2])
        broker.owner = None  # as after a broker has ended the transaction
        it.ledger.deliver(2, 4)
        await it.worker.submit(Batch(topic[2:], it.ledger.deliver(2, 4), 0, lambda: None))
        await until(lambda: not it.worker._begun)
        await it.idle(0)
        assert it.outlet.moved_to == [2]
        await it.work(topic[2:], seeks=it.outlet.next_seeks)
    assert {step for _, step, *_ in broker.rows} == {0, 1, 2}
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))


Event = tuple[str, Any]
# Readings, and pauses of the wall clock between them; readings of steps that the clock has published are among them.
STORY: list[Event] = [
    ("read", (0, "s0")), ("read", (1, "s1")), ("idle", 13_000), ("read", (2, "s0")), ("idle", 12_000), ("idle", 3_000),
    ("read", (2, "s1")), ("read", (3, "s0")), ("read", (3, "s0", 9.5)), ("idle", 14_000), ("read", (5, "s1")),
    ("read", (4, "s0")), ("read", (9, "s0")), ("read", (3, "s1")), ("idle", 20_000), ("read", (12, "s0")),
    ("read", (11, "s0", 4.25)), ("read", (30, "s0")),
]  # fmt: skip


async def told(
    story: Sequence[Event], *, killed_after: frozenset[int] = frozenset(), budget: Budget = DEFAULT
) -> Broker:
    """The broker after a story whose worker is killed after some of the events."""
    broker = Broker()
    topic: list[Record] = []
    place, start_ms = 0, 1_000_000
    while place < len(story):
        async with bench(broker, topic, start_ms=start_ms, budget=budget) as it:
            while place < len(story):
                kind, detail = story[place]
                if kind == "read":
                    topic.append(reading(len(topic), *detail))
                    await it.work(topic[-1:])
                else:
                    await it.idle(detail)
                place += 1
                if place - 1 in killed_after:
                    break
            start_ms = it.now_ms[0]
    return broker


async def test_steps_closed_by_the_clock_are_published_once() -> None:
    rows = (await told(STORY)).rows
    assert len(keys(rows)) == len(set(keys(rows)))
    newest: dict[tuple[str, int], tuple[int, float]] = {}
    for sensor, step, revision, value, _ in rows:
        newest[sensor, step] = max(newest.get((sensor, step), (-1, 0.0)), (revision, value))
    assert newest["s0", 3][1] == 9.5, "the highest revision holds the reading that came last"
    assert newest["s0", 11][1] == 4.25


@pytest.mark.parametrize("budget", [DEFAULT, SLICED], ids=["whole", "sliced"])
@pytest.mark.parametrize("killed", range(len(STORY) - 1))
async def test_a_worker_killed_anywhere_numbers_the_clocks_steps_as_if_it_had_not_been(
    killed: int, budget: Budget
) -> None:
    """After a kill that follows a pause, the clock starts anew: only readings close steps until the next pause."""
    undisturbed = await told(STORY)
    disturbed = await told(STORY, killed_after=frozenset([killed]), budget=budget)
    assert len(keys(disturbed.rows)) == len(set(keys(disturbed.rows)))
    if STORY[killed + 1][0] == "read":
        assert sorted(disturbed.rows) == sorted(undisturbed.rows)


# The last record closes what the silence left open: with SLICED, ten slices, of which six query the imputer.
SILENCE = [reading(0, 0), reading(1, 1), reading(2, 2), reading(3, 13)]


class Hanging:
    """An imputer that answers some calls and no more."""

    def __init__(self, answers: int) -> None:
        self.calls, self._answers = 0, answers

    async def impute(self, windows: Windows) -> Imputed:
        self.calls += 1
        if self.calls > self._answers:
            await asyncio.Event().wait()
        return await Interpolation().impute(windows)


async def test_the_slices_of_a_batch_share_a_transaction() -> None:
    whole, sliced = Broker(), Broker()
    async with bench(whole, SILENCE) as it:
        await it.work(SILENCE)
    async with bench(sliced, SILENCE, budget=SLICED) as it:
        await it.work(SILENCE)
        assert it.ledger.answered_to == 4
    assert (len(whole.outputs), len(sliced.outputs)) == (1, 10)
    assert (whole.transactions, sliced.transactions) == (1, 1)
    assert sliced.rows == whole.rows
    assert sliced.commit == whole.commit


@pytest.mark.parametrize("answered", [0, 1, 5])
async def test_a_worker_killed_between_slices_has_published_none_of_them(answered: int) -> None:
    undisturbed, broker = Broker(), Broker()
    async with bench(undisturbed, SILENCE) as it:
        await it.work(SILENCE)
    imputer = Hanging(answered)
    async with bench(broker, SILENCE, budget=SLICED, imputer=imputer) as it:
        await it.worker.submit(Batch(SILENCE, it.ledger.deliver(0, 4)))
        await until(lambda: imputer.calls > answered)
    assert (broker.outputs, broker.commit) == ([], None)
    async with bench(broker, SILENCE, budget=SLICED) as it:
        await it.work(SILENCE)
    assert broker.rows == undisturbed.rows


async def test_slices_that_the_clock_closed_before_a_kill_are_not_published_again() -> None:
    topic = [*SILENCE[:3], reading(3, 5)]
    broker, imputer = Broker(), Hanging(2)
    async with bench(broker, topic, budget=SLICED, imputer=imputer) as it:
        await it.work(topic[:3])
        it.now_ms[0] += 15_000
        closing = asyncio.create_task(it.worker._close_idle())
        await until(lambda: imputer.calls > 2)
        closing.cancel()
    assert broker.commit is not None
    by_clock = broker.commit.clock
    assert [(each.offset, each.model) for each in by_clock] == [(3, RULES.models[0].name)]
    assert by_clock[0].through == max(step for _, step, *_ in broker.rows), "the commit names the published slices"
    async with bench(broker, topic, budget=SLICED) as it:
        await it.work(topic[3:])
        await it.idle(15_000)
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))
    assert {step for _, step, *_ in broker.rows} >= set(range(7))


class FailingOnce(Pipeline):
    """A pipeline with an internal error in the middle of a record, after four of its slices, at the first attempt."""

    failed = False

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        for number, applied in enumerate(super().slices(windows, records, now_ms=now_ms)):
            if number == 4 and not self.failed:
                self.failed = True
                raise RuntimeError("a bug")
            yield applied


async def test_slices_of_a_failed_attempt_are_not_published() -> None:
    undisturbed, broker = Broker(), Broker()
    async with bench(undisturbed, SILENCE) as it:
        await it.work(SILENCE)
    async with bench(broker, SILENCE, budget=SLICED, kind=FailingOnce) as it:
        await it.work(SILENCE)
    assert broker.transactions == 1
    assert broker.rows == undisturbed.rows


async def test_windows_restored_after_an_internal_error_know_what_the_clock_closes_in_flight() -> None:
    topic = [reading(0, 0), reading(1, 1), reading(2, 2), replace(reading(3, 3), key=POISON), reading(4, 9)]
    broker = Broker()
    async with bench(broker, topic, kind=PoisonedPipeline) as it:
        await it.work(topic[:3])
        it.outlet.open.clear()
        it.now_ms[0] += 14_000
        await it.worker._close_idle()
        asyncio.get_running_loop().call_later(0.05, it.outlet.open.set)
        await it.work(topic[3:])
    assert {step for _, step, *_ in broker.rows} == set(range(7)), "the group is dark from step 7 on"
    assert len(keys(broker.rows)) == len(set(keys(broker.rows)))


# Commits without output


async def waiting_commit(it: Bench, broker: Broker, *records: Record) -> Commit:
    """Work on records that cause no output; return the commit that waits for some."""
    before = broker.transactions
    await it.work(records)
    assert broker.transactions == before, "a transaction of offsets alone"
    kept = it.worker._kept
    assert kept is not None
    assert kept.offset == records[-1].offset + 1
    return kept


async def test_a_commit_without_output_goes_with_the_next_output() -> None:
    broker = Broker()
    async with bench(broker) as it:
        await waiting_commit(it, broker, reading(0, 0), reading(1, 0, "s1"))
        await it.work([reading(n, n) for n in range(2, 9)])
        assert broker.rows
        assert (broker.transactions, it.worker._kept) == (1, None)
        assert broker.commit is not None
        assert broker.commit.offset == 9


async def test_a_commit_without_output_is_made_after_the_commit_interval() -> None:
    broker = Broker()
    async with bench(broker, commit_interval_s=0.05) as it:
        await it.work([reading(0, 0)])
        await until(lambda: broker.commit is not None)
        assert broker.commit is not None
        assert (broker.commit.offset, broker.transactions) == (1, 1)
        await it.work([reading(1, 0, "s1")])
        await until(lambda: broker.transactions == 2)


@pytest.mark.parametrize("ends", ["stop", "rebalance"])
async def test_a_commit_without_output_is_made_before_another_worker_continues(ends: str) -> None:
    broker = Broker()
    async with bench(broker) as it:
        kept = await waiting_commit(it, broker, reading(0, 0), reading(1, 0, "s1"))
        await (it.worker.stop() if ends == "stop" else it.worker.commit_kept())
        assert (broker.commit, broker.transactions) == (kept, 1)
        await it.worker.commit_kept()
        assert broker.transactions == 1


async def test_a_former_owner_commits_nothing_that_it_kept() -> None:
    broker = Broker()
    async with bench(broker) as former:
        await waiting_commit(former, broker, reading(0, 0))
        async with bench(broker) as it:
            await it.work([reading(0, 0), reading(1, 0, "s1")])
            await former.worker.commit_kept()
            assert broker.commit is None
    assert broker.commit is not None
    assert broker.commit.offset == 2


async def test_a_worker_that_is_killed_with_a_kept_commit_repeats_and_loses_no_row() -> None:
    topic = [reading(n, n // 2, f"s{n % 2}") for n in range(20)]
    whole, broker = Broker(), Broker()
    async with bench(whole, topic) as it:
        await it.work(topic)
    async with bench(broker, topic) as it:
        await it.work(topic[:11])
        await it.work(topic[11:12])  # completes a step that is still open
        assert it.worker._kept is not None
        it.worker._kept = None  # killed
    async with bench(broker, topic) as it:
        assert broker.commit is not None
        await it.work(topic[broker.commit.offset :])
    assert broker.rows == whole.rows
