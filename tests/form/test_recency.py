"""Newest steps that are filled from the recent half of a window: which answer, for which windows, and who decides."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.form.choices import with_recent
from glaim_stream.form.explain import explain
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.moments import with_free_levels
from glaim_stream.form.variant import Variant
from tests.form.samples import STEP_MS, fitted, series
from tests.form.test_logarithms import growing

STEPS, RECENT, NEWEST = 96, 48, 9


def form_of(values: np.ndarray) -> ClosedForm:
    return fitted(values, steps=STEPS).form


@pytest.fixture(scope="module")
def form() -> ClosedForm:
    found = form_of(series(3000))
    assert {each.recent for each in found.variants} == {RECENT}
    return found


def whole(form: ClosedForm) -> ClosedForm:
    """The same form, which fills its newest steps from whole windows."""
    fields = {name: getattr(form, name) for name in form.__dataclass_fields__}
    return ClosedForm(**fields | {"variants": tuple(each.filled_from(None) for each in form.variants)})


def holed(values: np.ndarray, count: int = 40, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of the first group with 8 % of their cells missing, among them a sensor's newest four."""
    rng = np.random.default_rng(seed)
    ends = np.linspace(STEPS, values.shape[2], count).astype(np.int64)
    cut = np.stack([values[0, :, end - STEPS : end] for end in ends])
    observed = rng.random(cut.shape) >= 0.08
    observed[np.arange(count), rng.integers(cut.shape[1], size=count), -4:] = False
    return np.where(observed, cut, np.nan), observed, STEP_MS * ends


def test_the_newest_steps_follow_from_the_recent_ones_alone(form: ClosedForm) -> None:
    variant, (values, observed, _) = form.variants[0], holed(series(seed=2))
    assert variant.transform.profile is None
    values = np.where(observed, values, 0.0)
    found = variant.fill(values, observed, None, NEWEST)
    moved, scales = variant.transform.forward(values, observed, None)
    levels = moved.sum(axis=2) / observed.sum(axis=2)
    cells = np.arange(3 * STEPS).reshape(3, STEPS)[:, -RECENT:].ravel()
    covariance = with_free_levels(variant.covariance, variant.level_variance)[np.ix_(cells, cells)]
    mean, variance = np.empty((2, len(values), 3, RECENT))
    for row, level in enumerate(levels[:, :, None]):
        known = observed[row, :, -RECENT:].ravel()
        across = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known])
        mean[row] = ((moved[row] - level)[:, -RECENT:].ravel()[known] @ across).reshape(3, RECENT) + level
        variance[row] = (np.diagonal(covariance) - (across * covariance[known]).sum(axis=0)).reshape(3, RECENT)
    newest = slice(RECENT - NEWEST, RECENT)
    spread = np.sqrt(np.maximum(variance, 0.0))
    expected = variant.transform.back(mean[:, :, newest], spread[:, :, newest], scales, None, slice(-NEWEST, None))
    hole = ~observed[:, :, -NEWEST:]
    assert hole.sum() > 100
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(each[hole], other[hole], rtol=1e-6)


def test_older_readings_carry_nothing_unless_a_sensor_was_last_seen_there(form: ClosedForm) -> None:
    values, observed, end_ms = holed(series(seed=2))
    before = form.fill(values, observed, end_ms, newest=NEWEST)
    other = observed.copy()
    other[:, :, : STEPS - RECENT] &= np.random.default_rng(1).random(other[:, :, : STEPS - RECENT].shape) > 0.3
    level = np.where(observed, values, 0.0).sum(axis=2) / observed.sum(axis=2)
    values = np.where(other, values, level[:, :, None])
    after = form.fill(values, observed, end_ms, newest=NEWEST)  # the same levels, so all that moved is their noise
    hole = ~observed[:, :, -NEWEST:]
    assert np.abs(after.mean - before.mean)[hole].max() < 0.2 * np.abs(before.mean - level[:, :, None])[hole].max()
    silent = observed.copy()
    silent[:, 1, STEPS - RECENT // 2 :] = False
    found, expected = (each.fill(values, silent, end_ms, newest=NEWEST) for each in (form, whole(form)))
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.deviation, expected.deviation)


@pytest.mark.parametrize("newest", [None, RECENT // 2 + 1, STEPS])
def test_more_steps_are_filled_from_whole_windows(form: ClosedForm, newest: int | None) -> None:
    given = holed(series(seed=2))
    found, expected = (each.fill(*given, newest=newest) for each in (form, whole(form)))
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.deviation, expected.deviation)


def test_an_answer_has_the_same_bits_alone_and_among_windows_of_both_kinds(form: ClosedForm) -> None:
    values, observed, end_ms = holed(series(seed=2))
    observed[::3, 0, STEPS - RECENT // 2 :] = False  # from whole windows
    observed[1::3, 2] = False  # silent
    values = np.where(observed, values, np.nan)
    together = form.fill(values, observed, end_ms, newest=NEWEST)
    kinds = form.variants[0].enough(observed, NEWEST)
    assert kinds.any()
    assert not kinds.all()
    for row in range(len(values)):
        one = slice(row, row + 1)
        alone = form.fill(values[one], observed[one], end_ms[one], newest=NEWEST)
        assert alone.mean.tobytes() == together.mean[one].tobytes()
        assert alone.deviation.tobytes() == together.deviation[one].tobytes()


@pytest.mark.parametrize("make", [series, lambda **given: series(habit=1.0, **given), growing])
def test_explanations_add_up_to_the_value_of_the_stream(make: object) -> None:
    assert callable(make)
    form = with_recent(form_of(make()))
    values, observed, end_ms = holed(make(seed=2), count=6)
    observed[0, 1, STEPS - RECENT // 2 :] = False
    filled = form.fill(values, observed, end_ms, newest=NEWEST)
    for row, sensor, step in np.argwhere(~observed[:, :, -NEWEST:]).tolist():
        cell = sensor, STEPS - NEWEST + step
        found = explain(form, values[row], observed[row], int(end_ms[row]), *cell, newest=NEWEST)
        assert found is not None
        assert found.value == filled.mean[row, sensor, step]
        assert found.base + found.bounded + found.contributions.sum() == pytest.approx(found.value, rel=1e-9)


def test_validation_keeps_whole_windows_where_the_far_past_tells() -> None:
    rng = np.random.default_rng(5)
    rows, lag = 4000, 72
    values = rng.normal(size=(1, 2, rows))
    for step in range(lag, rows):
        values[:, :, step] = 0.97 * values[:, :, step - lag] + 0.25 * values[:, :, step]
    assert {each.recent for each in form_of(values).variants} == {None}


def test_few_rows_and_short_windows() -> None:
    few = fitted(series(250), steps=STEPS)
    assert few.report.choices == 0
    assert few.report.recent == RECENT
    assert fitted(series(1000), steps=48).report.recent is None
    assert fitted(series(2000), steps=160).report.recent == 80


def test_a_file_keeps_the_choice_and_a_form_without_it_keeps_its_digest(form: ClosedForm, tmp_path: Path) -> None:
    form.save(tmp_path)
    read = ClosedForm.load(tmp_path)
    assert {each.recent for each in read.variants} == {RECENT}
    assert read.digest == form.digest
    assert whole(form).digest != form.digest
    given = holed(series(seed=2))
    assert read.fill(*given, newest=NEWEST).mean.tobytes() == form.fill(*given, newest=NEWEST).mean.tobytes()


def test_a_variant_that_is_inverted_stays_so(form: ClosedForm) -> None:
    variant: Variant = form.variants[0].inverted()
    assert variant.filled_from(None).conditional is variant.conditional
