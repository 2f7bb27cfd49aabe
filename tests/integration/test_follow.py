"""A topic is followed from its beginning or from its newest records on, and on as records come."""

import asyncio
from contextlib import suppress

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import follow
from tests.support import until


async def test_the_newest_records_of_each_partition_come_first_and_then_those_that_follow(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str
) -> None:
    topic, settings = topic_prefix + "health", Settings(kafka=kafka.bootstrap_servers)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 2, 1)])
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    def send(partition: int, numbers: range) -> None:
        for number in numbers:
            producer.send(topic, key=b"g", value=str(number).encode(), partition=partition)
        producer.flush()

    await asyncio.to_thread(send, 0, range(9))
    await asyncio.to_thread(send, 1, range(2))
    newest: list[tuple[int, bytes | None, bytes | None]] = []
    whole: list[tuple[int, bytes | None, bytes | None]] = []
    tasks = [
        asyncio.create_task(follow(settings, topic, lambda *each: newest.append(each), newest=3)),
        asyncio.create_task(follow(settings, topic, lambda *each: whole.append(each))),
    ]
    try:
        await until(lambda: len(newest) == 5 and len(whole) == 11, 30)
        await asyncio.to_thread(send, 0, range(9, 11))
        await until(lambda: len(newest) == 7 and len(whole) == 13, 30)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        producer.close()
        admin.close()
    assert [value for partition, _, value in newest if partition == 0] == [b"6", b"7", b"8", b"9", b"10"]
    assert sorted(value for partition, _, value in newest if partition == 1) == [b"0", b"1"]
    assert [value for partition, _, value in whole if partition == 0] == [str(each).encode() for each in range(11)]
    assert {key for _, key, _ in whole} == {b"g"}
