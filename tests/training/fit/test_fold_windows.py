"""Training windows of a network with its own closed form: filled by forms that have not seen them, always alike."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.fit.samples import WINDOW, series
from training import closed_form
from training.config import TrainSpec
from training.data import MaskSpec, WindowSet, fit_scale
from training.errors import NetworkTooSlow
from training.fit import fold_windows
from training.fit.fold_windows import FoldWindows

SPEC = TrainSpec(batch_size=8, seed=3)


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> FoldWindows:
    train = series()
    scale = fit_scale(train)
    values = scale.apply(train.values)
    masks = MaskSpec(pattern="random", rates=(0.3, 0.3)).fitted(np.isfinite(values), WINDOW)
    forms = fold_windows.fit_forms(train, WINDOW, tmp_path_factory.mktemp("forms"), lambda _: None)
    return FoldWindows(
        forms, WindowSet(values, WINDOW, 1, 1), values, scale, masks, SPEC, torch.device("cpu"), iterations=5,
        validation=[],
    )  # fmt: skip


def test_an_epoch_can_begin_at_any_batch(feed: FoldWindows) -> None:
    whole = list(itertools.islice(feed.draw(1, 0), 6))
    later = next(feed.draw(1, 4))
    for expected, found in zip(feed.tensors(whole[4], slice(0, 8)), feed.tensors(later, slice(0, 8)), strict=True):
        torch.testing.assert_close(found, expected, atol=0, rtol=0, equal_nan=True)


def test_each_window_is_filled_by_the_form_of_its_fold(feed: FoldWindows) -> None:
    drawn = next(feed.draw(0, 0))
    values, observed, truth, hidden = feed.tensors(drawn, slice(0, 8))
    fold = feed._fold_of(feed._windows.starts[drawn.windows])
    assert len(set(fold)) > 1
    for row, number in enumerate(fold):
        if not drawn.without_form[row]:
            alone = feed._forms[number](truth[[row]], observed[[row]])[0]
            torch.testing.assert_close(values[row], alone, atol=1e-5, rtol=0)
    assert torch.equal(values[observed], truth[observed])
    assert bool((hidden & ~observed).any())


def test_windows_without_the_form_have_holes(feed: FoldWindows) -> None:
    lacking, windows = 0, 0
    for drawn in itertools.islice(feed.draw(0, 0), 40):
        values, observed, *_ = feed.tensors(drawn, slice(0, 8))
        empty = torch.isnan(values).flatten(1).any(dim=1).numpy()
        np.testing.assert_array_equal(empty, drawn.without_form)
        assert not torch.isnan(values[observed]).any()
        lacking, windows = lacking + int(empty.sum()), windows + len(empty)
    assert 0.08 < lacking / windows < 0.25


def test_forms_are_read_again(tmp_path: Path) -> None:
    said: list[str] = []
    first = fold_windows.fit_forms(series(), WINDOW, tmp_path, said.append)
    count = len(said)
    again = fold_windows.fit_forms(series(), WINDOW, tmp_path, said.append)
    assert count == fold_windows.FOLDS + 1
    assert len(said) == count
    assert again.whole.digest == first.whole.digest


def test_folds_that_do_not_fit_in_the_time_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which each fit takes 10 s."""
    clock = [0.0]
    fit = closed_form.fit

    def slow(*arguments: object, **options: object) -> object:
        clock[0] += 10
        return fit(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(closed_form, "fit", slow)
    monkeypatch.setattr(fold_windows.time, "monotonic", lambda: clock[0])
    said: list[str] = []
    forms = fold_windows.fit_forms(series(), WINDOW, tmp_path / "some", said.append, until_s=75.0)
    assert len(forms.folds) == 3
    assert clock[0] == 40, "half of the 65 s after the first form go into folds"
    assert "a closed form takes 10 s: 3 folds instead of 4 fit in the time" in said
    again = fold_windows.fit_forms(series(), WINDOW, tmp_path / "some", said.append, kept=True)
    assert [form.digest for form in again.folds] == [form.digest for form in forms.folds]
    with pytest.raises(NetworkTooSlow, match="those of 2 folds and a training do not fit in the 30 s that are left"):
        fold_windows.fit_forms(series(), WINDOW, tmp_path / "none", said.append, until_s=clock[0] + 40)
