"""Errors of aiokafka and Faust become SendError, which is retried, or MessageTooLarge."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError, RecordListTooLargeError
from faust.exceptions import NotReady, ProducerSendError

from glaim_stream.core.errors import MessageTooLarge, SendError
from glaim_stream.core.settings import Settings
from glaim_stream.feed.replay.sinks import producer_send
from glaim_stream.kafka.send import Send
from glaim_stream.worker.faust_connection import faust_send

HEADERS = [("name", b"text")]


class Client:
    """A producer with the interface of both clients that may fail on send or on acknowledge."""

    def __init__(self, on_send: Exception | None = None, on_acknowledge: Exception | None = None) -> None:
        self.on_send, self.on_acknowledge = on_send, on_acknowledge
        self.calls: list[Any] = []

    async def send(self, *arguments: Any, **keywords: Any) -> asyncio.Future[str]:
        self.calls.append((arguments, keywords))
        if self.on_send is not None:
            raise self.on_send
        acknowledged: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if self.on_acknowledge is not None:
            acknowledged.set_exception(self.on_acknowledge)
        else:
            acknowledged.set_result("acknowledged")
        return acknowledged


def sends(client: Client) -> dict[str, Send]:
    return {
        "faust": faust_send(SimpleNamespace(producer=client), Settings()),
        "aiokafka": producer_send(client),  # type: ignore[arg-type]
    }


async def send(send_function: Send) -> None:
    await (await send_function("topic", b"key", b"value", 4, HEADERS))


def wrapped(error: Exception) -> ProducerSendError:
    """An error before the message is sent, as Faust wraps it."""
    outer = ProducerSendError()
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize("name", ["faust", "aiokafka"])
@pytest.mark.parametrize("place", ["on_send", "on_acknowledge"])
@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (KafkaConnectionError("unavailable"), SendError),
        (MessageSizeTooLargeError("big"), MessageTooLarge),
        (RecordListTooLargeError("big"), MessageTooLarge),
    ],
)
async def test_kafka_errors_are_translated_on_send_and_on_acknowledge(
    name: str, place: str, error: Exception, becomes: type[Exception]
) -> None:
    with pytest.raises(becomes) as raised:
        await send(sends(Client(**{place: error}))[name])
    assert raised.value.__cause__ is error
    assert isinstance(raised.value, SendError | MessageTooLarge)
    if becomes is MessageTooLarge:
        assert str(raised.value) == "topic refuses a message of 5 bytes"


@pytest.mark.parametrize("place", ["on_send", "on_acknowledge"])
@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (NotReady("the app stops"), SendError),
        (wrapped(KafkaConnectionError("unavailable")), SendError),
        (wrapped(MessageSizeTooLargeError("big")), MessageTooLarge),
    ],
)
async def test_errors_wrapped_by_faust_are_translated(place: str, error: Exception, becomes: type[Exception]) -> None:
    with pytest.raises(becomes):
        await send(sends(Client(**{place: error}))["faust"])


async def test_other_errors_pass_unchanged() -> None:
    for name in ("faust", "aiokafka"):
        with pytest.raises(ValueError, match="a bug"):
            await send(sends(Client(on_send=ValueError("a bug")))[name])
    with pytest.raises(NotReady):  # not an error of aiokafka
        await send(sends(Client(on_send=NotReady("faust")))["aiokafka"])


async def test_the_size_of_a_message_without_a_value_is_zero() -> None:
    aiokafka_send = sends(Client(on_send=MessageSizeTooLargeError("big")))["aiokafka"]
    with pytest.raises(MessageTooLarge, match="topic refuses a message of 0 bytes"):
        await aiokafka_send("topic", None, None, None, [])


async def test_each_client_receives_the_message_in_its_argument_order() -> None:
    client = Client()
    for send_function in sends(client).values():
        await send(send_function)
    assert client.calls == [
        (("topic", b"key", b"value", 4, None, HEADERS), {}),
        (("topic",), {"value": b"value", "key": b"key", "partition": 4, "headers": HEADERS}),
    ]
