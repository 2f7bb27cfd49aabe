"""Gaps between batches are found, and what the log no longer holds is said once; without a broker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from prometheus_client import REGISTRY

from glaim_stream.core.errors import SendError
from glaim_stream.core.retry import Retry
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Loss, read_losses
from glaim_stream.worker import lost_offsets as module
from glaim_stream.worker.lost_offsets import Gap, Gaps, LostOffsets

SETTINGS = Settings()


@pytest.mark.parametrize(
    ("committed", "batches", "gaps"),
    [
        (None, [(5, 9), (9, 12)], []),  # a group that begins
        (5, [(5, 9), (9, 12)], []),
        (5, [(7, 9), (9, 12)], [Gap(0, 5, 7)]),
        (5, [(0, 4)], [Gap(0, 5, 0)]),
        (5, [(5, 9), (10, 12)], [Gap(0, 9, 10)]),
        (5, [(5, 9), (5, 9), (9, 10)], []),  # delivered again after a seek
        (5, [(5, 7, 40, 43, 44, 46)], [Gap(0, 7, 40), Gap(0, 43, 44)]),  # one poll joins what lies around the holes
    ],
)
def test_gaps(committed: int | None, batches: list[tuple[int, ...]], gaps: list[Gap]) -> None:
    it = Gaps()
    for batch in batches:
        offsets = [
            offset for first, until in zip(batch[::2], batch[1::2], strict=True) for offset in range(first, until)
        ]
        it.deliver(0, offsets, committed)
    assert [it.found.get_nowait() for _ in range(it.found.qsize())] == gaps


def test_an_assigned_partition_begins_at_its_commit_again() -> None:
    it = Gaps()
    it.deliver(0, range(9), None)
    it.forget(0)
    it.deliver(0, [20], 9)
    assert it.found.get_nowait() == Gap(0, 9, 20)


@dataclass
class Broker:
    """The input's partitions: start and end of their logs, and commits."""

    logs: dict[int, tuple[int, int]]
    commits: dict[int, int] = field(default_factory=dict)
    failures: int = 0
    sent: list[Loss] = field(default_factory=list)
    refusals: int = 0
    topic_id: str | None = "one"

    def consumer(self, **options: Any) -> Any:
        assert options["group_id"] == SETTINGS.consumer_group
        return self

    async def start(self) -> None:
        if self.failures:
            self.failures -= 1
            raise KafkaConnectionError("away")

    async def stop(self) -> None: ...

    async def committed(self, tp: TopicPartition) -> int | None:
        return self.commits.get(tp.partition)

    async def beginning_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.logs[tp.partition][0] for tp in tps}

    async def end_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.logs[tp.partition][1] for tp in tps}

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Any
    ) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise SendError("away")
        (loss,) = read_losses([value])
        assert (topic, key, partition) == (SETTINGS.outage_topic, loss.key, loss.partition)
        self.sent.append(loss)

        async def acknowledged() -> None: ...

        done: Awaitable[None] = acknowledged()
        return done


@asynccontextmanager
async def watching(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, answered: dict[int, int | None] | None = None
) -> AsyncIterator[Gaps]:
    monkeypatch.setattr(module, "AIOKafkaConsumer", broker.consumer)
    monkeypatch.setattr(module, "LOST_OFFSETS", Retry(0.001, 0.001))
    monkeypatch.setattr(module, "TOPIC_LOOK_S", 0.0)
    monkeypatch.setattr(module, "topic_identity", lambda settings, topic: broker.topic_id)
    gaps = Gaps()
    watch = LostOffsets(SETTINGS, broker.send).watch(gaps, lambda: answered or {}, interval_s=0.005)
    task = asyncio.create_task(watch)
    try:
        yield gaps
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_sent(broker: Broker, count: int) -> None:
    async with asyncio.timeout(10):
        while len(broker.sent) < count:  # noqa: ASYNC110  the fake has no event to wait for
            await asyncio.sleep(0.001)


def counted() -> float:
    return REGISTRY.get_sample_value("glaim_lost_offsets_total") or 0.0


async def test_a_removed_range_is_an_event_a_count_and_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker, before = Broker({3: (50, 90)}), counted()
    async with watching(broker, monkeypatch) as gaps:
        gaps.found.put_nowait(Gap(3, 10, 50))
        await until_sent(broker, 1)
    assert broker.sent == [Loss("sensor-readings", 3, 10, 50, "removed")]
    assert counted() == before + 40
    assert "sensor-readings-3: the offsets 10 to 49 were removed before they were read" in caplog.text


async def test_a_range_that_was_removed_inside_a_poll_is_lost_and_the_marker_behind_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, before = Broker({3: (70, 121)}), counted()
    async with watching(broker, monkeypatch) as gaps:
        gaps.deliver(3, [*range(22), *range(70, 100), *range(101, 121)], None)
        await until_sent(broker, 1)
        await asyncio.sleep(0.02)
    assert broker.sent == [Loss("sensor-readings", 3, 22, 70, "removed")]
    assert counted() == before + 48


async def test_a_topic_that_was_made_anew_is_reported_where_the_worker_goes_on_inside_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker({0: (0, 100), 1: (0, 100), 2: (0, 100), 3: (0, 100)})
    answered: dict[int, int | None] = {0: 100, 1: 100, 2: 100, 3: None}
    async with watching(broker, monkeypatch, answered) as gaps:
        for partition in (0, 1, 2):
            gaps.deliver(partition, range(100), None)
        await asyncio.sleep(0.05)
        broker.topic_id = None  # deleted, or a broker that names no ids
        await asyncio.sleep(0.05)
        assert broker.sent == []
        broker.logs |= {0: (0, 160), 1: (0, 40), 2: (0, 160)}
        gaps.forget(2)
        gaps.deliver(2, range(5), None)  # its commit went with the topic, so it begins anew
        broker.topic_id = "two"
        await until_sent(broker, 1)
        await asyncio.sleep(0.05)
    assert broker.sent == [Loss("sensor-readings", 0, 0, 100, "replaced")]
    assert "sensor-readings was deleted and made anew while this worker read it" in caplog.text
    assert "sensor-readings-0: what the new topic holds below offset 100 is not read" in caplog.text


async def test_holes_of_transactions_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({3: (0, 90), 4: (20, 30)})
    async with watching(broker, monkeypatch) as gaps:
        gaps.found.put_nowait(Gap(3, 10, 11))
        gaps.found.put_nowait(Gap(4, 10, 20))
        await until_sent(broker, 1)
    assert [loss.partition for loss in broker.sent] == [4]


async def test_a_partition_that_delivers_nothing_is_judged_by_its_commit_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({1: (70, 70), 2: (0, 30), 3: (50, 50)}, {1: 60, 2: 40, 3: 10})
    answered = {1: None, 2: None, 3: 60}  # of partition 3 batches are in flight
    async with watching(broker, monkeypatch, answered) as gaps:
        await until_sent(broker, 2)
        gaps.found.put_nowait(Gap(1, 60, 70))
        gaps.found.put_nowait(Gap(2, 40, 0))
        gaps.found.put_nowait(Gap(3, 10, 50))
        await until_sent(broker, 3)
    found = [(loss.partition, loss.first, loss.until, loss.reason) for loss in broker.sent]
    assert found == [(1, 60, 70, "removed"), (2, 30, 40, "truncated"), (3, 10, 50, "removed")]


async def test_a_broker_that_is_away_delays_and_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, before = Broker({3: (50, 90)}, failures=2, refusals=2), counted()
    async with watching(broker, monkeypatch) as gaps:
        gaps.found.put_nowait(Gap(3, 10, 50))
        await until_sent(broker, 1)
        await asyncio.sleep(0.01)
    assert len(broker.sent) == 1
    assert counted() == before + 40
