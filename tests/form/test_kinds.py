"""Sensors whose values no straight line connects."""

import numpy as np
import pytest

from glaim_stream.form.fit import Fitted
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.kinds import Kind, differences, kind_of, simple_value, unmixable
from tests.form.samples import STEPS, fitted, series, windows

ROWS = 2000
PLACES = {"valve": 3, "direction": 4, "energy": 5, "rain": 6, "steps": 7}


def plant(seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    valve = (np.cumsum(rng.random(ROWS) < 0.05) % 2).astype(float)
    direction = np.cumsum(rng.normal(size=ROWS) * 12.0) % 360.0
    energy = np.cumsum(rng.random(ROWS) * 200.0) % 99_999.0
    rain = np.where(rng.random(ROWS) < 0.05, rng.exponential(2.0, ROWS), 0.0)
    smooth = series(ROWS, seed=seed)
    stepped = np.round(smooth[0, 0] * 2.0) / 2.0
    return np.concatenate([smooth, np.stack([valve, direction, energy, rain, stepped])[None]], axis=1)


@pytest.fixture(scope="module")
def fit_of_plant() -> Fitted:
    return fitted(plant())


def test_states_angles_and_meters_are_recognised(fit_of_plant: Fitted) -> None:
    kinds = fit_of_plant.form.kinds
    assert kinds[3:6] == (Kind.STATE, Kind.ANGLE, Kind.METER)
    assert kinds[:3] == (Kind.NUMBER,) * 3
    assert fit_of_plant.report.kinds["s4"] is Kind.ANGLE


def test_only_numbers_leaves_every_sensor_to_the_gaussian(fit_of_plant: Fitted) -> None:
    """A direction is then judged by squared differences of numbers, as a table of such errors does."""
    form = fitted(plant(), only_numbers=True).form
    assert set(form.kinds) == {Kind.NUMBER}
    truth, end_ms = windows(plant(), 40)
    observed = np.ones(truth.shape, np.bool_)
    observed[:, PLACES["direction"], STEPS // 2] = False
    hole = (slice(None), PLACES["direction"], STEPS // 2)
    errors = [
        np.square(each.fill(truth * observed, observed, end_ms).mean[hole] - truth[hole]).mean()
        for each in (form, fit_of_plant.form)
    ]
    assert errors[0] < errors[1]


def test_what_rises_falls_or_turns_like_a_number_is_one() -> None:
    rng = np.random.default_rng(3)
    for values in (rng.normal(size=500), np.cumsum(rng.normal(size=500)), rng.uniform(0, 360, 500), -np.arange(500.0)):
        assert kind_of(values[None], np.ones((1, 500), np.bool_)) is Kind.NUMBER


@pytest.mark.parametrize("standby", [0.0, 0.3])
@pytest.mark.parametrize("level", [280.0, 300.0, 340.0])
def test_a_power_that_is_switched_is_no_direction(level: float, standby: float) -> None:
    rng = np.random.default_rng(4)
    on = np.cumsum(rng.random(3000) < 0.05) % 2 == 1
    power = np.where(on, level + 8.0 * rng.normal(size=3000), standby * rng.random(3000)).round(1)
    assert kind_of(power[None], np.ones((1, 3000), np.bool_)) is not Kind.ANGLE


@pytest.mark.parametrize("sector", [0.1, 10.0, 22.5, 45.0])
@pytest.mark.parametrize("step", [5.0, 30.0, 40.0])
def test_wind_is_a_direction_also_in_sectors(step: float, sector: float) -> None:
    wind = np.cumsum(np.random.default_rng(0).normal(size=3000) * step)
    degrees = np.round(wind / sector) * sector % 360.0
    assert kind_of(degrees[None], np.ones((1, 3000), np.bool_)) is Kind.ANGLE


def signed(degrees: np.ndarray) -> np.ndarray:
    """The same directions from -180 to 180."""
    return np.where(degrees > 180.0, degrees - 360.0, degrees)


@pytest.mark.parametrize("sector", [0.1, 10.0, 22.5])
@pytest.mark.parametrize("step", [5.0, 30.0, 40.0])
def test_a_direction_may_be_counted_from_minus_180_to_180(step: float, sector: float) -> None:
    wind = np.cumsum(np.random.default_rng(0).normal(size=9000) * step)
    degrees = signed(np.round(wind / sector) * sector % 360.0)
    assert kind_of(degrees[None], np.ones((1, 9000), np.bool_)) is Kind.ANGLE


@pytest.mark.parametrize("level", [150.0, 170.0, 179.0])
@pytest.mark.parametrize("noise", [0.3, 8.0])
@pytest.mark.parametrize("pause", [False, True])
def test_what_is_reversed_is_no_direction(level: float, noise: float, pause: bool) -> None:
    """A battery's power or a torque jumps between opposite numbers, with or without a rest at 0 in between."""
    rng = np.random.default_rng(5)
    turns = np.cumsum(rng.random(3000) < 0.05) % (4 if pause else 2)
    sign = np.array([1.0, 0.0, -1.0, 1.0] if pause else [1.0, -1.0])[turns]
    power = np.clip(sign * level + noise * rng.normal(size=3000), -180.0, 180.0).round(1)
    assert kind_of(power[None], np.ones((1, 3000), np.bool_)) is not Kind.ANGLE


def test_numbers_on_both_sides_of_zero_are_no_direction() -> None:
    rng = np.random.default_rng(6)
    for values in (rng.uniform(-180, 180, 3000), 180.0 * np.sin(np.arange(3000) / 9), rng.normal(0, 60, 3000)):
        assert kind_of(values[None], np.ones((1, 3000), np.bool_)) is Kind.NUMBER


def test_what_has_never_fallen_is_a_meter_whose_reset_is_still_to_come() -> None:
    assert kind_of(np.arange(500.0)[None], np.ones((1, 500), np.bool_)) is Kind.METER


@pytest.fixture(scope="module")
def slow_meter() -> ClosedForm:
    """It is reset in training: its range is 500 times its rise in a day, and the day of the reset tells no habit."""
    return fitted(np.concatenate([series(ROWS), meter(99_000.0, seed=9)], axis=1)).form


def meter(start: float, seed: int) -> np.ndarray:
    return np.round(start + np.cumsum(np.random.default_rng(seed).random(ROWS) * 3.0))[None, None] % 99_999.0


def test_a_slow_meter_is_filled_near_its_line_and_across_a_reset_by_its_last_value(slow_meter: ClosedForm) -> None:
    assert slow_meter.kinds[3] is Kind.METER
    cut, end_ms = windows(np.concatenate([series(ROWS, seed=2), meter(99_000.0, seed=10)], axis=1), 400)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 3, 10:14] = observed[:, 3, -1] = False
    mean = slow_meter.fill(cut * observed, observed, end_ms).mean
    error = np.abs(mean - cut)[:, 3]
    reset = (np.diff(cut[:, 3], axis=1) < 0).any(axis=1)
    across, after = cut[:, 3, 14] < cut[:, 3, 9], cut[:, 3, -1] < cut[:, 3, -2]
    assert reset.sum() > across.sum() > 0
    assert error[~across][:, 10:14].max() < 6.0
    assert error[~reset][:, -1].mean() < 0.8 * (cut[:, 3, -1] - cut[:, 3, -2])[~reset].mean(), "it knows the usual rise"
    assert error[~after][:, -1].max() < 4.0
    np.testing.assert_array_equal(mean[across, 3, 10:14], np.tile(cut[across, 3, 9:10], (1, 4)))


def test_a_mean_means_nothing_between_states_directions_and_readings_on_both_sides_of_a_reset() -> None:
    kinds = (Kind.NUMBER, Kind.STATE, Kind.ANGLE, Kind.METER, Kind.CARRIED)
    rising = np.tile(np.arange(6.0), (2, 5, 1))
    rising[1, :, 3:] -= 3.0
    found = unmixable(kinds, rising, np.ones(rising.shape, np.bool_))
    assert found.tolist() == [[False, True, True, False, False], [False, True, True, True, False]]


def holes(count: int) -> np.ndarray:
    observed = np.ones((count, 8, STEPS), np.bool_)
    observed[:, :, -1] = observed[:, :, 10:13] = False
    return observed


@pytest.mark.parametrize("name", ["valve", "direction", "energy", "rain", "steps"])
def test_no_kind_is_filled_worse_than_by_the_last_value(fit_of_plant: Fitted, name: str) -> None:
    cut, end_ms = windows(plant(2), 300)
    observed = holes(len(cut))
    mean = fit_of_plant.form.fill(cut, observed, end_ms).mean
    last = cut.copy()
    last[:, :, 10:13], last[:, :, -1] = cut[:, :, 9:10], cut[:, :, -2]
    place = PLACES[name]

    def mae(filled: np.ndarray) -> float:
        error = (filled - cut)[:, place][~observed[:, place]]
        if name == "direction":
            error = (error + 180.0) % 360.0 - 180.0
        return float(np.abs(error).mean())

    assert mae(mean) <= mae(last) * 1.001


def test_the_fill_of_a_valve_is_a_state_and_that_of_a_direction_never_its_opposite(fit_of_plant: Fitted) -> None:
    cut, end_ms = windows(plant(2), 300)
    observed = holes(len(cut))
    found = fit_of_plant.form.fill(cut, observed, end_ms)
    assert set(np.unique(found.mean[:, 3])) == {0.0, 1.0}
    assert (found.deviation[:, 3][~observed[:, 3]] > 0).all()
    cut[:, 4] = np.where(np.arange(STEPS) % 2, 359.0, 1.0)
    mean = fit_of_plant.form.fill(cut, observed, end_ms).mean[:, 4]
    assert (np.abs((mean + 180.0) % 360.0 - 180.0) <= 1.0).all()


@pytest.mark.parametrize(
    ("before", "after", "between"),
    [(350.0, 20.0, [357.5, 5.0, 12.5]), (10.0, 330.0, [0.0, 350.0, 340.0]), (80.0, 120.0, [90.0, 100.0, 110.0])],
)
def test_a_direction_lies_on_the_shorter_arc_between_two_readings(
    before: float, after: float, between: list[float]
) -> None:
    row = np.array([np.nan, before, 0, 0, 0, after, 0, 0])
    observed = np.array([False, True, False, False, False, True, False, False])
    found = simple_value([Kind.ANGLE], np.where(observed, row, 0.0)[None], observed[None])[0]
    np.testing.assert_allclose(found[2:5], between, atol=1e-9)
    assert (found[0], *found[6:]) == (before, after, after)


def test_a_full_turn_is_kept_where_it_was_read() -> None:
    values, observed = np.array([[360.0, 0.0, 360.0, 0.0]]), np.array([[True, False, True, False]])
    assert simple_value([Kind.ANGLE], values, observed).tolist() == [[360.0] * 4]


def test_differences_directions_go_the_shorter_way() -> None:
    filled, truth = np.array([[359.0, 1.0, 90.0], [359.0, 1.0, 90.0]]), np.array([[1.0, 359.0, 100.0]] * 2)
    assert differences([Kind.ANGLE, Kind.NUMBER], filled, truth).tolist() == [[-2, 2, -10], [358, -358, -10]]


def test_a_valve_that_is_silent_all_the_time_is_declined(fit_of_plant: Fitted) -> None:
    cut, end_ms = windows(plant(2), 20)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 3] = False
    assert np.isnan(fit_of_plant.form.fill(cut, observed, end_ms).mean[:, 3]).all()


def test_a_meter_is_filled_on_its_line_except_across_a_reset(fit_of_plant: Fitted) -> None:
    line = np.arange(STEPS) * 100.0
    cut = np.tile(windows(plant(2), 1)[0], (2, 1, 1))
    cut[0, 5], cut[1, 5] = 50_000.0 + line, (98_500.0 + line) % 99_999.0
    observed = np.ones(cut.shape, np.bool_)
    observed[:, 5, 14:16] = False  # the reset comes between steps 14 and 15
    mean = fit_of_plant.form.fill(cut, observed, np.zeros(2, np.int64)).mean
    np.testing.assert_allclose(mean[0, 5, 14:16], cut[0, 5, 14:16], atol=60.0)
    assert mean[1, 5, 14:16].tolist() == [cut[1, 5, 13]] * 2


@pytest.mark.parametrize("rows", [95, 150])
def test_short_series_show_their_kinds_too(rows: int) -> None:
    rng = np.random.default_rng(7)
    seen = np.ones((1, rows), np.bool_)
    wind = np.round(50 * rng.normal(size=rows)) % 360.0
    valve = np.cumsum(rng.random(rows) < 0.15) % 2.0
    meter = (99_000 + np.cumsum(rng.integers(1, 90, rows))) % 99_999.0
    walk = np.cumsum(rng.normal(size=rows))
    found = [kind_of(values[None], seen) for values in (wind, valve, meter, walk)]
    assert found == [Kind.ANGLE, Kind.STATE, Kind.METER, Kind.NUMBER]


def test_what_begins_again_each_midnight_is_a_meter_and_what_falls_otherwise_is_none() -> None:
    rng = np.random.default_rng(5)
    days, hours = 12, np.arange(24.0)
    sun = np.clip(np.sin((hours - 6) / 12 * np.pi), 0, None) * rng.uniform(0.1, 1.0, (days, 1)) ** 2
    energy, power = np.cumsum(sun, axis=1).ravel(), sun.ravel()
    seen = np.ones((1, days * 24), np.bool_)
    seen[0, 3 * 24 - 4 : 3 * 24 + 9] = False  # across a midnight: how deep it fell is not known
    heater = np.where(np.arange(days * 24) % 24 < 12, 0.0, 20.0) + np.linspace(0, 1, days * 24)
    tank = np.abs((np.arange(days * 24) % 24) - 12.0)
    corrected = energy.copy()
    corrected[np.argmax(corrected)] *= 0.6  # a meter that falls to no beginning
    found = [kind_of(each[None], seen) for each in (energy, power, heater, tank, corrected)]
    assert found == [Kind.METER, *[Kind.NUMBER] * 4]


@pytest.mark.parametrize("level", [300.0, 340.0])
def test_a_few_switches_of_a_power_are_no_turns(level: float) -> None:
    rng = np.random.default_rng(8)
    power = np.where(np.arange(90) < 45, 0.0, level) + rng.random(90)
    assert kind_of(power[None], np.ones((1, 90), np.bool_)) is Kind.NUMBER


def test_a_sensor_that_shows_its_kind_in_its_last_rows_has_it() -> None:
    """The rows of the validation too: the form is fitted to all rows in the end."""
    rng = np.random.default_rng(9)
    late = np.arange(1000) >= 800
    valve = np.where(late, np.cumsum(rng.random(1000) < 0.15) % 2.0, 0.0)
    wind = np.where(late, 8 * rng.normal(size=1000), 180 + 20 * np.sin(np.arange(1000) / 20)).round() % 360.0
    values = np.stack([valve, wind, np.cumsum(rng.normal(size=1000))])
    assert fitted(values[None]).form.kinds[:2] == (Kind.STATE, Kind.ANGLE)
    trained = fitted(values[None], training_rows=800).form
    assert not {Kind.STATE, Kind.ANGLE} & set(trained.kinds)
