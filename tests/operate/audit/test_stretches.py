"""A stretch of event time: the same findings in it as in an audit of everything, and none of what lies outside."""

from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.operate.audit.judged_steps import JudgedSteps
from glaim_stream.operate.audit.report import Findings
from glaim_stream.operate.audit.run import lead_ms
from tests.operate.audit.damage import damaged
from tests.operate.audit.partition_topics import audit_partition
from tests.operate.audit.tables import COLUMNS
from tests.operate.audit.test_partition import START_MS, STEP_MS, Case, broken, case, stream

ALL = 1 << 20
BY_STEP = (
    "missing", "wrong", "conflicting", "repeated", "invented", "holes_not_final", "outages_absent", "outages_invented",
)  # fmt: skip


def in_stretch(found: Findings, name: str, since_ms: int, until_ms: int) -> list[str]:
    """The offences of a problem whose step lies in a stretch."""
    finding = found.problems.get(name)
    if finding is None:
        return []
    assert len(finding.first) == finding.count
    return [str(each) for each in finding.first if since_ms <= (each.ts_ms or 0) < until_ms]


def test_a_step_is_judged_if_it_lies_in_the_stretch_as_a_whole() -> None:
    """Steps of 60 s and of 30 s, and a stretch from 90 s to 200 s."""
    judged = JudgedSteps.between(90_000, 200_000, COLUMNS)
    assert (judged.first.tolist(), judged.end.tolist()) == ([2, 3], [3, 6])
    steps = np.arange(1, 7)
    assert steps[judged.holds(steps, np.zeros(6, np.int64))].tolist() == [2]
    assert steps[judged.holds(steps, np.ones(6, np.int64))].tolist() == [3, 4, 5]
    assert JudgedSteps.between(None, None, COLUMNS).holds(np.array([-9, 1 << 50]), np.array([0, 1])).all()


@pytest.mark.parametrize("seed", range(10))
def test_offences_are_those_of_the_stretch(seed: int) -> None:
    made = damaged(seed)
    rng = np.random.default_rng(seed)
    since_ms = START_MS + int(rng.integers(0, 80)) * STEP_MS
    until_ms = since_ms + int(rng.integers(1, 50)) * STEP_MS
    everything = audit_partition(made.given, made.columns, examples=ALL)
    chunk_rows, parts = (5, 3) if seed % 2 else (1 << 15, 1)
    found = audit_partition(
        replace(made.given, since_ms=since_ms, until_ms=until_ms), made.columns,
        examples=ALL, chunk_rows=chunk_rows, parts=parts,
    )  # fmt: skip
    for name in BY_STEP:
        assert in_stretch(found, name, 0, 1 << 62) == in_stretch(everything, name, since_ms, until_ms), name
    # A reading before the stretch demands no rows in it.
    absent = in_stretch(found, "holes_absent", 0, 1 << 62)
    assert set(absent) <= set(in_stretch(everything, "holes_absent", since_ms, until_ms))


def begun_at(made: Case, first_ms: int) -> Case:
    """The input as it is read from the first reading at or after a time."""
    given = made.given
    begin = int(given.readings.offset[given.readings.event_time_ms >= first_ms].min())
    readings = given.readings.where(given.readings.offset >= begin)
    rejects = [reject for reject in given.rejects if reject.offset >= begin]
    return Case(made.columns, replace(given, begin=begin, readings=readings, rejects=rejects))


@pytest.mark.parametrize("seed", range(6))
def test_what_came_long_before_the_stretch_need_not_be_read(seed: int) -> None:
    made = damaged(seed, always_whole=True)
    made = Case(made.columns, replace(made.given, commit=None))
    since_ms = START_MS + 60 * STEP_MS
    part = begun_at(made, since_ms - 40 * STEP_MS)
    assert 0 < len(part.given.readings) < len(made.given.readings)
    whole, shorter = (
        audit_partition(replace(each.given, since_ms=since_ms), made.columns, examples=ALL) for each in (made, part)
    )
    for name in (*BY_STEP[:6], "holes_absent"):
        assert in_stretch(shorter, name, 0, 1 << 62) == in_stretch(whole, name, 0, 1 << 62), name
    for name in BY_STEP[6:]:  # late readings of before exempt a group only where they were read
        assert {*in_stretch(shorter, name, 0, 1 << 62)} >= {*in_stretch(whole, name, 0, 1 << 62)}, name


def test_reading_begins_before_the_window_and_the_errors_that_a_row_depends_on() -> None:
    """Of the model with steps of 60 s: 96 steps of errors, 8 of the window, 2 until the final row, and one more."""
    ahead_ms = max(COLUMNS.catalogue.max_ahead_ms(model) for model in COLUMNS.catalogue.models)
    assert lead_ms(COLUMNS) == (96 + 8 + 2 + 1) * STEP_MS + ahead_ms


def test_a_clean_stretch_is_clean_and_shorter() -> None:
    made = case(stream(steps=200))
    assert broken(made.audit()) == {}
    since_ms = START_MS + 100 * STEP_MS
    found = made.audit(since_ms=since_ms)
    assert broken(found) == {}
    assert 100 < found.counts["keys"] < made.audit().counts["keys"]
    assert found.counts["rows"] == (made.given.rows.step * STEP_MS >= since_ms).sum()
