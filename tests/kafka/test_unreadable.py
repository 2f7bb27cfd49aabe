"""What aiokafka's fetcher delivers with our classes in it, and what they rely on in aiokafka, pinned."""

import gzip
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.consumer import fetcher
from aiokafka.structs import TopicPartition

from glaim_stream.decode import UnreadableRecord
from glaim_stream.kafka import unreadable
from glaim_stream.kafka.unreadable import BoundedResult, EveryRecord, FetchedBytes, read_every_record
from tests.kafka.batches import GZIP, batch, record
from tests.worker.test_faust_internals import fingerprint

TP = TopicPartition("in", 0)


@pytest.fixture(autouse=True)
def _no_earlier_failures() -> Iterator[None]:
    EveryRecord.refetched.clear()
    yield
    EveryRecord.max_unpacked_bytes = 32 * 1024**2


def fetched(data: bytes, position: int = 0, *, level: int = fetcher.READ_COMMITTED) -> EveryRecord:
    return EveryRecord(TP, FetchedBytes(data), [], position, None, None, True, level)


class State:
    """The position of a partition, as aiokafka keeps it."""

    paused = False

    def __init__(self, position: int) -> None:
        self.position = position

    def consumed_to(self, position: int) -> None:
        self.position = position


class Assignment:
    active = True

    def __init__(self, position: int = 0) -> None:
        self.state = State(position)

    def state_value(self, tp: Any) -> State:
        return self.state


@pytest.mark.parametrize(
    ("function", "pinned"),
    [
        (unreadable._BaseRecords._unpack_records, "199c30888a42"),
        (unreadable._BaseRecords.__init__, "409daf855462"),
        (unreadable._BaseResult.getall, "dab3256df06c"),
        (fetcher.Fetcher._proc_fetch_request, "67dcfef648ec"),
        (fetcher.Fetcher.fetched_records, "e0c2abb93915"),
    ],
)
def test_what_is_overridden_is_as_it_was(function: Any, pinned: str) -> None:
    assert fingerprint(function) == pinned


def test_the_fetcher_looks_the_three_classes_up_in_its_module() -> None:
    read_every_record(5_000_000)
    assert (fetcher.MemoryRecords, fetcher.PartitionRecords, fetcher.FetchResult) == (
        FetchedBytes,
        EveryRecord,
        BoundedResult,
    )
    assert EveryRecord.max_unpacked_bytes == 5_000_000
    source = inspect.getsource(fetcher.Fetcher)
    assert all(f"{name}(" in source for name in ("MemoryRecords", "PartitionRecords", "FetchResult"))


def test_batches_follow_each_other_and_a_cut_one_is_left_for_the_next_fetch() -> None:
    first = batch([record(0, b"a"), record(1, b"b")], base_offset=5)
    second = batch([record(0, b"c")], base_offset=7)
    records = fetched(first + second + first[:40], position=6)
    assert [(each.offset, each.value) for each in records] == [(6, b"b"), (7, b"c")]
    assert records.next_fetch_offset == 8


def test_an_unreadable_batch_moves_the_position_past_itself() -> None:
    bad = batch([b""] * 4, attributes=GZIP, body=b"rubbish", base_offset=5)
    records = fetched(bad + batch([record(0, b"c")], base_offset=9), position=6)
    first, last = records
    assert isinstance(first, UnreadableRecord)
    assert (first.offset, last.value, records.next_fetch_offset) == (8, b"c", 10)


def test_a_wrong_checksum_is_fetched_again_once_and_then_unreadable() -> None:
    data = bytearray(batch([record(0, b"a"), record(1, b"b")], base_offset=5))
    data[-3] ^= 1
    once = fetched(bytes(data), position=5)
    assert (list(once), once.next_fetch_offset) == ([], 5)
    (found,) = list(fetched(bytes(data), position=5))
    assert isinstance(found, UnreadableRecord)
    assert (found.first_offset, found.offset, found.reason) == (5, 6, "its checksum is wrong")


def test_control_batches_and_aborted_transactions_stay_hidden() -> None:
    marker = batch([record(0, b"\0\0\0\0\0\0", key=b"\0\0\0\1")], attributes=0x30, base_offset=5)
    records = fetched(marker + batch([record(0, b"c")], base_offset=6), position=5)
    assert [each.value for each in records] == [b"c"]


def test_a_damaged_message_of_an_old_format_is_unreadable() -> None:
    old = bytearray(batch([record(0, b"a")], base_offset=5))
    old[16] = 1
    records = fetched(bytes(old) + batch([record(0, b"c")], base_offset=6), position=5)
    first, last = records
    assert isinstance(first, UnreadableRecord)
    assert (first.offset, last.offset) == (5, 6)


def test_a_poll_ends_once_its_records_exceed_the_limit() -> None:
    EveryRecord.max_unpacked_bytes = 3_000_000
    records = [record(place, bytes(100_000)) for place in range(25)]
    data = batch([b""] * 25, attributes=GZIP, body=gzip.compress(b"".join(records)))
    assignment = Assignment()
    result = BoundedResult(TP, assignment=assignment, partition_records=fetched(data * 1), backoff=0)
    assert len(result.getall(1000)) == 25
    EveryRecord.max_unpacked_bytes = 1_000_000
    headed = [record(place, b"v", headers=[(b"", b"")] * 1000) for place in range(25)]
    assignment = Assignment()
    result = BoundedResult(TP, assignment=assignment, partition_records=fetched(batch(headed)), backoff=0)
    sizes = []
    while result.has_more():
        sizes.append(len(result.getall(1000)))
    assert sizes == [10, 10, 5]
    assert assignment.state.position == 25
