"""A region is lost with Kafka and workers, and another one continues from MirrorMaker's copy: docs/recovery.md."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from deploy.demo.topic import read_topic
from deploy.kafka import QUICK_START, LocalKafka
from deploy.mirror import LocalMirror
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import AuditRequest, audit
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import Scenario, wait_for
from tests.chaos.stream import Key, Sent, messages, recomputed

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

PARTITIONS = 2
DELAY = 60  # readings that the first Kafka has accepted and the mirror lacks
MARGIN_MS = 5000  # from a reading to its row, and more
DELETED = 5000  # records of each partition that the first Kafka has deleted before: offsets of the copy are lower by it


def delete_old_records(settings: Settings) -> None:
    """Let retention have removed the first DELETED records of each partition."""
    ensure_topics(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for number in range(DELETED * PARTITIONS):
        producer.send(settings.input_topic, b"old", partition=number % PARTITIONS)
    producer.flush()
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.delete_records({TopicPartition(settings.input_topic, number): DELETED for number in range(PARTITIONS)})
    admin.close()


def not_copied(sent: Sent, copied: Iterable[Any]) -> Sent:
    """What was sent and is not among the records, in order."""
    there = Counter((record.key, record.value) for record in copied)
    missing = []
    for key, value, headers in sent:
        if there[(key, value)]:
            there[(key, value)] -= 1
        else:
            missing.append((key, value, headers))
    return missing


def copied_records(run: Scenario) -> int:
    return sum(map(len, read_topic(run.settings, run.settings.input_topic).values()))


def keys(run: Scenario) -> Counter[Key]:
    """How often each row is on the output topic."""
    return Counter(key for message in run.published() for key in message)


def commits(settings: Settings) -> dict[TopicPartition, OffsetAndMetadata]:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    try:
        return dict(admin.list_group_offsets(settings.consumer_group)[settings.consumer_group])
    finally:
        admin.close()


def set_group_back(run: Scenario, to_ms: int) -> dict[int, int]:
    """What `kafka-consumer-groups.sh --reset-offsets --to-datetime` does; returns the offsets."""
    consumer = KafkaConsumer(bootstrap_servers=run.settings.kafka)
    found = consumer.offsets_for_times({TopicPartition(run.settings.input_topic, n): to_ms for n in range(PARTITIONS)})
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    group = run.settings.consumer_group
    wait_for(lambda: not admin.describe_groups([group])[group]["members"], "the group to be empty")
    admin.alter_group_offsets(group, {tp: OffsetAndMetadata(each.offset, "", -1) for tp, each in found.items()})
    admin.close()
    return {tp.partition: each.offset for tp, each in found.items()}


def test_the_other_region_continues_with_the_mirrors_offsets(scenario: MakeScenario) -> None:
    sent = messages(steps=200, seed=32, late=0)
    third = len(sent) // 3
    with LocalKafka(jvm_options=QUICK_START) as first, LocalKafka(jvm_options=QUICK_START) as second:
        lost = scenario(first.bootstrap_servers, "region lost: the first one, until it is gone", partitions=PARTITIONS)
        delete_old_records(lost.settings)
        run = scenario(
            second.bootstrap_servers, "region lost: the other one, from MirrorMaker's copy", partitions=PARTITIONS
        )
        given = lost.settings
        inputs = [given.input_topic, given.dlq_topic, given.late_topic, given.outage_topic]
        servers = (first.bootstrap_servers, second.bootstrap_servers)
        # The copy of the rows ends earlier, as one that lags behind.
        copy = LocalMirror(*servers, inputs, [given.consumer_group])
        copy_of_rows = LocalMirror(*servers, [given.output_topic], name="rows")
        with copy, copy_of_rows:
            worker = lost.worker()
            with lost.streaming(sent[:third], rate_per_s=900):
                lost.wait(total=third + PARTITIONS * DELETED)
            wait_for(lambda: len(keys(run)) > 1000, "rows in the second Kafka", [worker])
            copy_of_rows.kill()
            with lost.streaming(sent[third : 2 * third - DELAY], rate_per_s=900):
                pass
            wait_for(lambda: copied_records(run) == 2 * third - DELAY, "a complete copy", [worker])
            copy.kill()
            with lost.streaming(sent[2 * third - DELAY : 2 * third], rate_per_s=900):
                pass
            worker.kill()
            first.kill()
            lost_s = time.monotonic()

        ensure_topics(run.settings)
        copied = read_topic(run.settings, run.settings.input_topic)
        missing = not_copied(sent[: 2 * third], (record for part in copied.values() for record in part))
        run.sent = 2 * third - len(missing)
        begun = {tp: each.offset for tp, each in commits(run.settings).items() if tp.topic == run.settings.input_topic}
        rows = read_topic(run.settings, run.settings.output_topic)
        newest_copied_ms = min(part[-1].timestamp for part in rows.values())
        worker = run.worker()
        with run.streaming([*missing, *sent[2 * third :]], rate_per_s=10_000):
            run.wait(total=2 * third)
            back_s = time.monotonic() - lost_s
            run.wait(total=len(sent))
        run.stop()

        # What comes from here on equals what an uninterrupted worker would have published. What the first region had
        # published and the copy of the rows lacks is absent, and the audit says so.
        expected = asyncio.run(recomputed(run.settings, read_topic(run.settings, run.settings.input_topic)))
        values = {key: row for message in run.published() for key, row in message.items()}
        assert {key: expected[key] for key in values} == values
        absent = len(expected.keys() - values.keys())
        assert absent
        assert audit(run.settings, AuditRequest()).lost

        back = set_group_back(run, newest_copied_ms - MARGIN_MS)
        run.restart(worker)
        run.wait(total=len(sent))
        run.stop()
        found = keys(run)
        run.extra = {
            "readings_not_copied": len(missing),
            "back_s": round(back_s, 1),
            "read_again": 2 * third - len(missing) - sum(begun.values()),
            "rows_absent": absent,
            "rows_twice": sum(found.values()) - len(found),
        }
        # Letters of the first region name offsets of its Kafka, so the audit begins where this region did.
        run.end(recompute=True, offsets_moved_back=True, from_offset=back)
        assert found.keys() == expected.keys()
