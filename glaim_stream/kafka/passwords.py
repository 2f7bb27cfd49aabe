"""Passwords of SASL that change while a client of aiokafka lives.

aiokafka takes a password as a text, once. Here that text also holds its file, and the connections of aiokafka read the
file whenever they log in. tests/kafka/test_passwords.py pins the internals that this relies on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Self

from aiokafka.conn import AIOKafkaConnection

from glaim_stream.core.secret_files import SecretFile

_LOGINS = ("authenticator_plain", "authenticator_scram")


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
