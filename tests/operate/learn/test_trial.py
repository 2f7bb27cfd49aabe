"""The trial of a closed form: which rows it uses, and that nothing else counts."""

import dataclasses

import numpy as np
import pytest

from glaim_stream.feed.plant import STEP_MS, simulate
from glaim_stream.form import ClosedForm, FormSeries, Kind, fit
from glaim_stream.operate.learn.trial import better, errors_of, held_out

WINDOW, ROWS, HELD = 12, 200, 15
PLANT = simulate(0.25, groups=2, seed=3)
START_MS = int(PLANT.times_ms[0])
VALUES = PLANT.values[:, :2, :ROWS].astype(np.float64)


def series(values: np.ndarray = VALUES, observed: np.ndarray | None = None) -> FormSeries:
    return FormSeries(values, np.ones(values.shape, np.bool_) if observed is None else observed, START_MS, STEP_MS)


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    part = VALUES[:, :, :-HELD]
    return fit(
        part, np.ones(part.shape, np.bool_), start_ms=START_MS, step_ms=STEP_MS, sensors=PLANT.sensor_ids[:2],
        steps=WINDOW,
    ).form  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "seen", "expected"),
    [
        (1000, None, 24),  # at most two windows
        (150, None, 15),  # 10 %
        (100, None, 12),  # at least a window
        (36, None, 12),
        (30, None, 6),  # the fit needs 24 rows
        (10, None, -14),
        (1000, 900, 24),
        (1000, 984, 16),
        (1000, 997, 3),
        (1000, 1100, -100),
    ],
)
def test_the_newest_rows_that_neither_form_has_seen_are_held_out(rows: int, seen: int | None, expected: int) -> None:
    empty = series(np.zeros((1, 1, rows)))
    assert held_out(empty, WINDOW, None if seen is None else START_MS + seen * STEP_MS) == expected


def test_only_cells_of_the_newest_rows_are_scored(form: ClosedForm) -> None:
    found = errors_of({"new": form}, series(), HELD, WINDOW)
    assert all(found["new"].keys() == cases.keys() and len(cases) == 4 for cases in found.values())
    assert found["new"]["newest_one"] < found["last value"]["newest_one"]
    observed = np.ones(VALUES.shape, np.bool_)
    observed[:, :, -HELD:] = False
    silent = errors_of({"new": form}, series(observed=observed), HELD, WINDOW)
    assert silent == {"new": {}, "interpolation": {}, "last value": {}}


def test_errors_have_the_unit_of_each_groups_deviation(form: ClosedForm) -> None:
    scaled = VALUES * np.array([1.0, 1000.0])[:, None, None]
    one, other = (errors_of({}, series(values), HELD, WINDOW) for values in (VALUES, scaled))
    for method, cases in one.items():
        assert other[method] == pytest.approx(cases)


def test_states_and_directions_do_not_count_unless_there_is_nothing_else(form: ClosedForm) -> None:
    valve = dataclasses.replace(form, kinds=(Kind.NUMBER, Kind.STATE))
    wild = VALUES.copy()
    wild[:, 1] = np.random.default_rng(1).normal(size=wild[:, 1].shape) * 50.0
    known, other = (errors_of({"new": valve}, series(values), HELD, WINDOW)["last value"] for values in (VALUES, wild))
    assert known == other
    assert known != errors_of({"new": form}, series(), HELD, WINDOW)["last value"]
    both = dataclasses.replace(form, kinds=(Kind.ANGLE, Kind.STATE))
    assert errors_of({"new": both}, series(), HELD, WINDOW)["last value"].keys() == known.keys()


def test_a_series_of_directions_alone_is_scored_by_the_shorter_way(form: ClosedForm) -> None:
    vanes = dataclasses.replace(form, kinds=(Kind.ANGLE, Kind.ANGLE))
    drift = np.cumsum(np.random.default_rng(2).normal(size=VALUES.shape) * 5.0, axis=2) % 360.0
    assert np.abs(np.diff(drift[:, :, -HELD:])).max() > 300.0  # one runs through 360 where nothing is known
    found = errors_of({"new": vanes}, series(drift), HELD, WINDOW)
    assert found["new"] == pytest.approx(found["interpolation"])
    assert found["new"]["random"] < found["last value"]["random"] < 0.1


def test_better_means_a_lower_geometric_mean_over_the_cases() -> None:
    errors = {"a": {"x": 0.1, "y": 10.0}, "b": {"x": 1.0, "y": 2.0}, "none": {}}
    assert better(errors, "a", "b")
    assert not better(errors, "b", "a")
    assert not better(errors, "a", "a")
    assert not better(errors, "none", "none")  # nothing was scored
    wild = {"a": {"x": 0.1, "y": np.inf}, "b": {"x": 1.0, "y": np.inf}}
    assert better(wild, "a", "b")
    assert not better(wild, "b", "a")
