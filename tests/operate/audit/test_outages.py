"""The outage rule of the audit, applied to the events that the worker's pipeline announces."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.operate.audit.outages import OutageEvent, read_outages
from tests import support  # noqa: F401  loads the hypothesis profile
from tests.operate.audit.test_partition import START_MS, STEP_MS, Case, broken, case, reading

MAX_GAP = 6  # of the catalogue in test_partition.py, whose window has 16 steps


def readings_at(steps: dict[str, list[int]]) -> list[bytes]:
    """One reading of sensor a per group and step, in order of time."""
    pairs = sorted((step, group) for group, observed in steps.items() for step in observed)
    return [reading(group, "a", START_MS + step * STEP_MS, 1.0) for step, group in pairs]


def silent_between(first: int, until: int, *, last: int = 40) -> Case:
    steps = {"g1": [*range(first), *range(until, last)], "g2": list(range(last))}
    return case(readings_at(steps), batches=5)


def at(step: int) -> int:
    return START_MS + step * STEP_MS


def test_the_announced_events_of_a_dark_group_are_expected() -> None:
    made = silent_between(5, 20)
    audit = made.audit()
    assert broken(audit) == {}
    assert made.given.outages is not None
    of_g1 = sorted(each for each in made.given.outages if each.group == made.columns.index.group("g1"))
    # observed at 4, silent from 5; dark once it is unobserved at a step and the 6 steps before it
    assert [(each.kind, each.ts_ms) for each in of_g1] == [
        ("speaks", at(0)),
        ("dark", at(4 + MAX_GAP + 1)),
        ("speaks", at(20)),
    ]
    assert audit.counts["outages_judged"] == audit.counts["outages"] == 4


@pytest.mark.parametrize("absent", [0, 1, 2, 3])
def test_an_absent_event_is_reported(absent: int) -> None:
    made = silent_between(5, 20)
    announced = sorted(made.given.outages or ())
    audit = made.audit(outages={*announced} - {announced[absent]})
    assert broken(audit) == {"outages_absent": 1}
    (offence,) = audit.problems["outages_absent"].first
    assert offence.group == made.columns.index.names[announced[absent].group]
    assert offence.ts_ms == announced[absent].ts_ms


def test_an_event_that_no_reading_explains_is_reported() -> None:
    made = silent_between(5, 8)  # too short for an outage
    extra = OutageEvent(at(6), made.columns.index.group("g1"), "dark")
    audit = made.audit(outages={*(made.given.outages or ()), extra})
    assert broken(audit) == {"outages_invented": 1}
    assert "went dark" in str(audit.problems["outages_invented"].first[0])


def test_outages_are_not_audited_without_a_topic_or_for_a_part_of_the_input() -> None:
    made = silent_between(5, 20)
    assert broken(made.audit(outages=None)) == {}
    assert broken(made.audit(outages=set(), complete=False)) == {}


def test_events_above_the_commit_may_be_absent() -> None:
    made = silent_between(5, 20)
    commit = made.given.commit
    assert commit is not None
    early = {each for each in made.given.outages or () if each.ts_ms < at(5)}
    offset = int(made.given.readings.offset[made.given.readings.event_time_ms < at(8)].max())
    audit = made.audit(commit=replace(commit, offset=offset, rebuild_from=0), outages=early)
    assert "outages_absent" not in broken(audit)


def test_a_group_with_a_late_reading_is_not_audited() -> None:
    values = readings_at({"g1": [*range(5), *range(20, 40)], "g2": list(range(40))})
    values.insert(30, reading("g1", "a", at(6), 1.0))
    made = case(values, batches=5)
    assert broken(made.audit(outages=set())) == {"outages_absent": 1}, "only the first event of g2"


@given(
    st.dictionaries(
        st.sampled_from(["g1", "g2", "g3"]),
        st.lists(st.one_of(st.integers(0, 60), st.integers(0, 400)), min_size=1, max_size=40, unique=True),
        min_size=1,
    ),
    st.integers(1, 9),
    st.sampled_from([0, 60, 150]),
)
@settings(max_examples=50)
def test_any_ordered_readings_cause_the_expected_events(
    steps: dict[str, list[int]], batches: int, lateness_s: int
) -> None:
    made = case(readings_at(steps), batches=batches, lateness_s=lateness_s)
    assert {name: count for name, count in broken(made.audit()).items() if name.startswith("outages")} == {}


def test_messages_of_other_producers_are_skipped() -> None:
    made = silent_between(5, 8)
    event = b'{"group": "%s", "model": "m", "kind": "dark", "ts": "%s", "last_ts": null, "by_clock": %s}'
    ts = b"2026-01-01T00:00:00Z"
    assert (
        read_outages(
            [
                None,
                b"{",
                b"\xff",
                b'{"group": "g1"}',
                event % (b"unknown", ts, b"false"),
                event % (b"g1", b"yesterday", b"false"),
                event % (b"g1", ts, b"true"),
            ],
            made.columns,
        )
        == set()
    )
    assert len(read_outages([event % (b"g1", ts, b"false")], made.columns)) == 1
    assert np.isin(made.columns.index.group("g1"), [0, 1])
