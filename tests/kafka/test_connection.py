"""TLS with a server that requires client certificates, and errors for unusable files."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings, read_settings
from glaim_stream.kafka.connection import (
    admin_options,
    blocking_options,
    commit_interval_s,
    consumer_options,
    kafka_options,
    poll_records,
    producer_options,
)
from glaim_stream.worker.faust_connection import faust_credentials
from tests.certificates import signed

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


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    authority = signed("authority")
    result = {}
    for name, pair in (
        ("authority", authority),
        ("server", signed("s", authority)),
        ("client", signed("c", authority)),
    ):
        result[f"{name}.crt"], result[f"{name}.key"] = pair.write(tmp_path, name)
    return result


@pytest.fixture
def server(files: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """A server that requires a certificate of the authority and sends back the client's name."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files["authority.crt"])
    context.load_cert_chain(files["server.crt"], files["server.key"])
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                connection, _ = listener.accept()
                with suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as caller:
                    name = dict(part[0] for part in caller.getpeercert()["subject"])  # type: ignore[index, misc]
                    caller.sendall(name["commonName"].encode())

    Thread(target=serve, daemon=True).start()
    yield listener.getsockname()
    listener.close()


def greeting(address: tuple[str, int], context: ssl.SSLContext) -> bytes:
    with (
        socket.create_connection(address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.recv(100)


def test_a_server_that_requires_a_certificate_receives_it(files: dict[str, Path], server: tuple[str, int]) -> None:
    settings = read_settings(
        security_protocol="SSL",
        ssl_ca_file=files["authority.crt"],
        ssl_cert_file=files["client.crt"],
        ssl_key_file=files["client.key"],
    )
    assert greeting(server, kafka_options(settings)["ssl_context"]) == b"c"
    assert greeting(server, faust_credentials(settings).context) == b"c"


def test_a_client_without_a_certificate_is_rejected(files: dict[str, Path], server: tuple[str, int]) -> None:
    settings = read_settings(security_protocol="SSL", ssl_ca_file=files["authority.crt"])
    with pytest.raises(ssl.SSLError, match="certificate required"):
        greeting(server, kafka_options(settings)["ssl_context"])


def test_a_certificate_without_its_key_is_rejected(files: dict[str, Path]) -> None:
    for alone in ("ssl_cert_file", "ssl_key_file"):
        with pytest.raises(SettingsError, match="a certificate and its key go together"):
            read_settings(**{alone: files["client.crt"]})


def test_unusable_files_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    certificate, key = files["client.crt"], files["client.key"]
    _, locked = signed("locked").write(tmp_path, "locked", password=b"secret")
    for cert_file, key_file, found in (
        (tmp_path / "none.crt", key, "No such file"),
        (certificate, files["server.key"], "mismatch"),
        (certificate, locked, "the key is locked by a password"),
        (files["client.key"], key, "PEM"),
    ):
        settings = read_settings(security_protocol="SSL", ssl_cert_file=cert_file, ssl_key_file=key_file)
        with pytest.raises(SettingsError, match="expected PEM files for TLS in") as error:
            kafka_options(settings)
        assert str(cert_file) in str(error.value)
        assert found.lower() in str(error.value).lower()


async def test_every_other_client_takes_those_that_it_knows() -> None:
    settings = Settings(kafka_extra=EXTRA)
    for options, known in (
        (admin_options(settings), {"metadata_max_age_ms", "client_id"}),
        (blocking_options(settings), {"metadata_max_age_ms", "client_id"}),
        (consumer_options(settings), set(EXTRA) - {"linger_ms", "compression_type"}),
        (producer_options(settings), {"metadata_max_age_ms", "client_id", "linger_ms", "compression_type"}),
    ):
        assert set(EXTRA) & options.keys() == known
        assert all(options[name] == EXTRA[name] for name in known)
    assert (poll_records(EXTRA), commit_interval_s(EXTRA)) == (123, 0.25)
    assert AIOKafkaAdminClient(**admin_options(settings))._client._client_id == "plant"
