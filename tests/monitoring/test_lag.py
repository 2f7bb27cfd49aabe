"""The reported lag is the partition's end less the answered offset, else the committed one, else the first."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from prometheus_client import Gauge

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core import metrics
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.worker.lag import watch_lag


def samples_of(gauge: Gauge) -> dict[str, float]:
    return {sample.labels.get("partition", ""): sample.value for each in gauge.collect() for sample in each.samples}


async def test_lag_is_reported_for_the_assigned_partitions(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str
) -> None:
    settings = Settings(
        kafka=kafka.bootstrap_servers,
        input_topic=topic_prefix + "in",
        output_topic=topic_prefix + "out",
        consumer_group=topic_prefix + "worker",
        partitions=3,
    )
    ensure_topics(settings)
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka) as producer:
        for partition in range(3):
            for _ in range(10):
                await producer.send_and_wait(settings.input_topic, b"{}", partition=partition)
    async with AIOKafkaConsumer(
        bootstrap_servers=settings.kafka, group_id=settings.consumer_group, enable_auto_commit=False
    ) as consumer:
        second = TopicPartition(settings.input_topic, 1)
        consumer.assign([second])
        await consumer.commit({second: 4})
    assigned: dict[int, int | None] = {0: 7, 1: None, 2: None}  # answered up to 7; committed; never read
    watch = asyncio.create_task(watch_lag(settings, lambda: assigned, interval_s=0.1))
    try:
        await until({"0": 3.0, "1": 6.0, "2": 10.0})
        assert samples_of(metrics.input_partitions) == {"": 3.0}
        del assigned[1], assigned[2]  # now assigned to another worker
        assigned[0] = 10
        await until({"0": 0.0})
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        metrics.consumer_lag_records.clear()


async def until(expected: dict[str, float]) -> None:
    for _ in range(200):
        if samples_of(metrics.consumer_lag_records) == expected:
            return
        await asyncio.sleep(0.1)
    assert samples_of(metrics.consumer_lag_records) == expected


async def test_the_lag_watch_survives_an_unreachable_broker() -> None:
    settings = Settings(kafka="127.0.0.1:1", input_topic="in")
    watch = asyncio.create_task(watch_lag(settings, lambda: {0: 1}, interval_s=0.1))
    await asyncio.sleep(1)
    assert not watch.done()
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch
