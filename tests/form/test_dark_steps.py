"""Steps at which no sensor was observed: which answer they get, who decides, and what stays as it was."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.errors import ModelError
from glaim_stream.form import artefact, packing
from glaim_stream.form.baselines import interpolation
from glaim_stream.form.dark_steps import DISTANCES, DarkSteps, places
from glaim_stream.form.explain import CARRIED, LINE, explain
from glaim_stream.form.form import ClosedForm
from tests.form.samples import START_MS, STEP_MS, fitted, series

STEPS, NEWEST = 96, 24
ALL = DarkSteps((True,) * 5, (True,) * 5)


def walk(rows: int = 3000, seed: int = 1) -> np.ndarray:
    """Four sensors that go their own ways and return nowhere, each with a jump now and then."""
    rng = np.random.default_rng(seed)
    pushes = rng.standard_t(3, size=(1, 4, rows))
    return np.cumsum(pushes, axis=2) + np.array([0.0, 500.0, -200.0, 80.0])[:, None]


def hidden(values: np.ndarray, length: int, after: int, count: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of the first group without readings at `length` steps, which `after` steps follow."""
    ends = np.linspace(STEPS, values.shape[2], count).astype(np.int64)
    cut = np.stack([values[0, :, end - STEPS : end] for end in ends])
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, STEPS - after - length : STEPS - after] = False
    return cut, observed, START_MS + STEP_MS * (ends - 1)


def without(form: ClosedForm) -> ClosedForm:
    return dataclasses.replace(form, dark_steps=None)


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    return dataclasses.replace(fitted(series(3000), steps=STEPS).form, dark_steps=ALL)


def test_places_and_classes_follow_from_the_nearest_steps_with_a_reading() -> None:
    observed = np.zeros((2, 2, 14), np.bool_)
    observed[0, 0, 0] = observed[0, 1, 3] = True  # of different sensors
    observed[0, :, 13] = True
    place, distance = places(observed)
    assert place[0].tolist() == [0] * 14
    nearest = [0, 1, 1, 0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0]
    assert distance[0].tolist() == [np.searchsorted(DISTANCES, each) for each in nearest]
    observed[0, :, 13] = False
    place, distance = places(observed)
    assert place[0].tolist() == [0] * 4 + [1] * 10
    assert distance[0, 4:].tolist() == [0, 1, 2, 2, 3, 3, 3, 3, 4, 4]
    assert (distance[1] == len(DISTANCES)).all()  # a window without a reading


def test_series_that_return_nowhere_get_the_last_value_and_the_line() -> None:
    found = fitted(walk(), steps=STEPS)
    dark = found.form.dark_steps
    assert dark is not None
    assert dark == found.report.dark_steps
    assert all(dark.between[:4] + dark.after[:4])
    for after in (0, 5):
        values, observed, end_ms = hidden(walk(seed=2), 4, after)
        line = interpolation(values, observed)
        mean = found.form.fill(values, observed, end_ms, newest=NEWEST).mean
        np.testing.assert_array_equal(mean, line[:, :, -NEWEST:])
        errors = [
            np.abs(each.fill(values, observed, end_ms, newest=NEWEST).mean - values[:, :, -NEWEST:]).mean()
            for each in (found.form, without(found.form))
        ]
        assert errors[0] < errors[1]


@pytest.mark.slow  # quicker: each class has its own choice, below
@pytest.mark.parametrize("habit", [0.0, 3.0])
def test_series_that_return_lose_next_to_nothing_by_the_choice(habit: float) -> None:
    form = fitted(series(4000, habit=habit), steps=STEPS).form
    gained = []
    for length, after in ((1, 0), (8, 0), (1, 3), (8, 3)):
        values, observed, end_ms = hidden(series(12_000, habit=habit, seed=2), length, after, count=300)
        line = np.abs(interpolation(values, observed) - values).sum()
        errors = [
            np.abs(each.fill(values, observed, end_ms, newest=NEWEST).mean - values[:, :, -NEWEST:]).sum()
            for each in (form, without(form))
        ]
        assert errors[0] < 1.03 * min(line, errors[1])
        gained.append(np.log(errors[1] / errors[0]))
    assert np.mean(gained) > 0


def test_a_habit_of_the_day_keeps_its_answers_after_the_newest_reading() -> None:
    dark = fitted(series(4000, habit=3.0), steps=STEPS).form.dark_steps
    assert dark is None or not any(dark.after)


def test_dark_steps_alone_are_on_the_line_and_deviations_stay(form: ClosedForm) -> None:
    for after in (0, 3):
        values, observed, end_ms = hidden(series(seed=2), 4, after)
        observed[:, 1, -12] = False
        answer = without(form).fill(values, observed, end_ms, newest=NEWEST)
        found = form.fill(values, observed, end_ms, newest=NEWEST)
        line = interpolation(values, observed)[:, :, -NEWEST:]
        dark = np.broadcast_to(~observed.any(axis=1, keepdims=True), observed.shape)[:, :, -NEWEST:]
        np.testing.assert_array_equal(found.mean[dark], line[dark])
        np.testing.assert_array_equal(found.mean[~dark], answer.mean[~dark])
        np.testing.assert_array_equal(found.deviation, answer.deviation)


def test_each_class_has_its_own_choice(form: ClosedForm) -> None:
    some = dataclasses.replace(form, dark_steps=DarkSteps((False,) * 5, (False, True, False, True, False)))
    values, observed, end_ms = hidden(series(seed=2), 12, 0)
    observed[:, :, -16:-14] = False
    answer = without(form).fill(values, observed, end_ms, newest=NEWEST).mean
    found = some.fill(values, observed, end_ms, newest=NEWEST).mean
    differs = (found != answer).any(axis=(0, 1))
    distances = np.flatnonzero(differs) - (NEWEST - 13)
    assert distances.tolist() == [2, 5, 6, 7, 8]


@pytest.mark.parametrize("newest", [None, NEWEST + 1, STEPS])
def test_more_steps_keep_the_whole_answer(form: ClosedForm, newest: int | None) -> None:
    given = hidden(series(seed=2), 4, 0)
    found, expected = (each.fill(*given, newest=newest) for each in (form, without(form)))
    np.testing.assert_array_equal(found.mean, expected.mean)


def test_a_single_reading_lights_its_step_and_a_silent_sensor_keeps_its_answer(form: ClosedForm) -> None:
    values, observed, end_ms = hidden(series(seed=2), 2, 0)
    observed[:, 2, -1] = True  # the step before it stays dark
    observed[::2, 0] = False
    found, answer = (each.fill(values, observed, end_ms, newest=9).mean for each in (form, without(form)))
    np.testing.assert_array_equal(found[:, :, -1], answer[:, :, -1])
    np.testing.assert_array_equal(found[::2, 0], answer[::2, 0])
    assert (found[1::2, :, -2] != answer[1::2, :, -2]).all()
    np.testing.assert_array_equal(found[:, :, :-2], answer[:, :, :-2])


def test_sensors_with_a_rule_of_their_own_keep_it() -> None:
    values = walk()
    values[0, 1] = np.round(values[0, 0] % 2)  # a state
    values[0, 2] = 2 * values[0, 0] + 3  # follows exactly
    values[0, 3] = 7.0
    form = dataclasses.replace(fitted(values, steps=STEPS).form, dark_steps=ALL)
    cut, observed, end_ms = hidden(values, 4, 0)
    found, answer = (each.fill(cut, observed, end_ms, newest=9) for each in (form, without(form)))
    np.testing.assert_array_equal(found.mean[:, 1], answer.mean[:, 1])
    np.testing.assert_array_equal(found.mean[:, 3], np.full((60, 9), 7.0))
    np.testing.assert_allclose(found.mean[:, 2], 2 * found.mean[:, 0] + 3, rtol=1e-6)


def test_an_answer_has_the_same_bits_alone_and_among_others(form: ClosedForm) -> None:
    values, observed, end_ms = hidden(series(seed=2), 3, 0, count=30)
    observed[::3, 1, -3:] = True
    observed[1::3, :, -9:-6] = False
    asked = np.arange(9)[::-1] % 8 == 0
    together = form.fill(values, observed, end_ms, newest=9, asked=asked)
    for row in range(30):
        one = slice(row, row + 1)
        alone = form.fill(values[one], observed[one], end_ms[one], newest=9, asked=asked)
        assert alone.mean.tobytes() == together.mean[one].tobytes()
        assert alone.deviation.tobytes() == together.deviation[one].tobytes()


def test_explanations_add_up_to_the_value_of_the_stream(form: ClosedForm) -> None:
    for after in (0, 3):
        values, observed, end_ms = hidden(series(seed=2), 2, after, count=5)
        observed[1, 0] = False
        filled = form.fill(values, observed, end_ms, newest=9).mean
        for row, sensor, step in np.argwhere(~observed[:, :, -9:]).tolist():
            cell = sensor, STEPS - 9 + step
            found = explain(form, values[row], observed[row], int(end_ms[row]), *cell, newest=9)
            assert found is not None
            assert found.value == filled[row, sensor, step]
            total = found.base + found.bounded + found.contributions.sum()
            assert total == pytest.approx(found.value, rel=1e-9)
            if (row, sensor) != (1, 0):
                assert found.basis == (LINE if after else CARRIED)
                assert np.count_nonzero(found.contributions) == (2 if after else 1)


def test_a_file_keeps_the_choice_and_a_form_without_one_keeps_its_digest(form: ClosedForm, tmp_path: Path) -> None:
    form.save(tmp_path)
    read = ClosedForm.load(tmp_path)
    assert read.dark_steps == ALL
    assert read.digest == form.digest
    assert "dark_steps" not in artefact.text_of(packing.pack(without(form)))
    assert ClosedForm.from_bytes(without(form).to_bytes(), "form").dark_steps is None


@pytest.mark.parametrize("chosen", [[True] * 4, [True] * 6, [0.5] * 5, [1] * 5])
def test_other_choices_are_refused(form: ClosedForm, chosen: list[Any]) -> None:
    with pytest.raises(ValueError, match="5 choices"):
        DarkSteps(tuple(chosen), (True,) * 5)
    arrays = packing.pack(form)
    text = artefact.text_of(arrays)
    text["dark_steps"] = {"between": chosen, "after": [True] * 5}
    with pytest.raises(ModelError, match="do not fit one another"):
        ClosedForm.from_arrays(artefact.with_text(arrays, json.loads(json.dumps(text))))


def test_forms_without_validation_or_inside_a_network_keep_their_answers() -> None:
    assert fitted(walk(rows=250), steps=STEPS).form.dark_steps is None
    assert fitted(walk(), steps=STEPS, only_numbers=True).form.dark_steps is None


def test_every_choice_is_counted() -> None:
    counted = [fitted(walk(), steps=STEPS, only_numbers=only).report.choices for only in (False, True)]
    assert counted[0] - counted[1] >= 2 * (len(DISTANCES) + 1)
