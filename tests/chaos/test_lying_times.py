"""Producers whose clock or unit is wrong: their readings are dead letters, and every other reading has its row."""

import json
import time
from collections import Counter

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from deploy.kafka import ExternalKafka, LocalKafka
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import GROUPS, messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

YEAR_2100_MS = 4_102_444_800_000


def test_a_record_of_2100_and_times_in_seconds_cost_no_other_reading(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(kafka.bootstrap_servers, "one record is stamped 2100 by its producer, and a gateway sends seconds")
    sent = messages(steps=120, seed=41, late=0, bad=False)
    half = len(sent) // 2
    ensure_topics(run.settings)
    producers_stamp(run.settings)
    worker = run.worker()
    with run.streaming(sent[:half], rate_per_s=10_000):
        run.wait(total=half)
    # An hour ahead is still in the future when the windows are rebuilt; only the commit knows that it was refused.
    lies = [(YEAR_2100_MS, YEAR_2100_MS), (now_ms() + 3_600_000, now_ms() + 3_600_000)]
    lies += [(now_ms() // 1000, now_ms())] * 50
    producer = KafkaProducer(bootstrap_servers=run.settings.kafka)
    for number, (ts, stamp) in enumerate(lies):
        group = f"g{number % GROUPS}"
        reading = {"group": group, "sensor": "s0", "ts": ts, "value": 1.0}
        producer.send(
            run.settings.input_topic, key=group.encode(), value=json.dumps(reading).encode(), timestamp_ms=stamp
        )
    producer.close()
    run.sent += len(lies)
    run.wait(total=half + len(lies))
    worker.kill()
    run.restart(worker)
    with run.streaming(sent[half:], rate_per_s=10_000):
        run.wait(total=len(sent) + len(lies))
    run.stop()
    causes = Counter(headers["glaim-cause"].decode() for headers in run.dead_letters())
    assert causes == {"future": 2, "ts-unit": 50}
    report = run.end()
    assert report.counts["rejected"] >= 50


def producers_stamp(settings: Settings) -> None:
    """Let producers set the times of the input's records, as in a topic that Kafka's defaults made."""
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    configs = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, settings.input_topic, configs=configs)])
    admin.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
