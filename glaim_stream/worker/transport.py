"""Faust's aiokafka transport, with batches instead of messages and our ledger instead of its offset arithmetic.

Faust turns every record into an event with tasks of its own, about 60 us each; this transport hands it one event per
poll and partition, whose value is the list of records. Agents, flow control, rebalancing and `faust worker` stay as
they are. Commits come from glaim_stream.kafka.offsets, because Faust's own rule may pass an unanswered message
(upstream issue 606). tests/worker/test_faust_internals.py pins what is overridden here, so that an upgrade which
changes it fails a test.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from faust.types.tuples import ConsumerMessage
from mode.utils.futures import notify

from glaim_stream.core.times import steady_s
from glaim_stream.kafka import OffsetLedger, Record, commit_from_metadata, is_replaced
from glaim_stream.worker.batches import Batch, bounded
from glaim_stream.worker.lost_offsets import Gaps

log = logging.getLogger(__name__)

_RECENTLY_S = 1.0
_REFUSED_PAUSE_S, _REFUSED_QUIET_S = 2.0, 10.0  # pauses: between fetches without a right, between log lines about it
_NEWER_S = 0.005  # a broker answers a fetch within about 1 ms where it has records
_RESET_S = 1.0
_IDENTITY_S = 5.0  # longest wait for the identity of the input topic, which takes a connection
_SEEK_SHARE = 0.75  # share of Faust's timeout for a seek


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread of the broker's connection. It writes the metadata of each commit beside the offset."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create the thread; Faust passes the arguments."""
        self._refused_s: dict[str, float] = {}  # time of each refusal's last log line
        super().__init__(*args, **kwargs)

    def stay(self) -> None:
        """Stay in the consumer group while the worker takes no records; called from the worker's loop.

        aiokafka leaves the group when a consumer has not been polled for broker_max_poll_interval (1000 s by Faust's
        default), and does not join again before it is polled. But a worker whose output waits for a broker, or for a
        model with a long deadline, does not poll: it pauses and continues where it was. A loop that is stuck calls
        nothing, and still loses its partitions to other workers.
        """
        if self._consumer is not None:
            self.thread_loop.call_soon_threadsafe(self._polled)

    def _polled(self) -> None:
        with self._ensure_consumer()._subscription.fetch_context():
            pass

    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(**transport.app.consumer_options)

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109  Faust names it
        max_records: int | None = None,
    ) -> driver.RecordMap:
        """Take what the client holds, and what the broker has received since the client fetched that.

        aiokafka fetches nothing from a broker while records of it wait to be taken. Under load they wait as long as the
        last poll is worked on, and without a second look every record would wait for two polls instead of one.
        """
        waited = bool(consumer._fetcher._records)
        try:
            records = await self._fetch_in_turn(consumer, active_partitions, timeout, max_records)
        except TopicAuthorizationFailedError as error:
            self._refused(f"nothing is read: this user may not READ {_names(active_partitions)}", error)
            await asyncio.sleep(_REFUSED_PAUSE_S)
            return {}
        left = None if max_records is None else max_records - sum(map(len, records.values()))
        if not waited or not records or (left is not None and left <= 0):
            return records
        try:
            newer = await self._fetch_in_turn(consumer, active_partitions, _NEWER_S, left)
        except Exception as error:  # the next poll meets it again; what is taken must not be lost with it
            self.log.debug("second look at the broker: %r", error)
            return records
        tps = dict.fromkeys((*records, *newer))
        return {tp: [*records.get(tp, ()), *newer.get(tp, ())] for tp in tps}

    async def _fetch_in_turn(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP],
        timeout: float | None,  # noqa: ASYNC109  Faust names it
        max_records: int | None,
    ) -> driver.RecordMap:
        """Take records; partitions that gave some come after the others at the next poll.

        aiokafka takes from the first partition that it holds records of until its fetch is used up, five full polls in
        a row. The other partitions are idle meanwhile, and one that waits for its transaction takes no more.
        """
        records = await super()._fetch_records(consumer, active_partitions, timeout, max_records)
        held = consumer._fetcher._records
        for tp in records:
            if tp in held:
                held[tp] = held.pop(tp)
        return records

    def positions(self) -> dict[TP, int]:
        """The position of each assigned partition: the offset after the last that a poll has passed."""
        assignment = self._ensure_consumer()._subscription.subscription.assignment
        offsets = {} if assignment is None else assignment.all_consumed_offsets()
        return {TP(tp.topic, tp.partition): each.offset for tp, each in offsets.items()}

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek the assigned partitions to their commits, and those without one to their beginning.

        aiokafka leaves the latter where they are, so records that were polled in a rebalance and dropped would never be
        delivered. A commit in a topic that was deleted and made anew since counts as none.
        """
        offsets: Mapping[TP, int] = await self.call_thread(self._seek_to_committed)
        return offsets

    async def _seek_to_committed(self) -> Mapping[TP, int]:
        consumer = self._ensure_consumer()
        offsets: Mapping[TP, int] = await consumer.seek_to_committed()
        offsets = {**offsets, **dict.fromkeys(await _made_anew(consumer, self.consumer, offsets), 0)}
        left = {tp for tp, offset in offsets.items() if not offset} & consumer.assignment()
        if left:
            # The call waits for the partitions' leaders, and one may be away. The seek holds without that wait too.
            with suppress(TimeoutError):
                await asyncio.wait_for(consumer.seek_to_beginning(*left), _RESET_S)
        return offsets

    async def confirm(self, tp: TP) -> bool | None:
        """Ask the group's coordinator whether a partition is ours now; None when it does not answer."""
        return await self.call_thread(self._confirm, tp)

    async def _confirm(self, tp: TP) -> bool | None:
        consumer = self._ensure_consumer()
        coordinator = consumer._coordinator
        generation = coordinator.generation
        answered = await coordinator._do_heartbeat()
        if coordinator.generation != generation or tp not in self.assignment():
            return False
        # While the group rebalances, the next owner may be chosen already, and the rebalance waits until what is in
        # flight is answered: to wait here for its end would be a deadlock.
        if coordinator.need_rejoin(consumer._subscription.subscription):
            return False
        return True if answered else None

    async def committed(self, tp: TP) -> int:
        """The offset that the group has committed, from its coordinator; 0 where there is none."""
        found: int | None = await self.call_thread(self._ensure_consumer().committed, driver.ensure_aiokafka_TP(tp))
        return found or 0

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
        # Faust reads this table to warn about a partition that has not committed for long.
        self.tp_last_committed_at.update(dict.fromkeys((tp for tp in offsets if tp in assigned), monotonic()))
        try:
            await consumer.commit(commits)
        except CommitFailedError:
            # A rebalance has taken the partitions away: their next owner starts from the previous commit.
            self.log.info("commit refused, the group is rebalancing: %s", dict(offsets))
            return False
        except (TopicAuthorizationFailedError, GroupAuthorizationFailedError) as error:
            self._refused(f"nothing is committed: this user may not READ {_names(offsets)} and its group", error)
            return False
        except Exception as error:
            self.log.exception("commit failed: %r", error)
            await self.crash(error)
            return False
        return True

    def _refused(self, what: str, error: Exception) -> None:
        """Log from time to time that a right is missing; the worker goes on, because a restart would not help."""
        if monotonic() - self._refused_s.get(what, -_REFUSED_QUIET_S) >= _REFUSED_QUIET_S:
            self._refused_s[what] = monotonic()
            log.warning("%s (%s); `glaim-stream check --only kafka` names the command", what, type(error).__name__)


async def _made_anew(consumer: AIOKafkaConsumer, owner: Any, offsets: Mapping[TP, int]) -> list[TP]:
    """The partitions whose commit is of a topic that was deleted and made anew since, by the identity of the topic.

    A broker removes the commits of a deleted topic, but a worker that stops just then commits once more.
    """
    identify = getattr(getattr(owner, "app", None), "identify", None)
    if identify is None or not any(offsets.values()):
        return []
    try:
        identity = await asyncio.wait_for(asyncio.to_thread(identify), _IDENTITY_S)
        commits = await consumer._coordinator.fetch_committed_offsets([tp for tp, offset in offsets.items() if offset])
    except Exception as error:  # no broker has answered: the commits count
        log.debug("cannot tell whether the input topic was made anew: %r", error)
        return []
    owner.topic_identity = identity or ""
    known = {tp: commit_from_metadata(each.offset, each.metadata) for tp, each in commits.items()}
    found = [tp for tp, commit in known.items() if is_replaced(commit.topic, identity)]
    for tp in found:
        log.error(
            "%s-%d was deleted and made anew since offset %d was committed: it is read from its beginning",
            tp.topic, tp.partition, known[tp].offset,
        )  # fmt: skip
    return found


def _names(tps: Iterable[TP]) -> str:
    return ", ".join(sorted({tp.topic for tp in tps}))


class NoReadOffsets(dict[TP, int | None]):
    """A table of read offsets that stays empty, so that Faust drops no batch.

    Faust drops a batch that ends below the offset that it read last. It keeps reading while it seeks back after a
    rebalance, so this offset may be from before the seek, and every commit of the partition would wait for the dropped
    batch until the next rebalance. A batch that is delivered twice does no harm here: the worker rebuilds its windows
    and publishes the same rows.
    """

    def __missing__(self, tp: TP) -> None:
        return None

    def __setitem__(self, tp: TP, offset: int | None) -> None:
        """Ignore the offset."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Ignore the offsets."""


class Consumer(driver.Consumer):
    """A consumer that delivers batches and commits what the ledger allows."""

    topic_identity = ""  # of the input topic, once it is known; commits carry it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ledgers: dict[TP, OffsetLedger] = {}
        self.gaps = Gaps()
        self.commit_metadata: dict[tuple[TP, int], str] = {}  # metadata of pending commits; read by the thread
        self.commits = True  # False: offsets are committed elsewhere, in the transactions that hold their output
        self._confirmed_s = -_RECENTLY_S  # time of the last request that confirmed our membership
        self._seeks: dict[TP, int] = {}  # offsets to seek to before the next poll
        self._seeks_done: dict[TP, int] = {}  # number of seeks by partition
        self._read_to: dict[TP, int] = {}  # offset by partition before which every record is in the ledger
        super().__init__(*args, **kwargs)
        self._read_offset = NoReadOffsets()

    def stay(self) -> None:
        """See ConsumerThread."""
        cast(ConsumerThread, self._thread).stay()

    async def confirm(self, tp: TP, *, recently: bool = False) -> bool | None:
        """See ConsumerThread; `recently`: a confirmation of any partition in the last second is enough.

        Also None once the consumer stops.
        """
        thread = cast(ConsumerThread, self._thread)
        if self.should_stop or thread.thread_loop.is_closed():  # partitions run on while the consumer stops
            return None
        if recently and steady_s() - self._confirmed_s < _RECENTLY_S:
            return tp in self.assignment()
        asked_s = steady_s()
        confirmed = await thread.confirm(tp)
        if confirmed:
            self._confirmed_s = asked_s
        return confirmed

    async def committed(self, tp: TP) -> int:
        """See ConsumerThread."""
        return await cast(ConsumerThread, self._thread).committed(tp)

    def continue_from(self, tp: TP, offset: int) -> int:
        """Move a partition's position before the next poll; return the number that batches carry from then on.

        The seek happens between two polls, because one that is under way may still give records of the old position.
        Callers must not wait for it: no poll comes while the batches before it fill the buffers.
        """
        self._seeks[tp] = offset
        return self._seeks_done.get(tp, 0) + 1

    async def perform_seek(self) -> None:
        """Seek to the committed offsets; fail when no broker answers.

        After a rebalance Faust waits broker_request_timeout for it. After that it considers the service stopped and
        ends its recovery silently: the worker would stay in its group, keep its partitions and read nothing. An error
        ends the worker instead, and its supervisor starts it again.
        """
        patience_s = self.app.conf.broker_request_timeout * _SEEK_SHARE
        try:
            await asyncio.wait_for(super().perform_seek(), patience_s)
        except TimeoutError:
            raise KafkaTimeoutError(f"no broker told the committed offsets within {patience_s:.0f} s") from None

    async def _seek_before_poll(self) -> None:
        for tp, offset in list(self._seeks.items()):
            if tp in self.assignment():
                try:
                    await self._thread.seek_wait({tp: offset})
                except Exception as error:  # the next poll tries again
                    self.log.warning("%s-%d: cannot seek to %d: %r", *tp, offset, error)
                    continue
            if self._seeks.get(tp) == offset:
                del self._seeks[tp]
            self._seeks_done[tp] = self._seeks_done.get(tp, 0) + 1

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Message]]:  # noqa: ASYNC109  Faust names it
        """Yield the records of a poll, as messages whose values are Batches."""
        await self._seek_before_poll()
        generation = self.app.consumer_generation_id

        def rebalanced() -> bool:
            return not self.flow_active or self.app.consumer_generation_id != generation

        records, active = await self._wait_next_records(timeout)
        if records is None or self.should_stop:
            return
        if rebalanced():  # these records may be of the old assignment
            try:
                await self.perform_seek()
            except Exception as error:
                if self.flow_active and self.assignment():
                    raise
                # The group is rebalancing; Faust seeks again before the flow resumes.
                self.log.warning("cannot seek back while the flow is suspended: %r", error)
            return
        left_out: set[TP] = set()
        for aiokafka_tp, batch in records.items():
            if rebalanced():
                return
            tp = TP(aiokafka_tp.topic, aiokafka_tp.partition)
            if not batch or (active is not None and tp not in active and tp not in self._buffered_partitions):
                left_out.add(tp)
                continue
            self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
            for part in bounded(batch):
                # Faust drops a part of an earlier generation; the parts after it must not be delivered without it.
                if rebalanced():
                    return
                yield tp, self._batch_message(tp, part)
        positions = cast(ConsumerThread, self._thread).positions()
        self._read_to = {tp: offset for tp, offset in positions.items() if tp not in left_out}

    def committable_to(self, tp: TP) -> int | None:
        """The offset up to which a partition may be committed; None before anything is answered."""
        return self.ledgers[tp].answered_to if tp in self.ledgers else None

    def answered_to(self, tp: TP) -> int | None:
        """The offset before which nothing waits for an answer; None before a poll has passed the partition.

        Where every record is answered this is the position: the markers of transactions, and records that compaction
        took, have offsets too.
        """
        answered = self.committable_to(tp)
        if tp not in self._read_to or (tp in self.ledgers and self.ledgers[tp].unanswered is not None):
            return answered
        return max(answered or 0, self._read_to[tp])

    def _batch_message(self, tp: TP, records: Sequence[Record]) -> ConsumerMessage:
        ledger = self.ledgers.setdefault(tp, OffsetLedger())
        first, last = records[0], records[-1]
        delivery = ledger.deliver(first.offset, last.offset + 1)
        whole = last.offset - first.offset + 1 == len(records)  # as good as always
        offsets = range(first.offset, last.offset + 1) if whole else [record.offset for record in records]
        self.gaps.deliver(tp.partition, offsets, self._committed_offset.get(tp))
        return ConsumerMessage(
            tp.topic,
            tp.partition,
            last.offset,
            last.timestamp / 1000,
            last.timestamp_type,
            None,
            None,
            Batch(records, delivery, self._seeks_done.get(tp, 0)),
            None,
            None,
            None,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    def ack(self, message: Message) -> bool:
        """Mark an event as done for Faust. Events skipped in a rebalance are marked too, so the ledger is unchanged."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        notify(self._waiting_for_ack)
        return True

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> list[TP]:
        return [tp for tp in self.ledgers if topics is None or tp in topics or tp.topic in topics]

    def _new_offset(self, tp: TP) -> int | None:
        ledger = self.ledgers.get(tp) if self.commits else None
        commit = ledger.committable() if ledger is not None else None
        if commit is None:
            return None
        self.commit_metadata[(tp, commit.offset)] = replace(commit, topic=self.topic_identity).metadata
        return commit.offset

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        done = await super()._commit(offsets)
        if done:
            stale = [key for key in self.commit_metadata if key[0] in offsets and key[1] <= offsets[key[0]]]
            for key in stale:
                del self.commit_metadata[key]
        return done

    async def _commit_offsets(self, offsets: Mapping[TP, int], start_new_transaction: bool = True) -> bool:
        before = {tp: self._committed_offset.get(tp) for tp in offsets}
        done = await super()._commit_offsets(offsets, start_new_transaction)
        if not done:  # Faust counts a refused commit too, and would commit nothing until there is further input
            self._committed_offset.update(before)
        return done

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: the ledger knows what was delivered, so compacted offsets need no entry."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Drop the ledgers of the revoked partitions: their next owner answers for them.

        A seek alone drops nothing: until a batch is delivered again, the earlier delivery holds the commit back.
        """
        await super().on_partitions_revoked(revoked)
        for tp in revoked:
            self.ledgers.pop(tp, None)
            self.gaps.forget(tp.partition)


class Producer(driver.Producer):
    """Faust's producer, with the user's options."""

    def _settings_default(self) -> Mapping[str, Any]:
        return {**super()._settings_default(), **self.app.producer_extra}


class Transport(driver.Transport):
    """The Faust transport `glaim`: the one of aiokafka with our consumer and producer."""

    Consumer = Consumer
    Producer = Producer
