"""Pins the internals of Faust and aiokafka that glaim_stream.worker.transport overrides or relies on.

Faust's consumer is not a public interface. A failure after an upgrade need not mean a defect: compare the new version
of the function with its use in the transport, run tests/chaos, and then update the fingerprint.
"""

import ast
import asyncio
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiokafka
import faust
import pytest
from aiokafka.consumer import fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.producer import sender
from aiokafka.structs import OffsetAndMetadata
from faust.streams import Stream
from faust.transport import consumer as base
from faust.transport.consumer import Fetcher
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage, Message

from glaim_stream.kafka.offsets import METADATA_PREFIX
from glaim_stream.worker import batches, transport
from glaim_stream.worker.lost_offsets import Gaps

# Function, fingerprint of its code in the tested version, and how the transport uses it.
PINNED: list[tuple[Callable[..., Any], str, str]] = [
    (base.Consumer.getmany, "6c19542375aa", "overridden: same polling, flow control and generation check, but batches"),
    (
        base.Consumer._wait_next_records,
        "60045b9ed344",
        "called by our getmany: returns (records by partition, active partitions)",
    ),
    (base.Consumer.ack, "3cc87f1e31e7", "overridden: same flags and notification, without offset arithmetic"),
    (base.Consumer._new_offset, "d833d546002c", "overridden: the ledger provides the offset"),
    (base.Consumer._filter_tps_with_pending_acks, "24f0a66c901b", "overridden: every partition with a ledger"),
    (
        base.Consumer._filter_committable_offsets,
        "f05ad041ca05",
        "calls our _new_offset and skips offsets committed before",
    ),
    (base.Consumer._should_commit, "03679bea3b20", "decides by the offset from our _new_offset"),
    (base.Consumer._commit_tps, "705b91d31721", "commits the offsets from _filter_committable_offsets"),
    (
        base.Consumer._commit_offsets,
        "6ad6a5f367f5",
        "overridden: calls our _commit with offsets by partition, without revoked ones; refused ones are tried again",
    ),
    (base.Consumer.force_commit, "9915874ab4f5", "calls _filter_tps_with_pending_acks"),
    (base.Consumer._add_gap, "13260a7e377d", "overridden: nothing to do"),
    (
        base.Consumer.perform_seek,
        "ad378ba620dc",
        "seeks to the commits; notes them in _committed_offset, which we compare; read offsets are ignored",
    ),
    (base.Consumer.on_partitions_revoked, "300755751685", "overridden: calls this, then drops the revoked ledgers"),
    (
        base.Consumer._drain_messages,
        "3e3742ba998e",
        "calls getmany; drops batches below the read offset, which we ignore",
    ),
    (base.ThreadDelegateConsumer._commit, "0002b9f4debc", "passes our commit to the thread"),
    (driver.AIOKafkaConsumerThread._commit, "e01c0eba9a47", "overridden: the same, with metadata"),
    (driver.Consumer._new_consumer_thread, "877e2653465d", "overridden: our thread"),
    (ConsumerMessage.on_final_ack, "0a0f3b85deaa", "calls our ack"),
    (Message.ack, "fa0c25acc04e", "counts references down and calls on_final_ack"),
    (Stream.noack, "9fe4e1717d05", "lets the agent acknowledge events itself"),
    (SubscriptionState.fetch_context, "b0b057921de5", "entered by our stay: marks the consumer as polled"),
    (SubscriptionState.fetcher_idle_time.fget, "016ccdf23df8", "reports to the coordinator how long ago that was"),
    (GroupCoordinator._heartbeat_routine, "08551ac89935", "leaves the group if that was too long ago"),
    (driver.AIOKafkaConsumerThread._fetch_records, "2f7b103f8836", "overridden: the first look at the broker"),
    (
        fetcher.Fetcher.fetched_records,
        "e0c2abb93915",
        "takes what the client holds, in the order of `_records`, and has the next fetch sent",
    ),
    (sender.Sender._do_add_partitions_to_txn, "4aa3fc9550b9", "overridden: with a handler that is sent again soon"),
    (sender.Sender._do_add_offsets_to_txn, "d1d12c43e900", "overridden likewise"),
    (sender.BaseHandler.do, "da075a75c76f", "sleeps for what handle_response returns"),
    (
        sender.AddPartitionsToTxnHandler.handle_response,
        "1ee7ef0a6134",
        "a pause where it returns one, None after a success",
    ),
    (sender.AddOffsetsToTxnHandler.handle_response, "932cf228346a", "the same"),
    (
        fetcher.Fetcher._get_actions_per_node,
        "6aae828474d2",
        "fetches nothing from a broker while records of it wait to be taken",
    ),
    (faust.App._create_directories, "2ba9fff48bb9", "overridden: creates directories for tables, which we do not use"),
]


def fingerprint(function: Callable[..., Any]) -> str:
    """Return a digest of the code without its comments, docstrings and layout."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:12]


@pytest.mark.parametrize(("function", "expected", "role"), PINNED, ids=lambda value: getattr(value, "__qualname__", ""))
def test_pinned_functions_are_unchanged(function: Callable[..., Any], expected: str, role: str) -> None:
    found = fingerprint(function)
    assert found == expected, (
        f"{function.__module__}.{function.__qualname__} changed ({role}). Compare it with "
        f"glaim_stream/worker/transport.py, then pin {found}. "
        f"Faust {faust.__version__}, aiokafka {aiokafka.__version__}."
    )


def overridden(ours: type, theirs: type) -> Iterator[str]:
    for name, member in vars(ours).items():
        if inspect.isfunction(member) and name != "__init__" and hasattr(theirs, name):
            yield name


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (
            transport.Consumer,
            driver.Consumer,
            {
                "_new_consumer_thread", "getmany", "ack", "_filter_tps_with_pending_acks", "_new_offset", "_commit",
                "_commit_offsets", "_add_gap", "on_partitions_revoked", "perform_seek",
            },
        ),
        (
            transport.ConsumerThread,
            driver.AIOKafkaConsumerThread,
            {"_commit", "_create_worker_consumer", "_fetch_records", "seek_to_committed"},
        ),
        (transport.Producer, driver.Producer, {"_settings_default"}),
        (batches.BatchSchema, faust.Schema, {"compile"}),
    ],
)  # fmt: skip
def test_every_override_has_a_base_method_with_the_same_parameters(
    ours: type, theirs: type, expected: set[str]
) -> None:
    assert set(overridden(ours, theirs)) == expected, "an override without a base method would never be called"
    for name in expected - {"compile"}:
        assert list(inspect.signature(getattr(ours, name)).parameters) == list(
            inspect.signature(getattr(theirs, name)).parameters
        ), name


def test_faust_loads_the_transport_and_its_consumer() -> None:
    assert transport.Transport.Consumer is transport.Consumer
    assert transport.Transport.Producer is transport.Producer
    assert issubclass(transport.Consumer, driver.Transport.Consumer)
    app = faust.App("pinned", broker="glaim://nowhere:1", store="memory://")
    assert isinstance(app.transport, transport.Transport)


def test_the_attributes_that_the_transport_uses_exist() -> None:
    source = inspect.getsource(base.Consumer.__init__)
    for name in ("_unacked_messages", "_waiting_for_ack", "_buffered_partitions", "_committed_offset", "flow_active"):
        assert name in source or hasattr(base.Consumer, name), f"Consumer.{name} is gone"
    assert "tp_last_committed_at" in driver.AIOKafkaConsumerThread.__annotations__
    assert callable(driver.ensure_aiokafka_TP)
    assert Fetcher is base.Fetcher
    assert list(OffsetAndMetadata._fields) == ["offset", "metadata"]
    assert "metadata" in inspect.signature(OffsetAndMetadata).parameters


# Our consumer with parts of Faust, without a broker.


@dataclass
class FakeApp:
    """The part of an app that the consumer uses."""

    consumer_generation_id: int = 1


@dataclass
class Bare:
    """The state that our overrides use, without Faust's constructor."""

    ledgers: dict[TP, Any] = field(default_factory=dict)
    commit_metadata: dict[tuple[TP, int], str] = field(default_factory=dict)
    _unacked_messages: set[Message] = field(default_factory=set)
    _waiting_for_ack: asyncio.Future[None] | None = None
    _committed_offset: dict[TP, int] = field(default_factory=dict)
    gaps: Gaps = field(default_factory=Gaps)
    app: FakeApp = field(default_factory=FakeApp)
    topic_identity: str = ""
    commits: bool = True
    _seeks_done: dict[TP, int] = field(default_factory=dict)

    _batch_message = transport.Consumer._batch_message
    _new_offset = transport.Consumer._new_offset
    _filter_tps_with_pending_acks = transport.Consumer._filter_tps_with_pending_acks
    ack = transport.Consumer.ack


@dataclass(frozen=True)
class KafkaRecord:
    """The part of a record that the consumer uses."""

    offset: int
    timestamp: int = 5000
    timestamp_type: int = 0


ONE, TWO = TP("in", 1), TP("in", 2)


def test_commits_come_from_the_ledger_and_have_metadata() -> None:
    consumer = Bare()
    first, second = (consumer._batch_message(ONE, [KafkaRecord(offset)]) for offset in (0, 1))
    assert consumer._new_offset(ONE) is None
    assert consumer._new_offset(TWO) is None
    second.value.delivery.answer(1)
    assert consumer._new_offset(ONE) is None, "the first batch is not answered"
    first.value.delivery.answer(0)
    assert consumer._new_offset(ONE) == 2
    assert consumer.commit_metadata == {(ONE, 2): f"{METADATA_PREFIX}1 at=2"}


def test_an_event_acknowledged_by_faust_is_not_committed() -> None:
    consumer = Bare()
    message = consumer._batch_message(ONE, [KafkaRecord(0)])
    assert consumer.ack(message)
    assert not consumer.ack(message), "a message is acknowledged once"
    assert consumer._new_offset(ONE) is None


class Drained:
    """The part of a consumer that Faust's loop uses; it returns the given polls and stops."""

    consumer_stopped_errors = ()
    should_stop = False
    _commit_every = None

    def __init__(self, polls: list[list[ConsumerMessage]], read_offset: Any) -> None:
        self.polls, self.passed_on = polls, list[int]()
        self._read_offset = read_offset
        self._stopped = self.suspend_flow = asyncio.Event()
        self.app = self.diag = self.topics = self.log = self

    def dev(self, *_: Any) -> None: ...
    def set_flag(self, flag: str) -> None: ...
    def unset_flag(self, flag: str) -> None: ...
    def acks_enabled_for(self, topic: str) -> bool:
        return True

    async def _add_gap(self, *_: Any) -> None: ...
    async def sleep(self, seconds: float) -> None: ...

    async def wait_first(self, coroutine: Any, other: Any) -> None:
        other.close()
        await coroutine

    async def callback(self, message: Message) -> None:
        self.passed_on.append(message.offset)

    async def getmany(self, timeout: float) -> Any:  # noqa: ASYNC109  Faust names it
        for message in self.polls.pop(0):
            yield message.tp, message
        if not self.polls:
            self._stopped.set()


def read_offset_of_our_consumer() -> Any:
    """The table of read offsets of a consumer that Faust creates with our transport."""

    async def nothing(*_: Any) -> None: ...

    app = faust.App("pinned", broker="glaim://nowhere:1", store="memory://")
    consumer = app.transport.create_consumer(nothing, on_partitions_revoked=nothing, on_partitions_assigned=nothing)
    return consumer._read_offset


@pytest.mark.parametrize(
    ("read_offset", "expected"), [(read_offset_of_our_consumer, [99, 79]), (lambda: {ONE: None}, [99])]
)
async def test_faust_drops_no_batch_that_is_redelivered_after_a_seek(
    read_offset: Callable[[], Any], expected: list[int]
) -> None:
    """
    passed on    [0 .. 99]     then Faust's recovery seeks to 50, while its loop stores 99 as read
    redelivered  [50 .. 79]    below 99: with its table of read offsets, Faust would drop this batch, and no commit
                               would ever pass 50
    """
    consumer = Bare()
    batches = [consumer._batch_message(ONE, [KafkaRecord(n) for n in range(*part)]) for part in ((0, 100), (50, 80))]
    drained = Drained([[message] for message in batches], read_offset())
    await base.Consumer._drain_messages(drained, drained)
    assert drained.passed_on == expected


def test_every_partition_with_a_ledger_is_committed() -> None:
    consumer = Bare()
    for tp in (ONE, TWO):
        consumer._batch_message(tp, [KafkaRecord(0)])
    assert consumer._filter_tps_with_pending_acks() == [ONE, TWO]
    assert consumer._filter_tps_with_pending_acks({ONE}) == [ONE]
    assert consumer._filter_tps_with_pending_acks({"in"}) == [ONE, TWO]
    assert consumer._filter_tps_with_pending_acks({"other"}) == []
