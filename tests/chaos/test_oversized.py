"""Topics with a small message limit: rows are split, dead letters are truncated, and processing continues."""

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

SMALL_BYTES = 8_000  # an Arrow stream of the output schema has 4 kB before its first row
RUBBISH = b"{" + b"x" * 50_000

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_output_larger_than_the_message_limit_is_split(
    kafka: LocalKafka | ExternalKafka, scenario: MakeScenario
) -> None:
    run = scenario(
        kafka.bootstrap_servers,
        "output and dead letters larger than their topics' message limit",
        kafka_extra={"max_poll_records": 20_000},
    )
    admin = KafkaAdminClient(bootstrap_servers=run.settings.kafka)
    small = {"max.message.bytes": str(SMALL_BYTES)}
    admin.create_topics([NewTopic(run.settings.input_topic, 1, 1)])
    admin.create_topics(
        [NewTopic(name, 1, 1, topic_configs=small) for name in (run.settings.output_topic, run.settings.dlq_topic)]
    )
    admin.close()
    good = messages(steps=100, seed=15, bad=False)
    sent = [*good, (b"g1", RUBBISH, [])]
    with run.streaming(sent, rate_per_s=100_000):
        pass
    run.worker()
    run.wait(total=len(sent))
    run.stop()
    run.end(recompute=True)
    outputs = [record.value for part in read_topic(run.settings, run.settings.output_topic).values() for record in part]
    assert len(outputs) > 2
    (letter,) = [headers for headers in run.dead_letters() if headers["glaim-cause"] != b"too-late"]
    assert letter["glaim-cut-from-bytes"] == str(len(RUBBISH)).encode()
    assert letter["glaim-offset"] == str(len(good)).encode()
