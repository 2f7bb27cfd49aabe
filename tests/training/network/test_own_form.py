"""The closed form within the network gives the closed form's answers, in any batch and scripted."""

import dataclasses
import io
import zipfile

import numpy as np
import pytest
import torch

from glaim_stream.form import MOST_CELLS
from training import closed_form
from training.data import GroupSeries, Scale, fit_scale
from training.fit import fold_windows
from training.network.build import build_network
from training.network.own_form import LoadedForm, OwnForm
from training.network.sizes import GLAIMConfig

WINDOW, SENSORS, ROWS = 24, 3, 600
SIZES = GLAIMConfig(
    SENSORS, WINDOW, d_model=8, layers=1, ffn=8, heads=2, d_psi=4, large_kernel=11, dropout=0.0, cascade=True,
    own_form=True,
)  # fmt: skip


def series() -> GroupSeries:
    rng = np.random.default_rng(4)
    drive = np.cumsum(rng.standard_normal(ROWS)) * 0.3
    values = np.stack([drive + 50, 3 * drive - 7 + rng.standard_normal(ROWS) * 0.2, rng.standard_normal(ROWS)])
    times = np.arange(ROWS, dtype=np.int64) * 60_000
    names = tuple("abc")
    return GroupSeries(("g",), names, ("",) * SENSORS, times, values[None].astype(np.float32), 60.0, "made", "0" * 64)


@pytest.fixture(scope="module")
def made() -> tuple[OwnForm, closed_form.TimedFill, Scale]:
    train, scale = series(), fit_scale(series())
    form = closed_form.fit(train, WINDOW, only_numbers=True, only_plain=True).form
    return fold_windows.own_form(form, scale), closed_form.fill_of(form, scale), scale


def windows(scale: Scale, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    starts = rng.integers(0, ROWS - WINDOW, count)
    values = np.stack([scale.apply(series().values)[0, :, start : start + WINDOW] for start in starts])
    return values, rng.random(values.shape) > rng.uniform(0.0, 0.9, (count, 1, 1))


def test_its_answers_are_those_of_the_closed_form(made: tuple[OwnForm, closed_form.TimedFill, Scale]) -> None:
    own, fill, scale = made
    values, observed = windows(scale)
    observed[3, 1] = False  # a silent sensor, whose level follows from the others
    expected = fill(np.where(observed, values, 0), observed, np.zeros(len(values), np.int64))
    found = own(torch.from_numpy(values), torch.from_numpy(observed)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_array_equal(found[observed], values[observed])


def test_what_is_not_observed_does_not_matter(made: tuple[OwnForm, closed_form.TimedFill, Scale]) -> None:
    own, _, scale = made
    values, observed = (torch.from_numpy(each) for each in windows(scale))
    other = torch.where(observed, values, torch.full_like(values, float("nan")))
    assert torch.equal(own(values, observed), own(other, observed))


def test_a_full_window_stays_as_it_is(made: tuple[OwnForm, closed_form.TimedFill, Scale]) -> None:
    own, _, scale = made
    values, observed = windows(scale, 3)
    observed[0] = True
    filled = own(torch.from_numpy(values), torch.from_numpy(observed)).numpy()
    np.testing.assert_array_equal(filled[0], values[0])
    assert np.isfinite(filled).all()


def test_many_small_systems_give_the_answers_of_one_batch(
    made: tuple[OwnForm, closed_form.TimedFill, Scale], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _, scale = made
    values, observed = (torch.from_numpy(each) for each in windows(scale, 20))
    whole = own(values, observed)
    monkeypatch.setattr(own, "numbers", 500)
    torch.testing.assert_close(own(values, observed), whole, atol=1e-6, rtol=0, equal_nan=True)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.49])
def test_sparse_windows_have_the_same_answers_by_the_covariance(
    made: tuple[OwnForm, closed_form.TimedFill, Scale], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    own, fill, scale = made
    values, observed = windows(scale, 20)
    observed[::2] = np.random.default_rng(3).random(observed[::2].shape) < share
    given = torch.from_numpy(values), torch.from_numpy(observed)
    matrices = []
    solve = own.solve
    monkeypatch.setattr(own, "cost", 0)
    monkeypatch.setattr(own, "solve", lambda matrix, *rest: matrices.append(matrix) or solve(matrix, *rest))
    found = own(*given)
    assert len(matrices) == 2, "both ways are taken"
    assert torch.equal(own(*given), found)
    monkeypatch.setattr(own, "cost", 10**6)
    matrices.clear()
    torch.testing.assert_close(own(*given), found, atol=2e-5, rtol=0)
    assert [each is own.precision for each in matrices] == [True]
    if share:
        expected = fill(np.where(observed, values, 0), observed, np.zeros(len(values), np.int64))
        np.testing.assert_allclose(found.numpy(), expected, atol=5e-5)


def test_the_covariance_is_not_made_for_few_sparse_windows(
    made: tuple[OwnForm, closed_form.TimedFill, Scale], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _, scale = made
    values, observed = windows(scale, 3)
    observed[:] = True
    observed[:2, :, 2:] = False
    made_covariances = []
    inverse = torch.cholesky_inverse
    monkeypatch.setattr(torch, "cholesky_inverse", lambda lower: made_covariances.append(1) or inverse(lower))
    own(torch.from_numpy(values), torch.from_numpy(observed))
    assert not made_covariances
    own(torch.from_numpy(values.repeat(2, 0)), torch.from_numpy(observed.repeat(2, 0)))
    assert made_covariances == [1]


def test_a_loaded_form_has_the_covariance_that_its_file_lacks(
    made: tuple[OwnForm, closed_form.TimedFill, Scale], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _, scale = made
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(LoadedForm(own)), file)
    with zipfile.ZipFile(file) as archive:
        sizes = [entry.file_size for entry in archive.infolist() if "/data/" in entry.filename]
    assert own.precision.nbytes < sum(sizes) < 1.1 * own.precision.nbytes
    file.seek(0)
    loaded = torch.jit.load(file)
    assert torch.equal(loaded.kept, own.covariance())
    values, observed = windows(scale, 3)
    observed[:, :, 2:] = False
    given = torch.from_numpy(values), torch.from_numpy(observed)
    monkeypatch.setattr(own, "cost", 0)
    assert torch.equal(loaded(*given), own(*given))
    assert "cholesky_inverse" not in str(loaded.inlined_graph)


def test_the_untrained_network_is_the_closed_form_and_scripts(
    made: tuple[OwnForm, closed_form.TimedFill, Scale],
) -> None:
    own, _, scale = made
    network = build_network(SIZES)
    network.form.load_state_dict(own.state_dict())
    network.eval()
    values, observed = windows(scale)
    observed[:, :, 0] = True
    given = torch.from_numpy(values), torch.from_numpy(observed)
    with torch.no_grad():
        torch.testing.assert_close(network(*given, 5), own(*given)[:, :, -5:], atol=0, rtol=0)
        scripted = torch.jit.script(network)
        for _ in range(3):
            torch.testing.assert_close(scripted(*given, 5), network(*given, 5), atol=1e-6, rtol=0)


def test_it_goes_with_cascade_and_a_window_that_is_not_too_large() -> None:
    with pytest.raises(ValueError, match="goes with cascade"):
        dataclasses.replace(SIZES, cascade=False)
    with pytest.raises(ValueError, match=f"at most {MOST_CELLS} cells, found 200 sensors of 24 steps"):
        dataclasses.replace(SIZES, num_variables=200)
