"""Which silent sensors keep a new form from its place; rows from left to right, `held` of them for the trial."""

import dataclasses

import numpy as np
import pytest

from glaim_stream.form import ClosedForm, FormSeries, fit
from glaim_stream.operate.learn.silent import silent_sensors

STEP_MS, WINDOW, ROWS, HELD = 60_000, 6, 100, 10
VALUES = np.random.default_rng(0).normal(size=(1, 2, ROWS)).cumsum(axis=2)


def observed(*ranges: tuple[int, int], every: int = 1) -> np.ndarray:
    """Cells of two sensors; the second one is read in these ranges of rows."""
    out = np.ones(VALUES.shape, np.bool_)
    out[:, 1] = False
    for first, last in ranges:
        out[:, 1, first:last:every] = True
    return out


def fitted(seen: np.ndarray, rows: int = ROWS - HELD) -> ClosedForm:
    part = VALUES[:, :, :rows]
    return fit(part, seen[:, :, :rows], start_ms=0, step_ms=STEP_MS, sensors=("a", "b"), steps=WINDOW).form


ALL = fitted(observed((0, ROWS)))


def silent(seen: np.ndarray, *, old: ClosedForm = ALL, until: int | None = 0) -> tuple[tuple[str, ...], ...]:
    """What is silent in these rows, where the form in use has seen them up to the row `until`."""
    old = dataclasses.replace(old, until_ms=None if until is None else until * STEP_MS)
    found = silent_sensors(fitted(seen), old, FormSeries(VALUES, seen, 0, STEP_MS), HELD)
    assert bool(found) == bool(found.lost or found.untried)
    return found.lost, found.untried


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 100)], ((), ())),
        ([(0, 91)], ((), ())),  # one reading of the trial
        ([(0, 90)], ((), ("b",))),
        ([(0, 40)], ((), ("b",))),
        ([(0, 40), (60, 85)], ((), ())),  # it has been silent for longer before
        ([(90, 100)], (("b",), ())),  # back again, but the new form has not seen it
        ([], (("b",), ())),
    ],
)
def test_a_sensor_is_missed_where_a_form_lost_it_or_was_not_tried_on_it(
    ranges: list[tuple[int, int]], expected: tuple[tuple[str, ...], ...]
) -> None:
    assert silent(observed(*ranges)) == expected
    assert silent(observed(*ranges), until=None) == expected


def test_a_sensor_that_reports_rarely_need_not_be_met_by_the_trial() -> None:
    seen = observed((0, 85), every=20)  # the newest reading is in row 80
    assert silent(seen) == ((), ())


def test_a_sensor_that_the_form_in_use_does_not_know_either_is_not_missed() -> None:
    assert silent(observed(), old=fitted(observed())) == ((), ())


@pytest.mark.parametrize(
    ("until", "ranges", "missed"),
    [
        (50, [(0, 40)], False),  # silent in all rows that the form in use has not seen
        (40, [(0, 40)], False),
        (39, [(0, 40)], True),
        (500, [(0, 40)], False),
        (50, [], True),  # it is lost, whatever rows the form in use has seen
        (500, [], True),
        (50, [(90, 100)], True),
    ],
)
def test_a_silence_that_the_form_in_use_was_placed_in_does_not_stop_the_learning(
    until: int, ranges: list[tuple[int, int]], missed: bool
) -> None:
    assert any(silent(observed(*ranges), until=until)) == missed


def test_the_message_names_the_sensors_and_the_rows() -> None:
    found = silent_sensors(
        fitted(observed()), dataclasses.replace(ALL, until_ms=0), FormSeries(VALUES, observed(), 0, STEP_MS), HELD
    )
    assert str(found) == "the form in use knows sensors that have no reading in the training rows (b)"
    both = str(dataclasses.replace(found, untried=("c", "d")))
    assert both.endswith("no reading in the training rows (b) and in the rows of the trial (c, d)")
