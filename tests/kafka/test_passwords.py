"""What aiokafka must be like for a password to follow its file, and that other clients stay as they are."""

from pathlib import Path

import pytest
from aiokafka.conn import AIOKafkaConnection

from glaim_stream.core.secret_files import SecretFile
from glaim_stream.kafka.connection import FilePassword, current_password


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("first\n")
    return path


def replace(file: Path) -> None:
    file.write_text("second")


async def connection(password: str) -> AIOKafkaConnection:
    return AIOKafkaConnection(
        "127.0.0.1", 1, security_protocol="SASL_SSL", sasl_plain_username="ada", sasl_plain_password=password
    )


async def test_each_login_reads_the_file_again(file: Path) -> None:
    password = current_password(SecretFile(file))
    assert (password, type(password)) == ("first", FilePassword)
    replace(file)
    plain = (await connection(password)).authenticator_plain()
    assert (await plain.step(None))[0] == b"ada\0ada\0second"
    mechanism = await connection(password)
    mechanism._sasl_mechanism = "SCRAM-SHA-512"
    assert mechanism.authenticator_scram()._sasl_plain_password == b"second"


async def test_a_plain_password_is_left_as_it_is(file: Path) -> None:
    current_password(SecretFile(file))
    assert (await (await connection("own")).authenticator_plain().step(None))[0] == b"ada\0ada\0own"


def test_the_logins_of_aiokafka_are_replaced_once(file: Path) -> None:
    for _ in range(2):
        current_password(SecretFile(file))
    for name in ("authenticator_plain", "authenticator_scram"):
        login = getattr(AIOKafkaConnection, name)
        assert not hasattr(login.__wrapped__, "__wrapped__")
