"""Gaps longer than a window: what is expected of them is tried on readings, and what cannot be known is left."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from glaim_stream import Imputer
from glaim_stream.core.vocabulary import Method
from glaim_stream.tables.cells import Outcome
from glaim_stream.tables.fill import bounds, fill_groups
from glaim_stream.tables.groups import FilledGroup, Group, Result
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
    assert reason == "in a gap of more than 48 steps, and no method is known to be accurate there"
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


def test_sensors_that_were_not_tried_are_not_worse_than_the_line():
    assert not LongGaps.untried(3).worse.any()


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


def leveled(seed: int, steps: int = 1800) -> np.ndarray:
    """A sensor that wanders slowly, one that follows a third one and also wanders, and the third [3, N]."""
    rng = np.random.default_rng(seed)
    daily = np.sin(np.arange(steps) / 12)
    drift = np.cumsum(rng.normal(size=(2, steps)), axis=1)
    truth = np.stack([0.5 * drift[0] + 0.3 * daily, 2.0 * daily + 0.2 * drift[1], daily])
    return 50.0 + truth + 0.05 * rng.normal(size=truth.shape)


GAPS = [(1, slice(300, 400)), (0, slice(900, 1000)), (0, slice(1003, 1080)), (1, slice(1700, 1800)), (0, slice(0, 60))]


def with_long_gaps(truth: np.ndarray) -> np.ndarray:
    values = truth.copy()
    for sensor, gap in GAPS:
        values[sensor, gap] = np.nan
    return values


@pytest.mark.parametrize("max_gap", [None, 200])
def test_a_long_gap_has_one_method_no_jumps_and_at_most_the_error_of_the_line_or_the_last_value(max_gap):
    ratios = []
    for seed in range(3):
        truth = leveled(seed)
        values = with_long_gaps(truth)
        found = fill_groups([Group("g", 60_000 * np.arange(1800), values)], sensors=NAMES, max_gap=max_gap).groups[0]
        for sensor, gap in GAPS:
            assert len(set(found.method[sensor, gap])) == 1
            if np.isnan(found.values[sensor, gap]).any():
                assert max_gap is None
                continue
            row = found.values[sensor]
            steps = np.abs(np.diff(row))[max(0, gap.start - 1) : gap.stop]
            assert steps.max() <= np.nanmax(np.abs(np.diff(values[sensor]))) + 1e-9
            simple = pd.Series(values[sensor]).interpolate(limit_direction="both").to_numpy()
            last = pd.Series(values[sensor]).ffill().bfill().to_numpy()
            errors = [np.abs(each - truth[sensor])[gap].mean() for each in (row, simple, last)]
            ratios.append((sensor, errors[0] / min(errors[1:])))
    assert np.mean([np.log(ratio) for sensor, ratio in ratios if sensor == 1]) < np.log(0.9)
    assert np.mean([np.log(ratio) for sensor, ratio in ratios if sensor == 0]) < np.log(1.3)


def filled_alone(row: np.ndarray, max_gap: int | None = 300) -> FilledGroup:
    wave = 5.0 + np.sin(np.arange(len(row)) / 7) + 0.1 * np.random.default_rng(0).normal(size=len(row))
    group = Group("g", 60_000 * np.arange(len(row)), np.stack([row, wave]))
    return fill_groups([group], sensors=["a", "b"], max_gap=max_gap).groups[0]


def test_a_sensor_at_rest_a_state_and_a_direction_stay_what_they_are_in_a_long_gap():
    gap = slice(500, 600)
    rng = np.random.default_rng(3)
    resting = np.repeat([20.0, 0.0, 12.0], [300, 700, 200])
    valve = (np.cumsum(rng.random(STEPS) < 0.01) % 2).astype(np.float64)
    north = (355.0 + 0.5 * np.cumsum(rng.normal(size=STEPS))) % 360.0
    for truth in (resting, valve, north):
        found = filled_alone(np.where(np.arange(STEPS) // 100 == 5, np.nan, truth))
        assert len(set(found.method[0, gap])) == 1
        if truth is north:
            off = (found.values[0, gap] - north[gap.start - 1] + 180.0) % 360.0 - 180.0
            assert np.abs(off).max() < 60.0
        else:
            assert set(found.values[0, gap]) == {truth[gap.start - 1]}


def test_gaps_of_all_sensors_at_once_are_lines_or_left():
    values = leveled(5)
    values[:, 700:800] = np.nan
    found = filled(values).groups[0]
    stated = fill_groups([Group("g", 60_000 * np.arange(1800), values)], sensors=NAMES, max_gap=200).groups[0]
    for sensor in (0, 1):
        assert len(set(found.method[sensor, 700:800])) == 1
        assert np.isfinite(stated.values[sensor, 700:800]).all()
    assert (stated.method[0, 700:800] == Method.INTERPOLATION).all()


def test_bands_of_lines_in_long_gaps_come_from_lines_as_long():
    held = []
    for seed in range(4):
        row = 50.0 + 5.0 * slow(3000, 0.97, np.random.default_rng(seed))
        gap = (np.arange(3000) % 1000 >= 600) & (np.arange(3000) % 1000 < 700)
        found = filled_alone(np.where(gap, np.nan, row))
        held.append(((found.lower[0] <= row) & (row <= found.upper[0]))[gap])
    assert 0.75 < np.concatenate(held).mean() < 0.99


def concentration(odd: int, steps: int = 2000) -> np.ndarray:
    """A concentration [N] near 0 with some negative readings that stand alone."""
    rng = np.random.default_rng(2)
    row = np.abs(slow(steps, 0.8, rng))
    row[np.linspace(5, steps - 5, odd).astype(int) if odd > 1 else slice(90, 90 + odd)] = -0.3
    row[rng.random(steps) < 0.15] = np.nan
    row[90] = -0.3 if odd else row[90]
    return row


def test_one_odd_negative_reading_does_not_take_the_floor_away():
    row = concentration(1)
    found = filled_alone(row)
    hole = np.isnan(row)
    assert found.values[0, hole].min() >= 0.0
    assert found.lower[0, hole].min() >= 0.0
    assert found.values[0, 90] == -0.3


def test_a_sensor_with_real_negatives_has_no_floor():
    row = concentration(0) - 0.6
    found = filled_alone(row)
    assert found.values[0, np.isnan(row)].min() < 0.0
    frost = np.abs(slow(4000, 0.8, np.random.default_rng(4)))
    frost[100:103] = -1.0  # one cold night of 4,000 hours
    frost[101] = np.nan
    assert filled_alone(frost).values[0, 101] < 0.0
