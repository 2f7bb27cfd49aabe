"""The messages of an output, and smaller ones in place of one that its topic rejects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from glaim_stream.core.settings import Settings
from glaim_stream.decode import HEADER_PREFIX, DeadLetter
from glaim_stream.kafka.send import Headers
from glaim_stream.output import CONTENT_TYPE, DOCUMENT_TYPE, SCHEMA_VERSION, Output, halves

# Header of rows published in a transaction: the input offset from which that owner of the partition began.
ONCE_FROM = HEADER_PREFIX + "once-from"

# Bytes kept of a dead letter that its topic does not take whole; the input topic holds the complete record.
_KEPT_BYTES = 500


class Reduction(Enum):
    """The way to make a message smaller."""

    ROWS = "rows"  # split in halves
    LETTER = "letter"  # cut to the head of its value, without the key
    HEAD = "head of a letter"  # sent without the producer's headers, which may be what is large
    WHOLE = "whole"  # never made smaller


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for a topic; `partition` None lets the client choose one by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: Headers
    kind: Reduction = Reduction.WHOLE

    def smaller(self) -> list[Outgoing]:
        """Return the messages to send instead; none if this one cannot be smaller.

        One row is 3 to 5 kB, including names of 249 characters. A topic that refuses such a message refuses every row.
        """
        value = self.value or b""
        cut = (HEADER_PREFIX + "cut-from-bytes", str(len(value)).encode())
        match self.kind:
            case Reduction.ROWS:
                parts = halves(value)
                return [replace(self, value=part) for part in parts] if len(parts) > 1 else []
            case Reduction.LETTER:
                headers = [*self.headers, cut]
                return [replace(self, key=None, value=value[:_KEPT_BYTES], headers=headers, kind=Reduction.HEAD)]
            case Reduction.HEAD:
                ours = [header for header in self.headers if header[0].startswith(HEADER_PREFIX)]
                return [replace(self, headers=ours, kind=Reduction.WHOLE)]
            case Reduction.WHOLE:
                return []


def outgoing(output: Output, settings: Settings, *, once_from: int | None = None) -> Iterator[Outgoing]:
    """Yield the messages of an output. All but letters go to the partition of the input's number.

    Args:
        output: output of a batch.
        settings: names of the topics.
        once_from: input offset from which the owner of a transaction counts; None outside of transactions.
    """
    source: Headers = [
        (HEADER_PREFIX + "input-partition", str(output.partition).encode()),
        (HEADER_PREFIX + "input-offset", str(output.origin.offset).encode()),
        (HEADER_PREFIX + "input-timestamp-ms", str(output.origin.timestamp_ms).encode()),
    ]
    rows = [("content-type", CONTENT_TYPE), (HEADER_PREFIX + "schema-version", SCHEMA_VERSION.encode()), *source]
    if once_from is not None:
        rows.append((ONCE_FROM, str(once_from).encode()))
    for message in output.messages:
        headers = [*rows, (HEADER_PREFIX + "model", message.model.encode())]
        yield Outgoing(settings.output_topic, None, message.value, output.partition, headers, Reduction.ROWS)
    for letter in output.letters:
        yield _letter(letter, settings)
    for topic, documents in (
        (settings.outage_topic, output.announcements),
        (settings.health_topic, output.health),
        (settings.quality_topic, output.quality),
    ):
        for each in documents:
            headers = [("content-type", DOCUMENT_TYPE), *source]
            yield Outgoing(topic, each.key, each.value, output.partition, headers)


def _letter(letter: DeadLetter, settings: Settings) -> Outgoing:
    topic = settings.late_topic if letter.late else settings.dlq_topic
    return Outgoing(topic, letter.key, letter.value, None, letter.headers, Reduction.LETTER)
