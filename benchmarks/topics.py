"""Creates, fills and reads back the topics of a benchmark."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from benchmarks.engines import EngineOutput
from benchmarks.load import Sent, TopicLoad

BATCH_BYTES = 900_000


@dataclass(frozen=True)
class FilledTopic:
    """A topic that contains a load."""

    readings: int
    size_bytes: int
    through: Sequence[Sequence[int]]  # by partition and offset: readings up to and including that record


def make_topic(servers: str, topic: str, partitions: int) -> None:
    """Create a topic whose records have the broker's time of arrival, which is the clock of the benchmark."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs={"message.timestamp.type": "LogAppendTime"})])
    finally:
        admin.close()


def fill_topic(servers: str, topic: str, load: TopicLoad) -> FilledTopic:
    """Create a topic and write the load into it."""
    make_topic(servers, topic, load.partitions)
    return asyncio.run(_fill(servers, topic, load.partitions, load.messages()))


async def _fill(servers: str, topic: str, partitions: int, messages: Iterable[Sent]) -> FilledTopic:
    producer = AIOKafkaProducer(bootstrap_servers=servers, max_batch_size=BATCH_BYTES, linger_ms=5)
    await producer.start()
    through = [array("q") for _ in range(partitions)]
    size_bytes = 0
    try:
        builders: dict[int, BatchBuilder] = {}
        for partition, key, value, headers, readings, _ in messages:
            size_bytes += len(value)
            counts = through[partition]
            counts.append((counts[-1] if counts else 0) + readings)
            builder = builders.get(partition)
            if builder is None:
                builder = builders[partition] = producer.create_batch()
            if builder.append(key=key, value=value, timestamp=None, headers=headers) is None:
                await producer.send_batch(builder, topic, partition=partition)
                builder = builders[partition] = producer.create_batch()
                builder.append(key=key, value=value, timestamp=None, headers=headers)
        for partition, builder in builders.items():
            await producer.send_batch(builder, topic, partition=partition)
    finally:
        await producer.stop()  # flushes
    return FilledTopic(sum(counts[-1] for counts in through if counts), size_bytes, through)


def read_topic(servers: str, topic: str, partitions: int) -> list[EngineOutput]:
    """All committed messages, in order of arrival at the broker."""
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed")
    assigned = [TopicPartition(topic, number) for number in range(partitions)]
    try:
        consumer.assign(assigned)
        ends = consumer.end_offsets(assigned)
        messages: list[EngineOutput] = []
        while any(consumer.position(partition) < ends[partition] for partition in assigned):
            for records in consumer.poll(timeout_ms=500).values():
                messages += records
    finally:
        consumer.close()
    return sorted(messages, key=lambda message: (message.timestamp, message.partition, message.offset))
