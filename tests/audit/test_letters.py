"""Dead letters: collected by partition and checked for completeness."""

from __future__ import annotations

import numpy as np

from glaim_stream.audit.letters import Letters, check_letters, collect_letter
from glaim_stream.audit.report import Findings, Offence
from glaim_stream.decode.dead_letters import DeadLetterCause, Reject
from tests.audit.tables import COLUMNS, G1, STEP_MS, readings
from tests.support import Record


def check(letters: Letters, *rejects: Reject, committed: int = 10, late: int = 0, examples: int = 5) -> Findings:
    too_late = readings(*[(G1, 1, STEP_MS, 1.0)] * late, offset=range(40, 40 + late))
    return check_letters(
        letters, rejects, too_late, partition=3, committed=committed, columns=COLUMNS, examples=examples
    )


def reject(offset: int, position: int | None = None) -> Reject:
    return Reject(offset, DeadLetterCause.MALFORMED, "x", position)


def test_a_reject_below_the_commit_needs_a_letter() -> None:
    found = check(Letters(), reject(9), reject(10))
    assert found.counts == {"rejected": 2, "dead_letters": 0}
    assert found.problems["missing_dead_letters"].count == 1
    assert found.problems["missing_dead_letters"].first == [Offence(3, offset=9, detail="malformed: x")]
    assert check(Letters({9: "x"}), reject(9)).problems["missing_dead_letters"].count == 0


def test_a_letter_with_positions_holds_only_those_readings() -> None:
    letters = Letters(single={(9, 0): "x", (9, 2): "x"})
    assert letters.holds(np.array([9, 9, 9, 9, 8]), np.array([0, 1, 2, -1, 2])).tolist() == [
        True, False, True, False, False,
    ]  # fmt: skip
    found = check(letters, reject(9, 0), reject(9, 1), reject(9, 2))
    assert found.counts == {"rejected": 3, "dead_letters": 2}
    assert found.problems["missing_dead_letters"].count == 1


def test_a_letter_without_positions_holds_all_readings_of_its_record() -> None:
    assert Letters({9: "x"}, {(8, 1): "x"}).holds(np.array([9, 9, 8]), np.array([-1, 5, 1])).all()
    assert len(Letters({9: "x"}, {(8, 1): "x", (8, 2): "x"})) == 3


def test_a_large_position_does_not_match_the_next_record() -> None:
    assert not Letters(single={(9, 1 << 23): "x"}).holds(np.array([10, 9]), np.array([0, 0])).any()


def test_readings_that_arrived_too_late_need_letters() -> None:
    found = check(Letters(), reject(1), late=2).problems["missing_dead_letters"]
    assert found.count == 3
    assert found.first[1:] == [
        Offence(3, "g1", "b", STEP_MS, 40, "too late for its window"),
        Offence(3, "g1", "b", STEP_MS, 41, "too late for its window"),
    ]


def test_examples_are_limited() -> None:
    found = check(Letters(), reject(1), reject(2), reject(3), late=3, examples=2).problems["missing_dead_letters"]
    assert (found.count, [each.offset for each in found.first]) == (6, [1, 2])
    found = check(Letters(), reject(1), late=3, examples=3).problems["missing_dead_letters"]
    assert (found.count, [each.offset for each in found.first]) == (4, [1, 40, 41])


def header(**changes: str | None) -> Record:
    texts = {"topic": "in", "partition": "2", "offset": "5", "cause": "malformed"} | changes
    return Record(b"x", 0, None, [(f"glaim-{name}", text.encode()) for name, text in texts.items() if text is not None])


def test_letters_are_collected_by_the_partition_of_their_record() -> None:
    letters: dict[int, Letters] = {}
    assert collect_letter(header(), letters, topic="in")
    assert collect_letter(header(offset="6", positions="[3, 1]"), letters, topic="in")
    assert collect_letter(header(partition="0", offset="7"), letters, topic="in")
    assert letters == {
        2: Letters({5: "malformed"}, {(6, 3): "malformed", (6, 1): "malformed"}),
        0: Letters({7: "malformed"}),
    }


def test_other_messages_are_rejected_and_receipts_are_skipped() -> None:
    letters: dict[int, Letters] = {}
    for other in (header(topic="out"), header(topic=None), header(offset="many"), header(cause=None)):
        assert not collect_letter(other, letters, topic="in")
    assert collect_letter(Record(b"x", 0, None, [("glaim-receipt", b"requeued")]), letters, topic="in")
    assert letters == {}
