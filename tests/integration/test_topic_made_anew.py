"""An input topic that is deleted and made anew under a worker, with more records than it had read."""

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.structs import OffsetAndMetadata
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Commit, commit_from_metadata, ensure_topics, read_commit, read_losses
from glaim_stream.operate.audit import audit
from glaim_stream.output import read_rows
from tests.constants import TOPIC_LOOK_S
from tests.integration.worker_process import WorkerProcess, small_settings, wait_until_committed

START_MS = 1_700_000_040_000
CATALOGUE = """
models: [{name: m, step_s: 60, window: 20, revise_after: 2, max_gap: 2, idle_timeout_s: 100000, sensors: [{id: s0}]}]
groups: [{model: m, pattern: "g*"}]
"""


def send(settings: Settings, count: int, first: float) -> None:
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for step in range(count):
        reading = {"group": "g1", "sensor": "s0", "ts": START_MS + step * 60_000, "value": first + step}
        producer.send(settings.input_topic, json.dumps(reading).encode(), b"g1", partition=0)
    producer.flush()
    producer.close()


def make_anew(settings: Settings) -> None:
    """Delete the input topic and create it again."""
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.delete_topics([settings.input_topic])
    made = False
    while not made:
        try:
            admin.create_topics([NewTopic(settings.input_topic, 1, 1)])
            made = True
        except KafkaError:
            time.sleep(0.05)
    admin.close()


@pytest.mark.slow  # quicker: tests/worker/test_lost_offsets.py
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_what_a_worker_skips_in_a_topic_that_was_made_anew_is_said(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path, delivery: str
) -> None:
    settings = small_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE, delivery=delivery)
    ensure_topics(settings)

    log = tmp_path / "worker.log"
    with WorkerProcess(settings, log, constants={TOPIC_LOOK_S: 1.0}) as worker:
        send(settings, 50, 0.0)
        wait_until_committed(settings, total=50)
        time.sleep(8)  # it has looked at the topic's id
        make_anew(settings)
        send(settings, 160, 1000.0)
        end_s = time.monotonic() + 60
        while "was deleted and made anew" not in log.read_text():
            assert worker.running, log.read_text()
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.2)
        wait_until_committed(settings, total=160)
        time.sleep(3)
    messages = [record.value for part in read_topic(settings, settings.output_topic).values() for record in part]
    values = {value for message in messages for value in read_rows(message)["value"].to_pylist() if value >= 1000}
    said = [line for line in log.read_text().splitlines() if "is not read" in line]
    assert len(values) >= 159 or said, "either everything is read again, or what is skipped is said"
    if said:
        (loss,) = set(read_losses(each.value for each in read_topic(settings, settings.outage_topic)[0]))
        assert (loss.reason, loss.first, loss.until) == ("replaced", 0, 50)
        assert audit(settings).problems


@pytest.mark.slow  # two starts of a worker
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("count", [160, 30], ids=["longer than before", "shorter"])
def test_a_topic_that_was_made_anew_while_no_worker_ran_is_read_from_its_beginning(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path, delivery: str, count: int
) -> None:
    """A broker removes the commits of a topic that is deleted; a worker that stops just then commits after that."""
    settings = small_settings(kafka.bootstrap_servers, topic_prefix, tmp_path, CATALOGUE, delivery=delivery)
    ensure_topics(settings)
    tp = TopicPartition(settings.input_topic, 0)

    def commit() -> Commit:
        found = asyncio.run(read_commit(settings, tp))
        return Commit(0, 0) if found is None else commit_from_metadata(found.offset, found.metadata)

    async def commit_late(known: Commit) -> None:
        async with AIOKafkaConsumer(
            bootstrap_servers=settings.kafka, group_id=settings.consumer_group, enable_auto_commit=False
        ) as consumer:
            consumer.assign([tp])
            async with asyncio.timeout(90):
                while True:  # the group keeps the place of its member for a while
                    with suppress(CommitFailedError):
                        await consumer.commit({tp: OffsetAndMetadata(known.offset, known.metadata)})
                        return
                    await asyncio.sleep(1)

    with WorkerProcess(settings, tmp_path / "first.log", constants={TOPIC_LOOK_S: 1.0}) as worker:
        send(settings, 50, 0.0)
        wait_until_committed(settings, total=50)
        end_s = time.monotonic() + 60
        for step in range(50, 100):  # until it has looked at the topic, and commits with its identity
            if commit().topic:
                break
            assert worker.running
            assert time.monotonic() < end_s
            send(settings, 1, float(step))
            time.sleep(1)
    known = commit()
    make_anew(settings)
    send(settings, count, 1000.0)
    asyncio.run(commit_late(known))
    log = tmp_path / "second.log"
    with WorkerProcess(settings, log, constants={TOPIC_LOOK_S: 1.0}):
        end_s = time.monotonic() + 60
        while commit().offset != count:
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.5)
    assert "was deleted and made anew since offset" in log.read_text()
    messages = [record.value for part in read_topic(settings, settings.output_topic).values() for record in part]
    values = {value for message in messages for value in read_rows(message)["value"].to_pylist() if value >= 1000}
    assert values >= {1000.0 + step for step in range(count - 1)}
    with WorkerProcess(settings, tmp_path / "third.log") as worker:  # and not once more
        time.sleep(3)
        assert worker.running
    assert "made anew" not in (tmp_path / "third.log").read_text()
