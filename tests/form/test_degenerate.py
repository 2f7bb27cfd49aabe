"""Sensors and windows that say next to nothing."""

import numpy as np
import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.form.baselines import interpolation
from glaim_stream.form.fit import fit, rows_needed
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.kinds import Kind
from tests.form.samples import START_MS, STEP_MS, STEPS, fitted, series, windows


def holes(shape: tuple[int, ...], share: float = 0.3, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) >= share


def with_sensor(values: np.ndarray, sensor: np.ndarray) -> np.ndarray:
    return np.concatenate([values, np.broadcast_to(sensor, values[:, :1].shape)], axis=1)


def test_a_constant_sensor_is_filled_by_its_constant_and_followed_once_it_moves() -> None:
    values = with_sensor(series(), np.array(7.3))
    form = fitted(values).form
    cut, end_ms = windows(values)
    found = form.fill(cut, holes(cut.shape), end_ms)
    np.testing.assert_allclose(found.mean[:, 3], 7.3, rtol=1e-12)
    silent = np.ones(cut.shape, np.bool_)
    silent[:, 3] = False
    np.testing.assert_allclose(form.fill(cut, silent, end_ms).mean[:, 3], 7.3, rtol=1e-12)
    moved = cut.copy()
    moved[:, 3, STEPS // 2 :] = 9.0
    newest = np.ones(cut.shape, np.bool_)
    newest[:, 3, -2:] = False
    answer = form.fill(moved, newest, end_ms)
    assert np.abs(answer.mean[:, 3, -1] - 9.0).max() < 0.2
    assert (answer.deviation[:, 3, -1] > 0).all()


@pytest.mark.parametrize("woken", [0.3, -1e9, 1e250])
@pytest.mark.parametrize("readings", [STEPS, 5])
def test_a_sensor_that_was_always_0_in_training_changes_no_other_sensor_once_it_moves(
    woken: float, readings: int
) -> None:
    rows = 120  # so few that moments of pairs of cells, with holes, have negative eigenvalues
    values = with_sensor(series(rows), np.array(0.0))
    observed = holes(values.shape, 0.4)
    form = fitted(np.where(observed, values, 0.0), observed).form
    cut, end_ms = windows(values)
    seen = holes(cut.shape)
    seen[:, :, -3:-1] = False
    seen[:, 3, :-readings] = False
    moved = cut.copy()
    moved[:, 3] = woken
    if readings < STEPS:
        moved[:, 3, -1] = 0.0
    calm, found = form.fill(cut, seen, end_ms), form.fill(moved, seen, end_ms)
    np.testing.assert_allclose(found.mean[:, :3], calm.mean[:, :3], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.deviation[:, :3], calm.deviation[:, :3], rtol=1e-9)


def test_a_copy_is_filled_to_a_millionth_of_its_scale() -> None:
    values = series()
    values = with_sensor(values, values[:, :1] * 1.8 + 32.0)
    cut, end_ms = windows(values)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 3, 5:15] = False
    observed[:, 3, -1] = False
    found = fitted(values).form.fill(cut, observed, end_ms)
    assert np.abs(found.mean - cut).max() < 1e-6 * cut[:, 3].std()


def test_an_exact_sum_is_filled_exactly_from_its_parts() -> None:
    values = series()
    values = with_sensor(values, values[:, :1] + values[:, 2:3])
    cut, end_ms = windows(values)
    form = fitted(values).form
    for missing in (0, 2, 3):
        observed = np.ones(cut.shape, np.bool_)
        observed[:, missing, -3:] = False
        np.testing.assert_allclose(form.fill(cut, observed, end_ms).mean, cut, atol=1e-7)


def test_a_sensor_without_readings_is_declined_and_harms_no_other() -> None:
    values = with_sensor(series(), np.array(np.nan))
    form = fitted(values).form
    cut, end_ms = windows(values)
    observed = holes(cut.shape) & np.isfinite(cut)
    found = form.fill(cut, observed, end_ms)
    assert np.isnan(found.mean[:, 3]).all()
    assert np.isfinite(found.mean[:, :3]).all()
    assert (found.deviation[:, :3] >= 0).all()
    cut[:, 3] = 40.0 + np.arange(STEPS)
    observed[:, 3] = True
    observed[:, 3, 10] = False
    assert np.isnan(form.fill(cut, observed, end_ms).mean[:, 3, 10]).all()  # a line is better than what it knows


def test_a_sensor_with_three_values_and_many_pairwise_holes_leave_all_answers_finite() -> None:
    values = with_sensor(series(800), np.array(np.nan))
    values[0, 3, [100, 400, 700]] = [1.0, 2.0, 1.5]
    values[:, :3][~holes(values[:, :3].shape, 0.4)] = np.nan
    form = fitted(values).form
    cut, end_ms = windows(values)
    found = form.fill(cut, np.isfinite(cut), end_ms)
    assert np.isfinite(found.mean[:, :3]).all()
    assert np.isfinite(found.deviation[:, :3]).all()
    assert (np.nan_to_num(found.deviation) >= 0).all()


def test_windows_with_one_cell_or_none_stay_in_the_range_with_finite_bands() -> None:
    values = series()
    form = fitted(values).form
    cut, end_ms = windows(values)
    span = values.max(axis=(0, 2)) - values.min(axis=(0, 2))
    for cells in (0, 1):
        observed = np.zeros(cut.shape, np.bool_)
        observed[:, 0, 3] = cells == 1
        found = form.fill(cut, observed, end_ms)
        assert np.isfinite(found.mean).all()
        assert (found.mean >= (values.min(axis=(0, 2)) - span)[:, None]).all()
        assert (found.mean <= (values.max(axis=(0, 2)) + span)[:, None]).all()
        assert (found.deviation < 3 * span[:, None]).all()
        assert (found.deviation[~observed] > 0).all()


def test_a_silent_sensor_follows_the_levels_of_the_others() -> None:
    values = series(3000)
    form = fitted(values).form
    cut, end_ms = windows(values)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 1] = False  # sensor 0 shows the same process at another level
    found = form.fill(cut, observed, end_ms)
    error = (found.mean - cut)[:, 1]
    assert np.sqrt(np.mean(error**2)) < 0.4 * cut[:, 1].std()
    assert np.mean(np.abs(error) < 1.645 * found.deviation[:, 1]) > 0.8


def test_a_sensor_that_was_silent_while_the_others_moved_elsewhere_follows_them_there() -> None:
    rng = np.random.default_rng(6)
    common = np.cumsum(rng.normal(size=4000)) * 0.05
    common[2000:] += 2.0 * (common[2000:] - common[2000])
    slopes = np.array([1.0, 1.5, 2.0])
    truth = (slopes[:, None] * common + 0.1 * rng.normal(size=(3, 4000)))[None]
    values = truth.copy()
    values[0, 1, 2000:] = np.nan
    variant = fitted(values).form.variants[0]
    scale = variant.transform.scale
    covariance = variant.levels.covariance * np.outer(scale, scale)
    assert covariance[0, 1] / covariance[0, 0] == pytest.approx(1.5, rel=0.1)
    mean = variant.levels.mean * scale
    assert mean[1] == pytest.approx(1.5 * mean[0], abs=0.1 * truth[0, 1].std())


def test_one_sensor_alone_is_filled() -> None:
    values = series()[:, :1]
    cut, end_ms = windows(values)
    observed = holes(cut.shape)
    error = (fitted(values).form.fill(cut, observed, end_ms).mean - cut)[~observed]
    assert np.sqrt(np.mean(error**2)) < 0.4


def test_too_few_rows_say_how_many_are_needed() -> None:
    values = series(50)
    with pytest.raises(ModelError, match="needs 192 rows, found 50: 142 more"):
        fit(values, np.isfinite(values), start_ms=START_MS, step_ms=STEP_MS, sensors=["a", "b", "c"], steps=96)
    assert rows_needed(96) == 192
    with pytest.raises(ModelError, match="found 0"):
        fitted(values * np.nan)


def test_two_windows_of_rows_beat_the_last_value_without_a_validation() -> None:
    values = series(600, habit=2.0)
    found = fitted(values[:, :, : 2 * STEPS])
    assert found.report.validation_windows == 0
    cut, end_ms = windows(values[:, :, 2 * STEPS :])
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 1, 8:16] = False
    mean = found.form.fill(cut, observed, end_ms).mean
    error, last = (mean - cut)[~observed], (cut[:, 1, 7:8] - cut[:, 1, 8:16]).ravel()
    assert np.mean(error**2) < 0.5 * np.mean(last**2)


def test_values_whose_squares_are_infinite_spoil_no_other_cell() -> None:
    values = series()
    values[0, 0, 300], values[0, 1, 600] = 1e300, np.inf
    form = fitted(values).form
    cut, end_ms = windows(series(seed=2))
    observed = holes(cut.shape)
    cut[:, 2, 4], observed[:, 2, 4] = -1e300, True
    found = form.fill(cut, observed, end_ms)
    assert (found.mean[:, 2, 4] == -1e300).all()
    error = (found.mean - cut)[~observed]
    assert np.sqrt(np.mean(error**2)) < 0.4


def slow_and_fast(rows: int = 2400, *, every: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Two noisy views of one process, of which the first reports at some steps alone."""
    values = series(rows)[:, :2]
    observed = np.ones(values.shape, np.bool_)
    observed[0, 0] = np.arange(rows) % every == 0
    return values, observed


@pytest.mark.parametrize("steps", [STEPS, 6])
@pytest.mark.parametrize("every", [8, 4, 2])
def test_a_sensor_that_never_had_enough_readings_in_a_window_has_a_scale_of_its_own(every: int, steps: int) -> None:
    """Also where it reports more often later, and where windows are shorter than what makes a scale."""
    values, observed = slow_and_fast()
    form = fitted(values, observed, steps=steps).form
    later = series(2400, seed=7)[:, :2]
    cut = later[0, :, : 2400 // STEPS * STEPS].reshape(2, -1, steps).transpose(1, 0, 2)
    seen = np.ones(cut.shape, np.bool_)
    seen[:, 0] = np.arange(steps) % every == 0
    answer = form.fill(cut, seen, START_MS + STEP_MS * np.arange(len(cut)))
    error, line = (np.abs(each - cut)[~seen] for each in (answer.mean, interpolation(cut, seen)))
    assert error.mean() < 1.1 * line.mean()
    assert np.median(answer.deviation[~seen]) < 4.0 * np.median(error)


@pytest.mark.parametrize("direction", [False, True])
def test_a_sensor_without_a_reading_in_training_is_declined_with_few_readings_too(direction: bool) -> None:
    """Its scale is a placeholder, so a band of its own would be one unit wide, whatever its unit is."""
    values = series()
    observed = np.ones(values.shape, np.bool_)
    observed[:, 1] = False
    form = fitted(values, observed, directions=np.array([False, direction, False])).form
    assert form.unseen.tolist() == [False, True, False]
    cut, end_ms = windows(values)
    cut[:, 1] *= 1000.0
    seen = holes(cut.shape)
    seen[:, 1, STEPS // 4 :] = False
    seen[:, 1, 0] = True
    found = form.fill(cut, seen, end_ms)
    for answer in (found.mean, found.deviation):
        assert np.isnan(answer[:, 1][~seen[:, 1]]).all()
        assert np.isfinite(answer[:, [0, 2]]).all()
    np.testing.assert_array_equal(found.mean[seen], cut[seen])
    again = ClosedForm.from_bytes(form.to_bytes(), "the form")
    np.testing.assert_array_equal(again.fill(cut, seen, end_ms).mean, found.mean)


@pytest.mark.parametrize("every", [1, 8])
def test_a_sensor_whose_first_readings_are_the_newest_rows_is_filled(every: int) -> None:
    values = series(1200)
    observed = np.ones(values.shape, np.bool_)
    observed[:, 1, :-150] = False
    observed[:, 1] &= np.arange(1200) % every == 0
    form = fitted(values, observed).form
    assert not form.unseen.any()
    cut, end_ms = windows(values)
    seen = np.ones(cut.shape, np.bool_)
    seen[:, 1, -3:] = False
    assert np.isfinite(form.fill(cut, seen, end_ms).mean).all()


def test_wind_that_turned_through_north_in_every_window_was_seen() -> None:
    values = series()
    values[:, 1] = np.where(np.arange(values.shape[2]) % 2, 355.0, 5.0) + values[:, 1] / 100.0
    form = fitted(values, directions=np.array([False, True, False])).form
    assert form.kinds[1] is Kind.ANGLE
    assert not form.unseen.any()


@pytest.mark.parametrize("moves_in_validation", [False, True])
def test_a_sensor_that_was_constant_in_training_does_not_rescale_one_with_few_readings(
    moves_in_validation: bool,
) -> None:
    """A heater is on for the first time while a flow has just come back from an outage."""
    values = with_sensor(series(2400)[:, :2], np.zeros((1, 1, 2400)))
    if moves_in_validation:
        values[0, 2, -60:] = 100.0 + 10.0 * np.sin(np.arange(60))
    form = fitted(values).form
    later = with_sensor(series(2400, seed=7)[:, :2], np.zeros((1, 1, 2400)))
    cut, end_ms = windows(later, 40)
    seen = np.ones(cut.shape, np.bool_)
    seen[:, 0, :18] = seen[:, 0, -1] = False
    off = form.fill(cut, seen, end_ms)
    cut[:, 2] = 100.0 + 10.0 * np.sin(np.arange(STEPS))
    on = form.fill(cut, seen, end_ms)
    spread = np.std(later[0, 0])
    for answer in (off, on):
        assert np.abs(answer.mean - cut)[:, 0, -1].mean() < spread
        assert np.median(answer.deviation[:, 0, -1]) < spread


def test_numbers_that_are_silent_in_the_validation_are_fitted_without_one() -> None:
    """An actuator of five positions goes on after the last reading of the temperature."""
    position = 25.0 * (np.arange(1500) // 30 % 5)[None, None]
    values = with_sensor(series()[:, :1], position)
    values[0, 0, 1000:] = np.nan
    result = fitted(values)
    assert result.form.kinds == (Kind.NUMBER, Kind.STATE)
    assert result.report.validation_windows == 0
    assert result.report.weights == {"plain": 1.0}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_that_are_too_far_apart_for_the_arithmetic_are_a_sentence() -> None:
    """Beside readings of about 1, one group's other sensor has 1e55 and the other group's 1e90."""
    rng = np.random.default_rng(19)
    values = np.cumsum(rng.normal(size=(2, 2, 60)), axis=2)
    values[:, 1] *= 10.0 ** rng.uniform(50, 99, (2, 1))
    observed = rng.random(values.shape) > 0.3
    observed[0, 1, 30:] = False
    with pytest.raises(ModelError, match="values of such sizes"):
        fitted(values, observed, steps=12)
