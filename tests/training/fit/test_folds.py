"""Folds of closed forms: cut in time, blind to the windows that they fill, and stored."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.form import ClosedForm
from tests.training.fit.samples import ROWS, WINDOW, series
from training import closed_form
from training.data import GroupSeries
from training.fit import folds

FOLDS = 4
OUTLIER = 1e6


def quiet(_: str) -> None:
    pass


def test_every_window_belongs_to_one_fold_in_time() -> None:
    edges = folds.edges_of(ROWS, WINDOW, FOLDS)
    assert edges[0] == 0
    assert edges[-1] == ROWS - WINDOW + 1
    assert np.ptp(np.diff(edges)) <= 1


@pytest.mark.parametrize("fold", range(FOLDS))
def test_the_rows_of_a_fold_and_its_gap_are_left_out_for_all_groups(fold: int) -> None:
    edges = folds.edges_of(ROWS, WINDOW, FOLDS)
    first, last = int(edges[fold]), int(edges[fold + 1])
    kept = np.flatnonzero(np.isfinite(folds.without(series(), first, last, WINDOW).values).any(axis=(0, 1)))
    rows_of_windows = np.arange(first, last - 1 + WINDOW)
    distance = np.abs(kept[:, None] - rows_of_windows).min(axis=1)
    assert distance.min() == min(WINDOW, ROWS // folds.GAP_SHARE) + 1
    assert len(kept) >= ROWS - len(rows_of_windows) - 2 * WINDOW


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[folds.FoldForms, Path]:
    folder = tmp_path_factory.mktemp("forms")
    return folds.fit_folds(series(), WINDOW, folder, quiet, FOLDS), folder


def test_an_outlier_is_seen_by_the_other_folds_alone(made: tuple[folds.FoldForms, Path], tmp_path: Path) -> None:
    """The form that fills a window is the same to the bit whatever the window holds."""
    forms, _ = made
    starts = np.array([0, 130, 200, 300, 456])
    fold = forms.of(starts)
    assert set(fold) == set(range(FOLDS))
    for start, own in zip(starts, fold, strict=True):
        planted = series()
        planted.values[1, :, start + WINDOW // 2] = OUTLIER
        edges = forms.edges
        part = folds.without(planted, int(edges[own]), int(edges[own + 1]), WINDOW)
        assert closed_form.fit(part, WINDOW).form.digest == forms.folds[own].digest
    assert closed_form.fit(planted, WINDOW).form.digest != forms.whole.digest


def test_stored_forms_are_read_and_not_fitted_again(
    made: tuple[folds.FoldForms, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    forms, folder = made

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(closed_form, "fit", never)
    again = folds.fit_folds(series(), WINDOW, folder, quiet, FOLDS)
    assert [form.digest for form in again.folds] == [form.digest for form in forms.folds]
    assert again.whole.digest == forms.whole.digest
    assert ClosedForm.load(folder / "0" / "whole").digest == forms.whole.digest


def test_forms_of_other_rows_are_not_taken_for_these(made: tuple[folds.FoldForms, Path]) -> None:
    _, folder = made
    other = dataclasses.replace(series(), sha256="1")
    said: list[str] = []
    folds.fit_folds(other, WINDOW, folder, said.append, FOLDS)
    assert len(said) == FOLDS + 1


def stationary(rows: int, seed: int) -> GroupSeries:
    """Four groups of three coupled sensors without drift."""
    rng = np.random.default_rng(seed)
    drive = np.zeros((4, rows))
    for row in range(1, rows):
        drive[:, row] = 0.9 * drive[:, row - 1] + rng.standard_normal(4)
    noise = rng.standard_normal((4, 3, rows)) * 0.5
    values = drive[:, None, :] * np.array([1.0, 2.0, -1.0])[:, None] + noise
    made = series()
    times = 3_600_000 * np.arange(rows)
    return dataclasses.replace(made, groups=("a", "b", "c", "d"), times_ms=times, values=values.astype(np.float32))


def error(series: GroupSeries, form_of: Callable[[int], ClosedForm], starts: np.ndarray) -> float:
    """Return the mean squared error at 30 % of the cells of windows with these starts, of all groups."""
    squared = []
    for start in starts:
        form = form_of(start)
        values = series.values[:, :, start : start + WINDOW].astype(np.float64)
        hidden = np.random.default_rng(start).random(values.shape) < 0.3
        end_ms = np.full(len(values), series.times_ms[start + WINDOW - 1])
        filled = form.fill(np.where(hidden, np.nan, values), ~hidden, end_ms).mean
        squared.append(np.square(filled - values)[hidden])
    return float(np.concatenate(squared).mean())


@pytest.mark.slow
def test_left_out_windows_are_filled_as_well_as_new_rows(tmp_path: Path) -> None:
    """Without drift the network meets in training the errors that it meets later; in sample they are smaller."""
    train, later = stationary(600, 1), stationary(600, 2)
    forms = folds.fit_folds(train, WINDOW, tmp_path, quiet, FOLDS)
    starts = np.arange(0, 600 - WINDOW, 4)
    left_out = error(train, lambda start: forms.folds[int(forms.of(np.array([start]))[0])], starts)
    new = error(later, lambda _: forms.whole, starts)
    assert left_out == pytest.approx(new, rel=0.1)
    assert error(train, lambda _: forms.whole, starts) < left_out
