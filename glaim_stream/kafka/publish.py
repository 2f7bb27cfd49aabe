"""Output, letters and outages onto their topics, by Faust's producer; done when the broker has acknowledged them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any

from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from faust.exceptions import NotReady, ProducerSendError

from glaim_stream import metrics
from glaim_stream.decode.dead_letters import HEADER_PREFIX, DeadLetter
from glaim_stream.errors import MessageTooLarge
from glaim_stream.output.announcements import CONTENT_TYPE as DOCUMENT_TYPE
from glaim_stream.output.messages import Output
from glaim_stream.records import CONTENT_TYPE, SCHEMA_VERSION, halves
from glaim_stream.retry import pauses_s
from glaim_stream.settings import Settings

log = logging.getLogger(__name__)

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_KEPT_BYTES = 500  # the head of a dead letter that its topic cannot take whole; the input topic holds the rest

Headers = list[tuple[str, bytes]]


class KafkaPublisher:
    """Publishes until the broker acknowledges: a broker that is away blocks the partition and loses nothing."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self._app = app
        self._output_topic = settings.output_topic
        self._dlq_topic = settings.dlq_topic
        self._late_topic = settings.late_topic
        self._outage_topic = settings.outage_topic
        # The driver wakes every sender that waits for room when there is some: thousands at once would take turns
        # quadratically. In line, one waits for room and the others for their turn; acknowledgements overlap.
        self._turn: defaultdict[tuple[str, int | None], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def publish(self, output: Output) -> None:
        """See output.Publisher. Output and outages go to the input's partition number, in order."""
        source: Headers = [
            (HEADER_PREFIX + "input-partition", str(output.partition).encode()),
            (HEADER_PREFIX + "input-offset", str(output.origin.offset).encode()),
            (HEADER_PREFIX + "input-timestamp-ms", str(output.origin.timestamp_ms).encode()),
        ]
        rows = [
            ("content-type", CONTENT_TYPE), (HEADER_PREFIX + "schema-version", SCHEMA_VERSION.encode()), *source
        ]  # fmt: skip
        outage: Headers = [("content-type", DOCUMENT_TYPE), *source]
        sends = [
            self._send_rows(message.value, output.partition, [*rows, (HEADER_PREFIX + "model", message.model.encode())])
            for message in output.messages
        ]
        sends += [self._send_letter(letter) for letter in output.letters]
        sends += [
            self._send(self._outage_topic, each.key, each.value, output.partition, outage)
            for each in output.announcements
        ]
        await asyncio.gather(*sends)

    async def _send_rows(self, value: bytes, partition: int, headers: Headers) -> None:
        """Send rows; a message that the topic finds too large goes in halves.

        One row is 3 to 5 kB, names of 249 characters included. A topic that takes no such message takes no row at all:
        that is a fault of its configuration, and the row waits for its end as it would for a broker that is away.
        """
        pauses = pauses_s()
        while True:
            try:
                return await self._send(self._output_topic, None, value, partition, headers)
            except MessageTooLarge:
                parts = halves(value)
                if len(parts) > 1:
                    break
            metrics.publish_retries.inc()
            pause_s = next(pauses)
            log.error(
                "%s refuses a single row of %d bytes, trying again in %.1f s: raise its max.message.bytes",
                self._output_topic, len(value), pause_s,
            )  # fmt: skip
            await asyncio.sleep(pause_s)
        log.warning("%s refuses a message of %d bytes: sent in halves", self._output_topic, len(value))
        for part in parts:
            await self._send_rows(part, partition, headers)
        return None

    async def _send_letter(self, letter: DeadLetter) -> None:
        topic = self._late_topic if letter.late else self._dlq_topic
        value = letter.value or b""
        cut = (HEADER_PREFIX + "cut-from-bytes", str(len(value)).encode())
        ours = [header for header in letter.headers if header[0].startswith(HEADER_PREFIX)]
        # Whole; then its head; then without the producer's headers, which may be what is large.
        for key, kept, headers in (
            (letter.key, letter.value, letter.headers),
            (None, value[:_KEPT_BYTES], [*letter.headers, cut]),
        ):
            try:
                return await self._send(topic, key, kept, None, headers)
            except MessageTooLarge as error:
                log.error("%s: less of a dead letter is kept: %s", topic, error)
        return await self._send(topic, None, value[:_KEPT_BYTES], None, [*ours, cut])

    async def _send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Headers
    ) -> None:
        pauses = pauses_s()
        while True:
            try:
                async with self._turn[topic, partition]:
                    sent = await self._app.producer.send(topic, key, value, partition, None, headers)
                await sent
                return
            except (KafkaError, ProducerSendError, NotReady) as error:  # not ready: the app is on its way out
                # What fails before it is sent comes wrapped by Faust, what the broker refuses does not.
                if isinstance(error.__cause__ or error, _TOO_LARGE):
                    raise MessageTooLarge(f"{topic} refuses a message of {len(value or b'')} bytes") from error
                metrics.publish_retries.inc()
                pause_s = next(pauses)
                log.warning("%s did not take a message, trying again in %.1f s: %r", topic, pause_s, error)
            await asyncio.sleep(pause_s)
