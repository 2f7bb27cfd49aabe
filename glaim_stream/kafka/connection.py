"""Connection options for each of the Kafka clients, from the settings.

All connections follow the files of certificates, passwords and tokens: a client that lives long makes its next
connection with what they hold by then.
"""

from __future__ import annotations

from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider as BlockingTokenProvider

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.secret_files import SecretFile, secret_file
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import KAFKA, FollowingContext, watched_tls
from glaim_stream.kafka.passwords import current_password

ISOLATION_LEVEL: Final = "read_committed"  # of every consumer: records of open and aborted transactions do not count


class FileToken(AbstractTokenProvider):  # type: ignore[misc]  # untyped
    """The token in a file, for aiokafka."""

    def __init__(self, file: SecretFile) -> None:
        self._file = file

    async def token(self) -> str:
        """Return the newest token; called for every connection."""
        return self._file.text()


class BlockingFileToken(BlockingTokenProvider):  # type: ignore[misc]  # untyped
    """The token in a file, for kafka-python."""

    def __init__(self, file: SecretFile) -> None:
        self._file = file

    def token(self) -> str:
        """Return the newest token; called for every connection."""
        return self._file.text()


def kafka_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for the clients of aiokafka.

    Raises:
        SettingsError: a file for TLS or with a secret cannot be used.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": [address.strip() for address in settings.kafka.split(",")],
        "security_protocol": settings.security_protocol,
    }
    files = settings.kafka_tls_files
    if files is not None:
        options["ssl_context"] = FollowingContext(watched_tls(KAFKA, files))
    if settings.security_protocol.startswith("SASL"):
        options |= {"sasl_mechanism": settings.sasl_mechanism, **_login(settings)}
    return options


def blocking_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for the clients of kafka-python, which has the same names and another kind of token provider.

    Raises:
        SettingsError: a file for TLS or with a secret cannot be used.
    """
    options = kafka_options(settings)
    if "sasl_oauth_token_provider" in options:
        options["sasl_oauth_token_provider"] = BlockingFileToken(_token_file(settings))
    return options


def consumer_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for a consumer of either client that commits nothing by itself.

    Raises:
        SettingsError: a file for TLS or with a secret cannot be used.
    """
    return kafka_options(settings) | {"enable_auto_commit": False, "isolation_level": ISOLATION_LEVEL}


def _login(settings: Settings) -> dict[str, Any]:
    if settings.sasl_mechanism == "OAUTHBEARER":
        return {"sasl_oauth_token_provider": FileToken(_token_file(settings))}
    if settings.sasl_username is None:
        raise SettingsError(f"GLAIM_SASL_USERNAME: expected a user name for {settings.sasl_mechanism}, found none")
    return {"sasl_plain_username": settings.sasl_username, "sasl_plain_password": _password(settings)}


def _token_file(settings: Settings) -> SecretFile:
    if settings.sasl_token_file is None:
        raise SettingsError("GLAIM_SASL_TOKEN_FILE: expected a file with a token for OAUTHBEARER, found none")
    return secret_file(settings.sasl_token_file)


def _password(settings: Settings) -> str:
    if settings.sasl_password_file is not None:
        return current_password(secret_file(settings.sasl_password_file))
    if settings.sasl_password is None:
        raise SettingsError("GLAIM_SASL_PASSWORD, GLAIM_SASL_PASSWORD_FILE: expected one of them, found none")
    return settings.sasl_password.get_secret_value()
