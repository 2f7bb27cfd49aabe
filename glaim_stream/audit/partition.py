"""One partition's input held against its output, by other logic than the worker's windows. Pure.

The worker walks through time with ring buffers. Here everything is known at once, so each rule is a sort and a
comparison of columns: two ways to the same truth, of which one is short enough to be believed.

Two offsets decide what is judged. Everything below the group's commit must have its rows; what lies at or after it is
`pending`. Event time up to the commit, less the allowed lateness, closes steps; what is not closed is `open`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glaim_stream.audit.arrivals import arrivals_of
from glaim_stream.audit.commits import Commit, check_commit
from glaim_stream.audit.duplicates import check_duplicates
from glaim_stream.audit.expected import expected_rows, surely_whole
from glaim_stream.audit.holes import check_finals, check_silence
from glaim_stream.audit.keys import Keys, distinct, is_among
from glaim_stream.audit.letters import Letters, check_letters
from glaim_stream.audit.model_columns import ModelColumns
from glaim_stream.audit.outages import OutageEvent, check_outages
from glaim_stream.audit.output_rows import OutputRows
from glaim_stream.audit.report import Findings
from glaim_stream.audit.values import check_invented, check_presence, check_values
from glaim_stream.decode.dead_letters import Reject
from glaim_stream.decode.readings import Readings


@dataclass(frozen=True, slots=True)
class PartitionTopics:
    """Everything known of one partition."""

    partition: int
    begin: int  # lowest offset that was read
    end: int  # the offset after the last one read
    complete: bool  # nothing before `begin` was ever left out
    readings: Readings
    rejects: Sequence[Reject]
    letters: Letters
    rows: OutputRows
    commit: Commit | None
    judge_until: int | None = None  # only keys with a reading below this offset are judged
    outages: set[OutageEvent] | None = None  # events of the outage topic; None: there is no such topic


def audit_partition(topics: PartitionTopics, columns: ModelColumns, *, examples: int = 5) -> Findings:
    """Apply every rule; of each problem at most `examples` offences are kept."""
    partition, rows = topics.partition, topics.rows
    committed = topics.end if topics.commit is None else topics.commit.offset
    lettered = topics.letters.holds(topics.readings.offset, topics.readings.position)
    letters = topics.readings.where(lettered)
    letter_step = letters.event_time_ms // columns.step_ms[letters.model]
    arrivals = arrivals_of(topics.readings.where(~lettered), committed, columns)
    keys = Keys.over(partition, columns, arrivals.step, rows.step, letter_step)
    row_key = keys.of(rows.group, rows.sensor, rows.step)
    expected = expected_rows(arrivals, keys)

    found = is_among(expected.key, distinct(row_key[rows.observed]))
    judged = np.ones(len(found), np.bool_)
    if topics.judge_until is not None:
        judged = expected.first_offset < topics.judge_until
    closed = keys.step(expected.key) < arrivals.closed_at_commit[keys.model(expected.key)]
    comparable = judged & found & (expected.last_offset < committed)
    comparable &= surely_whole(expected, arrivals.readings, keys, complete=topics.complete)
    # The windows may have taken some of the readings that became letters.
    comparable &= ~is_among(expected.key, distinct(keys.of(letters.group, letters.sensor, letter_step)))

    findings = Findings(
        {"readings": len(topics.readings), "dropouts": int(np.isnan(topics.readings.value).sum())},
        {
            "wrong": check_values(expected, comparable, rows, row_key, keys, examples=examples),
            "holes_not_final": check_finals(arrivals, rows, row_key, keys, examples=examples),
        },
    )
    findings.add(
        check_letters(
            topics.letters,
            topics.rejects,
            arrivals.readings.where(arrivals.too_late & arrivals.committed),
            partition=partition,
            committed=committed,
            columns=columns,
            examples=examples,
        )
    )
    if topics.commit is not None:
        findings.add(check_commit(topics.commit, arrivals, partition=partition, end=topics.end, columns=columns))
    findings.add(check_presence(expected, found, judged, closed, keys, committed=committed, examples=examples))
    findings.add(check_duplicates(expected, rows, row_key, keys, examples=examples))
    findings.add(
        check_silence(expected, arrivals.closed_at_commit, row_key, keys, committed=committed, examples=examples)
    )
    if topics.complete:
        findings.problems["invented"] = check_invented(topics.readings, rows, row_key, keys, examples=examples)
        if topics.outages is not None and topics.judge_until is None:
            findings.add(
                check_outages(
                    topics.outages, arrivals, columns,
                    partition=partition, all_committed=committed == topics.end, examples=examples,
                )
            )  # fmt: skip
    return findings
