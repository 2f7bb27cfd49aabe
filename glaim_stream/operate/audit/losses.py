"""The rule of lost input: no offset vanishes before it is answered."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka import TopicPartition

from glaim_stream.kafka import Loss
from glaim_stream.operate.audit.commits import Commit
from glaim_stream.operate.audit.report import Finding, Findings, Offence


def current_losses(tp: TopicPartition, commit: Commit | None, oldest: int) -> list[Loss]:
    """The offsets between a commit and the oldest offset of the log: no worker has read them yet, and none can."""
    if commit is None or commit.offset >= oldest:
        return []
    return [Loss(tp.topic, tp.partition, commit.offset, oldest, "removed")]


def check_losses(losses: Sequence[Loss], *, partition: int, judged: range) -> Findings:
    """Find the offsets that were lost; events may overlap and repeat each other.

    Args:
        losses: events of the outage topic, and current losses.
        partition: number of the partition.
        judged: offsets to judge.
    """
    offences: list[Offence] = []
    total, seen_until = 0, judged.start
    for loss in sorted(losses, key=lambda loss: (loss.first, loss.until)):
        first, until = max(loss.first, seen_until), min(loss.until, judged.stop)
        if until <= first:
            continue
        total += until - first
        seen_until = until
        detail = f"offsets {first} to {until - 1} were {loss.reason} before they were answered"
        offences.append(Offence(partition, offset=first, detail=detail))
    return Findings({}, {"lost_offsets": Finding(total, offences)})
