"""Circumstances that are no error of the worker and yet affect an audit: retention, foreign rows, spread groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiokafka import TopicPartition

from glaim_stream.core.settings import Settings
from glaim_stream.kafka import Loss
from glaim_stream.operate.audit.commits import GroupCommit
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.report import Finding, Findings, Offence


def warnings_of(
    settings: Settings,
    columns: ModelColumns,
    inputs: Sequence[TopicPartition],
    shortened_inputs: Sequence[int],
    shortened_outputs: Sequence[int],
    commits: Mapping[TopicPartition, GroupCommit | None],
    groups_of: Mapping[int, set[int]],
    foreign_rows: int,
    foreign_letters: int,
    incomplete_outages: Sequence[int],
) -> list[str]:
    """Warnings to read beside the numbers of an audit, one sentence each.

    Args:
        settings: names of topics and consumer group.
        columns: the catalogue.
        inputs: partitions of the input topic.
        shortened_inputs: partitions of the input whose requested beginning is gone.
        shortened_outputs: partitions of the output whose requested beginning is gone.
        commits: commits by input partition; None where nothing is committed.
        groups_of: codes of the groups with readings, by partition number.
        foreign_rows: output rows of groups or sensors that the catalogue does not name.
        foreign_letters: dead letters of other topics.
        incomplete_outages: partitions of the outage topic that have lost events.
    """
    out = []
    uncommitted = [tp.partition for tp in inputs if commits[tp] is None]
    if uncommitted:
        out.append(
            f"consumer group {settings.consumer_group} has committed nothing for the partitions "
            f"{uncommitted}: they are judged as if all of their input had been processed"
        )
    bare = [tp.partition for tp in inputs if (commit := commits[tp]) is not None and commit.rebuild_from is None]
    if bare:
        out.append(f"commits of the partitions {bare} do not state what a rebuild needs: another tool made them")
    if shortened_inputs:
        out.append(f"retention has removed the beginning of the input partitions {list(shortened_inputs)}")
    if shortened_outputs:
        out.append(
            f"retention has removed the beginning of the output partitions {list(shortened_outputs)}: "
            f"its rows may appear as missing"
        )
    split = [
        name
        for code, name in enumerate(columns.index.names)
        if sum(code in groups for groups in groups_of.values()) > 1
    ]
    if split:
        out.append(f"{len(split)} groups are spread over partitions, such as {split[:3]}: key the input by group")
    if foreign_rows:
        out.append(f"{foreign_rows} output rows are of groups or sensors that the catalogue does not name")
    if foreign_letters:
        out.append(f"{foreign_letters} dead letters are not of {settings.input_topic}")
    if incomplete_outages:
        out.append(
            f"retention or compaction has removed events from the partitions {list(incomplete_outages)} of "
            f"{settings.outage_topic}: its outages are not judged"
        )
    return out


def current_losses(tp: TopicPartition, commit: GroupCommit | None, oldest: int) -> list[Loss]:
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
