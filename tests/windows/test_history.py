"""How much of the topic before a step determines its rows."""

import pytest

from glaim_stream.core.catalogue import parse_catalogue
from glaim_stream.windows.history import HORIZON, history_ms, history_steps
from glaim_stream.windows.partition import PartitionWindows
from tests.event_time import fed
from tests.support import STEP_MS, Event, catalogue


def test_without_scores_the_rows_of_a_step_depend_on_its_window() -> None:
    assert history_steps(6, scored=False) == 6


def test_with_scores_they_also_depend_on_the_probes_of_96_earlier_steps() -> None:
    assert HORIZON == 96
    assert history_steps(6, scored=True) == 6 + 96


@pytest.mark.parametrize(
    ("scored", "expected_ms"),
    [
        (False, 7 * 1000 + 2000 + 1500),  # a window of 6 steps and one more, plus lateness and skew
        (True, 103 * 1000 + 2000 + 1500),  # plus 96 steps of errors
    ],
)
def test_the_history_in_time_adds_one_step_the_lateness_and_the_skew(scored: bool, expected_ms: int) -> None:
    assert history_ms(catalogue(window=6, lateness_s=2, max_ahead_s=1.5), scored=scored) == expected_ms


def test_with_several_models_the_longest_history_counts() -> None:
    models = [
        {"name": name, "sensors": [{"id": "s0"}], "step_s": step_s, "window": window, "max_gap": 2, "revise_after": 1}
        for name, step_s, window in (("a", 1, 20), ("b", 60, 4), ("c", 1, 4))
    ]
    groups = [{"model": name, "pattern": f"{name}*"} for name in ("a", "b", "c")]
    rules = parse_catalogue({"models": models, "groups": groups, "max_ahead_s": 0}, source="test")
    assert history_ms(rules, scored=False) == 5 * 60_000


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_rings_remember_the_offsets_of_the_whole_history(share: float) -> None:
    """One reading per step, at the offset of its step: step 399 is open, and 398 is the newest closed one."""
    windows = PartitionWindows(catalogue(window=6), score_share=share, group_names=["g0"])
    fed(windows, [Event(step * STEP_MS) for step in range(400)])
    assert windows.rebuild_from(400) == 399 - history_steps(6, scored=share > 0)
