"""Imputed cells: which holes the model filled, their baselines, and the blend of both."""

import numpy as np

from glaim_stream.blend import Expert, Predictions
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers import Imputed
from glaim_stream.output import SensorTable
from glaim_stream.pipeline.predictions import HolePredictions, blended, holes_of, predict_holes, predict_probes
from glaim_stream.windows import NO_WINDOW, Closed, Place, Probes
from tests.support import catalogue

NAN = float("nan")
# Two windows of one group with 2 sensors and 4 steps, the newest at the right; NaN: nothing observed.
WINDOWS = np.array(
    [
        [[1, 2, NAN, 4], [5, 6, 7, NAN]],
        [[1, NAN, NAN, NAN], [1, 2, 3, NAN]],
    ],
    np.float64,
)
OBSERVED = np.isfinite(WINDOWS)
MODEL, NONE = np.int8(Method.MODEL), np.int8(Method.NONE)
# The model's answer for the newest 2 steps of each window; it has nothing for sensor 0 of the second one's newest step.
ANSWER = np.array([[[30, 40], [70, 80]], [[31, 41], [71, 81]]], np.float64)
METHOD = np.array([[[MODEL, MODEL], [MODEL, MODEL]], [[MODEL, Method.LAST_VALUE], [MODEL, MODEL]]], np.int8)
IMPUTED = Imputed(ANSWER, METHOD, ["1", "1"])


def closed() -> Closed:
    """
    row      0          1                2                3          4
    sensor   0          0                1                0          1
    window   observed   0, interior      0, newest step   too old    1, newest step, its whole row is missing
    and row 5: sensor 0 of window 1 at its newest step, which a lower rung has filled
    """
    count = 6
    window = np.array([NO_WINDOW, 0, 0, NO_WINDOW, 1, 1], np.int32)
    return Closed(
        0,
        np.zeros(count, np.int32),
        np.array([0, 0, 1, 0, 1, 0], np.int32),
        np.array([3000, 2000, 3000, 0, 3000, 3000], np.int64),
        np.zeros(count, np.int64),
        np.array([4, NAN, NAN, NAN, NAN, NAN], np.float64),
        np.array([True, False, False, False, False, False]),
        np.zeros(count, np.int8),
        np.zeros(count, np.bool_),
        np.array([0, 1, 1, 9, 1, 3], np.int32),
        np.zeros(count, np.int16),
        np.zeros(count, np.bool_),
        window,
        np.array([0, 1, 0, 0, 0, 0], np.int32),
        np.where(OBSERVED, WINDOWS, np.float64(0)),
        OBSERVED.copy(),
    )


def test_holes_are_rows_with_a_window_and_their_method_shows_the_model() -> None:
    holes, by_model = holes_of(closed(), IMPUTED)
    assert holes.tolist() == [1, 2, 4, 5]
    assert by_model.tolist() == [True, True, True, False]


def test_without_steps_or_without_an_answer_there_are_no_holes() -> None:
    for part, imputed in ((None, IMPUTED), (closed(), None)):
        holes, by_model = holes_of(part, imputed)
        assert (len(holes), len(by_model), len(predict_holes(part, imputed, 1000).cells)) == (0, 0, 0)
    nothing = Imputed(ANSWER, np.full_like(METHOD, NONE), ["", ""])
    assert len(predict_holes(closed(), nothing, 1000).cells) == 0


def test_each_filled_hole_has_a_value_a_baseline_and_a_place() -> None:
    holes = predict_holes(closed(), IMPUTED, 1000)
    cells = holes.cells
    np.testing.assert_array_equal(cells.values[:, Expert.MODEL], [30, 80, 81, NAN])
    assert cells.values[:, Expert.BASELINE].tolist() == [3, 7, 3, 1], "the line between readings, else the last value"
    assert cells.step.tolist() == [3, 3, 3, 3], "the step that closed, `lag` steps after the hole"
    assert cells.sensor.tolist() == [0, 1, 1, 0]
    assert cells.age.tolist() == [0, 0, 0, 2]
    assert cells.place.tolist() == [Place.INTERIOR, Place.EDGE, Place.ROW_EDGE, Place.ROW_EDGE]
    assert (holes.window.tolist(), holes.step.tolist()) == ([0, 0, 1, 1], [0, 1, 1, 1])


def baseline_alone(cells: int) -> np.ndarray:
    return np.array([[0.0, 1.0]] * cells)


def test_the_weights_are_those_of_the_experts_and_determine_the_method() -> None:
    holes = predict_holes(closed(), IMPUTED, 1000)
    mixed = blended(IMPUTED, holes, np.array([[0.25, 0.75], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    assert mixed.values[0, 0, 0] == 0.25 * 30 + 0.75 * 3
    assert mixed.values[0, 1, 1] == 80
    assert mixed.values[1, 1, 1] == 3
    assert mixed.method[0, 0, 0] == Method.BLEND
    assert mixed.method[0, 1, 1] == Method.MODEL
    assert mixed.method[1, 1, 1] == Method.LAST_VALUE
    assert mixed.version == IMPUTED.version
    interior = blended(IMPUTED, holes, baseline_alone(4))
    assert interior.method[0, 0, 0] == Method.INTERPOLATION
    assert IMPUTED.values[0, 0, 0] == 30, "the input is not changed"
    untouched = np.ones_like(METHOD, np.bool_)
    untouched[holes.window, holes.cells.sensor, holes.step] = False
    assert np.array_equal(mixed.values[untouched], ANSWER[untouched])


def test_a_hole_without_a_baseline_keeps_the_value_of_the_model() -> None:
    part = closed()
    part.window_observed[0, 0] = False
    holes = predict_holes(part, IMPUTED, 1000)
    mixed = blended(IMPUTED, holes, baseline_alone(4))
    assert (mixed.values[0, 0, 0], mixed.method[0, 0, 0]) == (30, Method.MODEL)


def test_without_holes_the_same_object_is_returned() -> None:
    assert blended(IMPUTED, predict_holes(None, None, 1000), np.empty((0, 2))) is IMPUTED


def form_answer() -> Imputed:
    """The closed form's answer for the same windows, which declines sensor 1 of the second one."""
    method = np.full(ANSWER.shape, Method.GAUSSIAN, np.int8)
    method[1, 1] = Method.LAST_VALUE
    return Imputed(ANSWER + 100, method, ["gaussian-0"] * 2, np.ones(ANSWER.shape), "gaussian-0")


def test_the_closed_form_is_a_third_expert_and_fills_holes_that_the_model_does_not() -> None:
    holes = predict_holes(closed(), IMPUTED, 1000, form_answer())
    expected = [[30, 3, 130], [80, 7, 180], [81, 3, NAN], [NAN, 1, 141]]
    np.testing.assert_array_equal(holes.cells.values, expected)
    assert (holes.window.tolist(), holes.step.tolist()) == ([0, 0, 1, 1], [0, 1, 1, 1])


def test_a_hole_that_neither_model_nor_closed_form_fills_has_its_baseline_alone() -> None:
    declined = form_answer()
    declined.method[:] = NONE
    holes = predict_holes(closed(), IMPUTED, 1000, declined)
    np.testing.assert_array_equal(holes.cells.values[3], [NAN, 1, NAN])
    assert np.isnan(holes.cells.values[:, Expert.GAUSSIAN]).all()
    mixed = blended(IMPUTED, holes, np.tile([0.0, 1.0, 0.0], (4, 1)), declined)
    assert (mixed.values[1, 0, 1], mixed.method[1, 0, 1]) == (1, Method.LAST_VALUE)


def test_probe_answers_of_the_closed_form_are_rounded_and_clipped_and_nan_where_it_declines() -> None:
    rules = catalogue(sensors=[{"id": "s0", "resolution": 0.5, "max": 10}, {"id": "s1"}], window=6).models[0]
    ints = np.array([0, 0], np.int64)
    probes = Probes(
        0, np.where(OBSERVED, WINDOWS, np.float64(0)), OBSERVED, ints, np.array([0, 1]), np.array([0, 1]), ints + 1,
        ints + 1, np.array([3.0, 3.0]), np.zeros(2, np.int32), np.zeros(2, np.bool_),
    )  # fmt: skip
    form = form_answer()
    form.values[0, 0, 0] = 3.3
    for value, published in ((3.3, 3.5), (99.0, 10.0)):
        form.values[0, 0, 0] = value
        found = predict_probes(probes, IMPUTED, SensorTable.of(rules, None), form)
        np.testing.assert_array_equal(found.values[:, Expert.GAUSSIAN], [published, NAN])
    probes.truth[0] = 1e101
    assert np.isnan(predict_probes(probes, IMPUTED, SensorTable.of(rules, None), form).values[0, Expert.GAUSSIAN])


def test_probe_answers_are_rounded_and_clipped_like_published_values() -> None:
    rules = catalogue(sensors=[{"id": "s0", "resolution": 0.5, "min": 0, "max": 10}, {"id": "s1"}], window=6).models[0]
    probes = Probes(
        0,
        np.where(OBSERVED, WINDOWS, np.float64(0)),
        OBSERVED,
        np.array([7, 7, 8], np.int64),
        np.array([0, 1, 1], np.int64),
        np.array([0, 1, 0], np.int64),
        np.array([1, 0, 0], np.int64),
        np.array([1, 1, 3], np.int64),
        np.array([3, 3, 3], np.float64),
        np.zeros(2, np.int32),
        np.zeros(3, np.bool_),
    )
    answer = ANSWER.copy()
    answer[0, 0, 0] = 3.3
    answer[1, 1, 1] = 3.3
    found = predict_probes(probes, Imputed(answer, METHOD, ["1", "1"]), SensorTable.of(rules, None))
    assert found.values[:2, Expert.MODEL].tolist() == [3.5, float(np.float64(3.3))]
    assert np.isnan(found.values[2, Expert.MODEL]), "a lower rung imputed it"
    assert found.values[:, Expert.BASELINE].tolist() == [3, 3, 1]
    assert found.step.tolist() == [7, 7, 8]
    assert found.sensor.tolist() == [0, 1, 0]
    assert found.age.tolist() == [0, 0, 2]
    assert found.place.tolist() == [Place.INTERIOR, Place.ROW_EDGE, Place.ROW_EDGE]
    answer[0, 0, 0] = 99
    limited = predict_probes(probes, Imputed(answer, METHOD, ["1", "1"]), SensorTable.of(rules, None))
    assert limited.values[0, Expert.MODEL] == 10


def test_the_baseline_s_method_follows_from_the_place_of_the_cell() -> None:
    """A line needs a later reading of the sensor; whether other sensors were observed at the step changes nothing."""
    ints = np.zeros(4, np.int64)
    place = np.array([Place.EDGE, Place.INTERIOR, Place.ROW_EDGE, Place.ROW_INTERIOR])
    cells = Predictions(ints, ints, ints, place, np.array([[8.0, 2.0]] * 4))
    imputed = Imputed(np.full((4, 1, 1), 8, np.float64), np.full((4, 1, 1), MODEL), [""] * 4)
    mixed = blended(imputed, HolePredictions(cells, np.arange(4), ints, np.arange(4)), baseline_alone(4))
    last_value, line = Method.LAST_VALUE, Method.INTERPOLATION
    assert mixed.method.ravel().tolist() == [last_value, line, last_value, line]
