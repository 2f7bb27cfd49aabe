"""The rules of holes: each step at which a sensor was silent has a row, and in time a final one."""

from __future__ import annotations

import numpy as np

from glaim_stream.audit.arrivals import Arrivals
from glaim_stream.audit.expected import Expected
from glaim_stream.audit.keys import Ints, Keys, count_up, distinct, is_among
from glaim_stream.audit.output_rows import OutputRows
from glaim_stream.audit.report import Finding, Findings

_NEVER = np.iinfo(np.int64).max


def check_finals(arrivals: Arrivals, rows: OutputRows, row_key: Ints, keys: Keys, *, examples: int) -> Finding:
    """A provisional row must be followed by a final one once its right context is there.

    Args:
        arrivals: the readings; they close the steps.
        rows: the output.
        row_key: key of each row.
        keys: of the partition.
        examples: the most offences of a finding.
    """
    due = rows.step + keys.columns.revise_after[rows.model] < arrivals.closed_at_commit[rows.model]
    waiting = distinct(row_key[~rows.final & ~rows.observed & due])
    waiting = waiting[~is_among(waiting, distinct(row_key[rows.final]))]
    # The wall clock may have called a slow sensor silent before its reading came: event time knows of no hole.
    waiting = waiting[~is_among(waiting, slow_sensors_heard(arrivals, keys))]
    return keys.finding(waiting, "a provisional row and no final one", examples=examples)


def slow_sensors_heard(arrivals: Arrivals, keys: Keys) -> Ints:
    """Keys at which slow sensors would have a hole, had their reading not come in time; ascending.

    A slow sensor has one reading in an interval of several steps, and its hole lies at the interval's last step.
    """
    readings = arrivals.readings
    cadence = keys.columns.cadence[readings.model, readings.sensor]
    hole_at = arrivals.step // cadence * cadence + cadence - 1
    in_time = arrivals.usable & (cadence > 1) & (hole_at >= arrivals.open_from)
    return distinct(keys.of(readings.group, readings.sensor, hole_at)[in_time])


def check_silence(
    expected: Expected, closed_at_commit: Ints, row_key: Ints, keys: Keys, *, committed: int, examples: int
) -> Findings:
    """From a reading that came in time, a sensor's next max_gap steps must have rows: its group is alive that long.

    Args:
        expected: the keys with a reading.
        closed_at_commit: [models] steps below it are closed.
        row_key: key of each row of the output.
        keys: of the partition.
        committed: offset of the commit.
        examples: the most offences of a finding.
    """
    step, model = keys.step(expected.key), keys.model(expected.key)
    next_step = np.append(step[1:], _NEVER)[: len(step)]
    next_step[:-1][np.diff(keys.cell(expected.key)) != 0] = _NEVER
    until = np.minimum(np.minimum(next_step, closed_at_commit[model]), step + 1 + keys.columns.max_gap[model])
    known = expected.on_time & (expected.first_offset < committed)
    silent = np.where(known, np.maximum(until - step - 1, 0), 0)
    gap = 1 + count_up(silent)
    silent_key = np.repeat(expected.key, silent) + gap
    cadence = keys.cadence(silent_key)
    # Of a slow sensor, only the last step of an interval without a reading is a hole.
    silent_key = silent_key[((keys.step(silent_key) + 1) % cadence == 0) & (gap >= cadence)]
    absent = silent_key[~is_among(silent_key, distinct(row_key))]
    return Findings(
        {"silent_steps": len(silent_key)},
        {"holes_absent": keys.finding(absent, "a silent sensor without a row", examples=examples)},
    )
