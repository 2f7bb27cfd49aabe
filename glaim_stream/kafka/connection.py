"""Connection options for each of the Kafka clients, from the settings."""

from __future__ import annotations

import ssl
from typing import Any, Final

from glaim_stream.errors import SettingsError
from glaim_stream.settings import Settings

ISOLATION_LEVEL: Final = "read_committed"  # of every consumer: records of open and aborted transactions do not count


def kafka_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for the clients of aiokafka and kafka-python, which use the same names.

    Raises:
        SettingsError: a TLS file cannot be used.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": [address.strip() for address in settings.kafka.split(",")],
        "security_protocol": settings.security_protocol,
    }
    context = _context(settings)
    if context is not None:
        options["ssl_context"] = context
    if settings.security_protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.sasl_username,
            "sasl_plain_password": _password(settings),
        }
    return options


def consumer_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for a consumer of either client that commits nothing by itself.

    Raises:
        SettingsError: a TLS file cannot be used.
    """
    return kafka_options(settings) | {"enable_auto_commit": False, "isolation_level": ISOLATION_LEVEL}


def _context(settings: Settings) -> ssl.SSLContext | None:
    if "SSL" not in settings.security_protocol:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_file)
        if settings.ssl_cert_file is not None:
            # OpenSSL would ask for a key's password at the terminal, and a worker has none: such a key is rejected.
            context.load_cert_chain(settings.ssl_cert_file, settings.ssl_key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        given = [str(file) for file in (settings.ssl_ca_file, settings.ssl_cert_file, settings.ssl_key_file) if file]
        raise SettingsError(f"expected PEM files for TLS in {', '.join(given)}, found: {error}") from error
    return context


def _no_password() -> str:
    raise ValueError("the key is locked by a password")


def _password(settings: Settings) -> str | None:
    return settings.sasl_password.get_secret_value() if settings.sasl_password else None
