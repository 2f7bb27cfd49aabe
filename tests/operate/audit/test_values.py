"""The rules for observed rows: for each an input that just breaks it and one that just complies."""

import math
from typing import Any

import numpy as np
import pytest

from glaim_stream.operate.audit.expected import expected_rows
from glaim_stream.operate.audit.keys import distinct
from glaim_stream.operate.audit.output_rows import NO_EVENT_TIME_MS, OutputRows
from glaim_stream.operate.audit.report import Finding
from glaim_stream.operate.audit.values import check_invented, check_presence, check_values, newest_rows
from tests.operate.audit.tables import (
    ALL,
    COLUMNS,
    G1,
    H1,
    STEP_MS,
    arrivals_of,
    key_of,
    keys_of,
    output,
    readings,
    row,
)


def test_a_reading_without_a_row_is_missing_open_or_pending() -> None:
    arrivals = arrivals_of(readings(*((G1, 0, step * STEP_MS, 1.0) for step in range(7))), ALL, COLUMNS)
    keys = keys_of(row(0, 0.0), arrivals)
    expected = expected_rows(arrivals, keys)
    yes, no = True, False
    found = check_presence(
        expected,
        np.array([yes, no, no, no, no, no, no]),
        np.array([yes, yes, yes, yes, yes, yes, no]),  # judged
        np.array([no, yes, yes, no, yes, no, yes]),  # closed
        keys,
        committed=4,
        examples=5,
    )
    assert found.counts == {"keys": 6, "found": 1, "open": 1, "pending": 2}
    assert found.problems["missing"].count == 2
    assert [(each.ts_ms, each.offset) for each in found.problems["missing"].first] == [(STEP_MS, 1), (2 * STEP_MS, 2)]


def values(rows: OutputRows, *, group: int = G1, value: float = 2.0) -> Finding:
    """The finding for one reading at 1.5 steps."""
    step_ms = int(COLUMNS.step_ms[int(group == H1)])
    given = readings((group, 0, step_ms * 3 // 2, value), quality=(1,))
    arrivals = arrivals_of(given, ALL, COLUMNS)
    keys = keys_of(rows, arrivals)
    expected = expected_rows(arrivals, keys)
    return check_values(expected, np.array([True]), rows, key_of(rows, keys), keys, examples=5)


def observed(value: float = 2.0, *, group: int = G1, **changes: Any) -> OutputRows:
    time_ms = int(COLUMNS.step_ms[int(group == H1)]) * 3 // 2
    fields = {"observed": True, "event_time_ms": time_ms, "quality": 1, "group": group} | changes
    return row(1, value, **fields)


def test_a_row_that_matches_the_input_is_correct() -> None:
    assert values(observed()) == Finding(0, [])


@pytest.mark.parametrize(
    "changes", [{"value": 2.0000005}, {"event_time_ms": 90_001}, {"quality": 0}, {"observed": False}]
)
def test_a_row_with_one_difference_is_wrong(changes: dict[str, Any]) -> None:
    found = values(observed(**changes))
    assert found.count == 1
    (offence,) = found.first
    assert (offence.group, offence.sensor, offence.ts_ms, offence.offset) == ("g1", "a", STEP_MS, 0)
    assert offence.detail.startswith("input gives 2.0 (uncertain, 1970-01-01T00:01:30Z), the newest row has ")


def test_a_mean_must_be_the_same_to_the_last_bit() -> None:
    assert values(observed(2.0, group=H1), group=H1).count == 0
    assert values(observed(math.nextafter(2.0, 3.0), group=H1), group=H1).count == 1


@pytest.mark.parametrize("value", [-0.0, 2.0**53, 1e308, 5e-324, 123_456_789.12])
def test_a_value_must_be_the_same_to_the_last_bit(value: float) -> None:
    assert values(observed(value), value=value).count == 0
    assert values(observed(math.nextafter(value, 1e3)), value=value).count == 1
    assert values(observed(-value), value=value).count == 1


def test_an_observed_row_without_an_event_time_is_wrong() -> None:
    found = values(observed(event_time_ms=NO_EVENT_TIME_MS))
    assert found.count == 1
    assert found.first[0].detail.endswith("the newest row has 2.0 (uncertain, no time)")


def test_the_highest_revision_counts_and_the_later_row_if_equal() -> None:
    rows = output(
        row(2, 0.0, revision=1), row(2, 1.0, revision=3), row(2, 2.0, revision=2),
        row(1, 3.0), row(1, 4.0), row(1, 5.0, group=H1),
    )  # fmt: skip
    assert newest_rows(rows, key_of(rows, keys_of(rows))).tolist() == [4, 1, 5]
    assert values(output(observed(9.0), observed(revision=1))).count == 0
    assert values(output(observed(revision=1), observed(9.0))).count == 0
    assert values(output(observed(), observed(9.0))).count == 1


def test_only_comparable_keys_are_compared() -> None:
    given = readings(*((G1, 0, step * STEP_MS, float(step)) for step in range(3)))
    arrivals = arrivals_of(given, ALL, COLUMNS)
    rows = output(*(row(step, 9.0, observed=True, event_time_ms=step * STEP_MS) for step in range(3)))
    keys = keys_of(rows, arrivals)
    found = check_values(
        expected_rows(arrivals, keys), np.array([False, False, True]), rows, key_of(rows, keys), keys, examples=5
    )
    assert found.count == 1
    assert (found.first[0].ts_ms, found.first[0].offset) == (2 * STEP_MS, 2)
    assert "2.0" in found.first[0].detail.partition("the newest row")[0]


def test_an_observed_row_needs_a_reading_at_its_step() -> None:
    given = readings((G1, 0, 2 * STEP_MS - 1, 1.0), (H1, 0, 89_999, 1.0))
    rows = output(
        row(1, 1.0, observed=True), row(2, 1.0, observed=True), row(2, 1.0, observed=True), row(3, 1.0),
        row(2, 1.0, observed=True, group=H1), row(1, 1.0, observed=True, sensor=1),
    )  # fmt: skip
    keys = keys_of(rows)
    step = given.event_time_ms // COLUMNS.step_ms[given.model]
    read = distinct(keys.of(given.group, given.sensor, step))
    found = check_invented(read, rows, key_of(rows, keys), keys, examples=5)
    assert [(each.sensor, each.ts_ms) for each in found.first] == [("a", 2 * STEP_MS), ("b", STEP_MS)]
    assert found.count == 2
