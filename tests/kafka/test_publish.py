"""The publisher: topics and headers of the parts of an output, retries, and messages that are too large."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import REGISTRY

from glaim_stream.core.errors import MessageTooLarge, SendError
from glaim_stream.core.retry import Retry
from glaim_stream.core.settings import Settings
from glaim_stream.decode import DeadLetter
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.kafka import publish
from glaim_stream.kafka.publish import KafkaPublisher
from glaim_stream.kafka.send import Headers
from glaim_stream.output import Announcement, Message, Origin, Output, read_rows
from glaim_stream.pipeline import Pipeline
from tests.support import catalogue, header, json_record

SETTINGS = Settings(output_topic="rows", topic_names={"late": "late", "outages": "outages"}, imputer="interpolation")
ORIGIN = Origin(17, 1_700_000_000_000)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "PUBLISH", Retry(0.0))


@dataclass(frozen=True)
class Sent:
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: Headers


@dataclass
class Broker:
    """A `Send` that acknowledges what fits; the first `failures` calls fail, on send and on acknowledge in turn."""

    fits: Callable[[Sent], bool] = lambda sent: True
    failures: int = 0
    acknowledged: list[Sent] = field(default_factory=list)
    attempts: int = 0

    async def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Headers
    ) -> Awaitable[object]:
        sent = Sent(topic, key, value, partition, list(headers))
        self.attempts += 1
        number = self.attempts
        if number <= self.failures and number % 2:
            raise SendError("not sent")
        if not self.fits(sent):
            raise MessageTooLarge(f"{topic} refuses a message of {len(value or b'')} bytes")

        async def acknowledgement() -> None:
            await asyncio.sleep(0)
            if number <= self.failures:
                raise SendError("not acknowledged")
            self.acknowledged.append(sent)

        return acknowledgement()


async def published(broker: Broker, **parts: Any) -> list[Sent]:
    await KafkaPublisher(broker, SETTINGS).publish(Output(3, ORIGIN, **parts))
    return broker.acknowledged


def rows(count: int) -> Message:
    """A message of `count` rows: one step of one sensor for each of `count` groups."""
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    records = [json_record(n, group=f"g{n}", sensor="s0", ts=0, value=n) for n in range(count)]
    records.append(json_record(count, group="g0", sensor="s0", ts=1000, value=0))
    applied = pipeline.apply(pipeline.windows(), records, now_ms=1000)
    (message,) = pipeline.messages(asyncio.run(pipeline.fill(applied.closed)))
    assert message.rows == count
    return message


MESSAGE = rows(9)
LETTER = DeadLetter(b"key", b"x" * 2000, [("trace", b"7"), ("glaim-cause", b"malformed")])


def retries() -> float:
    return REGISTRY.get_sample_value("glaim_publish_retries_total") or 0.0


async def test_rows_go_to_the_partition_of_their_readings() -> None:
    (sent,) = await published(Broker(), messages=[MESSAGE])
    assert (sent.topic, sent.key, sent.value, sent.partition) == ("rows", None, MESSAGE.value, 3)
    assert dict(sent.headers) == {
        "content-type": b"application/vnd.apache.arrow.stream",
        "glaim-schema-version": dict(sent.headers)["glaim-schema-version"],
        "glaim-input-partition": b"3",
        "glaim-input-offset": b"17",
        "glaim-input-timestamp-ms": b"1700000000000",
        "glaim-model": b"m",
    }


async def test_outages_go_to_the_same_partition_with_content_type_and_origin() -> None:
    (sent,) = await published(Broker(), announcements=[Announcement(b"g0", b"{}")])
    assert (sent.topic, sent.key, sent.value, sent.partition) == ("outages", b"g0", b"{}", 3)
    assert header(sent.headers, "content-type") == "application/json"
    assert header(sent.headers, "glaim-input-offset") == "17"


@pytest.mark.parametrize(("late", "topic"), [(False, SETTINGS.dlq_topic), (True, "late")])
async def test_a_dead_letter_goes_unchanged_to_its_topic_in_any_partition(late: bool, topic: str) -> None:
    letter = DeadLetter(LETTER.key, LETTER.value, LETTER.headers, late=late)
    (sent,) = await published(Broker(), letters=[letter])
    assert sent == Sent(topic, b"key", LETTER.value, None, list(LETTER.headers))


async def test_publishing_returns_after_everything_is_acknowledged() -> None:
    sent = await published(
        Broker(), messages=[MESSAGE, MESSAGE], letters=[LETTER], announcements=[Announcement(b"g0", b"{}")]
    )
    assert sorted(each.topic for each in sent) == sorted([SETTINGS.dlq_topic, "outages", "rows", "rows"])


async def test_messages_of_a_partition_keep_their_order() -> None:
    class Slow(Broker):
        """Sends the first message with a delay."""

        async def __call__(self, *sent: Any) -> Awaitable[object]:
            for _ in range(10 if self.attempts == 0 else 0):
                await asyncio.sleep(0)
            return await super().__call__(*sent)

    first, second = Message(b"1", 1, "m"), Message(b"2", 1, "m")
    assert [each.value for each in await published(Slow(), messages=[first, second])] == [b"1", b"2"]


@pytest.mark.parametrize("failures", [1, 2, 5])
async def test_a_message_is_retried_until_it_is_acknowledged(failures: int, caplog: pytest.LogCaptureFixture) -> None:
    broker, before = Broker(failures=failures), retries()
    (sent,) = await published(broker, messages=[MESSAGE])
    assert sent.value == MESSAGE.value
    assert broker.attempts == failures + 1
    assert retries() - before == failures
    assert caplog.text.count("rows did not acknowledge a message, retrying in 0.0 s") == failures


async def test_other_errors_than_send_errors_are_not_retried() -> None:
    class Broken(Broker):
        async def __call__(self, *sent: Any) -> Awaitable[object]:
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await published(Broken(), messages=[MESSAGE])


async def test_a_message_that_is_too_large_is_sent_in_ordered_halves(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(fits=lambda sent: read_rows(sent.value or b"").num_rows <= 3)
    before = retries()
    sent = await published(broker, messages=[MESSAGE])
    tables = [read_rows(each.value or b"") for each in sent]
    assert [group for table in tables for group in table["group"].to_pylist()] == [f"g{n}" for n in range(9)]
    assert all(header(each.headers, "glaim-model") == "m" for each in sent)
    assert {each.partition for each in sent} == {3}
    assert retries() == before, "splitting a message is no failure"
    assert f"rows refuses a message of {len(MESSAGE.value)} bytes: sending it in halves" in caplog.text


async def test_a_single_row_that_is_too_large_is_retried_until_the_topic_accepts_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message, before = ONE_ROW, retries()
    fits = iter([False, False, True])
    (sent,) = await published(Broker(fits=lambda sent: next(fits)), messages=[message])
    assert sent.value == message.value
    assert retries() - before == 2
    lines = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 2
    assert lines[0].getMessage() == (
        f"rows refuses a single row of {len(message.value)} bytes, retrying in 0.0 s: raise its max.message.bytes"
    )


ONE_ROW = rows(1)


async def test_a_dead_letter_that_is_too_large_is_cut_to_its_beginning(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(fits=lambda sent: len(sent.value or b"") <= 500)
    (sent,) = await published(broker, letters=[LETTER])
    assert (sent.topic, sent.key, sent.value) == (SETTINGS.dlq_topic, None, b"x" * 500)
    assert f"{SETTINGS.dlq_topic} refuses a message of 2000 bytes: the dead letter is cut" in caplog.text
    assert sent.headers == [*LETTER.headers, ("glaim-cut-from-bytes", b"2000")]
    assert broker.attempts == 2


async def test_other_headers_are_dropped_if_a_cut_letter_is_still_too_large() -> None:
    broker = Broker(fits=lambda sent: header(sent.headers, "trace") is None)
    (sent,) = await published(broker, letters=[LETTER])
    assert (sent.key, sent.value) == (None, b"x" * 500)
    assert sent.headers == [("glaim-cause", b"malformed"), ("glaim-cut-from-bytes", b"2000")]
    assert broker.attempts == 3


async def test_a_dead_letter_without_a_value_can_be_cut_too() -> None:
    letter = DeadLetter(b"k", None, [])
    (sent,) = await published(Broker(), letters=[letter])
    assert sent.value is None
    (sent,) = await published(Broker(fits=lambda sent: sent.key is None), letters=[letter])
    assert (sent.value, sent.headers) == (b"", [("glaim-cut-from-bytes", b"0")])


async def test_a_dead_letter_that_does_not_fit_even_when_cut_is_retried_until_the_topic_accepts_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fits = iter([False, False, False, False, True])
    (sent,) = await published(Broker(fits=lambda sent: next(fits)), letters=[LETTER])
    assert sent.headers == [("glaim-cause", b"malformed"), ("glaim-cut-from-bytes", b"2000")]
    assert caplog.text.count(f"{SETTINGS.dlq_topic} refuses a single message of 500 bytes, retrying in 0.0 s") == 2
