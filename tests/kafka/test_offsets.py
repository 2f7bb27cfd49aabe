"""No commit passes an unanswered record, in any order of answers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.kafka.offsets import (
    METADATA_PREFIX,
    Commit,
    OffsetLedger,
    commit_from_metadata,
    rebuild_from_metadata,
)
from glaim_stream.kafka.topics import is_replaced
from glaim_stream.windows import ClockClose


def test_nothing_is_committed_before_the_first_answer() -> None:
    ledger = OffsetLedger()
    assert ledger.committable() is None
    ledger.deliver(0, 10)
    assert ledger.committable() is None


def test_a_hole_of_one_message_stops_the_commit() -> None:
    """
    delivered   [0,1) [1,2) [2,3)
    answered      x           x      the commit stays at 1, which Faust does not ensure
    """
    ledger = OffsetLedger()
    first, _, third = (ledger.deliver(n, n + 1) for n in range(3))
    third.answer(0)
    assert ledger.committable() is None
    first.answer(0)
    assert ledger.committable() == Commit(1, 0)


def test_the_commit_has_the_rebuild_offset_of_its_last_batch() -> None:
    ledger = OffsetLedger()
    first, second = ledger.deliver(0, 10), ledger.deliver(10, 20)
    second.answer(15)
    first.answer(3)
    assert ledger.committable() == Commit(20, 15)
    assert ledger.committable() == Commit(20, 15), "a second call gives the same"


def test_offsets_removed_by_compaction_need_no_answer() -> None:
    ledger = OffsetLedger()
    ledger.deliver(0, 10).answer(0)
    ledger.deliver(500, 510).answer(500)
    assert ledger.committable() == Commit(510, 500)


@pytest.mark.parametrize(("first", "following"), [(5, 5), (5, 4)])
def test_an_empty_delivery_is_rejected(first: int, following: int) -> None:
    with pytest.raises(ValueError, match="at least one offset"):
        OffsetLedger().deliver(first, following)


def test_a_second_delivery_of_the_same_offsets_replaces_the_first() -> None:
    """
    delivered   [0,10) [10,20) [20,30)   then, after a seek back, [10,15): the commit waits for the new one
    """
    ledger = OffsetLedger()
    first, second, third = (ledger.deliver(n, n + 10) for n in (0, 10, 20))
    first.answer(0)
    again = ledger.deliver(10, 15)
    second.answer(10)
    third.answer(20)
    assert ledger.committable() == Commit(10, 0)
    again.answer(12)
    assert ledger.committable() == Commit(15, 12)


def test_a_batch_that_starts_inside_an_unanswered_one_does_not_release_it() -> None:
    ledger = OffsetLedger()
    unanswered = ledger.deliver(0, 10)
    ledger.deliver(5, 20).answer(5)
    assert ledger.committable() is None
    unanswered.answer(0)
    assert ledger.committable() == Commit(20, 5)


def test_batches_that_are_answered_twice_do_not_move_the_commit_back() -> None:
    ledger = OffsetLedger()
    ledger.deliver(0, 100).answer(40)
    assert ledger.committable() == Commit(100, 40)
    ledger.deliver(50, 60).answer(20)
    assert ledger.committable() == Commit(100, 40)
    ledger.deliver(50, 100).answer(60)
    assert ledger.committable() == Commit(100, 40), "the lower offset is the safe one"


def test_everything_before_the_commit_is_answered() -> None:
    ledger = OffsetLedger()
    assert ledger.answered_to is None
    delivery = ledger.deliver(5, 10)
    assert ledger.answered_to is None
    delivery.answer(7)
    assert ledger.answered_to == 10


@pytest.mark.parametrize("rebuild_from", [0, 10])
def test_an_answer_may_need_the_oldest_offset_or_none(rebuild_from: int) -> None:
    ledger = OffsetLedger()
    ledger.deliver(0, 10).answer(rebuild_from)
    assert ledger.committable() == Commit(10, rebuild_from)


@pytest.mark.parametrize("rebuild_from", [-1, 11])
def test_an_answer_must_lie_at_or_below_the_next_offset(rebuild_from: int) -> None:
    with pytest.raises(ValueError, match=r"0\.\.10"):
        OffsetLedger().deliver(0, 10).answer(rebuild_from)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_metadata_is_read_back(offset: int, rebuild_from: int) -> None:
    assert rebuild_from_metadata(offset, Commit(offset, rebuild_from).metadata) == rebuild_from


@pytest.mark.parametrize(
    "metadata", [None, "", "other", METADATA_PREFIX, METADATA_PREFIX + "-1", METADATA_PREFIX + "x"]
)
def test_metadata_of_other_tools_is_ignored(metadata: str | None) -> None:
    assert rebuild_from_metadata(9, metadata) is None


@given(st.text() | st.text(alphabet="0123456789+-_ ٣", max_size=4))
def test_metadata_is_an_offset_in_digits_or_none(text: str) -> None:
    expected = int(text) if text.isdecimal() else None
    assert rebuild_from_metadata(9, METADATA_PREFIX + text) == expected


def test_what_the_wall_clock_decided_is_read_back() -> None:
    clock = (ClockClose(7, "a model", 12), ClockClose(9, "b", -3))
    commit = Commit(9, 4, clock, "0:1000000,5:1100000")
    assert commit_from_metadata(9, commit.metadata) == commit
    named = replace(commit, topic="cluster/topic")
    assert commit_from_metadata(9, named.metadata) == named
    assert rebuild_from_metadata(9, commit.metadata) == 4
    assert commit.metadata.endswith('[[7,"a model",12],[9,"b",-3]]'), "every blank is room for fewer closes"


def test_metadata_that_were_written_for_another_offset_are_ignored() -> None:
    """MirrorMaker translates the offset of a commit and copies its metadata, with the offsets of the other Kafka."""
    commit = Commit(1009, 1004, (ClockClose(1007, "m", 12),), "1000:1000000")
    assert rebuild_from_metadata(9, commit.metadata) is None
    assert commit_from_metadata(9, commit.metadata) == Commit(9, 0)


def test_metadata_of_an_older_worker_have_no_offset_of_their_own() -> None:
    assert rebuild_from_metadata(9, f"{METADATA_PREFIX}4 stamps=1:2") == 4


def test_metadata_leaves_out_the_oldest_closes_that_a_broker_would_not_take() -> None:
    clock = tuple(ClockClose(offset, "m" * 200, offset) for offset in range(64))
    kept = commit_from_metadata(99, Commit(99, 0, clock, "1:2").metadata)
    assert len(Commit(99, 0, clock, "1:2").metadata) <= 3500
    assert 10 < len(kept.clock) < 64
    assert kept.clock == clock[-len(kept.clock) :]
    assert kept.stamps == "1:2"


@pytest.mark.parametrize("text", ["x", "[1]", '[["a","m",1]]', "[[1,2]]", "5", ""])
def test_an_unreadable_clock_is_left_out(text: str) -> None:
    assert commit_from_metadata(9, f"{METADATA_PREFIX}4 clock={text}") == Commit(9, 4)


def test_a_topic_is_replaced_where_its_id_alone_changes() -> None:
    assert is_replaced("c/one", "c/two")
    for former, now in (("c/one", "c/one"), ("", "c/two"), ("c/one", None), ("mirrored/one", "c/two")):
        assert not is_replaced(former, now)
