"""Keys: one number per sensor and step, and arithmetic on sorted arrays."""

import numpy as np

from glaim_stream.operate.audit.keys import Keys, count_up, distinct, is_among, run_starts
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.report import Finding, Offence
from tests.operate.audit.tables import COLUMNS, G1, G2, H1, STEP_MS


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_keys_span_all_steps_and_the_holes_after_them() -> None:
    keys = Keys.over(0, COLUMNS, ints(7, 5), ints(), ints(9, 6))
    # steps 5 to 9, the max_gap of 5 steps after them, and one more
    assert (keys.base, keys.span) == (5, 11)
    nothing = Keys.over(0, COLUMNS, ints())
    assert (nothing.base, nothing.span) == (0, 7)


def test_a_key_is_decoded_into_its_parts() -> None:
    keys = Keys.over(0, COLUMNS, ints(5, 9))
    group, sensor, step = ints(G1, G1, G1, G2, H1), ints(0, 0, 2, 0, 1), ints(5, 13, 5, 6, 9)
    made = keys.of(group, sensor, step)
    assert made.tolist() == [0, 8, 22, 34, 81]
    assert keys.step(made).tolist() == step.tolist()
    assert keys.cell(made).tolist() == [0, 0, 2, 3, 7]
    assert keys.model(made).tolist() == [0, 0, 0, 0, 1]
    assert keys.cadence(made).tolist() == [1, 1, 3, 1, 1]


def test_a_finding_counts_all_offences_and_shows_the_first_ones() -> None:
    keys = Keys.over(7, COLUMNS, ints(5, 9))
    broken = keys.of(ints(G1, H1, H1), ints(1, 0, 1), ints(6, 6, 9))
    shown = keys.finding(broken, lambda at: f"number {at}", examples=2, offset=ints(30, 20, 10))
    assert shown == Finding(
        3, [Offence(7, "g1", "b", 6 * STEP_MS, 30, "number 0"), Offence(7, "h1", "a", 6 * STEP_MS // 2, 20, "number 1")]
    )
    assert keys.finding(broken[2:], "x", examples=5) == Finding(1, [Offence(7, "h1", "b", 270_000, None, "x")])


def test_runs_start_where_the_value_changes() -> None:
    assert run_starts(ints()).tolist() == []
    assert run_starts(ints(4)).tolist() == [0]
    assert run_starts(ints(4, 4, 5, 7, 7)).tolist() == [0, 2, 3]
    assert distinct(ints(7, 4, 7, 5, 4)).tolist() == [4, 5, 7]


def test_values_are_found_in_a_sorted_array() -> None:
    assert is_among(ints(3, 4, 5, 7, 8), ints(4, 7)).tolist() == [False, True, False, True, False]
    assert is_among(ints(0, 1), ints()).tolist() == [False, False]
    assert is_among(ints(), ints(1)).tolist() == []


def test_counting_restarts_for_each_length() -> None:
    assert count_up(ints(2, 0, 3)).tolist() == [0, 1, 0, 1, 2]
    assert count_up(ints()).tolist() == []


def test_the_only_group_of_a_catalogue_has_its_own_model() -> None:
    columns = ModelColumns(COLUMNS.catalogue, {})
    columns.index.group("h1")
    assert columns.model_of_group().tolist() == [1]
