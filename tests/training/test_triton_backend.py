"""The python backend with a stand-in for Triton's utilities: stacking, splitting, errors of single requests."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deploy.cache import CHECKOUT
from glaim_stream.imputers.local import install
from tests.training.fake_triton import request, start
from training.data import Scale
from training.export import BACKEND
from training.network import GLAIMConfig, build_network
from training.serve import script, served_model
from training.serve.check import hard_windows

CONFIG = GLAIMConfig(3, window=24, d_model=8, layers=1, ffn=8, heads=2, dropout=0.0, d_psi=8, d_g=2, large_kernel=7)


@pytest.fixture
def backend(tmp_path: Path, unit_scale: Scale, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The backend with a small model, started as Triton would."""
    torch.manual_seed(0)
    served = served_model(build_network(CONFIG).eval(), unit_scale, 6)
    script(served).save(str(tmp_path / "model.pt"))
    shutil.copyfile(BACKEND, tmp_path / "model.py")
    model = start(tmp_path, 3, 24, monkeypatch)
    model.expected = served
    return model


def test_every_request_gets_the_answers_for_its_windows_in_order(backend: Any, unit_scale: Scale) -> None:
    requests, expected = [], []
    for _, values, observed in hard_windows(unit_scale, 24):
        requests.append(request(VALUES=values.numpy(), OBSERVED=observed.numpy()))
        with torch.inference_mode():
            expected.append(backend.expected(values, observed).numpy())
    responses = backend.execute(requests)
    for response, wanted in zip(responses, expected, strict=True):
        assert response.error is None
        assert response.outputs[0].name == "IMPUTED"
        np.testing.assert_allclose(response.outputs[0].array, wanted, atol=1e-3, rtol=1e-5)


def test_a_bad_request_does_not_affect_the_others(backend: Any, unit_scale: Scale) -> None:
    _, values, observed = hard_windows(unit_scale, 24)[1]
    good = request(VALUES=values.numpy(), OBSERVED=observed.numpy())
    narrow = request(VALUES=values.numpy()[:, :2], OBSERVED=observed.numpy()[:, :2])
    uneven = request(VALUES=values.numpy(), OBSERVED=observed.numpy()[:1])
    half = request(VALUES=values.numpy())
    responses = backend.execute([narrow, good, uneven, half])
    assert "expected VALUES of shape [batch, 3, 24], found [8, 2, 24]" in responses[0].error.message
    assert responses[1].error is None
    assert responses[1].outputs[0].array.shape == (8, 3, 6)
    assert "VALUES has batch 8, OBSERVED has 1" in responses[2].error.message
    assert "expected inputs VALUES and OBSERVED" in responses[3].error.message


def test_an_exception_in_the_model_is_returned_as_an_error(backend: Any, unit_scale: Scale) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    backend.model = broken
    _, values, observed = hard_windows(unit_scale, 24)[0]
    responses = backend.execute([request(VALUES=values.numpy(), OBSERVED=observed.numpy())])
    assert "out of memory" in responses[0].error.message


@pytest.fixture(scope="module")
def kernel_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("g++"):
        pytest.skip("there is no compiler")
    return install(tmp_path_factory.mktemp("kernel"))


@pytest.mark.parametrize("damaged", [False, True])
def test_the_kernel_answers_where_it_agrees_with_the_model(
    kernel_folder: Path, damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    folder = tmp_path / "kernel"
    shutil.copytree(kernel_folder, folder)
    if damaged:
        next(folder.glob("*.so")).write_bytes(b"no library")
    monkeypatch.setenv("GLAIM_KERNEL", str(folder))
    shutil.copytree(CHECKOUT / "model_repo" / "plant-pump", tmp_path / "plant-pump")
    model = start(tmp_path / "plant-pump" / "1", 8, 96, monkeypatch)
    said = capfd.readouterr().err
    assert said.startswith(
        "model plant-pump version 1: " + ("TorchScript answers, not the kernel: " if damaged else "the kernel answers")
    )
    assert (model.fill == model.torchscript) is damaged
    values = np.random.default_rng(1).normal(2.0, 0.1, (9, 8, 96)).astype(np.float32)
    observed = np.random.default_rng(2).random(values.shape) > 0.2
    (response,) = model.execute([request(VALUES=values, OBSERVED=observed)])
    np.testing.assert_allclose(response.outputs[0].array, model.torchscript(values, observed), rtol=1e-4, atol=1e-4)
