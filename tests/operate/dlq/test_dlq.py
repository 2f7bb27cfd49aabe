"""Dead letters read back as the worker writes them, and records reduced to some of their readings."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode import ARROW_CONTENT_TYPE, Decoder, GroupIndex
from glaim_stream.decode.dead_letters import letters_of
from glaim_stream.operate.dlq.description import describe_letter, value_text
from glaim_stream.operate.dlq.letters import Letter, LetterFilter, place_of, read_letter, read_receipt, receipt
from glaim_stream.operate.dlq.subset import keep_readings
from tests.support import Record, catalogue

ARROW = [("content-type", ARROW_CONTENT_TYPE)]


class Stored(Record):
    """A record with a partition, as a consumer returns it."""

    partition = 3


def letter_of(record: Record, *rejects: Reject) -> Letter:
    (letter,) = letters_of(record, rejects, topic="in", partition=2)
    found = read_letter(Stored(letter.value, 17, letter.key, letter.headers, 99))
    assert found is not None
    return found


def stream(**columns: Any) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_a_letter_is_read_back_as_it_was_written() -> None:
    record = Record(b'{"a": 1}', 5, b"g1", [("trace", b"7"), ("glaim-cause", b"forged"), ("glaim-requeued", b"2")], 42)
    letter = letter_of(
        record,
        Reject(5, DeadLetterCause.OUT_OF_LIMITS, "too hot \ud800", 3),
        Reject(5, DeadLetterCause.UNKNOWN_SENSOR, "who", 1),
    )
    assert letter == replace(
        letter,
        place=(3, 17),
        timestamp_ms=99,
        cause="out-of-limits",
        topic="in",
        partition=2,
        offset=5,
        produced_ms=42,
        positions=[1, 3],
        cut_from_bytes=None,
        requeued=2,
        key=b"g1",
        value=b'{"a": 1}',
        headers=[("trace", b"7")],
    )
    assert letter.group == "g1"
    assert letter_of(record, Reject(5, DeadLetterCause.UNDECODABLE, "x")).positions is None


@pytest.mark.parametrize(
    ("key", "value", "group"),
    [
        (b"g1", b"rubbish", "g1"),
        (None, b'{"group": "g2"}', "g2"),
        (b"\xff", b'{"group": "g2"}', None),
        (None, b'{"group": 3}', None),
        (None, b"[1]", None),
        (None, None, None),
    ],
)
def test_a_letters_group_is_its_key_or_the_group_in_its_json(
    key: bytes | None, value: bytes | None, group: str | None
) -> None:
    assert letter_of(Record(value, 0, key), Reject(0, DeadLetterCause.MALFORMED, "x")).group == group


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("glaim-cause", b"undecodable")],
        [(f"glaim-{name}", b"x") for name in ("cause", "detail", "topic", "partition", "offset", "timestamp-ms")],
    ],
)
def test_other_records_are_not_letters(headers: list[tuple[str, bytes]]) -> None:
    assert read_letter(Stored(b"x", 0, None, headers)) is None


def test_receipts_name_letters_and_are_not_letters() -> None:
    value, headers = receipt([(0, 3), (1, 4)])
    assert read_receipt(Stored(value, 0, None, headers)) == [(0, 3), (1, 4)]
    assert read_letter(Stored(value, 0, None, headers)) is None
    assert read_receipt(Stored(b"rubbish", 0, None, headers)) == []
    assert read_receipt(Stored(value, 0, None, [])) is None


def test_a_filter_matches_the_letters_that_it_describes() -> None:
    letter = letter_of(Record(b"x", 0, b"g1"), Reject(0, DeadLetterCause.MALFORMED, "x"))
    matching = [
        LetterFilter(),
        LetterFilter(causes=["malformed", "future"]),
        LetterFilter(groups=["g1"], since_ms=99, until_ms=100),
        LetterFilter(places=[(3, 17)]),
    ]
    others = [
        LetterFilter(causes=["future"]),
        LetterFilter(groups=["g2"]),
        LetterFilter(since_ms=100),
        LetterFilter(until_ms=99),
        LetterFilter(places=[(3, 18)]),
    ]
    assert [each.matches(letter) for each in matching] == [True] * 4
    assert [each.matches(letter) for each in others] == [False] * 5
    with pytest.raises(SettingsError, match=r"expected a cause of .*undecodable.*, found many"):
        LetterFilter(causes=["many"])


def test_a_place_is_a_partition_and_an_offset() -> None:
    assert place_of("3:17") == (3, 17)
    for text in ("3", "3:", "a:1", "-1:3", ""):
        with pytest.raises(SettingsError, match="expected a letter as PARTITION:OFFSET"):
            place_of(text)


RECORDS: list[tuple[str, bytes, list[tuple[str, bytes]], int]] = [
    (
        "many readings",
        json.dumps(
            {
                "group": "g1",
                "more": 1,
                "readings": [{"sensor": f"s{n % 2}", "ts": 1000 * n, "value": n + 0.1} for n in range(4)],
            }
        ).encode(),
        [],
        4,
    ),
    ("one step", b'{"group": "g1", "ts": 1000, "values": {"s0": NaN, "s1": 1e300, "s0": 7.25}}', [], 2),
    ("one reading", b'{"group": "g1", "ts": 1000, "sensor": "s0", "value": 7.25}', [], 1),
    (
        "long Arrow",
        stream(group=["g1"] * 4, sensor=["s0", "s1", "s0", "s1"], ts=[1, 2, 3, 4], value=[1.5, None, 2.5, 3.5]),
        ARROW,
        4,
    ),
    ("wide Arrow", stream(ts=[1, 2], s0=[1.5, None], s1=pa.array([1, 2], pa.int16())), ARROW, 4),
]


def readings_of(value: bytes, headers: list[tuple[str, bytes]]) -> list[tuple[int, int, str]]:
    index = GroupIndex(catalogue())
    readings, rejects = Decoder(index).decode([Record(value, 0, b"g1", headers)], now_ms=10_000)
    found = [
        (int(sensor), int(time), f"{number:.4g}")
        for sensor, time, number in zip(readings.sensor, readings.event_time_ms, readings.value, strict=True)
    ]
    return found + [(-1, 0, reject.cause.value) for reject in rejects]


@pytest.mark.parametrize(
    ("value", "headers", "count"), [each[1:] for each in RECORDS], ids=[each[0] for each in RECORDS]
)
def test_a_reduced_record_decodes_to_only_the_kept_readings(
    value: bytes, headers: list[tuple[str, bytes]], count: int
) -> None:
    whole = sorted(readings_of(value, headers))
    assert len(whole) == count
    alone = [readings_of(keep_readings(value, headers, [position]), headers) for position in range(count)]
    assert [len(each) for each in alone] == [1] * count
    assert sorted(each[0] for each in alone) == whole
    pairs = readings_of(keep_readings(value, headers, [0, count - 1]), headers)
    assert sorted(pairs) == sorted({0: alone[0][0], count - 1: alone[-1][0]}.values())
    assert keep_readings(value, headers, range(count)) == value, "a record that keeps all readings is unchanged"


@pytest.mark.parametrize(
    ("value", "headers"),
    [(b"rubbish", []), (b"[1]", []), (b'{"readings": [1]}', []), (b"rubbish", ARROW), (stream(a=[1]), ARROW)],
)
def test_a_record_that_cannot_be_reduced_stays_unchanged(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    assert keep_readings(value, headers, [7, 9]) == value


def test_values_are_shown_according_to_their_format() -> None:
    assert '\n  "a": 1\n' in value_text(b'{"a":1}', [])
    assert value_text(b"plain", []) == "plain"
    assert value_text(b"two\nlines", []) == r"'two\nlines'"
    assert value_text(b"\xff\x00", []).startswith("00000000  ff 00")
    assert "'sensor': 's1'" in value_text(stream(sensor=["s1"]), ARROW)
    assert "out of range" in value_text(stream(ts=pa.array([-(2**62)], pa.timestamp("ms", "UTC"))), ARROW)
    assert value_text(b"ab", ARROW).startswith("00000000  61 62")
    assert "more characters" in value_text(b"x" * 9000, [])
    assert "more bytes" in value_text(b"\xff" * 9000, [])


def test_a_plain_letter_is_described_line_by_line() -> None:
    letter = letter_of(Record(b"[1]", 5, None, [("trace", b"\xff")], -1), Reject(5, DeadLetterCause.MALFORMED, "x"))
    assert list(describe_letter(letter, "in-dlq", "in", whole=b"[1]", held=True, sent_back=False)) == [
        "in-dlq 3:17, written 1970-01-01T00:00:00.099Z",
        "cause      malformed: x",
        "original   in 2:5, produced at an unknown time; the input topic still holds it",
        "key        none",
        "header     trace: ff",
        "value      3 bytes",
        "[\n  1\n]",
    ]
    assert (
        list(describe_letter(letter, "in-dlq", "in", whole=None, held=True, sent_back=False))[-1] == "value      none"
    )


def test_the_description_of_a_cut_letter_states_where_the_rest_is() -> None:
    letter = letter_of(Record(b"ab", 5, b"g", [], 0), Reject(5, DeadLetterCause.MALFORMED, "x", 4))
    cut = replace(letter, cut_from_bytes=70)
    lines = list(describe_letter(cut, "in-dlq", "in", whole=b"ab", held=True, sent_back=False))
    assert lines[2] == "original   in 2:5, produced 1970-01-01T00:00:00Z; the input topic still holds it"
    assert lines[3] == "readings   4 of the record, counted from 0"
    assert lines[4].endswith("holds only 2 of 70 bytes; the rest is from the input topic")


def test_long_values_are_cut_at_a_limit() -> None:
    assert value_text(b"x" * 4000, []) == "x" * 4000
    assert value_text(b"x" * 4001, []) == "x" * 4000 + "... (1 more characters)"
    assert value_text(b"\xff" * 512, []).splitlines()[-1].startswith("000001f0  ff ff")
    assert value_text(b"\xff" * 513, []).splitlines()[-1] == "... (1 more bytes)"
    assert len(value_text(b"\xff" * 513, []).splitlines()) == 33
    assert value_text(stream(n=list(range(101))), ARROW).splitlines()[-1] == "{'n': 99}"


@pytest.mark.parametrize(("text", "times"), [(b"0", 0), (b"7", 7), (b"-1", 0), (b"9" * 9, 999_999_999), (b"1" * 10, 0)])
def test_an_invalid_count_is_zero(text: bytes, times: int) -> None:
    record = Record(b"x", 0, None, [("glaim-requeued", text)])
    assert letter_of(record, Reject(0, DeadLetterCause.MALFORMED, "x")).requeued == times


def test_a_letter_is_described_with_all_known_details() -> None:
    letter = letter_of(
        Record(b"\xff", 5, b"g1", [("glaim-requeued", b"1")], 42), Reject(5, DeadLetterCause.MALFORMED, "x", 0)
    )
    cut = replace(letter, cut_from_bytes=70, late_by_ms=[90_000])
    text = "\n".join(describe_letter(cut, "in-dlq", "in", whole=None, held=False, sent_back=True))
    for part in (
        "in-dlq 3:17",
        "in 2:5",
        "no longer holds",
        "late by    90 s",
        "1 of 70 bytes",
        "gone",
        "back 1 times",
    ):
        assert part in text
    assert "this letter has been sent back" in text


def test_nothing_that_a_producer_wrote_reaches_the_terminal_as_a_command() -> None:
    hostile = "\x1b]0;mine\x07\x9b2J\u202e\r\n"
    record = Record(json.dumps({hostile: hostile}, ensure_ascii=False).encode(), 5, hostile.encode(), [], 0)
    letter = letter_of(record, Reject(5, DeadLetterCause.MALFORMED, hostile))
    letter = replace(letter, cause=hostile, topic=hostile, headers=[(hostile, hostile.encode())])
    lines = list(describe_letter(letter, "in-dlq", "in", whole=record.value, held=False, sent_back=False))
    assert all(char.isprintable() or char == "\n" for line in lines for char in line)
    assert all("\n" not in line for line in lines[:-1]), "no header can pretend to be another line"
    shown = r"\x1b]0;mine\x07\x9b2J\u202e\r\n"
    assert f"key        {shown}" in lines
    assert f"header     {shown}: {shown}" in lines
    arrow = stream(**{hostile: [hostile], "ts": pa.array([-(2**62)], pa.timestamp("ms", "UTC"))})
    (*_, value) = describe_letter(
        replace(letter, headers=ARROW), "in-dlq", "in", whole=arrow, held=False, sent_back=False
    )
    assert all(char.isprintable() or char in "\n\t" for char in value)


def test_an_original_of_another_topic_is_not_looked_up() -> None:
    letter = replace(letter_of(Record(b"x", 5), Reject(5, DeadLetterCause.MALFORMED, "x")), topic="payroll")
    lines = list(describe_letter(letter, "in-dlq", "in", whole=b"x", held=False, sent_back=False))
    assert lines[2].startswith("original   payroll 2:5, ")
    assert lines[2].endswith("; not looked up, since the input topic is in")


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "headers",
    [
        {"positions": b"[Infinity]"},
        {"positions": DEEP},
        {"late-by-ms": b'{"0": Infinity}'},
        {"late-by-ms": DEEP},
        {"offset": b"9" * 30},
        {"partition": b"9" * 5000},
        {"timestamp-ms": str(2**63).encode()},
    ],
    ids=str,
)
def test_headers_that_no_worker_writes_make_no_letter(headers: dict[str, bytes]) -> None:
    (letter,) = letters_of(Record(b"x", 5), [Reject(5, DeadLetterCause.MALFORMED, "x", 0)], topic="in", partition=2)
    names = {f"glaim-{name}" for name in headers}
    kept = [header for header in letter.headers if header[0] not in names]
    forged = [(f"glaim-{name}", text) for name, text in headers.items()]
    assert read_letter(Stored(b"x", 17, None, [*kept, *forged], 99)) is None


def test_numbers_of_any_size_are_described() -> None:
    letter = letter_of(Record(b"x", 5), Reject(5, DeadLetterCause.MALFORMED, "x"))
    huge = replace(letter, late_by_ms=[10**400, 1_499, 1_500], produced_ms=2**63 - 1)
    text = "\n".join(describe_letter(huge, "in-dlq", "in", whole=None, held=True, sent_back=False))
    assert f"late by    {10**397} s, 1 s, 2 s" in text


@pytest.mark.parametrize("value", [b'{"requeued": [[Infinity, 1]]}', DEEP, b'{"requeued": 1}', b"x"])
def test_a_receipt_that_cannot_be_read_names_no_letter(value: bytes) -> None:
    assert read_receipt(Stored(value, 1, None, receipt([])[1], 0)) == []
