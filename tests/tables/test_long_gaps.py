"""Gaps longer than a window: what is expected of them is tried on readings, and what cannot be known is left."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from glaim_stream import Imputer
from glaim_stream.tables.cells import Outcome
from glaim_stream.tables.fill import bounds, fill_groups
from glaim_stream.tables.groups import Group, Result
from glaim_stream.tables.long_gaps import LongGaps, long_cells
from glaim_stream.tables.pages import page
from glaim_stream.tables.summary import error_lines, summed

STEPS = 1200
DEAD = slice(700, STEPS)
NAMES = ["a", "b", "c"]


def wandering(seed: int, own: float) -> tuple[np.ndarray, np.ndarray]:
    """Three sensors [3, N] of one wave, the first of which also wanders by itself and falls silent; and the truth."""
    rng = np.random.default_rng(seed)
    common = 3.0 * np.sin(np.arange(STEPS) / 9) + 0.3 * rng.normal(size=STEPS)
    truth = 20.0 + common * rng.uniform(1, 2, (3, 1)) + 0.05 * rng.normal(size=(3, STEPS))
    truth[0] += np.cumsum(rng.normal(size=STEPS)) * own
    values = np.where(rng.random(truth.shape) < 0.03, np.nan, truth)
    values[0, DEAD] = np.nan
    return values, truth


def filled(values: np.ndarray) -> Result:
    return fill_groups([Group("g", 60_000 * np.arange(values.shape[1]), values)], sensors=NAMES)


@pytest.fixture(scope="module")
def results() -> list[tuple[Result, np.ndarray]]:
    made = [wandering(seed, own=0.1) for seed in range(4)]
    return [(filled(values), truth) for values, truth in made]


def test_the_expected_error_of_a_long_gap_is_that_of_long_gaps(results):
    ratios = []
    for result, truth in results:
        error = np.abs(result.groups[0].values[0] - truth[0])[DEAD]
        if "a" in result.long_gap_error:
            expected, usual = result.long_gap_error["a"]
            assert expected < 0.8 * usual
            assert expected > 3 * result.expected_error["a"]
            ratios.append(np.nanmean(error) / expected)
    assert len(ratios) >= 2
    assert 0.4 < np.median(ratios) < 2.5


def test_bands_of_a_long_gap_are_as_wide_as_its_errors(results):
    held = []
    for result, truth in results:
        group = result.groups[0]
        far = np.arange(STEPS) >= DEAD.start + 32
        cells = far & np.isfinite(group.values[0])
        held += [((group.lower[0] <= truth[0]) & (truth[0] <= group.upper[0]))[cells]]
    assert np.concatenate(held).mean() > 0.7


def test_cells_near_a_reading_keep_the_band_of_short_gaps(results):
    group = next(result for result, _ in results if "a" in result.long_gap_error).groups[0]
    width = (group.upper - group.lower)[0]
    assert width[DEAD.start : DEAD.start + 3].max() < 0.5 * np.median(width[DEAD.start + 40 :])


def test_a_sensor_that_wanders_alone_is_left_and_it_is_stated():
    values, _ = wandering(1, own=2.0)
    result = filled(values)
    assert np.isnan(result.groups[0].values[0, DEAD.start + 40 :]).all()
    assert "a" not in result.long_gap_error
    (reason, count), *_ = result.groups[0].left.items()
    assert reason == "in a gap of more than 48 steps, and the other sensors tell too little about it"
    assert count > 400


def test_a_sensor_with_too_few_readings_to_try_is_left():
    values, _ = wandering(1, own=0.0)
    values[0, 60:] = np.nan
    result = filled(values)
    assert np.isnan(result.groups[0].values[0, 120:]).all()
    assert result.long_gap_error == {}


def test_hidden_stretches_are_the_first_and_last_readings_and_only_of_sensors_with_a_long_gap():
    values, _ = wandering(2, own=0.0)
    hidden = long_cells(Group("g", 60_000 * np.arange(STEPS), values))
    readings = np.flatnonzero(~np.isnan(values[0]))
    length = len(readings) // 6
    assert np.flatnonzero(hidden[0]).tolist() == [*readings[:length], *readings[-length:]]
    assert not hidden[1:].any()


def test_tables_without_a_long_gap_are_fitted_once(monkeypatch):
    from glaim_stream.tables import fit as module

    counted = []
    original = module.fit_form
    monkeypatch.setattr(module, "fit_form", lambda *given: counted.append(1) or original(*given))
    values, _ = wandering(3, own=0.0)
    filled(values[:, :600])
    assert len(counted) == 1
    filled(values)
    assert len(counted) == 3


def test_summary_and_page_state_what_a_long_gap_is_worth(results):
    result = next(result for result, _ in results if "a" in result.long_gap_error)
    outcome = Outcome((), result, {"gaussian": 500}, {}, 0, 0, 0, (), (), sensor_holes={"a": (500, 500)})
    expected, usual = result.long_gap_error["a"]
    text = "\n".join(error_lines(outcome))
    assert "in gaps of up to 48 steps, on hidden readings" in text
    assert "in gaps of more than 48 steps, on long hidden stretches" in text
    assert f"a {expected:.3g} ({usual:.3g})" in text
    assert "rows" not in "\n".join(summed(outcome, 500, None, str))
    short = summed(replace(outcome, missing_rows=3), 500, None, str)
    assert "rows missing: 3 steps have no row; --insert-rows inserts them where it can" in short
    html = page("a.csv", [], outcome, 500)
    assert "<th>in gaps of more than 48 steps</th>" in html
    assert f"<td>{expected:.3g}</td></tr>" in html


def test_an_imputer_keeps_what_was_tried(tmp_path):
    values, _ = wandering(0, own=0.1)
    table = pd.DataFrame(values.T, columns=NAMES)
    imputer = Imputer().fit(table)
    assert set(imputer.long_gap_error_) == {"a"}
    imputer.save(tmp_path / "imputer.npz")
    again = Imputer.load(tmp_path / "imputer.npz")
    assert again.long_gap_error_ == imputer.long_gap_error_
    pd.testing.assert_frame_equal(again.transform(table), imputer.transform(table), check_exact=True)


def test_sensors_that_were_not_tried_are_not_hopeless():
    assert not LongGaps.untried(3).hopeless.any()


def with_a_meter(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A flow, the meter that counts it and another sensor [3, N], the meter silent for 150 steps; and the truth."""
    rng = np.random.default_rng(seed)
    flow = np.maximum(10.0 + 4.0 * slow(4000, 0.9, rng), 0.0)
    truth = np.stack([flow + 0.1 * rng.normal(size=4000), 1000.0 + np.cumsum(flow), 5.0 + slow(4000, 0.9, rng)])
    values = np.where(rng.random(truth.shape) < 0.04, np.nan, truth)
    values[1, 1000:1150] = np.nan
    return values, truth


def slow(steps: int, rest: float, rng: np.random.Generator) -> np.ndarray:
    """A series [N] of deviation 1 that keeps a share of each value in the next."""
    out = rng.normal(size=steps)
    for step in range(1, steps):
        out[step] = rest * out[step - 1] + np.sqrt(1.0 - rest**2) * out[step]
    return out


@pytest.mark.slow  # quicker: the meter of test_far_cells.py, and a meter with few readings, below
def test_a_meter_neither_falls_nor_jumps_in_a_long_gap_and_its_band_holds_the_truth():
    held = []
    for seed in range(4):
        values, truth = with_a_meter(seed)
        found = filled(values).groups[0]
        gap = slice(995, 1155)
        rises = np.diff(found.values[1, gap])
        assert rises.min() >= 0.0
        assert rises.max() < 40.0
        np.testing.assert_allclose(np.diff(found.values[1, 1000:1150], 2), 0.0, atol=1e-6)
        lower, upper = found.lower[1, 1000:1150], found.upper[1, 1000:1150]
        assert np.isnan(values[1, 999]) or lower.min() >= values[1, 999]
        held.append((lower <= truth[1, 1000:1150]) & (truth[1, 1000:1150] <= upper))
    assert np.concatenate(held).mean() > 0.7


def test_a_meter_that_had_too_few_readings_to_try_lies_somewhere_between_the_two_readings():
    row = np.array([0.0, 1.0, np.nan, np.nan, np.nan, 9.0, 10.0])
    lower, upper = bounds(row, np.array([0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 10.0]), np.ones(7), np.isnan(row))
    np.testing.assert_array_equal(lower[2:5], 1.0)
    np.testing.assert_array_equal(upper[2:5], 9.0)
