"""The commit lies within the input and includes all readings that the windows need."""

import pytest

from glaim_stream.operate.audit.commits import GroupCommit, check_commit, needed_by_windows
from glaim_stream.operate.audit.report import Finding, Offence
from tests.operate.audit.tables import COLUMNS, G1, STEP_MS, Reading, arrived


def problems(commit: GroupCommit, *given: Reading, end: int = 5) -> dict[str, Finding]:
    arrivals = arrived(*given, committed=commit.offset)
    return check_commit(commit, needed_by_windows(arrivals, COLUMNS), partition=3, end=end).problems


def test_a_commit_may_lie_at_the_end_of_the_input_but_not_beyond_it() -> None:
    assert problems(GroupCommit(5, None)) == {"committed_beyond_input": Finding(0, [])}
    found = problems(GroupCommit(7, None))["committed_beyond_input"]
    assert found == Finding(2, [Offence(3, offset=7, detail="committed 7, the input ends at 5")])


@pytest.mark.parametrize(("rebuild_from", "count"), [(0, 0), (1, 0), (2, 1), (4, 3)])
def test_a_rebuild_needs_the_window_before_the_open_step(rebuild_from: int, count: int) -> None:
    """Step 10 is open at the commit and the window has 8 steps: the reading of step 2, at offset 1, is needed."""
    given: list[Reading] = [(G1, 0, step * STEP_MS, 1.0) for step in (1, 2, 3, 10)]
    found = problems(GroupCommit(4, rebuild_from), *given)["rebuild_too_late"]
    assert found.count == count
    assert [each.offset for each in found.first] == [1][:count]


def test_readings_above_the_commit_or_too_late_are_not_needed() -> None:
    given: list[Reading] = [(G1, 0, 10 * STEP_MS, 1.0), (G1, 0, STEP_MS, 1.0), (G1, 0, 10 * STEP_MS, 1.0)]
    assert problems(GroupCommit(1, 1), *given[:2])["rebuild_too_late"].count == 1
    assert problems(GroupCommit(0, 0), *given)["rebuild_too_late"].count == 0
    assert problems(GroupCommit(0, 2), *given)["rebuild_too_late"].count == 2, "nothing is needed before the commit"
