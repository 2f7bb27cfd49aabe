"""Dead letters: sorted by record, and checked for completeness."""

from collections.abc import Iterator

import numpy as np
import pytest

from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.operate.audit.letters import Letters, LetterTable, missing_late, missing_rejects
from glaim_stream.operate.audit.report import Finding, Offence
from glaim_stream.operate.database import Database, database
from tests.operate.audit.tables import COLUMNS, G1, STEP_MS, readings
from tests.support import Record


def letters(whole: list[int] | None = None, single: list[tuple[int, int]] | None = None) -> Letters:
    places = np.array(single or [], np.int64).reshape(-1, 2)
    return Letters(np.array(whole or [], np.int64), (places[:, 0], places[:, 1]))


def reject(offset: int, position: int | None = None) -> Reject:
    return Reject(offset, DeadLetterCause.MALFORMED, "x", position)


def missing(given: Letters, *rejects: Reject, examples: int = 5) -> Finding:
    return missing_rejects(given, rejects, partition=3, examples=examples)


def test_a_reject_needs_a_letter() -> None:
    found = missing(letters(), reject(9))
    assert found == Finding(1, [Offence(3, offset=9, detail="malformed: x")])
    assert missing(letters([9]), reject(9)).count == 0
    assert missing(letters([9])).count == 0


def test_a_letter_with_positions_holds_only_those_readings() -> None:
    given = letters(single=[(9, 0), (9, 2)])
    assert given.holds(np.array([9, 9, 9, 9, 8]), np.array([0, 1, 2, -1, 2])).tolist() == [
        True, False, True, False, False,
    ]  # fmt: skip
    assert missing(given, reject(9, 0), reject(9, 1), reject(9, 2)).count == 1


def test_a_letter_without_positions_holds_all_readings_of_its_record() -> None:
    assert letters([9], [(8, 1)]).holds(np.array([9, 9, 8]), np.array([-1, 5, 1])).all()


def test_a_large_position_does_not_match_the_next_record() -> None:
    assert not letters(single=[(9, 1 << 23)]).holds(np.array([10, 9]), np.array([0, 0])).any()


def test_readings_that_arrived_too_late_are_offences() -> None:
    late = readings(*[(G1, 1, STEP_MS, 1.0)] * 2, offset=(40, 41))
    assert missing_late(late, partition=3, columns=COLUMNS, examples=5) == Finding(
        2,
        [
            Offence(3, "g1", "b", STEP_MS, 40, "too late for its window"),
            Offence(3, "g1", "b", STEP_MS, 41, "too late for its window"),
        ],
    )


def test_examples_are_limited() -> None:
    found = missing(letters(), reject(1), reject(2), reject(3), examples=2)
    assert (found.count, [each.offset for each in found.first]) == (3, [1, 2])
    late = readings(*[(G1, 1, STEP_MS, 1.0)] * 3, offset=(40, 41, 42))
    found = missing_late(late, partition=3, columns=COLUMNS, examples=1)
    assert (found.count, [each.offset for each in found.first]) == (3, [40])


@pytest.fixture
def own() -> Iterator[Database]:
    with database(None) as made:
        yield made


def header(**changes: str | None) -> Record:
    texts = {"topic": "in", "partition": "2", "offset": "5", "cause": "malformed"} | changes
    return Record(b"x", 0, None, [(f"glaim-{name}", text.encode()) for name, text in texts.items() if text is not None])


def places(found: Letters) -> tuple[list[int], list[tuple[int, int]]]:
    return sorted(found.whole.tolist()), sorted(set(zip(*(each.tolist() for each in found.single), strict=True)))


def test_letters_are_sorted_by_the_partition_and_offset_of_their_record(own: Database) -> None:
    """Letters come in any order, some twice, the last one with another cause."""
    file = LetterTable(own, "in")
    assert file.add(header(offset="6", positions="[3, 1]"))
    assert file.add(header())
    assert file.add(header(partition="0", offset="7"))
    assert file.add(header(offset="90", cause="late"))
    assert file.add(header(offset="6", positions="[3]", cause="late"))
    file.close()
    assert file.by_cause == {"malformed": 3, "late": 2}
    assert file.by_partition == {0: 1, 2: 4}
    assert places(file.between(0, 0, 7)) == ([], [])
    assert places(file.between(0, 7, 20)) == ([7], [])
    assert places(file.between(2, 6, 50)) == ([], [(6, 1), (6, 3)]), "the letter at 5 was passed over"
    assert places(file.between(2, 50, 91)) == ([90], [])
    assert places(file.between(2, 91, 99)) == ([], [])


def test_only_letters_of_judged_records_are_counted(own: Database) -> None:
    file = LetterTable(own, "in", {2: range(5, 7)})
    for offset in ("4", "5", "6", "7"):
        assert file.add(header(offset=offset))
    assert file.add(header(partition="1"))
    file.close()
    assert (file.by_partition, file.by_cause) == ({2: 2}, {"malformed": 2})
    assert places(file.between(2, 0, 99)) == ([4, 5, 6, 7], []), "readings before the stretch may be letters too"


def test_other_messages_are_rejected_and_receipts_are_skipped(own: Database) -> None:
    file = LetterTable(own, "in")
    forged = header(partition="99999999999"), header(offset="-1"), header(positions="[99999999999999999999]")
    for other in (header(topic="out"), header(topic=None), header(offset="many"), header(cause=None), *forged):
        assert not file.add(other), other
    assert file.add(Record(b"x", 0, None, [("glaim-receipt", b"requeued")]))
    file.close()
    assert file.by_partition == {}
