"""Topics that take only small messages: rows go in pieces, dead letters keep their head, nothing stops."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from deploy.demo.topic import read_topic
from deploy.kafka import ExternalKafka, LocalKafka
from tests.chaos.conftest import MakeScenario
from tests.chaos.stream import messages

SMALL_BYTES = 8_000  # an Arrow stream of our schema weighs 4 kB before its first row
RUBBISH = b"{" + b"x" * 50_000

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def test_what_a_topic_finds_too_large_goes_in_pieces(kafka: LocalKafka | ExternalKafka, scenario: MakeScenario) -> None:
    it = scenario(kafka.bootstrap_servers, "output and dead letters larger than their topics take", poll_records=20_000)
    admin = KafkaAdminClient(bootstrap_servers=it.settings.kafka)
    small = {"max.message.bytes": str(SMALL_BYTES)}
    admin.create_topics([NewTopic(it.settings.input_topic, 1, 1)])
    admin.create_topics(
        [NewTopic(name, 1, 1, topic_configs=small) for name in (it.settings.output_topic, it.settings.dlq_topic)]
    )
    admin.close()
    good = messages(steps=100, seed=15, bad=False)
    sent = [*good, (b"g1", RUBBISH, [])]
    with it.streaming(sent, rate_per_s=100_000):
        pass
    it.worker()
    it.wait(all_of=len(sent))
    it.stop()
    it.end(recompute=True)
    outputs = [record.value for part in read_topic(it.settings, it.settings.output_topic).values() for record in part]
    assert len(outputs) > 2
    (letter,) = [headers for headers in it.letters() if headers["glaim-cause"] != b"too-late"]
    assert letter["glaim-cut-from-bytes"] == str(len(RUBBISH)).encode()
    assert letter["glaim-offset"] == str(len(good)).encode()
