"""Exactly-once delivery of one input partition: its output and its offset commit in one transaction.

Each partition has a transactional producer of its own, whose id is made of consumer group, topic and partition. A new
owner initialises it and thereby fences every earlier owner: its open transaction is aborted, and everything it sends
from then on is refused. So a reader of committed records sees the output of one owner of a partition at a time.

A transaction opens when all its messages are ready, so that it never waits for a model. When it fails, it is aborted as
a whole, and the same messages go into another one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
    RecordListTooLargeError,
)
from aiokafka.structs import OffsetAndMetadata

from glaim_stream.core import metrics
from glaim_stream.core.errors import MessageTooLarge, OwnershipLost, SendError
from glaim_stream.core.retry import OWNERSHIP, PUBLISH, READ_COMMIT
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.commits import read_commit
from glaim_stream.kafka.connection import producer_options, transaction_timeout_ms
from glaim_stream.kafka.offsets import Commit, commit_from_metadata
from glaim_stream.kafka.outgoing import Outgoing, Reduction, outgoing
from glaim_stream.kafka.partitions import require_partition
from glaim_stream.kafka.prompt_sender import send_promptly
from glaim_stream.kafka.publish import pause_after_refusal, smaller
from glaim_stream.kafka.topics import is_replaced
from glaim_stream.output import Output

log = logging.getLogger(__name__)

# The client raises IllegalOperation when its sender has ended by a fence before a message of the transaction was sent.
_FENCED = (ProducerFenced, InvalidProducerEpoch, IllegalOperation)
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_CLOSE_S = 5.0  # an abandoned producer may wait for a broker that is away; the next one's init aborts its transaction

_SMALLER_BATCHES = (16 * 1024, 1)  # bytes, in place of a batch that a topic refuses; in the last one each is alone
_START_S = 10.0  # the client itself looks for the coordinator of transactions without an end, and logs nothing

# True: a broker has confirmed just now that the partition is ours. False: it is not. None: no broker answers.
Confirm = Callable[[], Awaitable[bool | None]]


class _Refused(Exception):
    """Messages of a transaction that their topics do not take, by their index."""

    def __init__(self, errors: dict[int, MessageTooLarge]) -> None:
        super().__init__(str(errors))
        self.errors = errors


class TransactionalPublisher:
    """Publishes the output of one input partition together with its commit."""

    def __init__(
        self, settings: Settings, topic: str, partition: int, confirm: Confirm, identity: Callable[[], str] = str
    ) -> None:
        """Prepare; `begin` connects.

        Args:
            settings: the worker's settings.
            topic: the input topic.
            partition: number of the input partition.
            confirm: asks whether the broker still counts the partition as ours. It is called before a producer is
                initialised, because a former owner would fence its successor.
            identity: returns the identity of the topic, "" while it is unknown; commits carry it.
        """
        self._identity = identity
        self._settings = settings
        self._tp = TopicPartition(topic, partition)
        self._confirm = confirm
        self._producer: AIOKafkaProducer | None = None
        self._open = False  # True while its transaction is open
        self._batch_bytes = settings.max_message_bytes  # a partition's messages travel together, in one request
        self._committed: OffsetAndMetadata | None = None
        self.once_from: int | None = None  # the input offset from which this owner publishes; rows name it

    @property
    def transactional_id(self) -> str:
        """The id of the partition's producer, the same in every worker."""
        return transactional_id(self._settings, self._tp.partition)

    async def begin(self) -> int | None:
        """Fence earlier owners; return the offset from which the partition continues, None where none is committed.

        Raises:
            OwnershipLost: the partition belongs to another worker.
        """
        await self._initialise()
        self._committed = await self._read_commit()
        if self._committed is None:
            return None
        former = commit_from_metadata(self._committed.offset, self._committed.metadata).topic
        return None if is_replaced(former, self._identity()) else self._committed.offset

    async def publish(self, outputs: Sequence[Output], commit: Commit) -> None:
        """Publish outputs and the commit in one transaction; return when it is committed.

        Raises:
            OwnershipLost: another worker has taken over, or the broker has ended the transaction. Nothing of it is
                visible, and the partition continues from its last commit, after `begin`.
        """
        messages = [
            message for output in outputs for message in outgoing(output, self._settings, once_from=self.once_from)
        ]
        wanted = OffsetAndMetadata(commit.offset, replace(commit, topic=self._identity()).metadata)
        pauses = PUBLISH.pauses()
        while True:
            pause_s = 0.0
            try:
                await self._attempt(messages, wanted)
                break
            except _FENCED as error:
                raise OwnershipLost(f"{self.transactional_id} was fenced: {error!r}") from error
            except _Refused as refused:
                # A topic takes or refuses a batch of the client as a whole.
                batch_bytes = next((size for size in _SMALLER_BATCHES if size < self._batch_bytes), None)
                self._batch_bytes = batch_bytes or self._batch_bytes
                large = {} if batch_bytes else _with_rows_as_large(messages, refused.errors)
                parts = {index: smaller(messages[index], error) for index, error in large.items()}
                for index in [index for index, those in parts.items() if not those][:1]:
                    await pause_after_refusal(messages[index], pauses)
                messages = [
                    part for index, message in enumerate(messages) for part in parts.get(index) or [message]
                ]  # fmt: skip
            except (KafkaError, SendError) as error:
                metrics.publish_retries.inc()
                pause_s = next(pauses)
                log.warning(
                    "%s: a transaction of %d messages failed, retrying in %.1f s: %r",
                    self.transactional_id, len(messages), pause_s, error,
                )  # fmt: skip
            metrics.transactions.labels("aborted").inc()
            # Not after the pause: readers of committed records wait behind what is open. The producer that failed
            # cannot abort it where its sender has ended.
            if await self._went_through(wanted):
                break
            await asyncio.sleep(pause_s)
        metrics.transactions.labels("committed").inc()
        self._committed = wanted

    async def close(self) -> None:
        """Abort an open transaction, which would hold up readers of committed records, and disconnect.

        Where no broker answers in time, it stays open until the next owner or the broker aborts it.
        """
        if self._producer is not None and self._open:
            with suppress(Exception):  # the client asserts that a commit is not under way
                await asyncio.wait_for(self._producer.abort_transaction(), _CLOSE_S)
        await self._disconnect()

    async def _disconnect(self) -> None:
        self._open = False
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            await asyncio.wait_for(producer.stop(), _CLOSE_S)
        except Exception as error:
            log.debug("%s: its producer did not stop in time: %r", self.transactional_id, error)
            with suppress(Exception):
                await producer.client.close()

    async def _attempt(self, messages: Sequence[Outgoing], wanted: OffsetAndMetadata) -> None:
        producer = self._producer
        if producer is None:
            raise OwnershipLost(f"{self.transactional_id} is closed")
        await producer.begin_transaction()
        self._open = True
        errors: dict[int, MessageTooLarge] = {}
        sent: list[tuple[int, Awaitable[object]]] = []
        lost: IllegalOperation | None = None
        for index, message in enumerate(messages):
            if message.partition is not None:
                await require_partition(producer.client, self._settings, message.topic, message.partition)
            try:
                future = await producer.send(
                    message.topic, message.value, message.key, message.partition, headers=message.headers
                )
                sent.append((index, future))
            except _TOO_LARGE:
                errors[index] = _too_large(message)
            except IllegalOperation as ended:  # the transaction has failed since it began
                lost = ended
                break
        results = await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
        failed: list[BaseException] = [] if lost is None else [lost]
        for (index, _), result in zip(sent, results, strict=True):
            if isinstance(result, _TOO_LARGE):
                errors[index] = _too_large(messages[index])
            elif isinstance(result, BaseException):
                failed.append(result)
        if failed and (cause := _cause(producer)) is not None:
            raise cause
        for error in failed:
            if isinstance(error, _FENCED) and not (errors and isinstance(error, IllegalOperation)):
                raise error
        if errors:  # the broker refuses what follows a refused batch as out of order, and the client's sender ends
            raise _Refused(errors)
        if failed:
            raise failed[0]
        await producer.send_offsets_to_transaction({self._tp: wanted}, self._settings.consumer_group)
        await producer.commit_transaction()
        self._open = False

    async def _went_through(self, wanted: OffsetAndMetadata) -> bool:
        """Replace the producer after a failure; return whether the transaction was committed all the same.

        Raises:
            OwnershipLost: another worker has committed in the meantime.
        """
        await self._initialise()
        found = await self._read_commit()
        if found == wanted:
            return True
        if found != self._committed:
            raise OwnershipLost(f"{self.transactional_id}: expected the commit {self._committed}, found {found}")
        return False

    async def _initialise(self) -> None:
        """Start a new producer, which aborts an open transaction of the last one."""
        await self._disconnect()
        pauses = OWNERSHIP.pauses()
        while True:
            confirmed = await self._confirm()
            if confirmed is False:
                raise OwnershipLost(f"{self.transactional_id}: the partition is not assigned to this worker")
            if confirmed:
                producer = self._new_producer()
                try:
                    await asyncio.wait_for(producer.start(), _START_S)
                    self._producer = producer
                    return
                except (KafkaError, TimeoutError) as error:
                    pause_s = next(pauses)
                    log.warning(
                        "%s: cannot begin transactions, retrying in %.1f s: %r", self.transactional_id, pause_s, error
                    )
                    with suppress(Exception):
                        await producer.client.close()
            else:
                pause_s = next(pauses)
            await asyncio.sleep(pause_s)

    async def _read_commit(self) -> OffsetAndMetadata | None:
        return await READ_COMMIT.until_done(
            lambda: read_commit(self._settings, self._tp), KafkaError,
            lambda error, pause_s: log.warning(
                "%s: cannot read the commit, retrying in %.1f s: %r", self._tp, pause_s, error
            ),
        )  # fmt: skip

    def _new_producer(self) -> AIOKafkaProducer:
        own = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": transaction_timeout_ms(self._settings.kafka_extra),
            "max_batch_size": self._batch_bytes,
            "linger_ms": 0,  # the messages of a transaction are all there, and their acknowledgements are waited for
        }
        return send_promptly(AIOKafkaProducer(**(producer_options(self._settings) | own)))


def transactional_id(settings: Settings, partition: int) -> str:
    """The id of the producer of an input partition.

    It ends with the length of the group's name: the groups `a-b` with the topic `c` and `a` with `b-c` would fence each
    other otherwise. It begins with group and topic, for which rights are given.
    """
    return f"{settings.consumer_group}-{settings.input_topic}-{partition}-{len(settings.consumer_group)}"


def _cause(producer: AIOKafkaProducer) -> BaseException | None:
    """The error for which the client failed a transaction; None if it did not.

    After a refusal, such as a missing right on one topic, each further message gets the error IllegalOperation, which a
    fence gives too.
    """
    ended = producer._txn_manager._transaction_waiter
    return ended.exception() if ended is not None and ended.done() and not ended.cancelled() else None


def _too_large(message: Outgoing) -> MessageTooLarge:
    return MessageTooLarge(f"{message.topic} refuses a message of {len(message.value or b'')} bytes")


def _with_rows_as_large(messages: Sequence[Outgoing], errors: dict[int, MessageTooLarge]) -> dict[int, MessageTooLarge]:
    """Add the messages of rows that are as large as a refused one: an attempt finds only the first of a topic."""
    least: dict[str, int] = {}
    for index in errors:
        message = messages[index]
        if message.kind is Reduction.ROWS:
            size = len(message.value or b"")
            least[message.topic] = min(size, least.get(message.topic, size))
    as_large = {
        index: _too_large(message)
        for index, message in enumerate(messages)
        if message.kind is Reduction.ROWS and len(message.value or b"") >= least.get(message.topic, sys.maxsize)
    }
    return as_large | errors
