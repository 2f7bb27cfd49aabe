"""The rule of lost input: each offset that vanished counts once."""

from aiokafka import TopicPartition

from glaim_stream.kafka import Loss
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.warnings import check_losses, current_losses

TP = TopicPartition("in", 3)


def lost(first: int, until: int) -> Loss:
    return Loss("in", 3, first, until, "removed")


def found(*losses: Loss, from_offset: int = 0, until_offset: int = 1 << 62) -> tuple[int, list[str]]:
    finding = check_losses(losses, partition=3, judged=range(from_offset, until_offset)).problems["lost_offsets"]
    return finding.count, [str(offence) for offence in finding.first]


def test_nothing_lost_is_no_offence() -> None:
    assert found() == (0, [])


def test_the_range_is_named() -> None:
    sentence = "(partition 3, offset 10): offsets 10 to 24 were removed before they were answered"
    assert found(lost(10, 25)) == (15, [sentence])


def test_repeated_and_overlapping_events_count_once() -> None:
    count, sentences = found(lost(20, 40), lost(10, 25), lost(10, 25), lost(50, 51))
    assert (count, len(sentences)) == (31, 3)


def test_what_was_lost_before_the_judged_range_is_left_out() -> None:
    assert found(lost(10, 25), from_offset=25) == (0, [])
    assert found(lost(10, 25), from_offset=20)[0] == 5
    assert found(lost(10, 25), lost(30, 40), until_offset=20)[0] == 10


def test_what_lies_between_a_commit_and_the_log_is_lost_now() -> None:
    assert current_losses(TP, GroupCommit(10, 0), 25) == [lost(10, 25)]
    assert current_losses(TP, GroupCommit(25, 0), 25) == []
    assert current_losses(TP, None, 25) == []
