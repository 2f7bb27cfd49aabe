"""Repair, which turns imputed values into rows: rounding, limits, intervals and quality."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glaim_stream.core.vocabulary import Status, severity
from glaim_stream.form import Kind, Limits
from glaim_stream.imputers import Imputed
from glaim_stream.output.records import Method, Quality, Rows
from glaim_stream.output.repair import repair
from glaim_stream.output.sensor_tables import SensorTable
from glaim_stream.windows import NO_WINDOW, Closed
from tests.support import catalogue, contract

QUANTILES = {
    "gap_ages": [1, 4],
    "newest_lower": [[-1, -2], [-1, -2]],
    "newest_upper": [[1, 2], [1, 2]],
    "interior_lower": [[-0.5, -1], [0.5, 1]],  # s1: the model is always too low
    "interior_upper": [[0.5, 1], [1, 2]],
}
FILLING_METHODS = [method for method in Method if method not in (Method.OBSERVED, Method.NONE)]
LIMITED = [{"id": "s0", "min": 0, "max": 10, "resolution": 0.5}, {"id": "s1"}]


def closed(*rows: dict[str, Any]) -> Closed:
    """Rows described by their differences from a hole of sensor 0 in window 0 with gap age 1."""
    default = {
        "sensor": 0,
        "observed": False,
        "value": np.nan,
        "gap_age": 1,
        "window": 0,
        "lag": 0,
        "final": False,
        "quality": 0,
        "doubted": False,
    }
    full = [default | row for row in rows]
    count = len(full)

    def column(name: str, dtype: type) -> Any:
        return np.array([row[name] for row in full], dtype)

    windows = np.zeros((1, 2, 6))
    return Closed(
        model_index=0,
        group=np.zeros(count, np.int32),
        sensor=column("sensor", np.int32),
        ts_ms=np.zeros(count, np.int64),
        stamp_ms=np.full(count, 37, np.int64),
        value=column("value", np.float64),
        observed=column("observed", np.bool_),
        quality=column("quality", np.int8),
        doubted=column("doubted", np.bool_),
        gap_age=column("gap_age", np.int32),
        revision=np.zeros(count, np.int16),
        final=column("final", np.bool_),
        window=column("window", np.int32),
        lag=column("lag", np.int32),
        window_values=windows.astype(np.float64),
        window_observed=windows.astype(np.bool_),
    )


def answer(value: float, method: Method = Method.MODEL, version: str = "3") -> Imputed:
    shape = (1, 2, 3)
    return Imputed(np.full(shape, value, np.float64), np.full(shape, method, np.int8), [version])


def repaired(part: Closed, imputed: Imputed | None, *, limited: bool = True, intervals: bool = True) -> Rows:
    rules = catalogue(sensors=LIMITED if limited else 2).models[0]
    model_contract = contract(residual_quantiles=QUANTILES) if intervals else None
    return repair(part, imputed, SensorTable.of(rules, model_contract), [""])


def test_observed_cells_pass_through_untouched() -> None:
    rows = repaired(
        closed({"observed": True, "value": 3.14159, "window": NO_WINDOW, "gap_age": 0, "final": True}), None
    )
    assert rows.value[0] == np.float64(3.14159)
    assert (rows.method[0], rows.status[0], rows.version[0]) == (Method.OBSERVED, Status.GOOD, 0)
    assert rows.event_time_ms[0] == 37
    assert np.isnan([rows.lower[0], rows.upper[0]]).all()


def test_an_uncertain_reading_keeps_its_value_and_its_row_is_uncertain() -> None:
    rows = repaired(closed({"observed": True, "value": 2.0, "window": NO_WINDOW, "gap_age": 0, "quality": 1}), None)
    assert (rows.value[0], rows.method[0], rows.status[0]) == (2.0, Method.OBSERVED, Status.UNCERTAIN)


@pytest.mark.parametrize(
    ("gap_age", "quality", "status"),
    [
        (5, 0, Status.BAD_NO_COMMUNICATION),
        (6, 0, Status.BAD_NO_DATA),  # the window has six steps
        (5, 2, Status.BAD_SENSOR_FAILURE),
        (6, 2, Status.BAD_SENSOR_FAILURE),
    ],
)
def test_a_hole_beyond_max_gap_stays_null_with_a_reason(gap_age: int, quality: int, status: Status) -> None:
    rows = repaired(closed({"window": NO_WINDOW, "gap_age": gap_age, "quality": quality}), None)
    assert np.isnan(rows.value[0])
    assert (rows.method[0], rows.status[0]) == (Method.NONE, status)


@pytest.mark.parametrize("quality", [0, 2])
@pytest.mark.parametrize(
    ("method", "status"),
    [
        (Method.MODEL, Status.UNCERTAIN_SUBSTITUTE_VALUE),
        (Method.BLEND, Status.UNCERTAIN_SUBSTITUTE_VALUE),
        (Method.GAUSSIAN, Status.UNCERTAIN_SUBSTITUTE_VALUE),
        (Method.INTERPOLATION, Status.UNCERTAIN_SUBSTITUTE_VALUE),
        (Method.LAST_VALUE, Status.UNCERTAIN_LAST_USABLE_VALUE),
    ],
)
def test_the_status_of_a_filled_hole_depends_only_on_its_method(method: Method, status: Status, quality: int) -> None:
    rows = repaired(closed({"quality": quality}), answer(5.0, method))
    assert (rows.value[0], rows.method[0], rows.status[0]) == (5.0, method, status)


@pytest.mark.parametrize(("max_interval", "kept"), [(2.0, True), (1.9, False)])
def test_a_value_whose_interval_is_too_wide_is_withheld(max_interval: float, kept: bool) -> None:
    sensors = [{"id": "s0", "max_interval": max_interval}, {"id": "s1"}]
    table = SensorTable.of(catalogue(sensors=sensors).models[0], contract(residual_quantiles=QUANTILES))
    part = closed({"gap_age": 1}, {"sensor": 1, "gap_age": 4}, {"observed": True, "value": 1.0, "window": NO_WINDOW})
    rows = repair(part, answer(5.0), table, [""])
    assert np.isnan([rows.value[0], rows.lower[0], rows.upper[0]]).all() != kept
    assert rows.method.tolist() == [Method.MODEL if kept else Method.NONE, Method.MODEL, Method.OBSERVED]
    assert rows.version.tolist() == [int(kept), 1, 0]
    first = Status.UNCERTAIN_SUBSTITUTE_VALUE if kept else Status.BAD_AGGREGATE_INVALID_INPUTS
    assert rows.status.tolist() == [first, Status.UNCERTAIN_SUBSTITUTE_VALUE, Status.GOOD]


def test_a_value_without_an_interval_is_not_withheld() -> None:
    table = SensorTable.of(catalogue(sensors=[{"id": "s0", "max_interval": 0.1}, {"id": "s1"}]).models[0], contract())
    assert repair(closed({}), answer(5.0), table, [""]).value[0] == 5.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_becomes_null_and_bad(value: float) -> None:
    rows = repaired(closed({}), answer(value, Method.LAST_VALUE))
    assert np.isnan([rows.value[0], rows.lower[0], rows.upper[0]]).all()
    assert (rows.method[0], rows.status[0], rows.version[0]) == (Method.NONE, Status.BAD_DATA_UNAVAILABLE, 0)


def test_each_hole_takes_the_value_of_its_sensor_and_step() -> None:
    values = np.arange(6, dtype=np.float64).reshape(1, 2, 3)
    imputed = Imputed(values, np.full((1, 2, 3), Method.MODEL, np.int8), ["3"])
    rows = repaired(
        closed({"sensor": 1, "lag": 0}, {"sensor": 1, "lag": 2}, {"sensor": 0, "lag": 1}), imputed, limited=False
    )
    assert rows.value.tolist() == [5, 3, 1]


@pytest.mark.parametrize(("value", "expected"), [(3.3, 3.5), (3.2, 3.0), (-4.0, 0.0), (11.0, 10.0)])
def test_values_are_rounded_to_the_resolution_and_clipped_to_the_limits(value: float, expected: float) -> None:
    assert repaired(closed({}), answer(value)).value[0] == expected


def test_without_a_resolution_in_the_catalogue_the_contract_provides_it() -> None:
    assert repaired(closed({"sensor": 1}), answer(1.23456)).value[0] == np.float64(1.23)
    assert repaired(closed({"sensor": 1}), answer(1.23456), intervals=False).value[0] == np.float64(1.23456)


@pytest.mark.parametrize(("gap_age", "half"), [(1, 1), (2, 2), (4, 2), (40, 2)])
def test_the_interval_of_the_next_measured_gap_age_is_used(gap_age: int, half: float) -> None:
    rows = repaired(closed({"gap_age": gap_age}), answer(5.0))
    assert (rows.lower[0], rows.upper[0]) == (5 - half, 5 + half)


def test_values_with_right_context_have_other_intervals() -> None:
    rows = repaired(closed({"lag": 2}), answer(5.0))
    assert (rows.lower[0], rows.upper[0]) == (4.5, 5.5)


def test_an_interval_is_clipped_to_the_limits_and_contains_its_value_with_a_resolution_on_either_side() -> None:
    """The residuals of the second one are above 0."""
    rows = repaired(closed({}, {"sensor": 1, "lag": 2}), answer(9.5))
    assert (rows.lower.tolist(), rows.upper.tolist()) == ([8.5, 9.49], [10.0, 10.5])


def test_the_band_of_a_limit_that_is_no_multiple_of_the_resolution_is_as_wide_as_the_resolution() -> None:
    sensors: list[dict[str, Any]] = [{"id": "s0", "min": 0.2, "max": 9.9, "resolution": 0.5}, {"id": "s1"}]
    table = SensorTable.of(catalogue(sensors=sensors).models[0], None)
    for value, bounds in ((0.0, (0.2, 0.7)), (12.0, (9.4, 9.9))):
        rows = repair(closed({}), by_form(value, 0.0), table, [""])
        np.testing.assert_allclose([rows.lower[0], rows.upper[0]], bounds)


def by_form(value: float, deviation: float) -> Imputed:
    imputed = answer(value, Method.GAUSSIAN, "gaussian-01234567")
    return replace(imputed, deviation=np.full(imputed.values.shape, deviation))


def test_the_closed_form_has_the_band_of_its_deviation_and_its_version() -> None:
    rows = repaired(closed({"sensor": 1}, {"sensor": 1, "lag": 2}), by_form(5.0, 2.0), limited=False)
    np.testing.assert_allclose(rows.lower, 5 - 2 * 1.645, atol=0.01)
    np.testing.assert_allclose(rows.upper, 5 + 2 * 1.645, atol=0.01)
    assert rows.version.tolist() == [1, 1]


def test_a_blend_without_the_model_has_the_band_of_the_closed_form_around_its_value() -> None:
    mixed = by_form(5.0, 2.0)
    mixed.method[:] = Method.BLEND
    rows = repaired(closed({"sensor": 1}), replace(mixed, version=["3"], form_version="gaussian-01234567"))
    alone = repaired(closed({"sensor": 1}), by_form(5.0, 2.0))
    assert (rows.value.tolist(), rows.method.tolist()) == ([5.0], [Method.BLEND])
    assert (rows.lower.tolist(), rows.upper.tolist()) == (alone.lower.tolist(), alone.upper.tolist())
    np.testing.assert_allclose(rows.upper - rows.lower, 4 * 1.645, atol=0.01)


def test_the_version_of_the_closed_form_is_that_of_its_own_cells_only() -> None:
    imputed = replace(by_form(5.0, 2.0), version=["3"], form_version="gaussian-01234567")
    assert imputed.deviation is not None
    imputed.method[0, 0], imputed.deviation[0, 0] = Method.BLEND, np.nan  # the model has a part in sensor 0
    table, versions = SensorTable.of(catalogue().models[0], contract(residual_quantiles=QUANTILES)), [""]
    rows = repair(closed({}, {"sensor": 1}), imputed, table, versions)
    assert [versions[code] for code in rows.version.tolist()] == ["3", "gaussian-01234567"]
    assert (rows.lower[0], rows.upper[0]) == (4.0, 6.0), "the contract's interval"
    assert rows.upper[1] - rows.lower[1] > 6


@pytest.mark.parametrize(("deviation", "bounds"), [(1.0, (7.5, 10.0)), (0.01, (8.5, 9.5)), (np.nan, (np.nan, np.nan))])
def test_the_band_is_rounded_and_clipped_as_the_value_is(deviation: float, bounds: tuple[float, float]) -> None:
    rows = repaired(closed({}), by_form(9.1, deviation))
    assert rows.value[0] == 9.0
    np.testing.assert_array_equal([rows.lower[0], rows.upper[0]], bounds)


@pytest.mark.parametrize(("value", "bounds"), [(355.0, (0.0, 360.0)), (100.0, (90.0, 110.0)), (4.0, (0.0, 360.0))])
def test_the_band_of_a_direction_that_reaches_north_is_the_full_circle(
    value: float, bounds: tuple[float, float]
) -> None:
    table = SensorTable.of(catalogue(sensors=[{"id": "s0", "max_interval": 90.0}, {"id": "s1"}]).models[0], None)
    kinds, of_row = [Kind.ANGLE, Kind.NUMBER], {"half_widths": np.full((1, 2), 10.0)}
    rows = repair(closed({}), by_form(value, 6.0), table, [""], kinds=kinds, **of_row)
    assert (rows.method[0], rows.lower[0], rows.upper[0]) == (Method.GAUSSIAN, *bounds)
    number = repair(closed({}), by_form(value, 6.0), table, [""], kinds=kinds[::-1], **of_row)
    assert (number.lower[0], number.upper[0]) == (value - 10.0, value + 10.0)


def test_a_value_of_the_closed_form_whose_band_is_too_wide_is_withheld() -> None:
    table = SensorTable.of(catalogue(sensors=[{"id": "s0", "max_interval": 3.0}, {"id": "s1"}]).models[0], None)
    kept, withheld = (repair(closed({}), by_form(5.0, deviation), table, [""]) for deviation in (0.9, 1.0))
    assert (kept.method[0], kept.version[0]) == (Method.GAUSSIAN, 1)
    assert (withheld.method[0], withheld.version[0]) == (Method.NONE, 0)
    assert withheld.status[0] == Status.BAD_AGGREGATE_INVALID_INPUTS


@pytest.mark.parametrize("method", [Method.INTERPOLATION, Method.LAST_VALUE])
def test_only_the_model_has_intervals_and_versions(method: Method) -> None:
    rows = repaired(closed({}), answer(5.0, method))
    assert np.isnan([rows.lower[0], rows.upper[0]]).all()
    assert (rows.method[0], rows.version[0]) == (method, 0)


def test_versions_are_collected_and_encoded() -> None:
    versions = ["", "2"]
    table = SensorTable.of(catalogue().models[0], None)
    assert repair(closed({}), answer(1, version="3"), table, versions).version.tolist() == [2]
    assert repair(closed({}), answer(1, version="2"), table, versions).version.tolist() == [1]
    assert versions == ["", "2", "3"]


@given(st.floats(width=32), st.integers(0, 1), st.integers(0, 2), st.integers(1, 50), st.sampled_from(FILLING_METHODS))
def test_any_imputed_value_makes_a_valid_row(value: float, sensor: int, lag: int, gap_age: int, method: Method) -> None:
    with np.errstate(over="ignore"):  # near the largest float32 an interval may reach infinity
        imputed = replace(answer(value, method), deviation=np.ones((1, 2, 3)) if method == Method.GAUSSIAN else None)
        rows = repaired(closed({"sensor": sensor, "lag": lag, "gap_age": gap_age}), imputed)
    found = float(rows.value[0])
    assert np.isfinite(found) == np.isfinite(value)
    assert (severity(rows.status)[0] == Quality.BAD) == (not np.isfinite(value))
    if sensor == 0 and not np.isnan(found):
        assert 0 <= found <= 10
        assert found % 0.5 == 0
    if not np.isnan(rows.lower[0]):
        assert rows.lower[0] <= rows.value[0] <= rows.upper[0]


def test_a_doubted_reading_is_uncertain_unless_it_reported_more() -> None:
    seen = {"observed": True, "value": 5.0, "gap_age": 0, "window": NO_WINDOW, "final": True}
    part = closed(seen, seen | {"doubted": True}, seen | {"doubted": True, "quality": Quality.UNCERTAIN})
    rows = repair(part, None, SensorTable.of(catalogue(sensors=2).models[0], None), [""])
    assert rows.value.tolist() == [5.0, 5.0, 5.0]
    assert rows.status.tolist() == [Status.GOOD, Status.UNCERTAIN_SENSOR_NOT_ACCURATE, Status.UNCERTAIN]


@given(
    method=st.sampled_from(FILLING_METHODS),
    value=st.floats(-20, 20) | st.sampled_from([0.0, 10.0, 1e300, -1e300, np.inf, np.nan]),
    below=st.floats(0, 30) | st.sampled_from([1e308, np.nan, np.inf]),
    above=st.floats(0, 30) | st.sampled_from([1e308, np.nan, np.inf]),
    max_interval=st.none() | st.floats(0.5, 40),
    lag=st.sampled_from([0, 2]),
    known=st.booleans(),
)
@settings(max_examples=300)
def test_whatever_the_half_widths_an_interval_holds_its_value_within_the_limits(
    method: Method, value: float, below: float, above: float, max_interval: float | None, lag: int, known: bool
) -> None:
    """Of every method; a withheld row has neither value nor interval."""
    sensors = [{**LIMITED[0], **({} if max_interval is None else {"max_interval": max_interval})}, {"id": "s1"}]
    table = SensorTable.of(catalogue(sensors=sensors).models[0], contract(residual_quantiles=QUANTILES))
    floor = Limits(np.array([[2.0, -np.inf]]), np.array([[np.inf, np.inf]])) if known else None
    half = np.array([[below, above]])
    rows = repair(closed({"lag": lag}), answer(value, method), table, [""], limits=floor, half_widths=half)
    found, lower, upper = float(rows.value[0]), float(rows.lower[0]), float(rows.upper[0])
    if np.isnan(found):
        assert np.isnan([lower, upper]).all()
        return
    least = 2.0 if known else 0.0
    assert least <= found <= 10
    if np.isfinite([below, above]).all():
        assert least <= lower <= found <= upper <= 10
        assert upper - lower >= 0.5, "the resolution"
    else:
        assert np.isnan([lower, upper]).all() == (method not in (Method.MODEL, Method.BLEND))
    if max_interval is not None and np.isfinite(lower):
        assert upper - lower <= max_interval


def test_half_widths_replace_the_intervals_of_the_contract() -> None:
    rules = catalogue(sensors=2).models[0]
    table = SensorTable.of(rules, contract(residual_quantiles=QUANTILES))
    half = np.array([[3.0, 4.0], [np.nan, np.nan]])
    rows = repair(closed({}, {"sensor": 1}), answer(5.0), table, [""], half_widths=half)
    assert (rows.lower.tolist(), rows.upper.tolist()) == ([2.0, 4.0], [9.0, 6.0])
    observed = closed({"observed": True, "value": 3.0, "window": NO_WINDOW})
    rows = repair(observed, None, table, [""], half_widths=np.ones((1, 2)))
    assert np.isnan([rows.lower[0], rows.upper[0]]).all()


@pytest.mark.parametrize(("method", "value"), [(Method.GAUSSIAN, 1.0), (Method.LAST_VALUE, 1.0), (Method.MODEL, 0.9)])
def test_a_state_is_a_reading_that_no_rounding_moves(method: Method, value: float) -> None:
    """It lies in its interval too, which ends at the highest state."""
    table = SensorTable(
        np.full(2, -np.inf), np.full(2, np.inf), np.full(2, 0.3), np.full(2, np.inf), 6, None, {}
    )  # fmt: skip
    limits = Limits(np.zeros((1, 2)), np.ones((1, 2)))
    imputed = replace(answer(1.0, method), deviation=np.full((1, 2, 3), 0.5))
    rows = repair(closed({}), imputed, table, [""], None, limits, None, [Kind.STATE, Kind.NUMBER])
    assert rows.value.tolist() == pytest.approx([value])
    if method is Method.GAUSSIAN:
        assert (rows.lower.tolist(), rows.upper.tolist()) == ([0.0], [1.0])


def test_rounding_leaves_no_value_beyond_a_limit() -> None:
    table = SensorTable(np.full(2, -np.inf), np.full(2, np.inf), np.full(2, 0.3), np.full(2, np.inf), 6, None, {})
    limits = Limits(np.full((1, 2), 0.05), np.full((1, 2), 1.0))
    for value, expected in ((0.06, 0.05), (0.99, 0.9), (1.6, 0.9), (1.0, 0.9)):
        rows = repair(closed({}), answer(value), table, [""], None, limits)
        assert rows.value.tolist() == pytest.approx([expected])


@pytest.mark.parametrize("value", [-20.0, 370.0, 180.0])
def test_a_direction_outside_a_turn_lies_in_its_interval(value: float) -> None:
    table = SensorTable(np.full(2, -np.inf), np.full(2, np.inf), np.zeros(2), np.full(2, np.inf), 6, None, {})
    imputed = replace(answer(value, Method.GAUSSIAN), deviation=np.full((1, 2, 3), 5.0))
    rows = repair(closed({}), imputed, table, [""], None, None, None, [Kind.ANGLE, Kind.NUMBER])
    assert rows.lower[0] <= value <= rows.upper[0]
