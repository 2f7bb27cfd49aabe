"""Polls, commits and revocations in the transport, on partial consumers.

tests/integration and tests/chaos use real consumers.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import CommitFailedError, KafkaTimeoutError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.kafka.offsets import METADATA_PREFIX
from glaim_stream.worker import transport
from glaim_stream.worker.batches import MAX_BATCH_BYTES, Batch, bounded
from glaim_stream.worker.lost_offsets import Gap, Gaps
from glaim_stream.worker.transport import NoReadOffsets

ONE, TWO = TP("in", 1), TP("in", 2)


@dataclass(frozen=True)
class Record:
    value: bytes | None
    offset: int = 0
    timestamp: int = 5000
    timestamp_type: int = 0


sizes = st.one_of(st.none(), st.integers(0, 200), st.integers(MAX_BATCH_BYTES // 3, MAX_BATCH_BYTES + 2))


@given(sizes=st.lists(sizes, min_size=1, max_size=12))
def test_bounded_parts_contain_every_record_once_in_order(sizes: list[int | None]) -> None:
    records = [Record(None if size is None else bytes(size)) for size in sizes]
    parts = list(bounded(records))  # type: ignore[arg-type]
    assert [record for part in parts for record in part] == records
    assert all(parts)
    for part in parts:
        assert len(part) == 1 or sum(len(record.value or b"") for record in part) <= MAX_BATCH_BYTES


def lengths(*value_bytes: int) -> list[int]:
    return [len(part) for part in bounded([Record(bytes(size)) for size in value_bytes])]  # type: ignore[arg-type]


def test_a_part_holds_at_most_the_bound() -> None:
    half = 1024**2  # the bound is 2 MiB
    assert lengths(half, half, 1) == [2, 1]
    assert lengths(half, half + 1, half) == [1, 1, 1]
    assert lengths(half, half + 1, half - 1) == [1, 2]


def test_a_record_above_the_bound_is_alone_and_the_next_part_starts_empty() -> None:
    assert lengths(MAX_BATCH_BYTES + 1, 1, 1) == [1, 2]
    assert lengths(1, MAX_BATCH_BYTES + 1) == [1, 1]


def test_the_table_of_read_offsets_stays_empty() -> None:
    read = NoReadOffsets()
    read[ONE] = 99
    read.update({TWO: 7})
    read.update([(TWO, 7)])
    assert (read[ONE], read[TWO], dict(read)) == (None, None, {})


# Polls


@dataclass
class App:
    """The part of an app that a poll uses."""

    consumer_generation_id: int = 1
    end_offsets: dict[TP, int] = field(default_factory=dict)

    @property
    def monitor(self) -> Any:
        return SimpleNamespace(track_tp_end_offset=self.end_offsets.__setitem__)


@dataclass
class PollThread:
    """The part of the connection's thread that a poll uses."""

    at: dict[TP, int] = field(default_factory=dict)
    failures: int = 0
    moved: list[dict[TP, int]] = field(default_factory=list)

    def positions(self) -> dict[TP, int]:
        return self.at

    async def seek_wait(self, partitions: dict[TP, int]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("no broker answers")
        self.moved.append(partitions)


@dataclass
class Poll:
    """A consumer whose next poll returns `records`."""

    records: Mapping[TopicPartition, Sequence[Record]] | None
    active: set[TP] | None = None
    should_stop: bool = False
    flow_active: bool = True
    seek_error: Exception | None = None
    seeks: int = 0
    rebalances: int = 0  # while a poll waits
    assigned: set[TP] = field(default_factory=lambda: {ONE, TWO})
    ledgers: dict[TP, Any] = field(default_factory=dict)
    app: App = field(default_factory=App)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("test"))
    _buffered_partitions: set[TP] = field(default_factory=set)
    _seeks_done: dict[TP, int] = field(default_factory=dict)
    _seeks: dict[TP, Any] = field(default_factory=dict)
    _committed_offset: dict[TP, int] = field(default_factory=dict)
    gaps: Gaps = field(default_factory=Gaps)
    _thread: Any = field(default_factory=lambda: PollThread())
    _read_to: dict[TP, int] = field(default_factory=dict)

    answered_to = transport.Consumer.answered_to
    committable_to = transport.Consumer.committable_to
    getmany = transport.Consumer.getmany
    _seek_before_poll = transport.Consumer._seek_before_poll
    continue_from = transport.Consumer.continue_from
    _batch_message = transport.Consumer._batch_message

    async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109  Faust names it
        assert timeout == 2.5
        self.app.consumer_generation_id += self.rebalances
        return self.records, self.active

    def assignment(self) -> set[TP]:
        return self.assigned

    async def perform_seek(self) -> None:
        self.seeks += 1
        if self.seek_error is not None:
            raise self.seek_error

    def highwater(self, tp: TP) -> int:
        return 100 + tp.partition

    async def batches(self) -> list[tuple[TP, list[int]]]:
        """Partition and offsets of every batch of the poll."""
        found = []
        async for tp, message in self.getmany(2.5):
            assert isinstance(message.value, Batch)
            assert message.tp == tp
            found.append((tp, [record.offset for record in message.value.records]))
        return found


def polled(*offsets: int, value: bytes = b"") -> list[Record]:
    return [Record(value, offset) for offset in offsets]


BOTH = {TopicPartition("in", 1): polled(3, 4), TopicPartition("in", 2): polled(8)}


async def test_a_poll_yields_one_batch_per_partition() -> None:
    poll = Poll(BOTH, active={ONE, TWO})
    assert await poll.batches() == [(ONE, [3, 4]), (TWO, [8])]
    assert poll.app.end_offsets == {ONE: 101, TWO: 102}
    assert poll.seeks == 0


async def test_a_large_poll_yields_several_batches_of_one_ledger() -> None:
    poll = Poll({TopicPartition("in", 1): polled(0, 1, 2, value=bytes(MAX_BATCH_BYTES // 2 + 1))})
    assert await poll.batches() == [(ONE, [0]), (ONE, [1]), (ONE, [2])]
    assert list(poll.ledgers) == [ONE]


async def test_a_batch_message_has_the_last_offset_and_the_generation() -> None:
    poll = Poll({TopicPartition("in", 1): polled(3, 4)}, app=App(consumer_generation_id=6))
    ((_, message),) = [each async for each in poll.getmany(2.5)]
    assert (message.offset, message.timestamp, message.generation_id) == (4, 5.0, 6)
    assert (message.value.delivery.first_offset, message.value.delivery.next_offset) == (3, 5)


async def test_a_batch_that_does_not_begin_at_the_commit_is_noted_and_those_that_follow_are_not() -> None:
    poll = Poll(BOTH, _committed_offset={ONE: 2, TWO: 8})
    await poll.batches()
    poll.records = {TopicPartition("in", 1): polled(5, 6)}
    await poll.batches()
    assert [poll.gaps.found.get_nowait() for _ in range(poll.gaps.found.qsize())] == [Gap(1, 2, 3)]


@pytest.mark.parametrize("poll", [Poll(None), Poll(BOTH, should_stop=True)], ids=["nothing", "stopping"])
async def test_an_empty_poll_or_a_stopping_consumer_yields_nothing(poll: Poll) -> None:
    assert await poll.batches() == []
    assert poll.seeks == 0


@pytest.mark.parametrize("error", [None, RuntimeError("no coordinator")])
async def test_a_suspended_flow_yields_nothing_and_seeks_back(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    poll = Poll(BOTH, flow_active=False, seek_error=error)
    assert await poll.batches() == []
    assert (poll.seeks, poll.ledgers) == (1, {})
    assert ("no coordinator" in caplog.text) == (error is not None)


async def test_a_poll_that_began_before_a_rebalance_yields_nothing_and_seeks_back() -> None:
    """The flow may have resumed meanwhile, and Faust would take these records for those of the new assignment."""
    poll = Poll(BOTH, rebalances=1)
    assert await poll.batches() == []
    assert (poll.seeks, poll.ledgers) == (1, {})
    poll.rebalances = 0
    assert await poll.batches() == [(ONE, [3, 4]), (TWO, [8])]


async def test_a_worker_that_cannot_seek_back_and_has_dropped_records_ends() -> None:
    with pytest.raises(RuntimeError):
        await Poll(BOTH, rebalances=1, seek_error=RuntimeError("away")).batches()
    assert await Poll(BOTH, rebalances=1, seek_error=RuntimeError("none assigned"), assigned=set()).batches() == []


async def test_partitions_that_are_neither_active_nor_buffered_are_skipped() -> None:
    assert await Poll(BOTH, active={TWO}).batches() == [(TWO, [8])]
    assert await Poll(BOTH, active=set()).batches() == []
    assert await Poll(BOTH, active=set(), _buffered_partitions={ONE}).batches() == [(ONE, [3, 4])]
    assert await Poll(BOTH, active=None).batches() == [(ONE, [3, 4]), (TWO, [8])]


async def test_an_empty_partition_does_not_end_the_poll() -> None:
    assert await Poll({TopicPartition("in", 1): [], TopicPartition("in", 2): polled(8)}).batches() == [(TWO, [8])]


async def test_a_rebalance_during_a_poll_ends_it() -> None:
    for change in ("generation", "flow"):
        poll = Poll(BOTH)
        found = []
        async for tp, _ in poll.getmany(2.5):
            found.append(tp)
            if change == "generation":
                poll.app.consumer_generation_id += 1
            else:
                poll.flow_active = False
        assert found == [ONE], change


async def test_a_rebalance_between_two_parts_of_a_batch_ends_the_poll() -> None:
    """Faust drops a part of the old generation, so the part after it must not come with the new one."""
    poll = Poll({TopicPartition("in", 1): polled(3, 4, value=bytes(MAX_BATCH_BYTES))})
    found = []
    async for _, message in poll.getmany(2.5):
        found.append(message.offset)
        poll.app.consumer_generation_id += 1
    assert found == [3]


async def test_partitions_without_a_commit_are_sought_to_their_beginning() -> None:
    """The client moves only those with one, and a poll that was dropped would never be delivered."""
    three, gone = TP("in", 3), TP("in", 4)

    class Client:
        def __init__(self) -> None:
            self.committed: Mapping[TP, int | None] = {ONE: 7, TWO: None, three: 0, gone: None}
            self.begun: list[TP] = []
            self.leaders = True

        async def seek_to_committed(self) -> Mapping[TP, int | None]:
            return self.committed

        async def seek_to_beginning(self, *partitions: TP) -> None:
            self.begun += partitions
            if not self.leaders:
                await asyncio.Event().wait()

        def assignment(self) -> set[TP]:
            return {ONE, TWO, three}

    it = thread()
    it.broker = client = Client()  # type: ignore[assignment]
    assert await it.seek_to_committed() == client.committed
    assert set(client.begun) == {TWO, three}
    client.leaders = False
    async with asyncio.timeout(30):
        assert await it.seek_to_committed() == client.committed
    client.committed = {ONE: 7}
    assert await it.seek_to_committed() == {ONE: 7}
    assert len(client.begun) == 4


# Commits


class Broker:
    """A consumer of aiokafka that records its commits or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.commits = error, list[Any]()
        self._subscription = SubscriptionState()

    async def commit(self, offsets: Any) -> None:
        if self.error is not None:
            raise self.error
        self.commits.append(offsets)


@dataclass
class Thread:
    """The part of the consumer thread that a commit uses."""

    broker: Broker
    assigned: set[TP]
    consumer: Any = None
    tp_last_committed_at: dict[TP, float] = field(default_factory=dict)
    crashes: list[BaseException] = field(default_factory=list)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("test"))
    thread_loop: Any = None
    _consumer: Any = None

    commit = transport.ConsumerThread._commit
    seek_to_committed = transport.ConsumerThread._seek_to_committed
    stay = transport.ConsumerThread.stay
    _polled = transport.ConsumerThread._polled

    def assignment(self) -> set[TP]:
        return self.assigned

    def _ensure_consumer(self) -> Broker:
        return self.broker

    async def crash(self, error: BaseException) -> None:
        self.crashes.append(error)


def thread(error: Exception | None = None, assigned: Sequence[TP] = (ONE, TWO)) -> Thread:
    metadata = {(ONE, 5): f"{METADATA_PREFIX}3", (ONE, 4): "older"}
    return Thread(Broker(error), set(assigned), SimpleNamespace(commit_metadata=metadata))


async def test_a_commit_has_metadata() -> None:
    it = thread()
    assert await it.commit({ONE: 5, TWO: 9}) is True
    assert it.broker.commits == [
        {
            TopicPartition("in", 1): OffsetAndMetadata(5, f"{METADATA_PREFIX}3"),
            TopicPartition("in", 2): OffsetAndMetadata(9, ""),
        }
    ]
    assert set(it.tp_last_committed_at) == {ONE, TWO}


async def test_a_revoked_partition_is_not_committed() -> None:
    it = thread(assigned=[TWO])
    assert await it.commit({ONE: 5, TWO: 9}) is True
    assert it.broker.commits == [{TopicPartition("in", 2): OffsetAndMetadata(9, "")}]
    assert set(it.tp_last_committed_at) == {TWO}


async def test_without_an_assigned_partition_nothing_is_committed() -> None:
    it = thread(assigned=[])
    assert await it.commit({ONE: 5}) is False
    assert it.broker.commits == []


async def test_a_commit_rejected_by_the_group_fails_without_a_crash() -> None:
    it = thread(CommitFailedError("rebalance"))
    assert await it.commit({ONE: 5}) is False
    assert it.crashes == []


async def test_any_other_failed_commit_crashes_the_consumer() -> None:
    error = RuntimeError("no such partition")
    it = thread(error)
    assert await it.commit({ONE: 5}) is False
    assert it.crashes == [error]


def bare_consumer() -> transport.Consumer:
    """Our consumer without Faust's constructor."""
    consumer = object.__new__(transport.Consumer)
    consumer.ledgers, consumer.commit_metadata, consumer.gaps = {}, {}, Gaps()
    return consumer


@pytest.mark.parametrize("done", [True, False])
async def test_metadata_is_dropped_once_it_is_committed(done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = bare_consumer()
    sent: list[Any] = []

    async def commit(self: Any, offsets: Any) -> bool:
        sent.append(offsets)
        return done

    monkeypatch.setattr(driver.Consumer, "_commit", commit)
    consumer.commit_metadata = {(ONE, 4): "a", (ONE, 5): "b", (ONE, 6): "c", (TWO, 1): "d"}
    assert await consumer._commit({ONE: 5}) is done
    assert sent == [{ONE: 5}]
    refused = {} if done else {(ONE, 4): "a", (ONE, 5): "b"}  # tried again, with its metadata
    assert consumer.commit_metadata == refused | {(ONE, 6): "c", (TWO, 1): "d"}, "later ones are still to be committed"


@pytest.mark.parametrize("done", [True, False])
async def test_a_refused_commit_is_tried_again(done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust notes the offsets as committed whatever the broker says, and would wait for further input."""
    consumer = bare_consumer()
    consumer._committed_offset = {ONE: 4}

    async def commit_offsets(self: Any, offsets: Any, start_new_transaction: bool) -> bool:
        self._committed_offset.update(offsets)
        return done

    monkeypatch.setattr(driver.Consumer, "_commit_offsets", commit_offsets)
    assert await consumer._commit_offsets({ONE: 5, TWO: 7}) is done
    assert consumer._committed_offset == ({ONE: 5, TWO: 7} if done else {ONE: 4, TWO: None})


async def test_the_ledger_of_a_revoked_partition_is_dropped_after_the_last_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = bare_consumer()
    for tp in (ONE, TWO):
        consumer.ledgers[tp] = transport.OffsetLedger()
    kept = consumer.ledgers[TWO]
    seen: list[set[TP]] = []

    async def revoke(self: Any, revoked: set[TP]) -> None:
        seen.append(set(consumer.ledgers))  # Faust's last commit needs them

    monkeypatch.setattr(driver.Consumer, "on_partitions_revoked", revoke)
    await consumer.on_partitions_revoked({ONE, TP("in", 9)})
    assert seen == [{ONE, TWO}]
    assert consumer.ledgers == {TWO: kept}


# Staying in the group


async def test_a_recent_confirmation_of_any_partition_is_one_of_those_that_are_still_assigned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing by the wall clock asks often; a partition that was taken away since is not ours all the same."""
    asked: list[TP] = []
    now_s = [100.0]

    async def confirm(tp: TP) -> bool | None:
        asked.append(tp)
        return answers[len(asked) - 1]

    monkeypatch.setattr(transport, "steady_s", lambda: now_s[0])
    consumer = bare_consumer()
    consumer._confirmed_s = now_s[0] - 60
    consumer._thread = SimpleNamespace(confirm=confirm, thread_loop=SimpleNamespace(is_closed=lambda: False))  # type: ignore[assignment]
    monkeypatch.setattr(transport.Consumer, "should_stop", False)
    monkeypatch.setattr(transport.Consumer, "assignment", lambda self: {ONE})
    answers = [None, True, True, None]
    assert await consumer.confirm(ONE, recently=True) is None
    assert await consumer.confirm(ONE, recently=True) is True
    now_s[0] += 0.9
    assert [await consumer.confirm(tp, recently=True) for tp in (ONE, TWO)] == [True, False]
    assert asked == [ONE, ONE], "the last confirmation is recent"
    assert await consumer.confirm(TWO) is True
    now_s[0] += 1.1
    assert await consumer.confirm(ONE, recently=True) is None
    assert asked == [ONE, ONE, TWO, ONE]


async def test_a_seek_that_no_broker_answers_fails_before_faust_gives_it_up() -> None:
    """Faust would end its recovery silently, and the worker would never read again."""

    async def never() -> Mapping[TP, int]:
        await asyncio.Event().wait()
        return {}

    consumer = bare_consumer()
    consumer.app = SimpleNamespace(conf=SimpleNamespace(broker_request_timeout=0.04))  # type: ignore[assignment]
    consumer._read_offset = NoReadOffsets()
    consumer.seek_to_committed = never  # type: ignore[method-assign]
    seek = asyncio.create_task(consumer.perform_seek())
    await asyncio.wait([seek], timeout=5)
    assert seek.done()
    assert isinstance(seek.exception(), KafkaTimeoutError)


async def test_a_paused_worker_counts_as_polled() -> None:
    it = thread()
    it.thread_loop = asyncio.get_running_loop()
    subscription = it.broker._subscription
    subscription._last_fetch_ended = long_ago = 0.0
    it.stay()
    await asyncio.sleep(0)
    assert subscription._last_fetch_ended == long_ago, "there is no consumer yet"
    it._consumer = it.broker
    it.stay()
    await asyncio.sleep(0)
    assert subscription._last_fetch_ended > long_ago


async def test_a_seek_happens_before_the_next_poll_and_marks_its_batches() -> None:
    thread = PollThread(failures=1)
    poll = Poll({TopicPartition("in", 1): [Record(b"{}", 5)]}, _thread=thread)
    poll.assignment = lambda: {TP("in", 1)}  # type: ignore[attr-defined]
    assert poll.continue_from(TP("in", 1), 3) == 1
    for seeks in (0, 1, 1):  # the first attempt fails, so its batch does not count
        (found,) = [message async for _, message in poll.getmany(2.5)]
        assert found.value.seeks == seeks
    assert thread.moved == [{TP("in", 1): 3}]


async def test_offsets_without_records_count_as_answered_once_every_record_is() -> None:
    tp = TP("in", 1)
    thread = PollThread({tp: 5})
    poll = Poll({TopicPartition("in", 1): polled(3, 4)}, _thread=thread)
    assert poll.answered_to(tp) is None
    messages = [message async for _, message in poll.getmany(2.5)]
    assert poll.answered_to(tp) is None, "the batch is open, although the position has passed it"
    messages[0].value.delivery.answer(0)
    assert poll.answered_to(tp) == 5
    poll.records, thread.at = {}, {tp: 7}  # the markers of two transactions
    assert [message async for _, message in poll.getmany(2.5)] == []
    assert (poll.answered_to(tp), poll.committable_to(tp)) == (7, 5)


async def test_the_position_of_a_partition_whose_records_were_left_out_does_not_count() -> None:
    tp = TP("in", 1)
    poll = Poll({TopicPartition("in", 1): polled(3, 4)}, active={TP("in", 0)}, _thread=PollThread({tp: 5}))
    assert await poll.batches() == []
    assert poll.answered_to(tp) is None


class Fetcher:
    """Stands for aiokafka's: each call takes the next answer. `held`: the client has records before the first."""

    _closed = False

    def __init__(self, *answers: dict[TP, list[int]] | Exception, held: bool = True) -> None:
        self.answers, self.asked_for = list(answers), list[int]()
        self._records: dict[TP, object] = dict.fromkeys((ONE, TWO)) if held else {}
        self._subscriptions = SimpleNamespace(fetch_context=contextlib.nullcontext)

    async def fetched_records(self, partitions: set[TP], *, max_records: int, **_: Any) -> dict[TP, list[int]]:
        self.asked_for.append(max_records)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def taken(fetcher: Fetcher) -> dict[TP, list[int]]:
    it: Any = object.__new__(transport.ConsumerThread)
    it.consumer, it.log = SimpleNamespace(flow_active=True), logging.getLogger("thread")
    consumer: Any = SimpleNamespace(_fetcher=fetcher, _closed=False)
    return dict(await it._fetch_records(consumer, {ONE, TWO}, timeout=1.0, max_records=10))


async def test_a_poll_of_records_that_waited_in_the_client_also_takes_newer_ones() -> None:
    fetcher = Fetcher({ONE: [1, 2]}, {ONE: [3], TWO: [7]})
    assert await taken(fetcher) == {ONE: [1, 2, 3], TWO: [7]}
    assert fetcher.asked_for == [10, 8]


@pytest.mark.parametrize(("answer", "held"), [({ONE: [1]}, False), ({}, True), ({ONE: list(range(10))}, True)])
async def test_one_look_is_enough_where_nothing_newer_can_be_taken(answer: dict[TP, list[int]], held: bool) -> None:
    """Fresh records, none, and as many as a poll takes."""
    assert await taken(Fetcher(answer, held=held)) == answer


async def test_a_partition_that_gave_records_waits_for_its_turn() -> None:
    """The client takes from the first that it holds records of; a full poll is of one partition."""
    full = list(range(10))
    fetcher = Fetcher({ONE: full}, {TWO: full}, {ONE: full})
    for order in ([TWO, ONE], [ONE, TWO], [TWO, ONE]):
        await taken(fetcher)
        assert list(fetcher._records) == order


async def test_an_error_of_the_second_look_costs_no_record_of_the_first() -> None:
    assert await taken(Fetcher({ONE: [1]}, OSError("reset by the broker"))) == {ONE: [1]}
