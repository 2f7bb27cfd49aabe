"""Sentences for connections that a broker refuses. The clients hide the reason behind a timeout."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

from aiokafka.conn import create_conn, get_ip_port_afi
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import ApiVersionRequest

from glaim_stream.core.errors import BrokerUnready, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import KAFKA, watched_tls
from glaim_stream.core.tls_probe import speaks_tls, tls_problem
from glaim_stream.kafka.connection import kafka_options

_PATIENCE_S = 5.0
_REFUSED_LOGIN = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


def refused_connection(settings: Settings) -> str | None:
    """Return why every address of the settings refuses TLS or the login; None where one accepts or does not answer.

    Raises:
        SettingsError: a file for TLS or with a secret cannot be used.
    """
    if settings.security_protocol == "PLAINTEXT":
        return None
    problems = []
    for address in settings.kafka.split(","):
        host, port, _ = get_ip_port_afi(address)
        problem = _tls_problem(settings, host, port) or _login_problem(settings, host, port)
        if problem is None:
            return None
        problems.append(f"{address.strip()}: {problem}")
    return "; ".join(problems)


def require_accepted(settings: Settings) -> None:
    """Try TLS and the login at the addresses of the settings.

    Raises:
        SettingsError: all addresses refuse, or a file for TLS or with a secret cannot be used.
    """
    refused = refused_connection(settings)
    if refused is not None:
        raise SettingsError(f"GLAIM_KAFKA: expected a broker that accepts the connection, found {refused}")


def no_broker(settings: Settings, error: Exception) -> SettingsError:
    """The error for a client that found no broker, with the reason; BrokerUnready where none refuses it."""
    refused = refused_connection(settings) or _requires_tls(settings)
    kind = BrokerUnready if refused is None else SettingsError
    return kind(f"GLAIM_KAFKA: expected a broker at {settings.kafka}, found none: {refused or _plain(error)}")


def _plain(error: Exception) -> str:
    """The error without the client's notation of the addresses, which the message names already."""
    return "nothing answers there" if "Unable to bootstrap" in str(error) else str(error)


def _requires_tls(settings: Settings) -> str | None:
    """Return a sentence if a broker that is to be called without TLS answers a TLS handshake."""
    if settings.kafka_tls_files is not None:
        return None
    for address in settings.kafka.split(","):
        host, port, _ = get_ip_port_afi(address)
        if speaks_tls(host, port):
            return f"{address.strip()} requires TLS, and GLAIM_SECURITY_PROTOCOL is {settings.security_protocol}"
    return None


def _tls_problem(settings: Settings, host: str, port: int) -> str | None:
    files = settings.kafka_tls_files
    if files is None:
        return None
    return tls_problem(host, port, watched_tls(KAFKA, files).current().context)


def _login_problem(settings: Settings, host: str, port: int) -> str | None:
    if not settings.security_protocol.startswith("SASL"):
        return None
    options = kafka_options(settings)
    del options["bootstrap_servers"]
    found: list[str] = []

    async def login() -> None:
        try:
            connection = await create_conn(host, port, request_timeout_ms=int(_PATIENCE_S * 1000), **options)
            if settings.sasl_mechanism == "OAUTHBEARER":  # the client learns of a refusal at the next request
                await _after_login(connection, settings)
        except _REFUSED_LOGIN as error:
            found.append(_about_login(settings, error))
        except (OSError, KafkaError, TimeoutError):  # not reached, or restarting: no refusal
            pass
        else:
            await connection.close()

    thread = Thread(target=lambda: asyncio.run(login()), name="login", daemon=True)  # the caller may run a loop
    thread.start()
    thread.join(2 * _PATIENCE_S)
    return found[0] if found else None


async def _after_login(connection: Any, settings: Settings) -> None:
    try:
        response = await connection.send(ApiVersionRequest())
    except KafkaConnectionError:
        response = None
    if response is None or response.error_code != 0:
        connection.close()
        raise SaslAuthenticationFailed(f"{settings.sasl_secret_file} has expired or is of another issuer")


def _about_login(settings: Settings, error: KafkaError) -> str:
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"it does not offer {settings.sasl_mechanism}, GLAIM_SASL_MECHANISM"
    who = "the token" if settings.sasl_mechanism == "OAUTHBEARER" else f"user {settings.sasl_username}"
    return f"it refuses {who} by {settings.sasl_mechanism}: {error.args[0] if error.args else type(error).__name__}"
