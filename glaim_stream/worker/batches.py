"""Batches of records: one event of a poll for each partition, or several where the records are large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from faust.serializers.schemas import Schema
from faust.types import Message

from glaim_stream.core.readings import InputRecord
from glaim_stream.kafka import Commit, Delivery, Record
from glaim_stream.pipeline import Pending

MAX_BATCH_BYTES = 2 * 1024**2  # 20,000 single readings in JSON are 1.7 MB: a full poll of them is not split


@dataclass(slots=True, eq=False)
class Batch:
    """A batch on its way through the worker: consecutive records of one partition, and what became of them.

    A slice of a batch that is not its last, and steps that the wall clock closed, have no `records` and no `delivery`.
    """

    records: Sequence[InputRecord] = ()
    delivery: Delivery | None = None  # the ledger's entry for the records
    seeks: int = 0  # number of times that the partition's position had been moved before the poll that gave it
    done: Callable[[], object] = lambda: None  # called once the batch is answered
    pending: Pending | None = None  # its effects; None before it is applied, or where all of it was applied before
    commit: Commit | None = None  # may be committed once its output is published; None if a later commit covers it
    more: bool = False  # whether the batch has further slices


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
