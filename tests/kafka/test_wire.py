"""Batches of every codec are read, damaged records are named, and the records after them are read on."""

import random
import struct
import tracemalloc

import pytest
from aiokafka.structs import TopicPartition

from glaim_stream.decode import UnreadableRecord
from glaim_stream.kafka.record_fields import MAX_HEADERS
from glaim_stream.kafka.wire import BatchReader, Record
from tests.kafka.batches import GZIP, PACK, batch, fields, record, sized, varint

TP = TopicPartition("in", 3)
LIMIT = 4 << 20


class Position:
    next_fetch_offset = 0


def read(data: bytes, limit_bytes: int = LIMIT) -> list[Record]:
    return list(BatchReader(TP, memoryview(data), limit_bytes).records(Position()))


def described(records: list[Record]) -> list[tuple[int, int, str]]:
    """(first offset, last offset, value or what is wrong) of each."""
    return [
        (each.first_offset, each.offset, each.reason)
        if isinstance(each, UnreadableRecord)
        else (each.offset, each.offset, (each.value or b"").decode(errors="replace"))
        for each in records
    ]


@pytest.mark.parametrize("codec", PACK)
def test_a_batch_of_every_codec_is_read(codec: str) -> None:
    attributes, pack = PACK[codec]
    records = [record(place, b"v" * (place % 50), key=b"k", headers=[(b"h", None)]) for place in range(3000)]
    found = read(batch(records, attributes=attributes, body=pack(b"".join(records)), base_offset=70))
    assert [each.offset for each in found] == list(range(70, 3070))
    assert (found[2].topic, found[2].partition, found[2].key, found[2].value) == ("in", 3, b"k", b"vv")
    assert list(found[2].headers) == [("h", None)]


@pytest.mark.parametrize("codec", PACK)
def test_a_batch_that_does_not_unpack_is_one_unreadable_record_with_its_bytes(codec: str) -> None:
    attributes, pack = PACK[codec]
    body = pack(b"".join(record(place, b"value %d" % place) for place in range(300)))
    for damaged in (body[: len(body) // 2], b"", b"rubbish" * 9, body[:30] + b"\xff" * 20 + body[50:]):
        data = batch([b""] * 300, attributes=attributes, body=damaged, base_offset=70)
        found = read(data)
        assert all(isinstance(each, UnreadableRecord) for each in found)
        assert (described(found)[0][0], described(found)[-1][1]) == (70, 369)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    data = batch([record(0, b"a")], attributes=codec)
    (found,) = read(data)
    assert isinstance(found, UnreadableRecord)
    assert (found.reason, found.value) == (f"codec {codec} is unknown", data)


@pytest.mark.parametrize("codec", PACK)
def test_a_body_above_the_limit_is_refused_before_it_takes_memory(codec: str) -> None:
    attributes, pack = PACK[codec]
    body = pack(record(0, bytes(24 << 20)))
    data = batch([b""], attributes=attributes, body=body)
    tracemalloc.start()
    try:
        (found,) = read(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(found, UnreadableRecord)
    assert f"unpacks to more than the limit of {LIMIT} bytes" in found.reason
    assert peak < 8 * LIMIT


def test_a_snappy_block_that_claims_a_large_size_is_refused() -> None:
    (found,) = read(batch([b""], attributes=2, body=b"\xff\xff\xff\xff\x07abc"))
    assert isinstance(found, UnreadableRecord)
    assert f"unpacks to more than the limit of {LIMIT} bytes" in found.reason


def test_a_header_whose_name_is_not_utf8_costs_one_record() -> None:
    bad = record(1, b"b", key=b"k", headers=[(b"ok", b"1"), (b"\xff\xfe", b"2")])
    found = read(batch([record(0, b"a"), bad, record(2, b"c")], base_offset=7))
    assert described(found) == [(7, 7, "a"), (8, 8, "the name of header 1 is not UTF-8: \\xff\\xfe"), (9, 9, "c")]
    assert (found[1].key, found[1].value) == (b"k", b"b")
    assert list(found[1].headers)[:2] == [("ok", b"1"), ("\\xff\\xfe", b"2")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (sized(fields(1, b"b", count=-1)), "-1 headers"),
        (sized(fields(1, b"b", count=10**6)), "1000000 headers"),
        (sized(fields(1, b"b", count=3)), "cut short"),
        (sized(fields(1, b"b") + b"more"), "4 bytes follow the last header"),
        (sized(b"\0" + varint(0) + varint(1) + varint(-1) + varint(10**6)), "a value of 1000000 bytes"),
        (sized(b"\0" + varint(0) + varint(1) + varint(-7)), "a key of -7 bytes"),
        (sized(b"\0" + b"\xff" * 12), "more than 64 bits"),
        (sized(b""), "cut short"),
        (sized(fields(1, b"b", headers=[(b"", b"")], count=1)[:-2] + varint(-1)), "has no name"),
        (record(0, b"b"), "it states the offset 7"),
        (record(2**30, b"b"), "it states the offset 1073741831"),
        (record(-9, b"b"), "it states the offset -2"),
    ],
)
def test_a_damaged_record_costs_itself_alone(bad: bytes, reason: str) -> None:
    first, unreadable, last = read(batch([record(0, b"a"), bad, record(2, b"c")], base_offset=7))
    assert isinstance(unreadable, UnreadableRecord)
    assert (first.value, last.value) == (b"a", b"c")
    assert (first.offset, unreadable.first_offset, unreadable.offset, last.offset) == (7, 8, 8, 9)
    assert reason in unreadable.reason


@pytest.mark.parametrize("bad", [varint(10**6), varint(-5), b"\xff" * 11, b"\x80"])
def test_a_lost_boundary_costs_the_rest_of_the_batch(bad: bytes) -> None:
    found = read(batch([record(0, b"a"), bad + b"rest", record(2, b"c")], base_offset=7))
    assert [each[:2] for each in described(found)] == [(7, 7), (8, 9)]


def test_a_batch_with_fewer_records_than_it_counts_leaves_no_offset_out() -> None:
    assert [each[:2] for each in described(read(batch([record(0, b"a")], count=4, base_offset=7)))] == [(7, 7), (8, 10)]


def test_a_compacted_batch_keeps_its_offsets() -> None:
    data = bytearray(batch([record(2, b"a"), record(5, b"b")], base_offset=7))
    struct.pack_into(">i", data, 23, 9)  # the last offset of a batch stays when its records go
    assert described(read(bytes(data))) == [(9, 9, "a"), (12, 12, "b")]


def test_a_record_with_too_many_headers_is_unreadable_whatever_its_size() -> None:
    for count in (MAX_HEADERS + 1, 600_000):
        many = record(0, b"v", headers=[(b"", b"")] * count)
        attributes, pack = PACK["gzip"]
        first, last = read(batch([many, record(1, b"c")], attributes=attributes, body=pack(many + record(1, b"c"))))
        assert isinstance(first, UnreadableRecord)
        assert (first.value, first.reason) == (b"v", f"{count} headers, where at most {MAX_HEADERS} are read")
        assert last.value == b"c"


def test_a_large_record_with_few_headers_is_read() -> None:
    large = record(0, b"v" * (3 << 20), headers=[(b"h", b"x")])
    (found,) = read(batch([large]))
    assert (len(found.value or b""), list(found.headers)) == (3 << 20, [("h", b"x")])


@pytest.mark.parametrize("packed", [False, True])
def test_whatever_bytes_change_every_offset_is_answered_once(packed: bool) -> None:
    rng = random.Random(4)
    for _ in range(500):
        body = bytearray(
            b"".join(
                record(place, b"v" * rng.randrange(30), key=b"k", headers=[(b"h", b"x"), (b"content-type", b"y")])
                for place in range(5)
            )
        )
        for _ in range(rng.randrange(1, 4)):
            body[rng.randrange(len(body))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        content = PACK["gzip"][1](bytes(body)) if packed else bytes(body)
        found = read(batch([b""] * 5, attributes=GZIP if packed else 0, body=content, base_offset=100))
        covered = [offset for first, last, _ in described(found) for offset in range(first, last + 1)]
        assert covered == list(range(100, 105)), bytes(body)
