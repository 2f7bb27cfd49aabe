"""Records that the client library cannot read, as records: the pipeline makes a dead letter of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record, or the rest of a batch of records, that is not in Kafka's format; see decode.InputRecord.

    It has the fields of aiokafka's ConsumerRecord that we use.
    """

    topic: str
    partition: int
    offset: int  # last offset that it stands for
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None  # the record's value where that can be told, else the bytes of the record or of the batch
    headers: Sequence[tuple[str, bytes]]  # never empty: the decoder looks only at records with headers
    reason: str
    first_offset: int  # first offset that it stands for
