"""The fit: choices, calibration, digest, and its parts."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.form import search, tiles
from glaim_stream.form.candidates import PLAIN
from glaim_stream.form.fit import Fitted
from glaim_stream.form.form import ClosedForm
from glaim_stream.form.hiding import CASES, stream_gaps
from glaim_stream.form.inverse import inverse
from glaim_stream.form.report import INTERPOLATION, LAST_VALUE, MIX
from glaim_stream.form.search import CONSTANTS, Constants
from glaim_stream.form.series import FormSeries
from glaim_stream.form.simplex import convex_weights
from glaim_stream.form.tiles import span_for, tiles_of
from glaim_stream.imputers import interpolated
from tests.form.samples import STEPS, fitted, series, windows

fit_module = import_module("glaim_stream.form.fit")  # the door of the package has the function of that name


@pytest.fixture(scope="module")
def found() -> Fitted:
    return fitted(series(3000))


def test_the_closed_form_beats_interpolation_and_last_value(found: Fitted) -> None:
    errors = found.report.errors
    for case in CASES:
        # Of this process, nobody can say more about the newest steps of all sensors than their last values.
        bound = 1.1 if case == "newest_all" else 0.8
        assert errors[MIX][case] < bound * errors[INTERPOLATION][case]
        assert errors[MIX][case] < bound * errors[LAST_VALUE][case]
    assert sum(found.report.weights.values()) == pytest.approx(1.0)
    assert found.report.choices >= 8
    assert found.report.training_windows > 2000


def test_the_band_covers_ninety_percent_of_fresh_windows(found: Fitted) -> None:
    cut, end_ms = windows(series(6000, seed=8), 400)
    for case in CASES:
        observed = ~stream_gaps(case, np.ones(cut.shape, np.bool_))
        answer = found.form.fill(cut, observed, end_ms)
        inside = np.abs(answer.mean - cut)[~observed] < 1.645 * answer.deviation[~observed]
        assert 0.83 < inside.mean() < 0.96


def test_rows_that_the_caller_keeps_for_validation_leave_the_statistics_as_they_are() -> None:
    values = series(1000)
    changed = values.copy()
    changed[:, :, 700:] += 1000.0 * np.random.default_rng(3).normal(size=changed[:, :, 700:].shape)
    one, other = fitted(values, training_rows=700), fitted(changed, training_rows=700)
    assert one.report.errors != other.report.errors
    assert one.report.training_windows == other.report.training_windows == 700 - STEPS + 1
    for name in ("lowest", "highest", "swing", "until_ms"):
        np.testing.assert_array_equal(getattr(one.form, name), getattr(other.form, name))
    plain = {found.form.variants[0].transform.scale.tobytes() for found in (one, other)}
    assert len(plain) == 1


def test_training_rows_in_validation_windows_are_no_validation() -> None:
    """Windows reach into rows without readings, so only training rows could be hidden."""
    extended = np.concatenate([series(700), np.full((1, 3, 2 * STEPS // 3), np.nan)], axis=2)
    report = fitted(extended, training_rows=700).report
    assert report.training_windows == 700 - STEPS + 1
    assert report.choices == 0
    assert report.errors == {}


def test_the_same_rows_make_the_same_digest_and_other_rows_another(found: Fitted) -> None:
    values = series(3000)
    assert fitted(values).form.digest == found.form.digest
    values[0, 0, 10] += 1e-3
    assert fitted(values).form.digest != found.form.digest


def test_validation_begins_a_window_after_the_training() -> None:
    """What the gap of one window between them says changes no choice and no error."""
    values = series(1000)
    changed = values.copy()
    changed[:, :, 1000 - 200 - STEPS : 1000 - 200] += 30.0  # 200 rows of validation, a fifth
    one, other = fitted(values).report, fitted(changed).report
    assert one == other


def test_windows_are_spread_over_all_groups_and_times() -> None:
    values = np.arange(3 * 2 * 500, dtype=np.float64).reshape(3, 2, 500)
    cut = FormSeries(values, values >= 0, 1000, 10).windows(50, 100)
    assert 80 < len(cut) <= 110
    assert set(cut.group.tolist()) == {0, 1, 2}
    for number in range(0, len(cut), 7):
        last = (int(cut.end_ms[number]) - 1000) // 10
        expected = values[cut.group[number], :, last - 49 : last + 1]
        assert (cut.values[number] == expected).all()


def test_convex_weights_are_the_best_ones() -> None:
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(500, 4)) * [1.0, 1.5, 3.0, 1.0]
    errors[:, 3] += 5.0
    weights = convex_weights(errors)
    assert weights.sum() == pytest.approx(1.0)
    least = np.square(errors @ weights).sum()
    for other in rng.dirichlet(np.ones(4), size=300):
        assert least <= np.square(errors @ other).sum()
    assert convex_weights(np.ones((5, 2))) == pytest.approx([0.5, 0.5])
    assert convex_weights(errors, 1e6) == pytest.approx([0.25] * 4, abs=0.01)
    failing = errors * [1.0, 1.0, 1e9, 1e6]
    assert convex_weights(failing, 1.0)[2:] == pytest.approx([0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("size", [1, 7, 12, 13, 40, 95])
def test_inverses_by_halves_are_inverses(size: int) -> None:
    root = np.random.default_rng(size).normal(size=(9, size, size))
    matrices = root @ root.transpose(0, 2, 1) + np.eye(size)
    np.testing.assert_allclose(inverse(matrices) @ matrices, np.broadcast_to(np.eye(size), root.shape), atol=1e-9)


@pytest.mark.parametrize(("steps", "span"), [(96, 96), (96, 25), (96, 8), (30, 29)])
@pytest.mark.parametrize("newest", [1, 5, 30])
def test_tiles_fill_each_of_the_newest_steps_once(steps: int, span: int, newest: int) -> None:
    filled = []
    for tile in tiles_of(steps, span, newest):
        assert 0 <= tile.start <= tile.first < tile.last <= tile.start + span <= steps
        assert tile.newest == tile.start + span - tile.first
        filled += range(tile.first, tile.last)
    assert sorted(filled) == list(range(steps - newest, steps))


def test_many_sensors_are_covered_by_shorter_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (span_for(21, 96), span_for(100, 96), span_for(321, 96)) == (96, 25, 8)
    monkeypatch.setattr(tiles, "MOST_CELLS", 36)  # 12 of 24 steps
    values = series(2000)
    short = fitted(values).form
    monkeypatch.undo()
    whole = fitted(values).form
    assert (short.span, whole.span) == (12, STEPS)
    cut, end_ms = windows(series(2000, seed=8), 200)
    observed = ~stream_gaps("random", np.ones(cut.shape, np.bool_))
    observed[:20, 1] = False
    observed[20:40, 1, -14:] = False

    def error(form: object) -> float:
        mean = form.fill(cut[40:], observed[40:], end_ms[40:]).mean  # type: ignore[attr-defined]
        return float(np.square(mean - cut[40:])[~observed[40:]].mean())

    assert error(short) < 1.1 * error(whole)
    answer = short.fill(cut, observed, end_ms)
    assert np.isfinite(answer.mean).all()
    assert (answer.deviation[~observed] > 0).all()
    kept = replace(short, dark_steps=None)  # all answers, also at dark steps
    np.testing.assert_allclose(kept.fill(cut, observed, end_ms, newest=2).mean, answer.mean[:, :, -2:], rtol=1e-9)
    asked = np.zeros(STEPS, np.bool_)
    asked[[0, 4, -1]] = True
    some = short.fill(cut, observed, end_ms, asked=asked)
    np.testing.assert_allclose(some.mean[:, :, asked], answer.mean[:, :, asked], rtol=1e-9)
    np.testing.assert_allclose(some.deviation[:, :, asked], answer.deviation[:, :, asked], rtol=1e-6)


@pytest.mark.parametrize("most_cells", [30 * 12, 30 * STEPS], ids=["part of the window", "whole window"])
def test_what_sensors_share_is_reduced_where_it_is_mostly_noise(
    monkeypatch: pytest.MonkeyPatch, most_cells: int
) -> None:
    rng = np.random.default_rng(6)
    alone = np.cumsum(rng.normal(size=(30, 500)), axis=1)[None]  # nothing in common, and as many cells as rows
    monkeypatch.setattr(tiles, "MOST_CELLS", most_cells)

    def error(constants: Constants) -> float:
        for module in (fit_module, search):
            monkeypatch.setattr(module, "CONSTANTS", constants)
        found = fitted(alone[:, :, :350], only_numbers=True, only_plain=True)
        assert found.form.span == most_cells // 30
        assert (found.report.distance[PLAIN] > 0) == (len(constants.distances) > 1)
        return error_of(found.form, alone[:, :, 350:])

    without = replace(CONSTANTS, distances=(0.0,), default_distance=0.0)
    assert error(CONSTANTS) < 0.8 * error(without)


def test_what_sensors_share_is_not_reduced_where_it_is_known_well() -> None:
    assert set(fitted(series(4_000)).report.distance.values()) == {0.0}
    assert set(fitted(series(4_000)[:, :1]).report.distance.values()) == {0.0}, "one sensor shares nothing"


def test_rows_of_groups_that_move_together_count_once() -> None:
    rng = np.random.default_rng(6)
    alone = np.lib.stride_tricks.sliding_window_view(rng.normal(size=(12, 30, 403)), 4, axis=2).sum(axis=3)
    together = alone[:1] + 0.01 * rng.normal(size=alone.shape)  # 0.4 rows a cell instead of 5
    distances = [
        fitted(values, only_numbers=True, only_plain=True, training_rows=320).report.distance[PLAIN]
        for values in (together, alone)
    ]
    assert distances[0] > distances[1] == 0.0


@pytest.mark.parametrize("case", ["blocks", "random"])
def test_two_windows_of_rows_are_enough_to_beat_interpolation(case: str) -> None:
    rng = np.random.default_rng(10)
    alike = np.cumsum(rng.normal(size=1_000)) + 0.3 * np.cumsum(rng.normal(size=(12, 1_000)), axis=1)
    values = (alike + 0.5 * rng.normal(size=alike.shape))[None]
    found = fitted(values[:, :, : 2 * STEPS], only_numbers=True)
    assert found.report.errors == {}, "too few rows to choose anything on others"
    cut, _ = windows(values[:, :, 2 * STEPS :], 20)
    observed = ~stream_gaps(case, np.ones(cut.shape, np.bool_))
    straight = interpolated(np.where(observed, cut, 0.0), observed)[0]
    by_lines = float(np.square(straight - cut)[~observed].mean())
    assert error_of(found.form, values[:, :, 2 * STEPS :], case) < 0.85 * by_lines


def error_of(form: ClosedForm, values: NDArray[np.float64], case: str = "random") -> float:
    """Mean squared error at hidden cells of 20 windows of series [1, C, N]."""
    cut, end_ms = windows(values, 20)
    observed = ~stream_gaps(case, np.ones(cut.shape, np.bool_))
    mean = form.fill(cut, observed, end_ms).mean
    return float(np.square(mean - cut)[~observed].mean())


def test_silent_parts_take_their_level_from_the_others_where_these_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    swing = np.sin(2 * np.pi * np.arange(900) / 48)  # a value of half a swing ago says nothing
    alike = swing * rng.uniform(1, 3, (6, 1)) + 0.1 * rng.normal(size=(6, 900))
    alone = np.cumsum(rng.normal(size=(6, 900)), axis=1)
    monkeypatch.setattr(tiles, "MOST_CELLS", 6 * 8)
    for values, carried in ((alike, False), (alone, True)):
        form = fitted(values[None], steps=96, only_numbers=True, only_plain=True).form
        assert form.span == 8
        assert form.carried_levels is carried
        assert ClosedForm.from_bytes(form.to_bytes(), "form").carried_levels is carried
