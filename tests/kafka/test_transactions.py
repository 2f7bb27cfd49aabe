"""Transactions of one partition in memory: what each failure of a step leads to, and messages that are too large."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaConnectionError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TopicAuthorizationFailedError,
)
from aiokafka.structs import OffsetAndMetadata
from prometheus_client import REGISTRY

from glaim_stream.core import retry
from glaim_stream.core.errors import OwnershipLost
from glaim_stream.core.settings import Settings
from glaim_stream.decode import DeadLetter
from glaim_stream.kafka import transactions
from glaim_stream.kafka.offsets import Commit
from glaim_stream.kafka.transactions import TransactionalPublisher
from glaim_stream.output import Message, Origin, Output, read_rows
from tests.support import header, rows_message, until

SETTINGS = Settings(
    output_topic="rows", consumer_group="w", input_topic="in", kafka_extra={"transaction_timeout_ms": 45_000}
)
NAMES = [f"{number:03}" + "g" * 200 for number in range(64)]  # of groups


@dataclass(frozen=True)
class Sent:
    """A message as the client got it."""

    topic: str
    value: bytes
    key: bytes | None
    partition: int | None
    headers: Any


@dataclass
class Broker:
    """Topics and the commit of one group. Committed messages appear in `log`, those of an open transaction do not."""

    limits: dict[str, int] = field(default_factory=dict)  # bytes of the largest batch that a topic takes
    faults: dict[str, Iterator[Exception | None]] = field(default_factory=dict)  # of each call of a step, in order
    log: list[Sent] = field(default_factory=list)
    commit: OffsetAndMetadata | None = None
    producers: list[Producer] = field(default_factory=list)
    pauses: int = 0

    def fail(self, step: str, *errors: Exception) -> None:
        """Let the next calls of a step fail with these errors."""
        self.faults[step] = iter(errors)

    def step(self, name: str) -> None:
        error = next(self.faults.get(name, iter(())), None)
        if error is not None:
            raise error

    @property
    def values(self) -> list[bytes]:
        return [sent.value for sent in self.log if sent.topic == "rows"]


class Producer:
    """The client's transactional producer, as far as it is used."""

    def __init__(self, broker: Broker, options: dict[str, Any]) -> None:
        self.broker, self.options = broker, options
        self.client = SimpleNamespace(
            cluster=SimpleNamespace(partitions_for_topic=lambda topic: {0, 1}), close=self.close_connections
        )
        self._txn_manager = SimpleNamespace(_transaction_waiter=None)
        self.waiting: list[tuple[Sent, asyncio.Future[None]]] = []
        self.written: list[Sent] = []
        self.open = self.stopped = self.connections_closed = False

    async def start(self) -> None:
        self.broker.step("start")
        self.broker.producers.append(self)

    async def begin_transaction(self) -> None:
        self.broker.step("begin")
        assert not self.open
        self.open, self.written = True, []
        self._txn_manager._transaction_waiter = asyncio.get_running_loop().create_future()

    async def send(self, topic: str, value: bytes, key: Any, partition: Any, headers: Any) -> asyncio.Future[None]:
        assert self.open
        self.broker.step("send")
        if len(value) > self.options["max_request_size"]:
            raise MessageSizeTooLargeError
        future = asyncio.get_running_loop().create_future()
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.deliver)
        self.waiting.append((Sent(topic, value, key, partition, headers), future))
        return future

    def deliver(self) -> None:
        """Send what waits in batches; a topic takes a batch as a whole, and none after one that it has refused."""
        batches: dict[str, list[list[tuple[Sent, asyncio.Future[None]]]]] = {}
        for each in self.waiting:
            of_topic = batches.setdefault(each[0].topic, [[]])
            if size_of([*of_topic[-1], each]) > self.options["max_batch_size"] and of_topic[-1]:
                of_topic.append([])
            of_topic[-1].append(each)
        self.waiting = []
        for topic, parts in batches.items():
            refused: Exception | None = None
            for batch in parts:
                error = refused or self.fault(size_of(batch) > self.broker.limits.get(topic, 1_000_000))
                if refused or isinstance(error, MessageSizeTooLargeError):  # the client's sender ends
                    refused = IllegalOperation() if refused else OutOfOrderSequenceNumber()
                for sent, future in batch:
                    if error is None:
                        self.written.append(sent)
                        future.set_result(None)
                    else:
                        future.set_exception(error)

    def fault(self, too_large: bool) -> Exception | None:
        error = next(self.broker.faults.get("acknowledge", iter(())), None)
        return error or (MessageSizeTooLargeError() if too_large else None)

    async def send_offsets_to_transaction(self, offsets: dict[Any, OffsetAndMetadata], group: str) -> None:
        self.broker.step("offsets")
        assert group == "w"
        ((tp, self.offset),) = offsets.items()
        assert (tp.topic, tp.partition) == ("in", 1)

    async def commit_transaction(self) -> None:
        self.broker.step("commit")
        self.open = False
        self.broker.log += self.written
        self.broker.commit = self.offset
        self.broker.step("answer")

    async def abort_transaction(self) -> None:
        self.open, self.written = False, []

    async def stop(self) -> None:
        self.stopped = True
        self.broker.step("stop")

    async def close_connections(self) -> None:
        self.connections_closed = True


def size_of(batch: Iterable[tuple[Sent, Any]]) -> int:
    return sum(len(sent.value) for sent, _ in batch)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    def pauses() -> Iterator[float]:
        while True:
            made.pauses += 1
            yield 0.0

    async def read_commit(*_: object) -> OffsetAndMetadata | None:
        made.step("read")
        return made.commit

    monkeypatch.setattr(retry, "pauses_s", lambda *_: pauses())
    monkeypatch.setattr(transactions, "read_commit", read_commit)
    monkeypatch.setattr(transactions, "AIOKafkaProducer", lambda **options: Producer(made, options))
    monkeypatch.setattr(transactions, "send_promptly", lambda producer: producer)
    return made


def publisher(*confirmed: bool | None, settings: Settings = SETTINGS) -> TransactionalPublisher:
    """A publisher of partition 1 that gets these confirmations, and then only good ones."""
    answers = iter(confirmed)

    async def confirm() -> bool | None:
        return next(answers, True)

    return TransactionalPublisher(settings, "in", 1, confirm)


async def begun(*confirmed: bool | None) -> TransactionalPublisher:
    made = publisher(*confirmed)
    await made.begin()
    return made


def output(*values: bytes, letters: Iterable[bytes] = ()) -> Output:
    messages = [Message(value, 1, "m") for value in values]
    return Output(1, Origin(3, 1_000), messages, [DeadLetter(b"k", value) for value in letters])


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("glaim_transactions_total", {"outcome": outcome}) or 0.0


async def test_outputs_and_commit_become_visible_together_and_name_where_their_owner_began(broker: Broker) -> None:
    owner, before = publisher(), (counted("committed"), counted("aborted"))
    assert await owner.begin() is None
    owner.once_from = 2
    await owner.publish([output(b"a"), output(b"b", letters=[b"x"])], Commit(5, 2))
    assert [(sent.topic, sent.value, sent.partition) for sent in broker.log] == [
        ("rows", b"a", 1), ("rows", b"b", 1), (SETTINGS.dlq_topic, b"x", None),
    ]  # fmt: skip
    assert [header(sent.headers, "glaim-once-from") for sent in broker.log] == ["2", "2", None]
    assert broker.log[2].key == b"k"
    assert broker.commit == OffsetAndMetadata(5, Commit(5, 2).metadata)
    assert (counted("committed"), counted("aborted")) == (before[0] + 1, before[1])
    options = broker.producers[0].options
    assert (options["transactional_id"], options["transaction_timeout_ms"]) == ("w-in-1-1", 45_000)
    assert options["linger_ms"] == 0, "a transaction waits for every acknowledgement"
    assert await publisher().begin() == 5


async def test_without_a_confirmation_or_a_connection_the_partition_is_lost(broker: Broker) -> None:
    with pytest.raises(OwnershipLost, match="is not assigned to this worker"):
        await publisher(False).begin()
    assert broker.producers == [], "it would have fenced the rightful owner"
    owner = await begun()
    await owner.close()
    with pytest.raises(OwnershipLost, match="is closed"):
        await owner.publish([output(b"a")], Commit(1, 0))
    assert broker.log == []


async def test_beginning_waits_until_the_broker_confirms_starts_a_producer_and_tells_the_commit(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.commit = OffsetAndMetadata(7, "")
    broker.fail("start", KafkaConnectionError("away"), TimeoutError())
    broker.fail("read", KafkaConnectionError("away"))
    assert await publisher(None, None, True, True).begin() == 7
    assert (len(broker.producers), broker.pauses) == (1, 5)
    assert caplog.text.count("w-in-1-1: cannot begin transactions, retrying in 0.0 s") == 2
    assert "cannot read the commit, retrying in 0.0 s" in caplog.text


@pytest.mark.parametrize("step", ["begin", "send", "acknowledge", "offsets", "commit"])
async def test_a_transaction_that_fails_is_aborted_and_published_once_by_a_new_producer(
    broker: Broker, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    owner, before = await begun(), counted("aborted")
    await owner.publish([output(b"0")], Commit(1, 0))
    broker.fail(step, KafkaConnectionError("away"))
    await owner.publish([output(b"a", letters=[b"x"])], Commit(2, 0))
    assert [sent.value for sent in broker.log] == [b"0", b"a", b"x"]
    assert broker.commit == OffsetAndMetadata(2, Commit(2, 0).metadata)
    assert (len(broker.producers), broker.producers[0].stopped, broker.pauses) == (2, True, 1)
    assert counted("aborted") == before + 1
    assert "w-in-1-1: a transaction of 2 messages failed, retrying in 0.0 s" in caplog.text


async def test_a_commit_whose_answer_was_lost_is_not_published_again(broker: Broker) -> None:
    owner = await begun()
    broker.fail("answer", KafkaConnectionError("away"))
    await owner.publish([output(b"a")], Commit(1, 0))
    await owner.publish([output(b"b")], Commit(2, 0))
    assert broker.values == [b"a", b"b"]


async def test_a_commit_of_another_owner_after_a_failure_ends_this_one(broker: Broker) -> None:
    owner = await begun()
    broker.fail("commit", KafkaConnectionError("away"))
    broker.commit = OffsetAndMetadata(9, "")
    with pytest.raises(OwnershipLost, match=r"expected the commit None, found .*offset=9"):
        await owner.publish([output(b"a")], Commit(1, 0))
    assert broker.log == []


@pytest.mark.parametrize("step", ["begin", "send", "acknowledge", "offsets", "commit"])
@pytest.mark.parametrize("error", [ProducerFenced(), InvalidProducerEpoch(), IllegalOperation()])
async def test_a_fenced_owner_gives_up(broker: Broker, step: str, error: Exception) -> None:
    owner = await begun()
    broker.fail(step, error)
    with pytest.raises(OwnershipLost, match="was fenced"):
        await owner.publish([output(b"a")], Commit(1, 0))
    assert (broker.log, len(broker.producers)) == ([], 1)


async def test_a_right_that_is_missing_on_one_topic_is_no_fence(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    owner = await begun()

    def refuse() -> IllegalOperation:
        ended = broker.producers[0]._txn_manager._transaction_waiter
        ended.set_exception(TopicAuthorizationFailedError("dlq"))
        return IllegalOperation()

    broker.faults["send"] = (refuse() if call == 1 else None for call in range(4))
    await owner.publish([output(b"a", b"b")], Commit(1, 0))
    assert broker.values == [b"a", b"b"]
    assert "TopicAuthorizationFailedError" in caplog.text


async def test_only_messages_that_are_too_large_are_made_smaller(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    small, large, larger, single = (rows_message(NAMES[:count]) for count in (2, 32, 64, 1))
    broker.limits = {"rows": len(large) - 1, SETTINGS.dlq_topic: 1_500}
    owner = await begun()
    await owner.publish([output(small, large, single, larger, small, letters=[b"x" * 2000, b"y"])], Commit(1, 0))
    groups = [read_rows(value)["group"].to_pylist() for value in broker.values]
    assert [len(each) for each in groups] == [2, 16, 16, 1, 32, 32, 2]
    assert [group for each in groups for group in each] == NAMES[:2] + NAMES[:32] + NAMES[:1] + NAMES + NAMES[:2]
    assert [sent.value for sent in broker.log if sent.topic != "rows"] == [b"x" * 500, b"y"]
    assert "refuses a single" not in caplog.text
    assert broker.pauses == 0
    sizes = [producer.options["max_batch_size"] for producer in broker.producers]
    assert sizes == sorted(sizes, reverse=True)
    assert set(sizes) == {SETTINGS.max_message_bytes, 16 * 1024, 1}


async def test_a_single_row_that_is_too_large_waits_until_its_topic_takes_it(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    row = rows_message(["g" * 200])
    broker.limits = {"rows": len(row) - 1}
    owner = await begun()
    asyncio.get_running_loop().call_later(0.05, broker.limits.clear)
    await owner.publish([output(row)], Commit(1, 0))
    assert broker.values == [row]
    assert f"rows refuses a single row of {len(row)} bytes" in caplog.text


async def test_a_message_that_the_client_itself_refuses_is_made_smaller(broker: Broker) -> None:
    owner = publisher(settings=SETTINGS.model_copy(update={"max_message_bytes": 10_000}))
    await owner.begin()
    await owner.publish([output(rows_message(NAMES))], Commit(1, 0))
    assert [group for value in broker.values for group in read_rows(value)["group"].to_pylist()] == NAMES
    assert len(broker.values) == 2


async def test_closing_aborts_what_is_open_and_leaves_no_connection(broker: Broker) -> None:
    owner = await begun()
    (producer,) = broker.producers
    owner._producer.commit_transaction = asyncio.Event().wait  # type: ignore[union-attr]
    publishing = asyncio.create_task(owner.publish([output(b"a")], Commit(1, 0)))
    await until(lambda: bool(producer.written))
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    broker.fail("stop", KafkaConnectionError("away"))
    await owner.close()
    assert (producer.open, producer.stopped, producer.connections_closed) == (False, True, True)
    assert broker.log == []
