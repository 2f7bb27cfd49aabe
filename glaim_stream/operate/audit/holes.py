"""The rules of holes: each step at which a sensor was silent has a row, and after some time a final one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glaim_stream.operate.audit.arrivals import Arrivals
from glaim_stream.operate.audit.chunks import Bounds
from glaim_stream.operate.audit.expected import Expected
from glaim_stream.operate.audit.keys import Bools, Ints, Keys, count_up, distinct, is_among
from glaim_stream.operate.audit.output_rows import OutputRows
from glaim_stream.operate.audit.report import Finding, Findings

_NEVER = np.iinfo(np.int64).max


def check_finals(
    heard: Ints, closed_at_commit: Ints, rows: OutputRows, row_key: Ints, keys: Keys, *, examples: int
) -> Finding:
    """A provisional row must be followed by a final one once its right context is there.

    Args:
        heard: keys of `slow_sensors_heard`, ascending.
        closed_at_commit: [models] steps below it are closed.
        rows: the output.
        row_key: key of each row.
        keys: keys of the partition.
        examples: most offences of a finding.
    """
    due = rows.step + keys.columns.revise_after[rows.model] < closed_at_commit[rows.model]
    waiting = distinct(row_key[~rows.final & ~rows.observed & due])
    waiting = waiting[~is_among(waiting, distinct(row_key[rows.final]))]
    # The wall clock may have called a slow sensor silent before its reading came: event time knows of no hole.
    waiting = waiting[~is_among(waiting, heard)]
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


@dataclass(frozen=True, slots=True)
class Speakers:
    """Sensors of one group and the last step of each with a reading, as columns; a later chunk may hold their holes."""

    cell: Ints  # Keys.cell
    step: Ints
    known: Bools  # the reading came in time and lies below the commit

    @classmethod
    def none(cls) -> Speakers:
        """No sensors."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class _Spoken:
    """The steps with a reading of a chunk, and those of the speakers before it; by key, ascending."""

    key: Ints
    known: Bools


def check_silence(
    expected: Expected,
    speakers: Speakers,
    end_step: Ints,
    row_key: Ints,
    keys: Keys,
    *,
    bounds: Bounds,
    committed: int,
    examples: int,
) -> Findings:
    """From a reading that came in time, a sensor's next max_gap steps must have rows: its group is alive that long.

    Args:
        expected: the keys with a reading.
        speakers: sensors that spoke before the chunk.
        end_step: [models] steps below it are closed and judged.
        row_key: key of each row of the output.
        keys: keys of the partition.
        bounds: bounds of the holes to judge.
        committed: offset of the commit.
        examples: most offences of a finding.
    """
    spoken = _spoken(expected, speakers, keys, committed)
    step, model, cell = keys.step(spoken.key), keys.model(spoken.key), keys.cell(spoken.key)
    group = cell // keys.columns.width
    next_step = np.append(step[1:], _NEVER)[: len(step)]
    next_step[:-1][np.diff(cell) != 0] = _NEVER
    until = np.minimum(np.minimum(next_step, end_step[model]), step + 1 + keys.columns.max_gap[model])
    until = np.minimum(until, bounds.end_step(group))
    begin = np.maximum(step + 1, bounds.first_step(group))
    silent = np.where(spoken.known, np.maximum(until - begin, 0), 0)
    gap = np.repeat(begin - step, silent) + count_up(silent)
    silent_key = np.repeat(spoken.key, silent) + gap
    cadence = keys.cadence(silent_key)
    # A slow sensor has a hole only at the last step of an interval without a reading.
    silent_key = silent_key[((keys.step(silent_key) + 1) % cadence == 0) & (gap >= cadence)]
    absent = silent_key[~is_among(silent_key, distinct(row_key))]
    return Findings(
        {"silent_steps": len(silent_key)},
        {"holes_absent": keys.finding(absent, "a silent sensor without a row", examples=examples)},
    )


def last_speakers(expected: Expected, speakers: Speakers, keys: Keys, *, group: int, committed: int) -> Speakers:
    """The last step with a reading of each sensor of a group, at the end of a chunk."""
    spoken = _spoken(expected, speakers, keys, committed)
    cell = keys.cell(spoken.key)
    last = np.append(np.diff(cell) != 0, True)[: len(cell)] & (cell // keys.columns.width == group)
    return Speakers(cell[last], keys.step(spoken.key)[last], spoken.known[last])


def _spoken(expected: Expected, speakers: Speakers, keys: Keys, committed: int) -> _Spoken:
    key = np.append(speakers.cell * keys.span + (speakers.step - keys.base), expected.key)
    known = np.append(speakers.known, expected.on_time & (expected.first_offset < committed))
    order = np.argsort(key, kind="stable")
    return _Spoken(key[order], known[order])
