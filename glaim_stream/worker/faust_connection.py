"""The Kafka connection in Faust's settings, and its producer as a `Send`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import faust
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from faust.exceptions import NotReady, ProducerSendError

from glaim_stream.core.settings import Settings
from glaim_stream.kafka import (
    Headers,
    Send,
    consumer_options,
    kafka_options,
    poll_records,
    require_partition,
    send_errors,
)

_SESSION_TIMEOUT_MS = 30_000  # shorter detects a dead worker sooner, but is more likely to declare a slow one dead
_REBALANCE_TIMEOUT_MS = 60_000
_REQUEST_TIMEOUT_MS = 40_000
_MAX_POLL_INTERVAL_MS = 1_000_000
_FETCH_WAIT_MS = 1_500
_METADATA_AGE_MS = 30_000  # partitions that are added to the input are noticed within this time
_FAUST_ERRORS = (ProducerSendError, NotReady)  # not ready: the app is stopping


def faust_broker(settings: Settings) -> list[str]:
    """Return broker addresses; their scheme selects our transport, which pyproject.toml registers with Faust."""
    return [f"glaim://{address.strip()}" for address in settings.kafka.split(",")]


def faust_credentials(settings: Settings) -> Any:
    """Return the value of Faust's setting broker_credentials; None for a plain connection."""
    options = kafka_options(settings)
    context = options.get("ssl_context")
    if "sasl_oauth_token_provider" in options:
        return faust.OAuthCredentials(oauth_cb=options["sasl_oauth_token_provider"], ssl_context=context)
    if "sasl_mechanism" in options:
        return faust.SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            ssl_context=context,
            mechanism=options["sasl_mechanism"],
        )
    return faust.SSLCredentials(context) if context is not None else None


def group_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments of the consumer in the group; the user's options take precedence over the worker's own."""
    session_ms = int(settings.kafka_extra.get("session_timeout_ms", _SESSION_TIMEOUT_MS))
    given = {
        "group_id": settings.consumer_group,
        "group_instance_id": settings.instance_id,
        "partition_assignment_strategy": [RoundRobinPartitionAssignor],
        "auto_offset_reset": "earliest",
        "max_poll_records": poll_records(settings.kafka_extra),
        "max_poll_interval_ms": _MAX_POLL_INTERVAL_MS,
        "max_partition_fetch_bytes": 8 * 1024**2,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": session_ms // 10,
        "rebalance_timeout_ms": _REBALANCE_TIMEOUT_MS,
        "request_timeout_ms": max(_REQUEST_TIMEOUT_MS, session_ms),
        "metadata_max_age_ms": _METADATA_AGE_MS,
    }
    return given | consumer_options(settings)


def faust_send(app: Any, settings: Settings) -> Send:
    """Send through the producer of a Faust app; a partition that its topic lacks is added first."""

    async def send(
        topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Headers
    ) -> Awaitable[object]:
        async def acknowledgement() -> None:
            with send_errors(topic, value, *_FAUST_ERRORS):
                await sent

        with send_errors(topic, value, *_FAUST_ERRORS):
            producer = getattr(app.producer, "_producer", None)  # None before the start
            if partition is not None and producer is not None:
                await require_partition(producer.client, settings, topic, partition)
            sent = await app.producer.send(topic, key, value, partition, None, headers)
        return acknowledgement()

    return send
