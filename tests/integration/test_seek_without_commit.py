"""Records of a partition without a commit are delivered again after a seek to the committed offsets."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.kafka import ensure_topics
from glaim_stream.worker.transport import ConsumerThread
from tests.integration.worker_process import plant_settings


async def polled(consumer: AIOKafkaConsumer, count: int) -> list[tuple[int, int]]:
    """Partition and offset of the next `count` records."""
    found: list[tuple[int, int]] = []
    while len(found) < count:
        records = await consumer.getmany(timeout_ms=5000)
        assert records, f"expected {count} records, found {found}"
        found += [(tp.partition, record.offset) for tp, those in records.items() for record in those]
    return sorted(found)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "the client's own"])
async def test_a_seek_to_the_commits_moves_partitions_without_one_to_their_beginning(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, ours: bool
) -> None:
    settings = plant_settings(kafka.bootstrap_servers, topic_prefix, partitions=2)
    ensure_topics(settings)
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka) as producer:
        for number in range(8):
            await producer.send_and_wait(settings.input_topic, b"x", partition=number % 2)
    consumer = AIOKafkaConsumer(
        settings.input_topic, bootstrap_servers=settings.kafka, group_id=settings.consumer_group,
        auto_offset_reset="earliest", enable_auto_commit=False,
    )  # fmt: skip
    async with consumer:
        assert await polled(consumer, 8) == [(partition, offset) for partition in (0, 1) for offset in range(4)]
        await consumer.commit({TopicPartition(settings.input_topic, 1): 3})
        if ours:
            thread = cast(ConsumerThread, cast(Any, SimpleNamespace(_ensure_consumer=lambda: consumer, consumer=None)))
            await ConsumerThread._seek_to_committed(thread)
            assert await polled(consumer, 5) == [*((0, offset) for offset in range(4)), (1, 3)]
        else:  # which is why ours is needed
            await consumer.seek_to_committed()
            assert await polled(consumer, 1) == [(1, 3)]
            assert await consumer.position(TopicPartition(settings.input_topic, 0)) == 4
