"""Publishes the output of a batch on its topics; returns when the broker has acknowledged all of it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator

from glaim_stream.core import metrics
from glaim_stream.core.errors import MessageTooLarge, SendError
from glaim_stream.core.retry import PUBLISH
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.outgoing import Outgoing, Reduction, outgoing
from glaim_stream.kafka.send import Send
from glaim_stream.output import Output

log = logging.getLogger(__name__)


class KafkaPublisher:
    """A publisher that retries until the broker acknowledges: an outage blocks the partition and loses nothing."""

    def __init__(self, send: Send, settings: Settings) -> None:
        self._send_once = send
        self._settings = settings
        # When there is room in its buffer, aiokafka wakes every sender that waits for it: thousands at once would take
        # quadratic time. With a lock, one waits for room and the others for the lock; acknowledgements still overlap.
        self._turn: defaultdict[tuple[str, int | None], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def publish(self, output: Output) -> None:
        """See output.Publisher. Rows and outages go to the partition of the input's number, in order."""
        await asyncio.gather(*(self._send(message) for message in outgoing(output, self._settings)))

    async def _send(self, message: Outgoing) -> None:
        """Send until the broker acknowledges, in smaller messages if the topic rejects this one."""
        pauses = PUBLISH.pauses()
        while True:
            try:
                async with self._turn[message.topic, message.partition]:
                    acknowledged = await self._send_once(
                        message.topic, message.key, message.value, message.partition, message.headers
                    )
                await acknowledged
                return
            except MessageTooLarge as error:
                parts = smaller(message, error)
                if parts:
                    break
                await pause_after_refusal(message, pauses)
            except SendError as error:
                metrics.publish_retries.inc()
                pause_s = next(pauses)
                log.warning(
                    "%s did not acknowledge a message, retrying in %.1f s: %s", message.topic, pause_s, error
                )  # fmt: skip
                await asyncio.sleep(pause_s)
        for part in parts:
            await self._send(part)


def smaller(message: Outgoing, error: MessageTooLarge) -> list[Outgoing]:
    """Return the messages to send instead of one that was refused; none if it cannot be smaller."""
    parts = message.smaller()
    if len(parts) > 1:
        log.warning("%s: sending it in halves", error)
    elif parts:
        log.error("%s: the dead letter is cut", error)
    return parts


async def pause_after_refusal(message: Outgoing, pauses: Iterator[float]) -> None:
    """Wait before sending a message again that the topic rejects although it cannot be smaller.

    A topic that refuses a single row refuses every row: that is an error in its configuration, and the partition waits
    until it is mended, as for a broker that is away.
    """
    metrics.publish_retries.inc()
    pause_s = next(pauses)
    log.error(
        "%s refuses a single %s of %d bytes, retrying in %.1f s: raise its max.message.bytes",
        message.topic, "row" if message.kind is Reduction.ROWS else "message", len(message.value or b""), pause_s,
    )  # fmt: skip
    await asyncio.sleep(pause_s)
