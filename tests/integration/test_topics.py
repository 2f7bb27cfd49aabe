"""Topics are created on a broker that was slow for a moment, and too few brokers are an error that says so."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import InvalidReplicationFactorError

from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topic


def settings_for(kafka: LocalKafka | ExternalKafka, **given: object) -> Settings:
    return Settings(kafka=kafka.bootstrap_servers, **given)  # type: ignore[arg-type]


def test_too_few_brokers_for_the_replicas_are_an_error_at_once(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str
) -> None:
    with pytest.raises(SettingsError, match=r"GLAIM_REPLICATION_FACTOR: expected 3 brokers .*, found fewer"):
        ensure_topic(settings_for(kafka, replication_factor=3), f"{topic_prefix}in", 1)


@pytest.fixture
def fenced_now_and_then(tmp_path: Path) -> Iterator[LocalKafka]:
    """A broker whose controller takes it for lost 2 s after a heartbeat; the next one comes after 4 s."""
    properties = {"broker.heartbeat.interval.ms": "4000", "broker.session.timeout.ms": "2000"}
    with LocalKafka(tmp_path, properties=properties, jvm_options=QUICK_START) as kafka:
        yield kafka


@pytest.mark.slow  # quicker: too few brokers, above
def test_a_fenced_broker_is_waited_for(fenced_now_and_then: LocalKafka) -> None:
    admin = KafkaAdminClient(bootstrap_servers=fenced_now_and_then.bootstrap_servers)
    give_up_s = time.monotonic() + 30
    try:
        for number in itertools.count():
            assert time.monotonic() < give_up_s, "the broker was never fenced"
            admin.create_topics([NewTopic(f"probe-{number}", 1, 1)])
    except InvalidReplicationFactorError as error:
        assert "fenced" in str(error)  # noqa: PT017 - the broker's words, which the product reads
    finally:
        admin.close()
    assert ensure_topic(settings_for(fenced_now_and_then), "readings", 2) == 2
