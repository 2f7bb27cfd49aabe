"""The delivery changes while the group works: workers of both kinds share it for a while."""

import asyncio
import os
import signal
import time

import pytest
from aiokafka import AIOKafkaProducer

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics, kafka_options, transactional_id
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import is_up, wait_for
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

Kafka = LocalKafka | ExternalKafka
LONG_S = 600  # a transaction's timeout, much longer than these tests


def test_exactly_once_counts_from_the_offset_that_log_and_audit_name(kafka: Kafka, scenario: MakeScenario) -> None:
    """A worker of the old kind sleeps through the change and publishes what it held when it wakes up."""
    run = scenario(
        kafka.bootstrap_servers, "delivery becomes exactly once, an old worker paused meanwhile",
        delivery="at_least_once",
    )  # fmt: skip
    sent = messages(steps=300, seed=41)
    change, after = sent[: len(sent) * 2 // 3], sent[len(sent) * 2 // 3 :]
    with run.streaming(change, rate_per_s=500):
        leaving, sleeping = run.worker(0), run.worker(1)
        wait_for(lambda: is_up(leaving) and is_up(sleeping), "both workers to start", run.workers)
        run.wait(additional=len(sent) // 10)
        os.kill(sleeping.pid, signal.SIGSTOP)
        run.worker(2, delivery="exactly_once")
        run.stop(leaving)
        run.worker(3, delivery="exactly_once")
        run.wait(additional=len(sent) // 5)
        os.kill(sleeping.pid, signal.SIGCONT)
        run.wait(total=len(change))
    run.stop(sleeping)
    with run.streaming(after):
        run.wait(total=len(sent))
    run.stop()
    report = run.end(recompute=True)
    assert report.problems["repeated"].count == 0
    counted_from = {part.partition: part.once_from for part in report.partitions if part.end}
    assert None not in counted_from.values()
    for partition, offset in counted_from.items():
        assert run.count_in_logs(f"{transactional_id(run.settings, partition)}: exactly once from offset {offset}") >= 1


async def left_open(settings: Settings, partition: int) -> AIOKafkaProducer:
    """A producer that stands for a worker that was killed inside a transaction."""
    producer = AIOKafkaProducer(
        **kafka_options(settings),
        transactional_id=transactional_id(settings, partition),
        transaction_timeout_ms=LONG_S * 1000,
    )
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(settings.output_topic, b"half a batch", partition=partition)
    return producer


async def test_readers_go_on_after_a_change_back_with_a_transaction_left_open(
    kafka: Kafka, scenario: MakeScenario
) -> None:
    run = scenario(
        kafka.bootstrap_servers, "delivery becomes at least once, a transaction left open", delivery="at_least_once"
    )
    sent = messages(steps=150, seed=42)
    ensure_topics(run.settings)
    begun_s = time.monotonic()
    producers = [await left_open(run.settings, 0)]
    try:
        first = run.worker(0, delivery="exactly_once")
        wait_for(
            lambda: is_up(first), "the first worker to start", run.workers
        )  # else all would wait for it in the topic
        with run.streaming(sent, rate_per_s=300):
            run.wait(additional=len(sent) // 4)
            run.stop()
            producers.append(await left_open(run.settings, 1))
            run.worker(1)
            run.wait(total=len(sent))
        run.stop()
        report = await asyncio.to_thread(run.end, recompute=True)  # its readers see committed records alone
        assert time.monotonic() - begun_s < LONG_S, "the broker has ended the transaction itself"
        assert {part.once_from for part in report.partitions if part.end} == {None}
        assert run.count_in_logs("aborted the transaction that a worker with exactly-once delivery had left open") == 1
    finally:
        for each in producers:
            await each.client.close()
