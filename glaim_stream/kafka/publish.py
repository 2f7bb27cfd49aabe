"""Publishes the output of a batch on its topics; done when the broker has acknowledged all of it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from glaim_stream import metrics
from glaim_stream.decode.dead_letters import HEADER_PREFIX, DeadLetter
from glaim_stream.errors import MessageTooLarge, SendError
from glaim_stream.kafka.send import Headers, Send
from glaim_stream.output.announcements import CONTENT_TYPE as DOCUMENT_TYPE
from glaim_stream.output.messages import Output
from glaim_stream.records import CONTENT_TYPE, SCHEMA_VERSION, halves
from glaim_stream.retry import pauses_s
from glaim_stream.settings import Settings

log = logging.getLogger(__name__)

# Bytes kept of a dead letter that its topic does not take whole; the input topic holds the complete record.
_KEPT_BYTES = 500


class KafkaPublisher:
    """A publisher that retries until the broker acknowledges: an outage blocks the partition and loses nothing."""

    def __init__(self, send: Send, settings: Settings) -> None:
        self._send_once = send
        self._output_topic = settings.output_topic
        self._dlq_topic = settings.dlq_topic
        self._late_topic = settings.late_topic
        self._outage_topic = settings.outage_topic
        # When there is room in its buffer, aiokafka wakes every sender that waits for it: thousands at once would take
        # quadratic time. With a lock, one waits for room and the others for the lock; acknowledgements still overlap.
        self._turn: defaultdict[tuple[str, int | None], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def publish(self, output: Output) -> None:
        """See output.Publisher. Rows and outages go to the partition of the input's number, in order."""
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
        """Send rows; a message that is too large for the topic is split in halves.

        One row is 3 to 5 kB, including names of 249 characters. A topic that refuses such a message refuses every row:
        that is an error in its configuration, and the row is retried as for a broker that is away.
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
                "%s refuses a single row of %d bytes, retrying in %.1f s: raise its max.message.bytes",
                self._output_topic, len(value), pause_s,
            )  # fmt: skip
            await asyncio.sleep(pause_s)
        log.warning("%s refuses a message of %d bytes: sending it in halves", self._output_topic, len(value))
        for part in parts:
            await self._send_rows(part, partition, headers)
        return None

    async def _send_letter(self, letter: DeadLetter) -> None:
        """Send a dead letter, and less of it when it is too large.

        First the whole letter; then its first bytes without the key; then these without the producer's headers, which
        may be what is large. What is left takes less than 10,000 bytes, the least that max_message_bytes may be. A
        topic that refuses even that is configured wrongly, and the letter is retried as for a broker that is away.
        """
        topic = self._late_topic if letter.late else self._dlq_topic
        value = letter.value or b""
        cut = (HEADER_PREFIX + "cut-from-bytes", str(len(value)).encode())
        ours = [header for header in letter.headers if header[0].startswith(HEADER_PREFIX)]
        for key, kept, headers in (
            (letter.key, letter.value, letter.headers),
            (None, value[:_KEPT_BYTES], [*letter.headers, cut]),
        ):
            try:
                return await self._send(topic, key, kept, None, headers)
            except MessageTooLarge as error:
                log.error("%s: a dead letter is cut: %s", topic, error)
        pauses = pauses_s()
        while True:
            try:
                return await self._send(topic, None, value[:_KEPT_BYTES], None, [*ours, cut])
            except MessageTooLarge:
                metrics.publish_retries.inc()
                pause_s = next(pauses)
                log.error(
                    "%s refuses a dead letter cut to its first bytes, retrying in %.1f s: raise its max.message.bytes",
                    topic, pause_s,
                )  # fmt: skip
            await asyncio.sleep(pause_s)

    async def _send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, headers: Headers
    ) -> None:
        """Send until the broker acknowledges.

        Raises:
            MessageTooLarge: the topic does not take a message of this size.
        """
        pauses = pauses_s()
        while True:
            try:
                async with self._turn[topic, partition]:
                    acknowledged = await self._send_once(topic, key, value, partition, headers)
                await acknowledged
                return
            except SendError as error:
                metrics.publish_retries.inc()
                pause_s = next(pauses)
                log.warning("%s did not acknowledge a message, retrying in %.1f s: %s", topic, pause_s, error)
            await asyncio.sleep(pause_s)
