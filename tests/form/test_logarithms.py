"""Data that grows in proportion, and values for which its logarithms do not hold."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glaim_stream.form.candidates import BOTH, LOGARITHM, PLAIN
from glaim_stream.form.fit import Fitted
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.variant import Variant
from tests.form.samples import STEPS, fitted, series, windows


def growing(rows: int = 1500, seed: int = 1) -> np.ndarray:
    logs = series(rows, seed=seed)
    logs = logs - logs.mean(axis=2, keepdims=True)
    logs = logs / np.abs(logs).max(axis=2, keepdims=True)
    return np.exp((logs + 1.0) / 2.0 * np.log(100.0))  # 1 to 100


@pytest.fixture(scope="module")
def fit_of_growth() -> Fitted:
    return fitted(growing())


def test_growing_data_is_filled_by_logarithms(fit_of_growth: Fitted) -> None:
    weights, errors = fit_of_growth.report.weights, fit_of_growth.report.errors
    assert sum(weight for name, weight in weights.items() if name in (LOGARITHM, BOTH)) > 0.3
    assert errors[LOGARITHM]["blocks"] < errors[PLAIN]["blocks"]


@pytest.mark.parametrize("strange", [0.0, -3.0, 5_000.0])
def test_a_window_with_a_value_beyond_the_training_goes_without_the_logarithm(
    fit_of_growth: Fitted, strange: float
) -> None:
    form = fit_of_growth.form
    cut, end_ms = windows(growing(seed=2), 20)
    cut[::2, 1, 4] = strange
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -3:] = False
    found = form.fill(cut, observed, end_ms)
    assert found.without_logarithm.tolist() == [True, False] * 10
    assert np.isfinite(found.mean).all()
    plain = next(variant for variant in form.variants if not variant.transform.logarithm.any())
    mean, deviation = plain.fill(cut, observed, None)
    most = np.where(observed, cut, -np.inf).max(axis=2, keepdims=True)
    assert (found.mean <= np.maximum(mean + 4.0 * deviation, most) + 1e-9)[~observed].all()


def test_steep_growth_at_the_edge_stays_within_the_plain_band(fit_of_growth: Fitted) -> None:
    cut = np.broadcast_to(np.geomspace(1.0, 900.0, STEPS), (1, 3, STEPS)).copy()
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -8:] = False
    found = fit_of_growth.form.fill(cut, observed, np.zeros(1, np.int64))
    seen = cut[observed]
    assert found.mean.max() < seen.max() + (seen.max() - seen.min()) + 100.0
    assert np.isfinite(found.deviation).all()


def by_logarithms_alone(found: Fitted) -> ClosedForm:
    """The form with no weight on its plain variant."""
    plain = next(variant for variant in found.form.variants if not variant.transform.logarithm.any())
    own = next(variant for variant in found.form.variants if variant.transform.logarithm.any())
    return replace(found.form, variants=(plain, own), weights=(0.0, 1.0), calibration=1.0, dark_steps=None)


def edges() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """200 windows with holes in their newest 6 steps, the end times, and one that grows steeply among them."""
    cut, end_ms = windows(growing(9000, seed=3), 200)
    cut[70] = np.geomspace(1.0, 900.0, STEPS)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -6:] = np.random.default_rng(4).random((200, 3, 6)) < 0.5
    observed[70, :, -6:] = False
    return cut, observed, end_ms


def test_means_alone_stay_within_the_room_that_deviations_give(fit_of_growth: Fitted) -> None:
    form = by_logarithms_alone(fit_of_growth)
    whole, alone = (form.fill(*edges(), with_deviation=each) for each in (True, False))
    np.testing.assert_array_equal(alone.mean, whole.mean)


def test_the_plain_variant_is_computed_where_an_answer_by_logarithms_leaves_its_room_and_changes_no_other(
    fit_of_growth: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = by_logarithms_alone(fit_of_growth)
    cut, observed, end_ms = edges()
    plain, own = (variant.fill(cut, observed, None, 6) for variant in form.variants)
    room = form.log_room(cut, observed, 6)
    hole = ~observed[:, :, -6:]
    left = (room.left_by(*own) & hole).any(axis=(1, 2))
    assert left[70]
    assert left.sum() <= 120
    mean, deviation = room.bounded(*own, *plain)
    computed: Counter[str] = Counter()
    original = Variant.fill

    def counted(variant: Variant, values: np.ndarray, *rest: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        computed[variant.name] += len(values)
        return original(variant, values, *rest, **options)

    monkeypatch.setattr(Variant, "fill", counted)
    found = form.fill(cut, observed, end_ms, newest=6)
    assert computed == {form.variants[1].name: 200, form.variants[0].name: left.sum()}
    low, high = form.bounds(cut, observed)
    np.testing.assert_array_equal(found.mean[hole], np.clip(mean, low, high)[hole])
    np.testing.assert_allclose(found.deviation[hole], deviation[hole], rtol=1e-12)


def test_an_answer_that_is_not_asked_for_needs_no_plain_variant(
    fit_of_growth: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = by_logarithms_alone(fit_of_growth)
    cut, observed, end_ms = edges()
    asked = np.array([False, False, False, False, True, False])
    own = form.variants[1].fill(cut, observed, None, 6)
    left = (form.log_room(cut, observed, 6).left_by(*own) & ~observed[:, :, -6:]).any(axis=1)
    assert 0 < left[:, asked].sum() < left.any(axis=1).sum()
    whole = form.fill(cut, observed, end_ms, newest=6)
    computed: Counter[str] = Counter()
    original = Variant.fill

    def counted(variant: Variant, values: np.ndarray, *rest: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        computed[variant.name] += len(values)
        return original(variant, values, *rest, **options)

    monkeypatch.setattr(Variant, "fill", counted)
    found = form.fill(cut, observed, end_ms, newest=6, asked=asked)
    assert computed[form.variants[0].name] == left[:, asked].sum()
    np.testing.assert_allclose(found.mean[:, :, asked], whole.mean[:, :, asked], rtol=1e-9)


def test_an_answer_that_leaves_its_room_is_brought_back_to_the_plain_band(fit_of_growth: Fitted) -> None:
    form = by_logarithms_alone(fit_of_growth)
    cut, observed, _ = edges()
    room = form.log_room(cut, observed, 6)
    plain = form.variants[0].fill(cut, observed, None, 6)
    huge = np.full(plain[0].shape, 1e30)
    mean, deviation = room.bounded(huge, huge, *plain)
    most = np.where(observed, cut, -np.inf).max(axis=2, keepdims=True)
    np.testing.assert_array_equal(mean, np.maximum(plain[0] + 4.0 * plain[1], most))
    np.testing.assert_array_equal(deviation, 4.0 * plain[1])
    assert room.left_by(huge, np.zeros(huge.shape)).all()
    assert room.left_by(np.broadcast_to(most, huge.shape), huge).all()
    assert not room.left_by(np.broadcast_to(most, huge.shape), np.zeros(huge.shape)).any()


def test_no_plain_deviation_is_below_the_least_one(fit_of_growth: Fitted) -> None:
    plain = by_logarithms_alone(fit_of_growth).variants[0]
    cut, observed, _ = edges()
    observed &= np.random.default_rng(5).random(observed.shape) < np.linspace(0.0, 1.0, 200)[:, None, None]
    cut[::5] *= 1e-3  # far calmer than in training, so their own deviations scale them
    observed[3, 1] = False
    _, deviation = plain.fill(cut, observed, None, 6)
    least = plain.least_deviation(np.where(observed, cut, 0.0), observed, 6)
    hole = ~observed[:, :, -6:]
    assert (deviation >= 0.999 * least)[hole].all()
    assert (least[3, 1] == 0.0).all()
    assert least[100::5, 0].max() < 0.01 * np.median(least[101::5, 0])
    assert (least[150:] > 0.0).all()


def test_an_answer_by_logarithms_is_the_median(fit_of_growth: Fitted) -> None:
    """The median is too high as often as too low; the mean of a lognormal is larger."""
    own = next(variant for variant in fit_of_growth.form.variants if variant.transform.logarithm.any())
    cut, _ = windows(growing(9000, seed=3), 400)
    observed = np.ones(cut.shape, np.bool_)
    observed[:, :, -6:] = False
    mean, _ = own.fill(cut, observed, None)
    assert 0.4 < np.mean(cut[~observed] > mean[~observed]) < 0.6


def test_sensors_with_a_value_that_is_not_positive_keep_their_values() -> None:
    values = growing()
    values[0, 2, 700] = 0.0
    found = fitted(values)
    chosen = [variant.transform.logarithm for variant in found.form.variants if variant.transform.logarithm.any()]
    assert all(not logarithm[2] for logarithm in chosen)
