"""Values of the closed form as a sum over readings: exact, by derivatives, and of nothing that was not observed."""

import dataclasses
from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest

from glaim_stream.core.errors import WindowShapeError
from glaim_stream.form.candidates import BOTH, BY_WINDOW, LOGARITHM, PLAIN, PROFILE
from glaim_stream.form.explain import CARRIED, EXPECTED, LEVEL, LINE, RELATION, Explanation, explain
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.kinds import Kind
from glaim_stream.form.search import Candidate
from glaim_stream.form.series import FormWindows
from tests.form.samples import STEPS, fitted, series, windows
from tests.form.test_logarithms import growing

fit_module = import_module("glaim_stream.form.fit")  # the door of the package has the function of that name

Window = tuple[np.ndarray, np.ndarray, int]


@pytest.fixture(scope="module")
def plain() -> ClosedForm:
    return fitted(series()).form


def of_variants(values: np.ndarray, weights: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> ClosedForm:
    """A form with these variants, whichever the validation would choose."""

    def chosen(candidates: dict[str, Candidate], windows: FormWindows, *given: object) -> dict[str, float]:
        assert weights.keys() <= candidates.keys()
        for name in weights.keys() - {PLAIN}:  # `fit` itself adds the windows of the plain one
            candidates[name].add(windows)
        return weights

    monkeypatch.setattr(fit_module, "_chosen", chosen)
    form = fitted(values).form
    assert [variant.name for variant in form.variants] == list(weights)
    return form


def unlike(rows: int = 1500, seed: int = 1) -> np.ndarray:
    """Two groups whose deviations differ by 10."""
    values = series(rows, groups=2, seed=seed)
    return values * np.array([1.0, 10.0])[:, None, None]


CASES: dict[str, tuple[Callable[..., np.ndarray], dict[str, float]]] = {
    "plain": (series, {PLAIN: 1.0}),
    "profile": (lambda **given: series(habit=1.0, **given), {PLAIN: 0.3, PROFILE: 0.7}),
    "logarithm": (growing, {LOGARITHM: 1.0}),
    "logarithm with plain": (growing, {PLAIN: 0.25, LOGARITHM: 0.5, BOTH: 0.25}),
    "window's scale": (unlike, {PLAIN: 0.5, BY_WINDOW: 0.5}),
}


def random_windows(values: np.ndarray, count: int = 12, seed: int = 3) -> list[Window]:
    """Windows with 2 to 95 % of their cells missing, some with a silent sensor, and garbage where nothing was read."""
    rng = np.random.default_rng(seed)
    cut, end_ms = windows(values, count)
    out = []
    for number in range(count):
        observed = rng.random(cut[number].shape) >= rng.choice([0.02, 0.3, 0.95])
        if number % 4 == 0:
            observed[rng.integers(len(observed))] = False
        out.append((np.where(observed, cut[number], rng.choice([np.nan, 1e300, -7.0])), observed, int(end_ms[number])))
    return out


def holes(window: Window, most: int = 4) -> list[tuple[int, int]]:
    cells = np.argwhere(~window[1])
    return [(int(c), int(t)) for c, t in cells[:: max(1, len(cells) // most)]]


def filled(form: ClosedForm, values: np.ndarray, observed: np.ndarray, end_ms: int) -> np.ndarray:
    out: np.ndarray = form.fill(values[None], observed[None], np.array([end_ms])).mean[0]
    return out


def require_sum(found: Explanation, window: Window, value: float) -> None:
    assert found.value == value
    parts = [found.base, found.bounded, *found.contributions.ravel()]
    assert sum(parts) == pytest.approx(value, rel=1e-9, abs=1e-9 * np.abs(parts).sum())
    assert (found.contributions[~window[1]] == 0).all()


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_every_value_are_its_sum_and_only_readings_contribute(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, weights = CASES[case]
    form = of_variants(make(), weights, monkeypatch)
    counted = 0
    for window in random_windows(make(seed=2)):
        mean = filled(form, *window)
        for sensor, step in holes(window):
            found = explain(form, *window, sensor, step)
            if found is None:
                assert np.isnan(mean[sensor, step])
                continue
            require_sum(found, window, float(mean[sensor, step]))
            assert found.basis == (LEVEL if window[1][sensor].any() else EXPECTED)
            counted += 1
    assert counted > 30


def derivatives(form: ClosedForm, window: Window, cell: tuple[int, int], reach: float = 1e-4) -> np.ndarray:
    """Central differences of a value by every reading [C, T], from windows that are filled as any other."""
    values, observed, end_ms = window
    readings = np.argwhere(observed)
    moved = np.repeat(values[None], 2 * len(readings), axis=0)
    for number, (c, t) in enumerate(readings):
        size = reach * max(1.0, abs(values[c, t]))
        moved[2 * number, c, t] += size
        moved[2 * number + 1, c, t] -= size
    found = form.fill(moved, np.repeat(observed[None], len(moved), axis=0), np.full(len(moved), end_ms)).mean
    out = np.zeros(values.shape)
    for number, (c, t) in enumerate(readings):
        size = reach * max(1.0, abs(values[c, t]))
        out[c, t] = (found[2 * number][cell] - found[2 * number + 1][cell]) / (2 * size)
    return out


@pytest.mark.parametrize("case", ["plain", "profile"])
def test_contributions_of_a_linear_form_are_derivatives_times_distances_from_the_level(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, _ = CASES[case]
    form = of_variants(make(), {PLAIN if case == "plain" else PROFILE: 1.0}, monkeypatch)
    transform = form.variants[0].transform
    for values, observed, end_ms in random_windows(make(seed=4), 6):
        window = (np.where(observed, values, 0.0), observed, end_ms)
        habit = np.zeros(values.shape)
        if transform.profile is not None:
            assert form.phase is not None
            bins = form.phase.of_windows(np.array([end_ms]), form.steps, form.step_ms)[0]
            habit = transform.profile[:, bins] * transform.scale[:, None]
        flat = np.where(observed, window[0] - habit, 0.0)
        level = flat.sum(axis=1, keepdims=True) / np.maximum(observed.sum(axis=1, keepdims=True), 1)
        for cell in holes(window, 2):
            found = explain(form, *window, *cell)
            if found is None or found.bounded:
                continue
            expected = np.where(observed, derivatives(form, window, cell) * (flat - level), 0.0)
            np.testing.assert_allclose(found.contributions, expected, atol=1e-6 * np.abs(level).max())


def test_contributions_of_logarithms_are_the_integral_along_the_line_in_logarithms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form = of_variants(growing(), {LOGARITHM: 1.0}, monkeypatch)
    variant = form.variants[0]
    assert variant.transform.logarithm.all()
    # Near the level windows are calmer than any in training, which would change their scale.
    transform = dataclasses.replace(variant.transform, calmest=np.zeros(3))
    form = dataclasses.replace(form, variants=(dataclasses.replace(variant, transform=transform),))
    place, weight = np.polynomial.legendre.leggauss(8)
    for values, observed, end_ms in random_windows(growing(seed=4), 5)[1:4]:
        logs = np.where(observed, np.log(np.where(observed, values, 1.0)), 0.0)
        level = logs.sum(axis=1, keepdims=True) / np.maximum(observed.sum(axis=1, keepdims=True), 1)
        distance = np.where(observed, logs - level, 0.0)
        for cell in holes((values, observed, end_ms), 2):
            found = explain(form, values, observed, end_ms, *cell)
            assert found is not None
            if found.bounded:
                continue
            total = np.zeros(values.shape)
            for at, share in zip((place + 1) / 2, weight / 2, strict=True):
                here = np.where(observed, np.exp(level + at * distance), 0.0)
                by_reading = derivatives(form, (here, observed, end_ms), cell)
                total += share * by_reading * here * distance
            np.testing.assert_allclose(found.contributions, total, atol=1e-5 * found.value)


def test_the_base_is_the_value_of_a_window_whose_readings_are_at_their_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    form = of_variants(series(), {PLAIN: 1.0}, monkeypatch)
    values, observed, end_ms = random_windows(series(seed=5), 3)[2]
    readings = np.where(observed, values, 0.0)
    flat = np.repeat(readings.sum(axis=1, keepdims=True) / observed.sum(axis=1, keepdims=True), STEPS, axis=1)
    for cell in holes((values, observed, end_ms)):
        found = explain(form, values, observed, end_ms, *cell)
        assert found is not None
        assert found.base == pytest.approx(filled(form, flat, observed, end_ms)[cell], rel=1e-9)


def related(rows: int = 1500, *, seed: int = 1) -> np.ndarray:
    """Three sensors, a copy of the first one in another unit, and the sum of the first two."""
    values = series(rows, seed=seed)
    copy, total = 2.0 * values[:, [0]] + 7.0, values[:, [0]] + values[:, [1]]
    return np.concatenate([values, copy, total], axis=1)


def test_cells_of_relations_are_carried_by_the_readings_from_which_they_follow() -> None:
    form = fitted(related()).form
    assert len(form.relations.constants) == 2
    cut, end_ms = windows(related(seed=2), 3)
    observed = np.ones(cut[1].shape, np.bool_)
    observed[3, 9] = observed[4, 11] = False
    observed[[0, 4], 15] = False  # the first follows from its copy, and then the sum
    for (sensor, step), sources in {(3, 9): {0}, (4, 11): {0, 1}, (0, 15): {3}, (4, 15): {1, 3}}.items():
        found = explain(form, cut[1], observed, int(end_ms[1]), sensor, step)
        assert found is not None
        require_sum(found, (cut[1], observed, 0), float(filled(form, cut[1], observed, int(end_ms[1]))[sensor, step]))
        assert found.basis == RELATION
        # The others are 0, or rounding errors of the relations that were found.
        assert {int(c) for c, t in np.argwhere(np.abs(found.contributions) > 1e-3)} == sources
        assert not found.contributions[:, np.arange(STEPS) != step].any()


def growing_sum(rows: int = 1500, *, seed: int = 1) -> np.ndarray:
    """Growing sensors and the sum of the first two, of which the logarithm is no sum."""
    values = growing(rows, seed=seed)
    return np.concatenate([values, values[:, [0]] + values[:, [1]]], axis=1)


@pytest.mark.parametrize(("make", "variant"), [(related, PLAIN), (growing_sum, LOGARITHM)])
def test_cells_of_relations_pass_their_part_on(
    make: Callable[..., np.ndarray], variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = of_variants(make(), {variant: 1.0}, monkeypatch)
    assert len(form.relations.constants)
    through = 0
    for window in random_windows(make(seed=2), 16):
        mean, derived = filled(form, *window), form.relations.origins(window[1])
        for cell in holes(window, 8):
            found = explain(form, *window, *cell)
            if found is None or found.basis == RELATION:
                continue
            require_sum(found, window, float(mean[cell]))
            through += len(derived)
    assert through > 100


def test_a_cell_of_a_relation_passes_its_part_to_the_reading_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first part of a sum is constant, the second part carries the whole change."""
    form = of_variants(related(), {PLAIN: 1.0}, monkeypatch)
    cut, end_ms = windows(related(seed=2), 3)
    values, observed = cut[1].copy(), np.ones(cut[1].shape, np.bool_)
    values[0] = 20.0
    values[3] = 47.0
    values[4] = values[0] + values[1]
    observed[4, 1:] = False  # the sum follows from the first two, as its first reading confirms
    observed[2, 10] = False
    found = explain(form, values, observed, int(end_ms[1]), 2, 10)
    assert found is not None
    assert np.abs(found.contributions[1]).sum() > 1e-3
    np.testing.assert_allclose(found.contributions[[0, 3, 4], 1:], 0.0, atol=1e-6)


def test_dependent_sensors_and_strange_values_leave_rounding_errors_alone() -> None:
    """Copies, sums, units far apart, constants and one sensor without readings; windows with garbage in one cell."""

    def odd(seed: int) -> np.ndarray:
        v = series(seed=seed)
        one, two, constant = v[:, :1], v[:, 1:2], np.full_like(v[:, :1], 7.3)
        return np.concatenate(
            [v, constant, 1.8 * one + 32, one + two, 1e-6 * two, 1e4 * two, constant * np.nan], axis=1
        )

    form = fitted(odd(1)).form
    worst, explained = 0.0, 0
    for number, (values, observed, end_ms) in enumerate(random_windows(odd(2), 16)):
        observed = observed & np.isfinite(odd(2)[0, :, :1])
        values = np.where(observed, values, 0.0)
        values[number % 4, 5] = [0.0, -3.0, 1e9, 1e101][number % 4]
        for cell in holes((values, observed, end_ms), 6):
            found = explain(form, values, observed, end_ms, *cell)
            if found is not None:
                parts = [found.value, found.base, found.bounded, *found.contributions.ravel()]
                worst = max(worst, abs(found.residual) / np.abs(parts).max())
                assert not found.contributions[~observed].any()
                explained += 1
    assert explained > 50
    assert worst < 1e-6


def test_a_carried_value_is_one_reading_or_lies_on_the_line_between_two(plain: ClosedForm) -> None:
    form = dataclasses.replace(plain, kinds=(Kind.NUMBER, Kind.CARRIED, Kind.NUMBER))
    cut, end_ms = windows(series(seed=2), 3)
    observed = np.ones(cut[1].shape, np.bool_)
    last = observed.shape[1] - 1
    observed[1, 8:12] = observed[1, :3] = observed[1, last - 1 :] = False
    for step, source in {last: last - 2, 1: 3}.items():
        found = explain(form, cut[1], observed, int(end_ms[1]), 1, step)
        assert found is not None
        assert (found.basis, found.base, found.bounded) == (CARRIED, 0.0, 0.0)
        assert found.contributions[1, source] == found.contributions.sum() == found.value == cut[1, 1, source]
    found = explain(form, cut[1], observed, int(end_ms[1]), 1, 10)
    assert found is not None
    assert (found.basis, found.base, found.bounded) == (LINE, 0.0, 0.0)
    assert np.flatnonzero(found.contributions).tolist() == [observed.shape[1] + 7, observed.shape[1] + 12]
    assert found.contributions[1, [7, 12]] == pytest.approx(np.array([0.4, 0.6]) * cut[1, 1, [7, 12]])
    assert found.value == pytest.approx(found.contributions.sum())


def test_a_meter_s_value_is_on_the_line_but_across_a_reset_the_last_reading(plain: ClosedForm) -> None:
    form = dataclasses.replace(plain, kinds=(Kind.NUMBER, Kind.METER, Kind.NUMBER))
    cut, end_ms = windows(series(seed=2), 1)
    cut[0, 1] = np.arange(STEPS)
    cut[0, 1, 10:] -= 9.0
    observed = np.ones(cut[0].shape, np.bool_)
    observed[1, 4:6] = observed[1, 9:11] = False
    for step, basis, value in ((4, LINE, 4.0), (9, CARRIED, 8.0), (10, CARRIED, 8.0)):
        found = explain(form, cut[0], observed, int(end_ms[0]), 1, step)
        assert found is not None
        assert (found.basis, found.base, found.bounded) == (basis, 0.0, 0.0)
        assert found.value == pytest.approx(value)
        require_sum(found, (cut[0], observed, int(end_ms[0])), found.value)


def test_a_direction_s_parts_have_the_angle_on_the_shorter_arc_as_their_sum(plain: ClosedForm) -> None:
    form = dataclasses.replace(plain, kinds=(Kind.NUMBER, Kind.ANGLE, Kind.NUMBER))
    cut, end_ms = windows(series(seed=2), 1)
    observed = np.ones(cut[0].shape, np.bool_)
    observed[1, 4:7] = False
    for before, after, value in ((350.0, 30.0, 0.0), (30.0, 350.0, 20.0), (90.0, 130.0, 100.0)):
        cut[0, 1, 3], cut[0, 1, 7] = before, after
        found = explain(form, cut[0], observed, int(end_ms[0]), 1, 4)
        assert found is not None
        assert found.basis == LINE
        assert found.value == pytest.approx(value, abs=1e-9)
        require_sum(found, (cut[0], observed, int(end_ms[0])), found.value)


@pytest.mark.parametrize("span", [8, 13])
def test_values_of_shorter_windows_have_their_sum_too(span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "span_for", lambda sensors, steps: span)
    form = fitted(series()).form
    assert form.span == span
    for window in random_windows(series(seed=2)):
        mean = filled(form, *window)
        for cell in holes(window):
            found = explain(form, *window, *cell)
            if found is not None:
                require_sum(found, window, float(mean[cell]))


def test_a_value_at_a_bound_states_what_the_bound_took(plain: ClosedForm) -> None:
    form = dataclasses.replace(plain, swing=np.zeros(3), variants=plain.variants[:1], weights=(1.0,))
    cut = np.zeros((1, 3, STEPS)) + np.array([20.0, 50.0, -5.0])[:, None]
    cut[0, 0, 12:] += np.linspace(0.0, 20.0, STEPS - 12)
    observed = np.ones(cut.shape, np.bool_)
    observed[0, 1, 1:] = False  # one cell of the sensor: nothing may leave its value
    found = explain(form, cut[0], observed[0], 0, 1, STEPS - 1)
    assert found is not None
    assert found.value == 50.0
    assert abs(found.bounded) > 0.1
    require_sum(found, (cut[0], observed[0], 0), 50.0)


def test_what_the_form_declines_has_no_explanation(plain: ClosedForm) -> None:
    nothing = np.zeros((3, STEPS), np.bool_)
    form = dataclasses.replace(plain, kinds=(Kind.STATE, Kind.NUMBER, Kind.NUMBER))
    assert explain(form, np.zeros((3, STEPS)), nothing, 0, 0, 5) is None


def test_a_cell_with_a_reading_or_beyond_the_window_is_refused(plain: ClosedForm) -> None:
    values, observed = np.zeros((3, STEPS)), np.ones((3, STEPS), np.bool_)
    for sensor, step in ((0, 0), (3, 0), (0, STEPS), (-1, 0)):
        with pytest.raises(WindowShapeError, match="without a reading"):
            explain(plain, values, observed, 0, sensor, step)
    with pytest.raises(WindowShapeError, match="expected a window"):
        explain(plain, values[:, 1:], observed[:, 1:], 0, 0, 0)
