"""Groups beyond the budget of a partition, and the names of groups that come and go."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from glaim_stream.core.budget import Budget
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.decode import dead_letters
from glaim_stream.imputers import LastValue
from glaim_stream.output import read_rows
from glaim_stream.pipeline import pipeline as pipeline_module
from glaim_stream.pipeline.isolation import copy_windows
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from tests.support import STEP_MS, Record, catalogue, json_record

NOW_MS = 1_700_000_000_000
FORGETFUL = catalogue(sensors=1, groups="*", window=3, max_gap=1, revise_after=0, max_ahead_s=0)


def pipeline(groups: int) -> Pipeline:
    return Pipeline(catalogue(sensors=1, groups="*"), {}, LastValue(), budget=Budget(groups=groups))


def reading(offset: int, group: str, step: int) -> Record:
    ts = NOW_MS + step * STEP_MS
    return replace(json_record(offset, group=group, sensor="s0", ts=ts, value=float(step)), timestamp=ts)


def apply(made: Pipeline, windows: PartitionWindows, *records: Record) -> Applied:
    return made.apply(windows, records, now_ms=NOW_MS + 10_000 * STEP_MS)  # later than every record


def names(made: Pipeline, *parts: Applied) -> list[str]:
    """Group names of the rows that batches publish."""
    closed = [each for part in parts for each in part.closed]
    messages = made.messages(asyncio.run(made.fill(closed)))
    return [name for message in messages for name in read_rows(message.value)["group"].to_pylist()]


def test_a_group_beyond_the_budget_is_refused_and_the_old_ones_go_on() -> None:
    made = pipeline(2)
    windows = made.windows()
    first = apply(made, windows, reading(0, "a", 0), reading(1, "b", 0), reading(2, "c", 0), reading(3, "a", 1))
    assert [(each.offset, each.cause, each.position) for each in first.rejects] == [
        (2, DeadLetterCause.TOO_MANY_GROUPS, 0)
    ]
    assert first.rejects[0].detail == ("a new group, and the partition has 2, as many as GLAIM_PARTITION_GROUPS allows")
    assert (first.readings, windows.groups) == (3, 2)
    second = apply(made, windows, reading(4, "b", 2), reading(5, "c", 2), reading(6, "a", 2))
    assert [each.offset for each in second.rejects] == [5]
    assert Counter(names(made, first, second)) == Counter({"a": 2, "b": 2})


def test_forty_thousand_new_names_leave_one_letter_each() -> None:
    made = pipeline(1000)
    windows = made.windows()
    apply(made, windows, *(reading(n, f"old-{n}", 0) for n in range(500)))
    for poll in range(2):
        records = [reading(1000 + n, f"new-{poll}-{n}", 1) for n in range(20_000)]
        found = apply(made, windows, *records, reading(30_000, "old-7", 1))
        refused = 20_000 if poll else 19_500
        assert len(found.rejects) == refused
        assert len(dead_letters(records, found.rejects, topic="t", partition=0)) == refused
        assert found.readings == 20_001 - refused
    assert windows.groups == 1000
    apply(made, windows)
    assert len(made.index) <= pipeline_module._FEWEST


def test_a_group_that_has_been_silent_for_a_window_makes_room() -> None:
    made = pipeline(2)
    windows = made.windows()
    apply(made, windows, reading(0, "a", 0), reading(1, "b", 0))
    for step in range(1, 320):  # the window has 6 steps, and 301 more lie ahead of the newest one
        apply(made, windows, reading(1 + step, "a", step))
    assert apply(made, windows, reading(400, "c", 320)).rejects == []


def test_a_refused_reading_moves_the_clock_so_that_a_rebuild_closes_the_same_steps() -> None:
    made = pipeline(1)
    windows = made.windows()
    apply(made, windows, reading(0, "a", 0))
    assert len(apply(made, windows, reading(1, "b", 2)).closed) == 1


@pytest.mark.slow  # quicker: the letters of forty thousand names below
def test_names_that_come_and_go_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "_FEWEST", 10)
    made = Pipeline(FORGETFUL, {}, LastValue())
    windows = made.windows()
    made.codes = pipeline_module.HeldCodes(made.index)
    made.codes.hold(windows)
    for step in range(0, 3000, 3):
        found = apply(made, windows, reading(step, f"group-{step}", step))
        if step:
            assert names(made, found)[0] == f"group-{step - 3}"
    assert len(made.index.names) <= 25
    assert len(made.index._group_code) == len(made.index)


def test_a_code_that_rows_in_flight_hold_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "_FEWEST", 1)
    made = Pipeline(FORGETFUL, {}, LastValue())
    made.codes = pipeline_module.HeldCodes(made.index)
    windows = made.windows()
    apply(made, windows, reading(0, "first", 0))
    in_flight = apply(made, windows, reading(1, "second", 1))
    for step in range(5, 100, 5):
        apply(made, windows, reading(step, f"later-{step}", step))
    assert names(made, in_flight) == ["first"]


def test_copies_of_windows_hold_their_codes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "_FEWEST", 1)
    made = Pipeline(FORGETFUL, {}, LastValue())
    made.codes = pipeline_module.HeldCodes(made.index)
    windows = made.windows()
    apply(made, windows, reading(0, "first", 0))
    copy = copy_windows(made, windows)
    for step in range(5, 100, 5):
        apply(made, windows, reading(step, f"later-{step}", step))
    assert names(made, apply(made, copy, reading(100, "first", 1))) == ["first"]
