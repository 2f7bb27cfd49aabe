"""Copies and sums: found where they are exact, tested in each window, and dropped where a window contradicts them."""

import numpy as np
import pytest

from glaim_stream.form.explain import RELATION, explain
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.relation_search import find_relations
from glaim_stream.form.relations import Relations
from tests.form.samples import STEP_MS, STEPS, fitted, series, windows

ROWS = 1500


def with_copy(rows: int = ROWS, *, seed: int = 1) -> np.ndarray:
    """Three sensors and a copy of the first one in another unit."""
    values = series(rows, seed=seed)
    return np.concatenate([values, 1.8 * values[:, :1] + 32.0], axis=1)


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    return fitted(with_copy()).form


def noise(rows: int, sensors: int, seed: int = 4) -> np.ndarray:
    """Independent sensors [sensors, rows] that follow themselves."""
    return np.cumsum(np.random.default_rng(seed).normal(size=(sensors, rows)), axis=1)


def newest_hidden(shape: tuple[int, ...], sensor: int, count: int = 2) -> np.ndarray:
    observed = np.ones(shape, np.bool_)
    observed[:, sensor, -count:] = False
    return observed


def members(relations: Relations) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in relations.coefficients]


def test_a_counter_that_started_again_is_not_filled_from_the_one_that_it_followed() -> None:
    host = 60.0 * np.arange(3000) + 1e6
    requests = np.cumsum(np.random.default_rng(27).poisson(30, 3000)).astype(float)
    form = fitted(np.stack([host, host - 2e5, requests])[None]).form
    assert members(form.relations) == [[0, 1]]
    steps = np.arange(STEPS)
    cut = np.stack([1.3e6 + 60.0 * steps, 1e3 + 60.0 * steps, 1e5 + 30.0 * steps])[None]
    found = form.fill(cut, newest_hidden(cut.shape, 1), np.array([STEPS * STEP_MS]))
    assert np.abs(found.mean - cut).max() < 60.0
    assert (found.deviation[:, 1, -2:] > 0).all()


@pytest.mark.parametrize("since", [0, STEPS // 2, STEPS - 4])
def test_a_copy_that_was_recalibrated_lies_within_its_deviations(form: ClosedForm, since: int) -> None:
    cut, end_ms = windows(with_copy(seed=2))
    cut[:, 3, since:] += 5.0
    found = form.fill(cut, newest_hidden(cut.shape, 3), end_ms)
    error, deviation = np.abs(found.mean - cut)[:, 3, -2:], found.deviation[:, 3, -2:]
    assert (error < 1.645 * deviation).mean() > 0.95
    assert deviation.max() < 10.0
    if since == 0:
        assert error.mean() < 0.2


def test_one_contradicted_window_leaves_the_copy_exact_in_all_others(form: ClosedForm) -> None:
    cut, end_ms = windows(with_copy(seed=2))
    cut[7, 3, 5] += 1e-3
    found = form.fill(cut, newest_hidden(cut.shape, 3), end_ms)
    exact = (found.deviation[:, 3, -2:] == 0.0).all(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(~exact), [7])
    others = np.arange(len(cut)) != 7
    assert np.abs(found.mean - cut)[others].max() < 1e-6 * cut[:, 3].std()


def test_one_step_is_enough_to_confirm_a_copy(form: ClosedForm) -> None:
    cut, end_ms = windows(with_copy(seed=2))
    observed = newest_hidden(cut.shape, 3, STEPS - 1)
    found = form.fill(cut, observed, end_ms)
    assert np.abs(found.mean - cut).max() < 1e-6 * cut[:, 3].std()
    assert (found.deviation == 0).all()


def test_counters_confirm_their_relation_far_from_the_training() -> None:
    first = np.cumsum(np.random.default_rng(3).random(2000))
    values = np.stack([first, 1e12 + first / 3.0, noise(2000, 1)[0]])
    relations = find_relations(values, np.ones(values.shape, np.bool_))
    assert len(relations.constants) == 0  # thirds beside 1e12 are rounded to 1e-4
    values[1] = 1e6 + first / 3.0
    relations = find_relations(values, np.ones(values.shape, np.bool_))
    later = values + 1e6 * np.array([1.0, 1.0 / 3.0, 0.0])[:, None]
    confirmed, contradicted = relations.tested(later[None], np.ones((1, *later.shape), np.bool_))
    assert confirmed.all()
    assert not contradicted.any()


def test_a_copy_without_a_reading_follows_the_other_sensor_and_has_a_deviation(form: ClosedForm) -> None:
    cut, end_ms = windows(with_copy(seed=2))
    observed = newest_hidden(cut.shape, 3, STEPS)
    found = form.fill(cut, observed, end_ms)
    assert np.abs(found.mean - cut).max() < 1e-6 * cut[:, 3].std()
    deviation = found.deviation[:, 3]
    assert (deviation > 0).all()
    assert np.median(deviation) < 0.5 * cut[:, 3].std()
    assert (found.deviation[:, :3] == 0).all()


def test_the_deviation_of_an_unconfirmed_copy_is_at_least_its_distance_from_the_form_s_own_answer(
    form: ClosedForm,
) -> None:
    cut, end_ms = windows(with_copy(seed=2))
    cut[:, 0] += 1000.0  # far above all that the training had
    found = form.fill(cut, newest_hidden(cut.shape, 3, STEPS), end_ms)
    np.testing.assert_allclose(found.mean[:, 3], 1.8 * cut[:, 0] + 32.0)
    assert (found.deviation[:, 3] > 1.8 * 900.0).all()


def test_a_silent_copy_of_a_valve_has_the_training_s_range_as_its_deviation() -> None:
    valve = (np.cumsum(np.random.default_rng(5).random(ROWS) < 0.05) % 2).astype(float)
    values = np.concatenate([series(), np.broadcast_to(valve, (1, 2, ROWS))], axis=1)
    form = fitted(values).form
    assert members(form.relations) == [[3, 4]]
    cut, end_ms = windows(values)
    found = form.fill(cut, newest_hidden(cut.shape, 4, STEPS), end_ms)
    np.testing.assert_allclose(found.mean[:, 4], cut[:, 4], atol=1e-9)
    assert (found.deviation[:, 4] == 1.0).all()


def test_recalibrated_copies_that_are_never_read_together_are_filled_by_their_own_readings(form: ClosedForm) -> None:
    cut, end_ms = windows(with_copy(seed=2))
    cut[:, 3] += 5.0
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 0, ::2] = observed[:, 3, 1::2] = False
    found = form.fill(cut, observed, end_ms)
    assert np.abs(found.mean - cut)[~observed].mean() < 0.5
    assert (found.deviation[~observed] > 0).all()


def test_an_unconfirmed_copy_is_explained_by_the_reading_from_which_it_follows(form: ClosedForm) -> None:
    cut, end_ms = windows(with_copy(seed=2), 3)
    observed = newest_hidden(cut.shape, 3, STEPS)[1]
    found = explain(form, cut[1], observed, int(end_ms[1]), 3, 9)
    assert found is not None
    assert found.basis == RELATION
    assert found.deviation > 0
    assert found.contributions[0, 9] == pytest.approx(1.8 * cut[1, 0, 9])
    assert np.count_nonzero(found.contributions) == 1
    assert found.value == pytest.approx(cut[1, 3, 9])


def test_a_contradicted_copy_is_explained_without_its_relation(form: ClosedForm) -> None:
    cut, end_ms = windows(with_copy(seed=2), 3)
    cut[1, 3] += 5.0
    found = explain(form, cut[1], newest_hidden(cut.shape, 3)[1], int(end_ms[1]), 3, STEPS - 1)
    assert found is not None
    assert found.basis != RELATION
    assert abs(found.residual) < 1e-6 * abs(found.value)


def test_a_copy_that_is_recalibrated_in_the_validation_does_not_narrow_the_bands_of_others() -> None:
    values = with_copy()
    values[:, 3, 1190:] += 5.0  # the newest fifth is the validation
    assert fitted(values).form.calibration > 0.95 * fitted(series()).form.calibration


@pytest.mark.parametrize("small", [1e-1, 1e-3, 1e-5, 1e-6])
def test_every_part_of_a_sum_follows_to_a_millionth_of_its_scale(small: float) -> None:
    load, part, other = noise(3000, 3)
    parts = np.stack([load, small * part, other])
    values = np.concatenate([parts, parts[:1] + parts[1:2]])[None]
    relations = find_relations(values[0], np.ones(values[0].shape, np.bool_))
    assert members(relations) == [[0, 1, 3]]
    cut, _ = windows(values)
    for sensor in (0, 1, 3):
        completed = relations.complete(cut, newest_hidden(cut.shape, sensor))
        assert completed.observed.all()
        assert np.abs(completed.values - cut)[:, sensor].max() < 1e-6 * values[0, sensor].std()


def test_a_sum_with_a_part_that_cannot_be_told_from_rounding_fills_no_part_by_noise() -> None:
    load, part, other = noise(3000, 3)
    values = np.stack([load, 1e-10 * part, other, load + 1e-10 * part])
    assert members(find_relations(values, np.ones(values.shape, np.bool_))) == [[0, 3]]


def test_a_sensor_that_a_relation_does_not_need_is_no_member_of_it() -> None:
    first, second, other, unknown = noise(3000, 4)
    near = first + 1e-6 * unknown  # nearly a copy, so that least squares can hardly choose between both
    values = np.stack([first, near, second, other, first + second])
    assert members(find_relations(values, np.ones(values.shape, np.bool_))) == [[0, 2, 4]]


def test_a_copy_is_found_beside_slow_and_silent_sensors() -> None:
    values = np.concatenate([with_copy()[0], np.zeros((1, ROWS))])
    observed = np.ones(values.shape, np.bool_)
    observed[2] = np.arange(ROWS) % 60 == 0
    observed[4] = False
    assert members(find_relations(values, observed)) == [[0, 3]]


def test_copies_are_found_in_two_systems_that_are_read_at_different_steps() -> None:
    first, second = noise(2000, 2)
    values = np.stack([first, second, first, 3.0 * second])
    observed = np.zeros(values.shape, np.bool_)
    observed[::2, ::2] = observed[1::2, 1::2] = True
    relations = find_relations(np.where(observed, values, 0.0), observed)
    assert sorted(members(relations)) == [[0, 2], [1, 3]]


def test_a_slow_copy_fills_the_steps_between_its_readings() -> None:
    values = with_copy(6000)
    observed = np.ones(values.shape, np.bool_)
    observed[:, 3] = np.arange(6000) % 6 == 0
    form = fitted(np.where(observed, values, 0.0), observed).form
    cut, end_ms = windows(values)
    found = form.fill(cut, newest_hidden(cut.shape, 3, STEPS - 1), end_ms)
    assert np.abs(found.mean - cut).max() < 1e-6 * cut[:, 3].std()


def test_what_holds_only_where_a_third_sensor_is_observed_is_no_relation() -> None:
    values = with_copy()[0]
    observed = np.ones(values.shape, np.bool_)
    observed[2, ::2] = False
    assert members(find_relations(values, observed)) == [[0, 3]]
    values[3, 700] += 1.0  # where the third sensor has no reading
    assert members(find_relations(values, observed)) == []
