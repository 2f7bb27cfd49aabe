"""No commit passes an unanswered record, whatever the order of answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.offsets import METADATA_PREFIX, Commit, OffsetLedger, rebuild_from_metadata


def test_nothing_is_committed_before_the_first_answer() -> None:
    ledger = OffsetLedger()
    assert ledger.committable() is None
    ledger.deliver(0, 10)
    assert ledger.committable() is None


def test_a_hole_of_one_message_stops_the_commit() -> None:
    """
    delivered   [0,1) [1,2) [2,3)
    answered      x           x      the commit stays at 1: the rule that Faust lacks
    """
    ledger = OffsetLedger()
    first, _, third = (ledger.deliver(n, n + 1) for n in range(3))
    third.answer(0)
    assert ledger.committable() is None
    first.answer(0)
    assert ledger.committable() == Commit(1, 0)
    assert ledger.open_deliveries == 2


def test_the_commit_carries_what_was_needed_after_its_own_batch() -> None:
    ledger = OffsetLedger()
    first, second = ledger.deliver(0, 10), ledger.deliver(10, 20)
    second.answer(15)
    first.answer(3)
    assert ledger.committable() == Commit(20, 15)
    assert ledger.committable() == Commit(20, 15), "asked again it says the same"


def test_offsets_that_compaction_left_out_need_no_answer() -> None:
    ledger = OffsetLedger()
    ledger.deliver(0, 10).answer(0)
    ledger.deliver(500, 510).answer(500)
    assert ledger.committable() == Commit(510, 500)


@pytest.mark.parametrize(("first", "following"), [(5, 5), (5, 4)])
def test_an_empty_delivery_is_refused(first: int, following: int) -> None:
    with pytest.raises(ValueError, match="at least one offset"):
        OffsetLedger().deliver(first, following)


def test_a_delivery_behind_an_open_one_is_refused() -> None:
    ledger = OffsetLedger()
    ledger.deliver(0, 10)
    with pytest.raises(ValueError, match="offset 9 was delivered already, next is 10"):
        ledger.deliver(9, 20)


@pytest.mark.parametrize("rebuild_from", [-1, 11])
def test_an_answer_must_lie_at_or_below_the_next_offset(rebuild_from: int) -> None:
    with pytest.raises(ValueError, match=r"0\.\.10"):
        OffsetLedger().deliver(0, 10).answer(rebuild_from)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 5), st.integers(0, 3)),  # records, offsets left out before them
        st.tuples(st.just("answer"), st.integers(0, 30), st.integers(0, 5)),  # which open one, how far back it needs
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(actions)
def test_no_order_of_answers_lets_a_commit_pass_an_unanswered_delivery(steps: list[tuple[str, int, int]]) -> None:
    ledger = OffsetLedger()
    position, committed = 0, 0
    deliveries = []
    for action, number, more in steps:
        if action == "deliver":
            position += more
            deliveries.append(ledger.deliver(position, position + number))
            position += number
        elif action == "answer":
            waiting = [each for each in deliveries if not each.answered]
            if waiting:
                chosen = waiting[number % len(waiting)]
                chosen.answer(max(0, chosen.next_offset - more))
        commit = ledger.committable()
        unanswered = [each.first_offset for each in deliveries if not each.answered]
        if commit is not None:
            assert commit.offset <= min(unanswered, default=position), "a commit passed an unanswered delivery"
            assert commit.offset >= committed, "a commit went back"
            assert 0 <= commit.rebuild_from <= commit.offset
            committed = commit.offset
        answered_head = 0
        for each in deliveries:
            if not each.answered:
                break
            answered_head = each.next_offset
        assert committed == answered_head, "a commit lags behind what is answered"


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_metadata_is_read_back(offset: int, rebuild_from: int) -> None:
    assert rebuild_from_metadata(Commit(offset, rebuild_from).metadata) == rebuild_from


@pytest.mark.parametrize(
    "metadata", [None, "", "other", METADATA_PREFIX, METADATA_PREFIX + "-1", METADATA_PREFIX + "x"]
)
def test_metadata_of_others_is_none(metadata: str | None) -> None:
    assert rebuild_from_metadata(metadata) is None


@given(st.text())
def test_no_metadata_raises(text: str) -> None:
    rebuild_from_metadata(METADATA_PREFIX + text)
