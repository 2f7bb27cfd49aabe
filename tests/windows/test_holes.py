"""Which cells of a closing step get a row."""

from dataclasses import replace

import numpy as np
import pytest

from glaim_stream.core.vocabulary import FINAL, PROVISIONAL
from glaim_stream.windows.holes import Rules, StepRows, final_rows, look_back, provisional_rows, settled_rows
from glaim_stream.windows.rings import Rings

RULES = Rules(window=6, revise_after=2, max_gap=3, step_ms=1000, model_index=0)


def rings(*drawn: str, closable: int = 0, ahead: int = 1) -> Rings:
    """Rings drawn as one string per sensor, where `x` is observed and the last character is step `closable`.

    The argument "|" separates groups.
    """
    groups = [[]]  # type: list[list[str]]
    for line in drawn:
        if line == "|":
            groups.append([])
        else:
            groups[-1].append(line.replace(" ", ""))
    made = Rings(len(groups[0]), 6, ahead, mean=False)
    made.start(closable)
    made.rows(np.arange(len(groups), dtype=np.int32))
    for row, sensors in enumerate(groups):
        for sensor, line in enumerate(sensors):
            for back, mark in enumerate(reversed(line)):
                if mark == "x":
                    made.observed[row, sensor, (closable - back) % made.length] = True
    return made


def cells(rows: StepRows) -> list[tuple[int, int, int, bool, bool, bool]]:
    """(row, sensor, gap age, observed, fill, final) of each row."""
    columns = (rows.row, rows.sensor, rows.gap_age, rows.observed, rows.fill, rows.final)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_look_back_returns_the_age_of_every_sensor_and_group() -> None:
    lookback = look_back(rings("x . . . . x", ". . x . . .", "|", "x . . . . .", ". . . . . ."), RULES, 0)
    assert lookback.age.tolist() == [[0, 3], [5, 6]]
    assert lookback.group_age.tolist() == [0, 5]
    assert lookback.observed[0, 1].tolist() == [False, False, True, False, False, False]
    assert lookback.newest_first[0, 1].tolist() == [False, False, False, True, False, False]


def test_steps_beyond_the_rings_are_not_observed() -> None:
    """
    step     -5 -4 -3 -2 -1  0 | 1  2      room up to step 0; slots of steps 1 and 2 still hold -6 and -5
    s0        x  x  x  x  x  x | .  .
    """
    lookback = look_back(rings("x x x x x x x"), RULES, 2)
    assert lookback.observed[0, 0].tolist() == [True] * 4 + [False] * 2
    assert (lookback.age.tolist(), lookback.group_age.tolist()) == ([[2]], [2])


def test_the_newest_step_in_the_rings_can_be_observed() -> None:
    assert look_back(rings("x x x x x x x"), RULES, 0).observed.all()


def test_without_groups_the_ages_are_empty() -> None:
    lookback = look_back(Rings(2, 6, 1, mean=False), RULES, 0)
    assert (lookback.age.shape, lookback.group_age.shape) == ((0, 2), (0,))


def test_every_cell_of_an_active_group_gets_a_first_row() -> None:
    """Gaps of up to max_gap 3 are filled; a longer one is null and final at once."""
    lookback = look_back(
        rings(
            "x . . . . x",
            ". . x . . .",
            ". x . . . .",
            "|",
            ". . x . . .",
            ". . . . . .",
            ". . . . . .",
            "|",
            ". x . . . .",
            ". . . . . .",
            ". . . . . .",
        ),
        RULES,
        0,
    )
    rows = provisional_rows(lookback, RULES, None, by_clock=False)
    assert cells(rows) == [
        (0, 0, 0, True, False, True),
        (0, 1, 3, False, True, False),
        (0, 2, 4, False, False, True),
        (1, 0, 3, False, True, False),
        (1, 1, 6, False, False, True),
        (1, 2, 6, False, False, True),
    ]
    assert (rows.lag, rows.revision) == (0, PROVISIONAL)


def test_the_wall_clock_makes_no_hole_final() -> None:
    lookback = look_back(rings("x", ". x .", ". ."), RULES, 0)
    rows = provisional_rows(lookback, RULES, None, by_clock=True)
    assert rows.final.tolist() == rows.observed.tolist() == [True, False, False]


def test_with_revise_after_0_holes_are_final_unless_closed_by_the_wall_clock() -> None:
    lookback = look_back(rings("x .", ". ."), RULES, 0)
    assert provisional_rows(lookback, replace(RULES, revise_after=0), None, by_clock=False).final.all()
    assert not provisional_rows(lookback, replace(RULES, revise_after=0), None, by_clock=True).final.any()


def test_holes_published_by_the_wall_clock_that_cannot_change_are_settled() -> None:
    lookback = look_back(rings("x", "x .", ". ."), RULES, 0)
    rows = settled_rows(lookback, RULES, None)
    assert cells(rows) == [(0, 2, 6, False, False, True)]
    assert (rows.lag, rows.revision) == (0, PROVISIONAL)
    assert cells(settled_rows(lookback, replace(RULES, revise_after=0), None)) == [
        (0, 1, 1, False, True, True),
        (0, 2, 6, False, False, True),
    ]


def test_holes_two_steps_back_become_final_unless_they_are_null() -> None:
    """
    step  -5 -4 -3 -2 -1  0     -2 becomes final
    s0     x  .  .  .  x  x     gap age 3 = max_gap
    s1     .  .  .  .  x  x     never observed before: stays null
    s2     x  x  x  x  .  .     observed
    s3     .  .  x  .  .  .     gap age 1, still dark
    """
    lookback = look_back(rings("x . . . x x", ". . . . x x", "x x x x . .", ". . x . . ."), RULES, 0)
    rows = final_rows(lookback, RULES, None)
    assert cells(rows) == [(0, 0, 3, False, True, True), (0, 3, 1, False, True, True)]
    assert (rows.lag, rows.revision) == (2, FINAL)


@pytest.mark.parametrize("max_gap", [2, 3])
def test_a_final_row_needs_a_gap_of_at_most_max_gap(max_gap: int) -> None:
    lookback = look_back(rings("x . . . x x"), RULES, 0)
    assert len(final_rows(lookback, replace(RULES, max_gap=max_gap), None).row) == (max_gap == 3)
