"""The Kafka connection in Faust's settings, and its producer as a `Send`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import faust
from faust.exceptions import NotReady, ProducerSendError

from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Headers, Send, kafka_options, require_partition, send_errors

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


def faust_send(app: Any, settings: Settings) -> Send:
    """Send through the producer of a Faust app; a partition of a number that its topic lacks is added to it."""

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
