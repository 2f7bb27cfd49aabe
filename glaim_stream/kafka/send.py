"""Sends one message to a topic, with any client."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Protocol

from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from glaim_stream.core.errors import MessageTooLarge, SendError

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)

Headers = list[tuple[str, bytes]]


class Send(Protocol):
    """Sends one message."""

    async def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Headers
    ) -> Awaitable[object]:
        """Hand a message to the client and return an awaitable that ends when the broker has acknowledged it.

        Raises (here or in the awaitable):
            SendError: the message was not acknowledged; the caller may send it again.
            MessageTooLarge: the client or the broker does not take a message of this size.
        """
        ...


@contextmanager
def send_errors(topic: str, value: bytes | None, *others: type[Exception]) -> Iterator[None]:
    """Turn aiokafka's errors, and `others` that a client raises, into those of `Send`.

    Faust wraps an error that occurs before the message is sent, and passes on what the broker answers: so the cause
    is looked at first.
    """
    try:
        yield
    except (KafkaError, *others) as error:
        if isinstance(error.__cause__ or error, _TOO_LARGE):
            raise MessageTooLarge(f"{topic} refuses a message of {len(value or b'')} bytes") from error
        raise SendError(repr(error)) from error
