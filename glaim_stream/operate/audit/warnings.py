"""Circumstances that are no error of the worker and yet affect an audit: retention, foreign rows, spread groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiokafka import TopicPartition

from glaim_stream.core.settings import Settings
from glaim_stream.operate.audit.commits import Commit
from glaim_stream.operate.audit.model_columns import ModelColumns


def warnings_of(
    settings: Settings,
    columns: ModelColumns,
    inputs: Sequence[TopicPartition],
    shortened_inputs: Sequence[int],
    shortened_outputs: Sequence[int],
    commits: Mapping[TopicPartition, Commit | None],
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
