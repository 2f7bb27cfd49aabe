"""Long series: what is filled, by whom, within which bounds, and what is left and why."""

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.vocabulary import Method
from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.groups import Group

MINUTE = 60_000


def series(steps: int, sensors: int = 3, seed: int = 0) -> np.ndarray:
    """Sensors [C, N] that follow a common slow wave and a common random walk."""
    rng = np.random.default_rng(seed)
    common = np.sin(np.arange(steps) / 7) + np.cumsum(rng.normal(size=steps)) * 0.1
    return 20.0 + rng.uniform(1, 2, (sensors, 1)) * common + rng.normal(size=(sensors, steps)) * 0.05


def with_holes(values: np.ndarray, share: float = 0.1, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(values.shape) < share, np.nan, values)


def group(values: np.ndarray, name: str = "g", start_ms: int = 0) -> Group:
    return Group(name, start_ms + MINUTE * np.arange(values.shape[1], dtype=np.int64), values)


def names(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


@pytest.fixture(scope="module")
def filled():
    truth = series(800)
    holes = with_holes(truth)
    return truth, holes, fill_groups([group(holes)], sensors=names(3))


def test_holes_are_filled_and_observed_cells_keep_their_bits(filled):
    _, holes, result = filled
    found = result.groups[0]
    assert np.isfinite(found.values).all()
    assert found.left == {}
    seen = ~np.isnan(holes)
    for cells in (found.values, found.lower, found.upper):
        assert np.array_equal(cells[seen].view(np.int64), holes[seen].view(np.int64))
    assert set(np.unique(found.method[~seen])) == {Method.GAUSSIAN}
    assert (found.method[seen] == Method.OBSERVED).all()


def test_the_expected_error_is_that_of_the_true_holes_and_below_interpolation(filled):
    truth, holes, result = filled
    for place, name in enumerate(names(3)):
        hole = np.isnan(holes[place])
        error = np.abs(result.groups[0].values[place] - truth[place])[hole].mean()
        assert result.expected_error[name] == pytest.approx(error, rel=0.5)
        assert result.expected_error[name] < result.line_error[name]
        assert result.hidden[name] >= 30


def test_the_band_holds_nine_of_ten_true_values(filled):
    truth, holes, result = filled
    found, hole = result.groups[0], np.isnan(holes)
    inside = (found.lower <= truth) & (truth <= found.upper)
    assert 0.8 < inside[hole].mean() < 0.97


@pytest.mark.parametrize("start", [99_000.0, 99_700.0])
def test_a_meter_has_its_last_value_across_a_reset_and_its_line_elsewhere(start):
    rng = np.random.default_rng(4)
    meter = np.round(start + np.cumsum(rng.random(800) * 3.0)) % 100_000.0
    truth = np.vstack([series(800, 2), meter[None]])
    holes = with_holes(truth)
    reset = int(np.flatnonzero(np.diff(meter) < 0)[0]) + 1
    holes[2, [reset - 3, reset + 2]] = truth[2, [reset - 3, reset + 2]]
    holes[2, reset - 2 : reset + 2] = np.nan
    result = fill_groups([group(holes)], sensors=names(3))
    found, hole = result.groups[0], np.isnan(holes[2])
    across = np.zeros(800, np.bool_)
    across[reset - 2 : reset + 2] = True
    assert found.values[2, across].tolist() == [truth[2, reset - 3]] * 4
    error = np.abs(found.values[2] - meter)
    assert error[hole & ~across].max() < 6.0
    assert (found.lower[2] <= meter)[hole].mean() > 0.8
    assert (found.upper[2] >= meter)[hole].mean() > 0.8


def test_long_gaps_of_a_valve_and_a_direction_have_states_and_directions_too():
    """They are longer than a window of the form."""
    rng = np.random.default_rng(8)
    valve = (np.cumsum(rng.random(800) < 0.03) % 2).astype(np.float64)
    wind = (350.0 + 30.0 * np.sin(np.arange(800) / 60) + rng.normal(0, 4, 800)) % 360.0
    truth = np.vstack([series(800, 1), valve[None], wind[None]])
    holes = with_holes(truth, 0.05)
    holes[1, 300:340] = holes[2, 400:440] = np.nan
    result = fill_groups([group(holes)], sensors=names(3))
    found, hole = result.groups[0], np.isnan(holes)
    assert set(found.values[1][hole[1]]) == {0.0, 1.0}
    assert (found.method[1][hole[1]] == Method.LAST_VALUE).all()
    assert (found.lower[1] < found.upper[1])[hole[1]].all()
    error = np.abs((found.values[2] - wind + 180.0) % 360.0 - 180.0)
    assert error[hole[2]].max() < 30.0
    assert ((found.lower[2] >= 0.0) & (found.upper[2] <= 360.0)).all()
    assert ((found.lower[2] <= wind) & (wind <= found.upper[2]))[hole[2]].mean() > 0.7
    assert result.expected_error["s2"] < 6.0
    assert result.chosen["s1"] == "last_value"
    assert result.chosen["s2"] == "interpolation"


def test_a_direction_is_filled_alike_from_0_to_360_and_from_minus_180_to_180():
    rng = np.random.default_rng(12)
    wind = np.round(np.cumsum(rng.normal(0, 12, 900)), 1) % 360.0
    signed = np.where(wind > 180.0, wind - 360.0, wind)
    assert (np.abs(np.diff(signed)) > 180.0).sum() > 10, "without turns through 180, this test shows nothing"
    holes = with_holes(np.vstack([series(900, 1), wind[None]]), 0.1)
    holes[1, 300:340] = np.nan
    hole = np.isnan(holes[1])
    unsigned, found = (
        fill_groups([group(np.vstack([holes[:1], np.where(hole, np.nan, each)]))], sensors=names(2)).groups[0]
        for each in (wind, signed)
    )
    error = np.abs((found.values[1] - wind + 180.0) % 360.0 - 180.0)
    assert np.median(error[hole]) < 15.0
    assert (np.abs(found.values[1]) <= 180.0).all()
    same = np.abs((found.values[1] - unsigned.values[1] + 180.0) % 360.0 - 180.0)
    assert same[hole].max() < 1e-6
    assert ((found.lower[1] >= -180.0) & (found.upper[1] <= 180.0)).all()
    assert ((found.lower[1] <= signed) & (signed <= found.upper[1]))[hole].mean() > 0.8


def test_readings_that_mostly_rest_are_on_the_line_between_two_and_said_to_be():
    rng = np.random.default_rng(6)
    rain = np.where(rng.random(800) < 0.05, rng.exponential(2.0, 800), 0.0)
    holes = with_holes(np.vstack([series(800, 2), rain[None]]))
    found = fill_groups([group(holes)], sensors=names(3)).groups[0]
    between = np.flatnonzero(np.isnan(holes[2]))[1:-1]
    places = np.flatnonzero(~np.isnan(holes[2]))
    line = np.interp(between, places, holes[2, places])
    np.testing.assert_allclose(found.values[2, between], line, atol=1e-9)
    assert (found.method[2, between] == Method.INTERPOLATION).all()


def test_too_few_rows_are_interpolated_and_it_is_stated():
    values = np.array([[np.nan, 1.0, np.nan, 3.0, np.nan]])
    result = fill_groups([group(values)], sensors=["a"])
    assert result.form is None
    assert "32 rows, found 5" in result.refused
    assert result.groups[0].values.tolist() == [[1.0, 1.0, 2.0, 3.0, 3.0]]
    last, line = Method.LAST_VALUE, Method.INTERPOLATION
    assert result.groups[0].method.tolist() == [[last, Method.OBSERVED, line, Method.OBSERVED, last]]


def test_a_series_shorter_than_a_window_of_a_given_form_is_filled(filled):
    truth, _, result = filled
    short = truth[:, :10].copy()
    short[0, 4] = np.nan
    again = fill_groups([group(short)], sensors=names(3), form=result.form)
    assert again.form is result.form
    assert np.isfinite(again.groups[0].values).all()


def test_sensors_of_a_given_form_are_matched_by_name(filled):
    _, holes, result = filled
    order = [2, 0, 1]
    straight = fill_groups([group(holes)], sensors=names(3), form=result.form).groups[0]
    turned = fill_groups([group(holes[order])], sensors=[f"s{n}" for n in order], form=result.form).groups[0]
    form_cells = (straight.method[order] == Method.GAUSSIAN) & (turned.method == Method.GAUSSIAN)
    assert form_cells.sum() > 100
    assert np.array_equal(turned.values[form_cells], straight.values[order][form_cells])


def test_a_sensor_without_a_reading_is_left_with_the_reason():
    values = with_holes(series(300))
    values[1] = np.nan
    found = fill_groups([group(values)], sensors=names(3)).groups[0]
    assert np.isnan(found.values[1]).all()
    assert found.left == {"the sensor has no reading": 300}
    assert (found.method[1] == Method.NONE).all()


def test_a_sensor_whose_readings_cannot_be_used_is_left_with_that_reason():
    values = with_holes(series(300))
    values[1] *= 1e200
    found = fill_groups([group(values)], sensors=names(3)).groups[0]
    holes = int(np.isnan(values[1]).sum())
    assert found.left == {"the sensor has no finite reading below 1e+100, or none that is believed": holes}


def test_a_constant_sensor_is_filled_by_its_constant():
    values = with_holes(series(300))
    values[1] = np.where(np.isnan(values[1]), np.nan, 4.0)
    found = fill_groups([group(values)], sensors=names(3)).groups[0]
    assert (found.values[1] == 4.0).all()
    assert (found.lower[1] == 4.0).all()
    assert (found.upper[1] == 4.0).all()


def test_one_sensor_is_filled():
    found = fill_groups([group(with_holes(series(400, 1)))], sensors=["a"]).groups[0]
    assert np.isfinite(found.values).all()


def test_a_long_gap_is_filled_where_others_tell_its_values_and_left_where_not():
    truth = series(1500)
    rng = np.random.default_rng(5)
    truth[2] = rng.normal(size=1500)  # unlike the others
    values = with_holes(truth, 0.02)
    values[0, 500:800] = np.nan
    values[2, 500:800] = np.nan
    found = fill_groups([group(values)], sensors=names(3)).groups[0]
    assert np.isfinite(found.values[0]).all()
    assert np.abs(found.values[0, 500:800] - truth[0, 500:800]).mean() < 0.5 * truth[0].std()
    (reason, count), *_ = found.left.items()
    assert reason == "in a gap of more than 48 steps, and no method is known to be accurate there"
    assert 250 < count <= 300


def test_a_stated_longest_gap_is_the_only_rule():
    values = series(600)
    values[0, 100:110] = np.nan
    values[1, 300:320] = np.nan
    values[2, 300:500] = np.nan
    short = fill_groups([group(values)], sensors=names(3), max_gap=10).groups[0]
    assert short.left == {"in a gap of more than 10 steps": 220}
    assert np.isfinite(short.values[0]).all()
    everything = fill_groups([group(values)], sensors=names(3), max_gap=1000).groups[0]
    assert everything.left == {}


def test_fills_and_bands_respect_a_floor_that_no_reading_crossed():
    rng = np.random.default_rng(3)
    truth = np.maximum(rng.normal(size=(2, 1000)).cumsum(axis=1) * 0.2, 0.0)
    found = fill_groups([group(with_holes(truth, 0.3))], sensors=names(2)).groups[0]
    assert found.values.min() >= 0.0
    assert found.lower.min() >= 0.0


def test_states_are_never_filled_between_two_of_them():
    rng = np.random.default_rng(4)
    state = np.repeat(rng.integers(0, 2, 60), 20).astype(float)
    values = np.stack([state, *series(1200, 2)])
    result = fill_groups([group(with_holes(values))], sensors=names(3))
    assert set(np.unique(result.groups[0].values[0])) == {0.0, 1.0}
    assert result.chosen["s0"] == "last_value"


def test_an_infinite_reading_stays_and_fills_nothing():
    values = with_holes(series(400))
    values[0, 50], values[0, 51] = np.inf, np.nan
    found = fill_groups([group(values)], sensors=names(3)).groups[0]
    assert found.values[0, 50] == np.inf
    assert np.abs(found.values[0, 51]) < 100


def test_groups_of_different_years_and_lengths_are_filled():
    one, two = with_holes(series(400, seed=1)), with_holes(series(250, seed=2))
    groups = [group(one, "one"), group(two, "two", start_ms=20 * 365 * 86_400_000 + 17)]
    result = fill_groups(groups, sensors=names(3))
    assert result.form is not None
    assert [np.isfinite(each.values).all() for each in result.groups] == [True, True]


def test_groups_that_do_not_fit_one_another_are_a_sentence(filled):
    good = group(series(50))
    uneven = Group("u", np.append(good.times_ms[:-1], good.times_ms[-1] + 1), good.values)
    slower = Group("s", good.times_ms * 2, good.values)
    with pytest.raises(SettingsError, match="even, ascending grid"):
        fill_groups([uneven], sensors=names(3))
    with pytest.raises(SettingsError, match=r"steps of 60000, 120000 ms"):
        fill_groups([good, slower], sensors=names(3))
    with pytest.raises(SettingsError, match="at least 1 step"):
        fill_groups([good], sensors=names(3), max_gap=0)
    with pytest.raises(SettingsError, match="none of the table's columns"):
        fill_groups([good], sensors=["x", "y", "z"], form=filled[2].form)
