"""Lets aiokafka's consumers deliver unreadable bytes as records, instead of failing at them for ever.

aiokafka raises on a record that it cannot read, and its fetcher ends: one header whose name is not UTF-8 stops the
partition at every start of the worker. It also unpacks a compressed batch of any size. Its fetcher looks up three
classes in its module; `read_every_record` puts ours there, for all consumers of the process.
tests/kafka/test_unreadable.py pins what they rely on, so that an upgrade which changes it fails a test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from aiokafka.consumer import fetcher
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.structs import TopicPartition

from glaim_stream.kafka.wire import BatchReader, Record, unreadable_message

_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_OVERHEAD: Final = 12  # bytes of a batch that its length does not count
_LEAST_LENGTH: Final = 14  # least length in the oldest format
_HEADER_BYTES: Final = 100  # approximate memory of a header

_BaseRecords = fetcher.PartitionRecords
_BaseResult = fetcher.FetchResult


class FetchedBytes:
    """The record batches of a response to a fetch; the last one may be cut short, and is fetched again."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._place = 0

    def size_in_bytes(self) -> int:
        """Size of the response."""
        return len(self._data)

    def has_next(self) -> bool:
        """Whether another whole batch follows."""
        return self._end() is not None

    def next_batch(self) -> memoryview:
        """The next batch's bytes."""
        end = self._end()
        assert end is not None
        batch = self._data[self._place : end]
        self._place = end
        return batch

    def _end(self) -> int | None:
        if len(self._data) - self._place < _OVERHEAD + _LEAST_LENGTH:
            return None
        (length,) = struct.unpack_from(">i", self._data, self._place + _LENGTH_AT)
        end = self._place + _OVERHEAD + max(length, _LEAST_LENGTH)
        return end if end <= len(self._data) else None


class EveryRecord(_BaseRecords):  # type: ignore[misc, valid-type]  # aiokafka has no types
    """The records of a response, among them UnreadableRecords."""

    max_unpacked_bytes = 32 * 1024**2
    refetched: dict[TopicPartition, int] = {}  # noqa: RUF012  offset of the batch whose checksum failed last

    def _unpack_records(self) -> Iterator[Record]:
        """See aiokafka: the same handling of transactions and control batches."""
        while self._records.has_next():
            raw = self._records.next_batch()
            if raw[_MAGIC_AT] < 2:
                yield from self._old_format(raw)
                continue
            reader = BatchReader(self._tp, raw, self.max_unpacked_bytes)
            batch = reader.parsed
            if self._check_crcs and not batch.validate_crc():
                if self.refetched.get(self._tp) != batch.base_offset:
                    # One failure may be the network's; the position stays, so the batch is fetched again.
                    self.refetched[self._tp] = batch.base_offset
                    return
                yield from self._new([reader.whole("its checksum is wrong")])
            elif not self._is_hidden(batch):
                yield from reader.records(self)
            self.next_fetch_offset = batch.next_offset

    def _is_hidden(self, batch: Any) -> bool:
        """Whether a batch holds no records for the reader: a control batch, or one of an aborted transaction."""
        if self._isolation_level == fetcher.READ_COMMITTED and batch.producer_id is not None:
            self._consume_aborted_up_to(batch.base_offset)
            if batch.is_control_batch and self._contains_abort_marker(batch):
                self._aborted_producers.discard(batch.producer_id)
            if batch.is_transactional and batch.producer_id in self._aborted_producers:
                return True
        return bool(batch.is_control_batch)

    def _new(self, records: Any) -> Iterator[Record]:
        """The records from the position on; a batch may begin before it."""
        for record in records:
            if record.offset >= self.next_fetch_offset:
                self.next_fetch_offset = record.offset + 1
                yield record

    def _old_format(self, raw: memoryview) -> Iterator[Record]:
        """A message of format 0 or 1, which brokers before version 4 may still hold."""
        try:
            batch = LegacyRecordBatch(raw, raw[_MAGIC_AT])
            if self._check_crcs and not batch.validate_crc():
                raise ValueError("its checksum is wrong")
            yield from self._new(self._consumer_record(self._tp, record) for record in batch)
            self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)
        except Exception as error:  # the parser in C raises SystemError, too
            (offset,) = struct.unpack_from(">q", raw)
            yield from self._new([unreadable_message(self._tp, raw, offset, str(error))])


class BoundedResult(_BaseResult):  # type: ignore[misc, valid-type]  # aiokafka has no types
    """The records of one partition; a poll takes them in parts of bounded size."""

    def getall(self, max_records: int | None = None) -> list[Record]:
        """At most `max_records` records, and no more once they exceed the size to which a batch may unpack."""
        if not self.check_assignment(self._topic_partition) or not self.has_more():
            return []
        records: list[Record] = []
        left_bytes = EveryRecord.max_unpacked_bytes
        for record in self._partition_records:
            records.append(record)
            left_bytes -= len(record.key or b"") + len(record.value or b"")
            if record.headers:
                left_bytes -= sum(_HEADER_BYTES + len(name) + len(text or b"") for name, text in record.headers)
            if left_bytes <= 0 or (max_records is not None and len(records) >= max_records):
                self._update_position()
                return records
        self._update_position()
        self._partition_records: Any = None
        return records


def read_every_record(max_unpacked_bytes: int) -> None:
    """Install the classes above for all consumers of this process.

    Args:
        max_unpacked_bytes: see settings.
    """
    EveryRecord.max_unpacked_bytes = max_unpacked_bytes
    fetcher.MemoryRecords = FetchedBytes
    fetcher.PartitionRecords = EveryRecord
    fetcher.FetchResult = BoundedResult
