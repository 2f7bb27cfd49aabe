"""Faust's aiokafka transport, with batches instead of messages and our ledger instead of its offset arithmetic.

Faust turns every record into an event with its own tasks, about 60 us each; this transport hands it one event a poll
and partition, whose value is the list of records. Agents, flow control, rebalancing and `faust worker` stay as they
are. Commits come from glaim_stream.kafka.offsets: Faust's own rule may pass an unanswered message (upstream issue 606).
tests/worker/test_faust_internals.py pins what is overridden here, so that an upgrade which changes it fails loudly.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast

from aiokafka.errors import CommitFailedError
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata
from faust.serializers.schemas import Schema
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from faust.types.tuples import ConsumerMessage
from mode.utils.futures import notify

from glaim_stream.kafka.offsets import Delivery, OffsetLedger

MAX_BATCH_BYTES = 2 * 1024**2  # 20,000 single readings in JSON are 1.7 MB: a full poll of them stays whole


@dataclass(frozen=True, slots=True)
class Batch:
    """What the agent receives: consecutive records of one partition, and the ledger's entry for them."""

    topic: str
    partition: int
    records: Sequence[ConsumerRecord]
    delivery: Delivery


def bounded(records: Sequence[ConsumerRecord]) -> Iterator[Sequence[ConsumerRecord]]:
    """A poll's records in stretches of at most MAX_BATCH_BYTES of values, or one record that alone is larger.

    The settings bound a poll's records, but a record may hold thousands of readings, and decoded they and the steps
    that they close take many times their bytes: the driver's 8 MB of wide Arrow are some 650,000 readings.
    """
    start = size_bytes = 0
    for end, record in enumerate(records):
        size_bytes += len(record.value or b"")
        if size_bytes > MAX_BATCH_BYTES and end > start:
            yield records[start:end]
            start, size_bytes = end, len(record.value or b"")
    yield records[start:]


class BatchSchema(Schema):
    """Passes a Batch through as the event's value: decoding is the worker's own, for a whole batch at once."""

    def compile(self, app: Any, **_: Any) -> Any:
        """See faust.Schema."""

        async def decode(message: Message, *, propagate: bool = False) -> Any:
            return app.create_event(None, message.value, None, message)

        return decode


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that talks to the broker; it writes each commit's metadata beside the offset."""

    def stay(self) -> None:
        """Say that the worker is there, though it takes no records for now; called from the worker's loop.

        aiokafka leaves the group of a consumer that has not been polled for broker_max_poll_interval (1000 s by
        Faust's default), and does not join again before it is polled. But a worker whose output waits for a broker, or
        for a model with a long deadline, does not poll: it pauses, and goes on where it was. A loop that is stuck
        calls nothing, and still loses its partitions to others.
        """
        if self._consumer is not None:
            self.thread_loop.call_soon_threadsafe(self._polled)

    def _polled(self) -> None:
        with self._ensure_consumer()._subscription.fetch_context():
            pass

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        consumer = self._ensure_consumer()
        metadata = cast("Consumer", self.consumer).commit_metadata
        assigned = self.assignment()
        commits = {
            driver.ensure_aiokafka_TP(tp): OffsetAndMetadata(offset, metadata.get((tp, offset), ""))
            for tp, offset in offsets.items()
            if tp in assigned
        }
        if not commits:
            return False
        # Faust warns of a partition that has not committed for long; it asks this table.
        self.tp_last_committed_at.update(dict.fromkeys((tp for tp in offsets if tp in assigned), monotonic()))
        try:
            await consumer.commit(commits)
        except CommitFailedError:
            # A rebalance took the partitions meanwhile: their next owner starts from the commit before.
            self.log.info("commit refused, the group is rebalancing: %s", dict(offsets))
            return False
        except Exception as error:
            self.log.exception("commit failed: %r", error)
            await self.crash(error)
            return False
        return True


class NoReadOffsets(dict[TP, int | None]):
    """Remembers nothing: Faust drops a batch that ends below the offset that it read last, and nobody answers for it.

    It reads on while it seeks back after a rebalance, so the offset may be one from before the seek; every commit of
    that partition would wait for the dropped batch until the next rebalance. What comes twice is no harm here: the
    worker makes its windows anew and publishes the same rows.
    """

    def __missing__(self, tp: TP) -> None:
        return None

    def __setitem__(self, tp: TP, offset: int | None) -> None:
        """Forget it."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Forget them."""


class Consumer(driver.Consumer):
    """Delivers batches and commits what the ledger allows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ledgers: dict[TP, OffsetLedger] = {}
        self.commit_metadata: dict[tuple[TP, int], str] = {}  # of the commits under way, read by the thread
        super().__init__(*args, **kwargs)
        self._read_offset = NoReadOffsets()

    def stay(self) -> None:
        """See ConsumerThread."""
        cast(ConsumerThread, self._thread).stay()

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Message]]:  # noqa: ASYNC109  Faust names it
        """One message a partition and poll, its value a Batch."""
        records, active = await self._wait_next_records(timeout)
        generation = self.app.consumer_generation_id
        if records is None or self.should_stop:
            return
        if not self.flow_active:
            try:
                await self.perform_seek()
            except Exception as error:  # the group is rebalancing; it seeks again before the flow resumes
                self.log.warning("cannot seek back while the flow rests: %r", error)
            return
        for aiokafka_tp, batch in records.items():
            if not self.flow_active or self.app.consumer_generation_id != generation:
                return
            tp = TP(aiokafka_tp.topic, aiokafka_tp.partition)
            if not batch or (active is not None and tp not in active and tp not in self._buffered_partitions):
                continue
            self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
            for part in bounded(batch):
                yield tp, self._batch_message(tp, part)

    def _batch_message(self, tp: TP, records: Sequence[ConsumerRecord]) -> ConsumerMessage:
        ledger = self.ledgers.setdefault(tp, OffsetLedger())
        first, last = records[0], records[-1]
        delivery = ledger.deliver(first.offset, last.offset + 1)
        return ConsumerMessage(
            tp.topic,
            tp.partition,
            last.offset,
            last.timestamp / 1000,
            last.timestamp_type,
            None,
            None,
            Batch(tp.topic, tp.partition, records, delivery),
            None,
            None,
            None,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    def ack(self, message: Message) -> bool:
        """Faust is done with the event; the ledger is not asked, since events skipped in a rebalance come here too."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return True

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> list[TP]:
        return [tp for tp in self.ledgers if topics is None or tp in topics or tp.topic in topics]

    def _new_offset(self, tp: TP) -> int | None:
        ledger = self.ledgers.get(tp)
        commit = ledger.committable() if ledger is not None else None
        if commit is None:
            return None
        self.commit_metadata[(tp, commit.offset)] = commit.metadata
        return commit.offset

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        done = await super()._commit(offsets)
        stale = [key for key in self.commit_metadata if key[0] in offsets and key[1] <= offsets[key[0]]]
        for key in stale:
            del self.commit_metadata[key]
        return done

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Nothing: the ledger knows what was delivered, so compacted offsets need no account."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """The next owner answers for the revoked partitions.

        A mere seek forgets nothing: until a batch comes again, the one that was delivered holds the commit.
        """
        await super().on_partitions_revoked(revoked)
        for tp in revoked:
            self.ledgers.pop(tp, None)


class Transport(driver.Transport):
    """Faust transport `glaim`: the aiokafka one with our consumer."""

    Consumer = Consumer
