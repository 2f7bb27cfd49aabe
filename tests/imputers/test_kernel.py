"""The network in C++ gives the answers of the shipped TorchScript, and is taken only where it does."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.contract import read_contract
from glaim_stream.imputers.local import kernel
from training.data import Scale
from training.serve.check import hard_windows

REPOSITORY = Path(__file__).parents[2] / "model_repo"
MODELS = ("plant-pump", "beijing-air")
Answer = Any  # windows to answers

torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="there is no compiler")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kernel.install(tmp_path_factory.mktemp("kernel"))


def torchscript_of(name: str) -> tuple[Any, Answer]:
    version = read_contract(REPOSITORY / name).version
    network = torch.jit.load(str(REPOSITORY / name / str(version) / "model.pt")).eval()

    def answer(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            found: np.ndarray = network(torch.from_numpy(values), torch.from_numpy(observed)).numpy()
        return found

    return network, answer


def scale_of(name: str) -> Scale:
    sensors = read_contract(REPOSITORY / name).sensors
    return Scale(*(np.array([getattr(each, of) for each in sensors]) for of in ("mean", "std", "minimum", "maximum")))


@pytest.fixture(scope="session", params=MODELS)
def taken(request: pytest.FixtureRequest, folder: Path) -> tuple[str, kernel.Kernel, Answer]:
    network, answer = torchscript_of(request.param)
    return request.param, kernel.fast(network, answer, folder), answer


def test_difficult_windows_have_the_answers_of_torchscript(taken: tuple[str, kernel.Kernel, Answer]) -> None:
    name, fast, answer = taken
    scale = scale_of(name)
    for case, values, observed in hard_windows(scale, fast.window, seed=5):
        given = values.numpy(), observed.numpy()
        wanted = answer(*given)
        away = (np.abs(fast(*given) - wanted) - 2 * np.spacing(np.abs(wanted))) / scale.std[:, None]
        assert away.max() <= 1e-5, case
        known = (given[1] & np.isfinite(given[0]))[:, :, -fast.emitted :]
        np.testing.assert_array_equal(fast(*given)[known], given[0][:, :, -fast.emitted :][known])


def test_values_that_are_no_numbers_or_not_observed_do_not_matter(taken: tuple[str, kernel.Kernel, Answer]) -> None:
    _, fast, _ = taken
    values, observed = kernel._hard_windows(fast)
    expected = fast(values, observed)
    for other in (np.nan, np.inf, -3e38):
        assert np.array_equal(fast(np.where(observed, values, np.float32(other)), observed), expected)
    marked = np.where(observed, values, np.float32(np.inf))
    assert np.isfinite(fast(marked, np.ones_like(observed))).all()
    far = values * np.float32(1e30)
    known = (observed & np.isfinite(values))[:, :, -fast.emitted :]
    assert np.array_equal(fast(far, observed)[known], far[:, :, -fast.emitted :][known])


def test_an_answer_does_not_depend_on_the_batch_or_on_other_threads(taken: tuple[str, kernel.Kernel, Answer]) -> None:
    _, fast, _ = taken
    values, observed = (np.tile(each, (43, 1, 1))[:1024] for each in kernel._hard_windows(fast))
    whole = fast(values, observed)
    assert fast(values[:0], observed[:0]).shape == (0, fast.sensors, fast.emitted)
    assert np.array_equal(fast(values[5:6], observed[5:6])[0], whole[5])
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda n: fast(values[n : n + 64], observed[n : n + 64]), range(0, 1024, 64)))
    assert np.array_equal(np.concatenate(parts), whole)


def test_windows_of_another_shape_are_an_error(taken: tuple[str, kernel.Kernel, Answer]) -> None:
    _, fast, _ = taken
    with pytest.raises(RuntimeError, match="expected windows of shape"):
        fast(np.zeros((1, fast.sensors, 5), np.float32), np.zeros((1, fast.sensors, 5), np.bool_))


def test_a_network_whose_answers_differ_is_not_taken(folder: Path) -> None:
    network, answer = torchscript_of("plant-pump")
    std = scale_of("plant-pump").std[:, None]

    def other(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
        newest = observed[:, :, -16:] & np.isfinite(values[:, :, -16:])
        return np.where(newest, values[:, :, -16:], answer(values, observed) + 2e-5 * std).astype(np.float32)

    with pytest.raises(kernel.UnfitError, match=r"differ by 2\.\de-05 deviations, at most 1e-05 allowed"):
        kernel.fast(network, other, folder)
    with pytest.raises(kernel.UnfitError, match="change observed cells"):
        kernel.fast(network, lambda *given: answer(*given) + np.float32(1), folder)


def test_another_network_is_not_taken(folder: Path) -> None:
    network = torch.jit.script(torch.nn.Linear(2, 2))
    with pytest.raises(kernel.UnfitError, match="no GLAIM over its own closed form"):
        kernel.fast(network, network, folder)


def test_without_a_compiler_a_library_that_is_there_is_used(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    network, answer = torchscript_of("plant-pump")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(kernel.UnfitError, match=r"expected .* or a compiler"):
        kernel.fast(network, answer, tmp_path)
    kernel.fast(network, answer, folder)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ('extern "C" int glaim_try() { __builtin_trap(); }', "exit code -4"),
        ('extern "C" int glaim_try() { for (;;) {} }', "cannot be tried"),
        ('extern "C" int glaim_other() { return 0; }', "undefined symbol: glaim_try"),
        ("", "file too short|invalid ELF"),
    ],
)
def test_a_library_that_does_not_run_here_ends_no_process_but_a_child(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    library = tmp_path / next(folder.glob("*.so")).name
    if code:
        source = tmp_path / "other.cpp"
        source.write_text(code)
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    else:
        library.write_bytes(next(folder.glob("*.so")).read_bytes()[:40])
    monkeypatch.setattr(kernel, "_TRY_S", 2)
    with pytest.raises(kernel.UnfitError, match=reason):
        kernel.fast(*torchscript_of("plant-pump"), tmp_path)


def test_a_folder_that_cannot_be_written_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(kernel.UnfitError, match="cannot be compiled"):
        kernel.fast(*torchscript_of("plant-pump"), tmp_path / "file")
