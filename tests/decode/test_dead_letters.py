"""Dead letters contain the original record and the reason."""

import json

from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.decode.dead_letters import (
    MAX_DETAIL_CHARS,
    DeadLetter,
    dead_letters,
    key_text,
    letters_of,
    positions_of,
)
from tests.support import Record, header


def dead_letter(record: Record, rejects: list[Reject], *, topic: str, partition: int) -> DeadLetter:
    (letter,) = letters_of(record, rejects, topic=topic, partition=partition)
    return letter


def positions(letter: DeadLetter) -> list[int]:
    found = positions_of(letter.headers)
    assert found is not None
    return found.tolist()


RECORD = Record(b"\xff value", 7, b"key", [("content-type", b"x"), ("glaim-cause", b"older")], 1234)


def test_a_letter_contains_the_original_record_and_the_reason() -> None:
    letter = dead_letter(RECORD, [Reject(7, DeadLetterCause.UNDECODABLE, "not JSON")], topic="in", partition=3)
    assert (letter.key, letter.value) == (b"key", b"\xff value")
    assert letter.headers == [
        ("content-type", b"x"),
        ("glaim-cause", b"undecodable"),
        ("glaim-detail", b"not JSON"),
        ("glaim-topic", b"in"),
        ("glaim-partition", b"3"),
        ("glaim-offset", b"7"),
        ("glaim-timestamp-ms", b"1234"),
    ]
    assert positions_of(letter.headers) is None


def test_single_readings_are_identified_by_their_positions() -> None:
    rejects = [Reject(7, DeadLetterCause.FUTURE, "a", 4), Reject(7, DeadLetterCause.TOO_LATE, "b", 1)]
    letter = dead_letter(RECORD, [*rejects, rejects[0]], topic="in", partition=0)
    assert header(letter.headers, "glaim-cause") == "future"
    assert positions(letter) == [1, 4]


def test_a_reject_of_the_whole_record_overrides_single_readings() -> None:
    rejects = [Reject(7, DeadLetterCause.FUTURE, "a", 4), Reject(7, DeadLetterCause.PROCESSING, "b")]
    assert positions_of(dead_letter(RECORD, rejects, topic="in", partition=0).headers) is None


def test_readings_that_are_too_late_go_to_a_separate_topic_with_their_lateness() -> None:
    rejects = [
        Reject(7, DeadLetterCause.TOO_LATE, "a", 4, late_by_ms=9_000),
        Reject(8, DeadLetterCause.MALFORMED, "b", 0),
        Reject(7, DeadLetterCause.FUTURE, "c", 2),
        Reject(7, DeadLetterCause.TOO_LATE, "d", 0, late_by_ms=7_000),
    ]
    other = Record(b"other", 8, None, [], 1)
    rejected, late, last = dead_letters([RECORD, other, Record(b"good", 9)], rejects, topic="in", partition=3)
    assert [(letter.value, letter.late) for letter in (rejected, late, last)] == [
        (RECORD.value, False),
        (RECORD.value, True),
        (b"other", False),
    ]
    assert [positions(rejected), positions(late), positions(last)] == [[2], [0, 4], [0]]
    assert header(late.headers, "glaim-cause") == "too-late"
    assert json.loads(header(late.headers, "glaim-late-by-ms") or "") == {"4": 9_000, "0": 7_000}
    assert header(rejected.headers, "glaim-late-by-ms") is None


def test_a_letter_keeps_the_requeue_count_of_its_record() -> None:
    record = Record(b"", 7, None, [("glaim-requeued", b"2"), ("glaim-receipt", b"x"), ("glaimed", b"y")], 1)
    letter = dead_letter(record, [Reject(7, DeadLetterCause.FUTURE, "a", 4)], topic="in", partition=0)
    assert letter.headers[:2] == [("glaim-requeued", b"2"), ("glaimed", b"y")]
    assert header(letter.headers, "glaim-receipt") is None


def test_positions_are_listed_once_and_ascending() -> None:
    rejects = [Reject(7, DeadLetterCause.FUTURE, "a", place) for place in (10, 9, 0, 9)]
    letter = dead_letter(RECORD, rejects, topic="in", partition=0)
    assert header(letter.headers, "glaim-positions") == "[0, 9, 10]"
    assert not letter.late


def test_without_rejects_there_are_no_letters() -> None:
    assert dead_letters([RECORD], [], topic="in", partition=0) == []


def test_an_empty_or_undecodable_key_is_none() -> None:
    assert [key_text(Record(b"", 0, key)) for key in (b"g0", b"", None, b"\xff")] == ["g0", None, None, None]


def test_the_length_of_a_detail_is_limited() -> None:
    letter = dead_letter(RECORD, [Reject(7, DeadLetterCause.MALFORMED, "x" * 10**6)], topic="in", partition=0)
    assert len(header(letter.headers, "glaim-detail") or "") == MAX_DETAIL_CHARS


def test_a_detail_that_cannot_be_encoded_does_not_raise() -> None:
    letter = dead_letter(RECORD, [Reject(7, DeadLetterCause.MALFORMED, "\ud800")], topic="in", partition=0)
    assert header(letter.headers, "glaim-detail")


def test_a_requeued_letter_loses_its_older_reason() -> None:
    once = dead_letter(RECORD, [Reject(7, DeadLetterCause.FUTURE, "a", 4)], topic="in", partition=0)
    again = Record(once.value, 9, once.key, once.headers, 5)
    twice = dead_letter(again, [Reject(9, DeadLetterCause.UNDECODABLE, "b")], topic="in", partition=0)
    assert [name for name, _ in twice.headers].count("glaim-cause") == 1
    assert positions_of(twice.headers) is None
    assert json.loads(header(once.headers, "glaim-positions") or "") == [4]
