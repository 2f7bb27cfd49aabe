"""The audit's rule of outages against what the worker's own pipeline announces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.audit.outages import OutageEvent, read_outages
from tests import support  # noqa: F401  its profile of hypothesis
from tests.audit.test_partition import START_MS, STEP_MS, Case, broken, case, reading

MAX_GAP = 6  # of the catalogue there; its window is 16


def spoken(steps: dict[str, list[int]]) -> list[bytes]:
    """One reading of sensor a for each group and step, in the order of time."""
    pairs = sorted((step, group) for group, own in steps.items() for step in own)
    return [reading(group, "a", START_MS + step * STEP_MS, 1.0) for step, group in pairs]


def silent_between(first: int, until: int, *, last: int = 40) -> Case:
    steps = {"g1": [*range(first), *range(until, last)], "g2": list(range(last))}
    return case(spoken(steps), batches=5)


def at(step: int) -> int:
    return START_MS + step * STEP_MS


def test_a_group_that_went_dark_and_spoke_again_is_expected_as_it_was_told() -> None:
    made = silent_between(5, 20)
    audit = made.audit()
    assert broken(audit) == {}
    assert made.given.outages is not None
    of_g1 = sorted(each for each in made.given.outages if each.group == made.columns.index.group("g1"))
    # heard at 4, silent from 5 on; dark once it was not heard at a step and at the 6 before it
    assert [(each.kind, each.ts_ms) for each in of_g1] == [
        ("speaks", at(0)),
        ("dark", at(4 + MAX_GAP + 1)),
        ("speaks", at(20)),
    ]
    assert audit.counts["outages_judged"] == audit.counts["outages"] == 4


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_an_event_that_is_not_told_is_named(which: int) -> None:
    made = silent_between(5, 20)
    told = sorted(made.given.outages or ())
    audit = made.audit(outages={*told} - {told[which]})
    assert broken(audit) == {"outages_absent": 1}
    (offence,) = audit.problems["outages_absent"].first
    assert offence.group == made.columns.index.names[told[which].group]
    assert offence.ts_ms == told[which].ts_ms


def test_an_event_that_no_reading_explains_is_named() -> None:
    made = silent_between(5, 8)  # not long enough
    extra = OutageEvent(at(6), made.columns.index.group("g1"), "dark")
    audit = made.audit(outages={*(made.given.outages or ()), extra})
    assert broken(audit) == {"outages_invented": 1}
    assert "went dark" in str(audit.problems["outages_invented"].first[0])


def test_nothing_is_asked_of_an_outage_topic_that_is_not_there_or_of_a_part_of_the_input() -> None:
    made = silent_between(5, 20)
    assert broken(made.audit(outages=None)) == {}
    assert broken(made.audit(outages=set(), complete=False)) == {}


def test_what_is_not_committed_need_not_be_told() -> None:
    made = silent_between(5, 20)
    commit = made.given.commit
    assert commit is not None
    early = {each for each in made.given.outages or () if each.ts_ms < at(5)}
    offset = int(made.given.readings.offset[made.given.readings.event_time_ms < at(8)].max())
    audit = made.audit(commit=replace(commit, offset=offset, rebuild_from=0), outages=early)
    assert "outages_absent" not in broken(audit)


def test_a_group_with_a_late_reading_is_not_judged() -> None:
    values = spoken({"g1": [*range(5), *range(20, 40)], "g2": list(range(40))})
    values.insert(30, reading("g1", "a", at(6), 1.0))
    made = case(values, batches=5)
    assert broken(made.audit(outages=set())) == {"outages_absent": 1}, "of g2, that it spoke first"


@given(
    st.dictionaries(
        st.sampled_from(["g1", "g2", "g3"]),
        st.lists(st.one_of(st.integers(0, 60), st.integers(0, 400)), min_size=1, max_size=40, unique=True),
        min_size=1,
    ),
    st.integers(1, 9),
    st.sampled_from([0, 60, 150]),
)
def test_whatever_is_spoken_in_order_is_told_as_expected(
    steps: dict[str, list[int]], batches: int, lateness_s: int
) -> None:
    made = case(spoken(steps), batches=batches, lateness_s=lateness_s)
    assert {name: count for name, count in broken(made.audit()).items() if name.startswith("outages")} == {}


def test_messages_of_others_are_passed_over() -> None:
    made = silent_between(5, 8)
    event = b'{"group": "%s", "model": "m", "kind": "dark", "ts": "%s", "last_ts": null, "by_clock": %s}'
    when = b"2026-01-01T00:00:00Z"
    assert (
        read_outages(
            [
                None,
                b"{",
                b"\xff",
                b'{"group": "g1"}',
                event % (b"unknown", when, b"false"),
                event % (b"g1", b"yesterday", b"false"),
                event % (b"g1", when, b"true"),
            ],
            made.columns,
        )
        == set()
    )
    assert len(read_outages([event % (b"g1", when, b"false")], made.columns)) == 1
    assert np.isin(made.columns.index.group("g1"), [0, 1])
