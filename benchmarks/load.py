"""The readings that every engine gets: the same ones in the same order, already in the topic before it starts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

FIRST_STEP_MS = 1_700_000_040_000  # a whole minute
_BATCH_BYTES = 900_000


@dataclass(frozen=True)
class Load:
    """Readings of a plant: step by step, in each step group by group, some of them missing."""

    readings: int
    groups: int = 400
    sensors: int = 11
    partitions: int = 4
    step_ms: int = 60_000
    missing: float = 0.05

    @property
    def catalogue(self) -> str:
        """groups.yaml for this load."""
        sensors = "".join(f"      - {{id: sensor-{sensor:02d}}}\n" for sensor in range(self.sensors))
        return (
            f"models:\n  - name: plant\n    step_s: {self.step_ms // 1000}\n    window: 96\n    revise_after: 8\n"
            f"    sensors:\n{sensors}groups:\n  - {{model: plant, pattern: 'station-*'}}\n"
        )

    def partition_of(self, group: int) -> int:
        """Where a group's readings go."""
        return group % self.partitions

    def singles(self) -> Iterator[tuple[int, bytes, bytes]]:
        """(partition, key, value): one JSON document a reading, 85 bytes."""
        random_ = random.Random(7)
        names = [(f"station-{group:03d}", self.partition_of(group)) for group in range(self.groups)]
        keys = {name: name.encode() for name, _ in names}
        sent, step = 0, 0
        while True:
            time_ms = FIRST_STEP_MS + step * self.step_ms
            for name, partition in names:
                for sensor in range(self.sensors):
                    if random_.random() < self.missing:
                        continue
                    value = 20 + random_.random() * 10
                    text = (
                        f'{{"group": "{name}", "sensor": "sensor-{sensor:02d}", "ts": {time_ms}, "value": {value:.4f}}}'
                    )
                    yield partition, keys[name], text.encode()
                    sent += 1
                    if sent == self.readings:
                        return
            step += 1


def make_topic(servers: str, topic: str, partitions: int) -> None:
    """A topic whose records bear the broker's own time of arrival, which is the benchmark's clock."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs={"message.timestamp.type": "LogAppendTime"})])
    finally:
        admin.close()


def fill_topic(servers: str, topic: str, load: Load) -> int:
    """Write the load; returns the bytes of its values."""
    make_topic(servers, topic, load.partitions)
    return asyncio.run(_fill(servers, topic, load))


async def _fill(servers: str, topic: str, load: Load) -> int:
    producer = AIOKafkaProducer(bootstrap_servers=servers, max_batch_size=_BATCH_BYTES, linger_ms=5)
    await producer.start()
    size_bytes = 0
    try:
        builders: dict[int, BatchBuilder] = {}
        for partition, key, value in load.singles():
            size_bytes += len(value)
            builder = builders.get(partition)
            if builder is None:
                builder = builders[partition] = producer.create_batch()
            if builder.append(key=key, value=value, timestamp=None) is None:
                await producer.send_batch(builder, topic, partition=partition)
                builder = builders[partition] = producer.create_batch()
                builder.append(key=key, value=value, timestamp=None)
        for partition, builder in builders.items():
            await producer.send_batch(builder, topic, partition=partition)
    finally:
        await producer.stop()  # flushes
    return size_bytes
