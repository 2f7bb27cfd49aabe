"""The records of a poll as batches: one event for each partition, or several where the records are large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from faust.serializers.schemas import Schema
from faust.types import Message

from glaim_stream.kafka import Delivery, Record

MAX_BATCH_BYTES = 2 * 1024**2  # 20,000 single readings in JSON are 1.7 MB: a full poll of them is not split


@dataclass(frozen=True, slots=True)
class Batch:
    """The value of an event: consecutive records of one partition, and the ledger's entry for them."""

    topic: str
    partition: int
    records: Sequence[Record]
    delivery: Delivery
    seeks: int  # number of times that the partition's position had been moved before the poll that gave it


def bounded(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Split the records of a poll into parts of at most MAX_BATCH_BYTES of values; a larger record is a part alone.

    The settings bound the number of records in a poll, but a record may hold thousands of readings, and these and the
    steps that they close take many times its bytes: the driver's 8 MB of wide Arrow are some 650,000 readings.
    """
    start = size_bytes = 0
    for end, record in enumerate(records):
        size_bytes += len(record.value or b"")
        if size_bytes > MAX_BATCH_BYTES and end > start:
            yield records[start:end]
            start, size_bytes = end, len(record.value or b"")
    yield records[start:]


class BatchSchema(Schema):
    """A schema that passes a Batch through as the event's value: the pipeline decodes a whole batch at once."""

    def compile(self, app: Any, **_: Any) -> Any:
        """See faust.Schema."""

        async def decode(message: Message, *, propagate: bool = False) -> Any:
            return app.create_event(None, message.value, None, message)

        return decode
