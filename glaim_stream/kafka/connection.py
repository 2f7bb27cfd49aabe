"""Connection options for each of the Kafka clients, from the settings.

All connections follow the files of certificates, passwords and tokens: a long-lived client reads them again for its
next connection.

aiokafka takes a password as a text, once. Here that text also holds its file, and the connections of aiokafka read the
file whenever they log in. tests/kafka/test_passwords.py pins the internals that this relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from kafka.net.sasl.oauth import AbstractTokenProvider as BlockingTokenProvider

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.secret_files import SecretFile, secret_file
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import KAFKA, FollowingContext, watched_tls

LINGER_MS = 5  # more makes fewer and larger requests, and adds latency
_POLL_RECORDS = 20_000  # more are faster, use more memory and add latency
_COMMIT_INTERVAL_MS = 500  # longer repeats more work after a crash, shorter loads the broker
_TRANSACTION_TIMEOUT_MS = 20_000  # readers of committed records wait that long behind a worker that is gone
ISOLATION_LEVEL: Final = "read_committed"  # consumers skip records of open and aborted transactions
_LOGINS = ("authenticator_plain", "authenticator_scram")


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


def extra_options(extra: Mapping[str, Any], client: type) -> dict[str, Any]:
    """The user's options that a client of aiokafka knows.

    Raises:
        SettingsError: neither its consumer nor its producer knows one of them.
    """
    known = {each: signature(each).parameters for each in (AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient)}
    if unknown := [name for name in extra if not any(name in names for names in known.values())]:
        raise SettingsError(
            f"GLAIM_KAFKA_EXTRA: expected options of aiokafka's consumer or producer, found {', '.join(unknown)}"
        )
    return {name: value for name, value in extra.items() if name in known[client]}


def poll_records(extra: Mapping[str, Any]) -> int:
    """Most records of a poll."""
    return int(extra.get("max_poll_records", _POLL_RECORDS))


def commit_interval_s(extra: Mapping[str, Any]) -> float:
    """Seconds between commits."""
    return float(extra.get("auto_commit_interval_ms", _COMMIT_INTERVAL_MS)) / 1000


def transaction_timeout_ms(extra: Mapping[str, Any]) -> int:
    """Milliseconds after which the broker aborts a transaction of a worker that is gone."""
    return int(extra.get("transaction_timeout_ms", _TRANSACTION_TIMEOUT_MS))


def admin_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for aiokafka's administration client.

    Raises:
        SettingsError: a file for TLS or with a secret, or an option of the client, cannot be used.
    """
    return kafka_options(settings) | extra_options(settings.kafka_extra, AIOKafkaAdminClient)


def producer_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for a producer of aiokafka that loses and repeats nothing while it lives.

    Raises:
        SettingsError: a file for TLS or with a secret, or an option of the client, cannot be used.
    """
    sure = {"acks": "all", "enable_idempotence": True, "max_request_size": settings.max_message_bytes}
    return kafka_options(settings) | sure | extra_options(settings.kafka_extra, AIOKafkaProducer)


def blocking_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for kafka-python's administration client: the same names, and another kind of token provider.

    Raises:
        SettingsError: a file for TLS or with a secret cannot be used.
    """
    options = admin_options(settings)
    if "sasl_oauth_token_provider" in options:
        options["sasl_oauth_token_provider"] = BlockingFileToken(_secret(settings))
    return options


def consumer_options(settings: Settings) -> dict[str, Any]:
    """Keyword arguments for a consumer of aiokafka that commits nothing by itself.

    Raises:
        SettingsError: a file for TLS or with a secret, or an option of the client, cannot be used.
    """
    extra = extra_options(settings.kafka_extra, AIOKafkaConsumer)
    return kafka_options(settings) | extra | {"enable_auto_commit": False, "isolation_level": ISOLATION_LEVEL}


def _login(settings: Settings) -> dict[str, Any]:
    if settings.sasl_mechanism == "OAUTHBEARER":
        return {"sasl_oauth_token_provider": FileToken(_secret(settings))}
    if settings.sasl_username is None:
        raise SettingsError(f"GLAIM_SASL_USERNAME: expected a user name for {settings.sasl_mechanism}, found none")
    return {"sasl_plain_username": settings.sasl_username, "sasl_plain_password": current_password(_secret(settings))}


def _secret(settings: Settings) -> SecretFile:
    if settings.sasl_secret_file is None:
        raise SettingsError(
            f"GLAIM_SASL_SECRET_FILE: expected a file with the password or the token of {settings.sasl_mechanism}, "
            "found none"
        )
    return secret_file(settings.sasl_secret_file)


class FilePassword(str):
    """A password with the file that it was read from."""

    __slots__ = ("file",)
    file: SecretFile

    def __new__(cls, file: SecretFile) -> Self:
        """Read the file."""
        password = super().__new__(cls, file.text())
        password.file = file
        return password


def current_password(file: SecretFile) -> FilePassword:
    """Return a password that every client of aiokafka reads again from its file when it logs in."""
    for name in _LOGINS:
        login = getattr(AIOKafkaConnection, name)
        if not hasattr(login, "__wrapped__"):
            setattr(AIOKafkaConnection, name, _reading(login))
    return FilePassword(file)


def _reading(login: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(login)
    def read_and_login(connection: Any) -> Any:
        password = connection._sasl_plain_password
        if isinstance(password, FilePassword):
            connection._sasl_plain_password = password.file.text()
        return login(connection)

    return read_and_login
