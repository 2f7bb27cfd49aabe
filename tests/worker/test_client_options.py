"""The worker's real clients take the user's options, and keep those on which delivery depends."""

from __future__ import annotations

from pathlib import Path

import faust
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.worker.app import create_app
from glaim_stream.worker.transport import ConsumerThread

CATALOGUE = """
models:
  - name: m
    step_s: 60
    window: 64
    sensors: [{id: s0, unit: C}]
groups:
  - {pattern: g*, model: m}
"""
EXTRA: dict[str, bool | int | float | str] = {
    "session_timeout_ms": 12_000,
    "max_poll_records": 123,
    "auto_commit_interval_ms": 250,
    "fetch_min_bytes": 77,
    "metadata_max_age_ms": 9_000,
    "client_id": "plant",
    "linger_ms": 17,
    "compression_type": "gzip",
}


def app_with(tmp_path: Path, **given: object) -> faust.App:
    catalogue = tmp_path / "groups.yaml"
    catalogue.write_text(CATALOGUE)
    return create_app(Settings(catalogue=catalogue, imputer="interpolation", **given))  # type: ignore[arg-type]


def consumer_of(app: faust.App) -> AIOKafkaConsumer:
    return ConsumerThread._create_worker_consumer(object.__new__(ConsumerThread), app.transport)


def producer_of(app: faust.App) -> AIOKafkaProducer:
    return app.producer._new_producer()


async def test_the_consumer_of_the_group_takes_them(tmp_path: Path) -> None:
    app = app_with(tmp_path, kafka_extra=EXTRA, instance_id="worker-0")
    consumer = consumer_of(app)
    assert (consumer._session_timeout_ms, consumer._heartbeat_interval_ms) == (12_000, 1_200)
    assert (consumer._max_poll_records, consumer._fetch_min_bytes) == (123, 77)
    assert (consumer._client._metadata_max_age_ms, consumer._client._client_id) == (9_000, "plant")
    assert (consumer._group_id, consumer._group_instance_id) == ("glaim-stream", "worker-0")
    assert consumer._isolation_level == "read_committed"
    assert consumer._enable_auto_commit is False
    assert app.conf.broker_commit_interval == 0.25


async def test_the_producer_takes_them(tmp_path: Path) -> None:
    producer = producer_of(app_with(tmp_path, kafka_extra=EXTRA, max_message_bytes=50_000))
    assert producer._message_accumulator._linger_time == 0.017
    assert producer._compression_type == "gzip"
    assert (producer.client._metadata_max_age_ms, producer.client._client_id) == (9_000, "plant")
    assert producer._max_request_size == 50_000
    assert producer._sender._acks == -1


async def test_without_them_both_have_the_workers_own(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    consumer, producer = consumer_of(app), producer_of(app)
    assert (consumer._session_timeout_ms, consumer._heartbeat_interval_ms) == (30_000, 3_000)
    assert (consumer._max_poll_records, consumer._request_timeout_ms) == (20_000, 40_000)
    assert producer._message_accumulator._linger_time == 0.005
    assert app.conf.broker_commit_interval == 0.5


async def test_a_longer_session_has_longer_requests(tmp_path: Path) -> None:
    consumer = consumer_of(app_with(tmp_path, kafka_extra={"session_timeout_ms": 90_000}))
    assert consumer._request_timeout_ms == 90_000


def test_an_option_that_no_client_knows_ends_the_worker_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"GLAIM_KAFKA_EXTRA: expected options of .*, found lnger_ms"):
        app_with(tmp_path, kafka_extra={"lnger_ms": 5})
