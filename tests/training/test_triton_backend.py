"""The python backend's file with a stand-in for Triton's utilities: stacking, splitting, errors of one request."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training.data import Scale
from training.export import BACKEND, hard_windows, script, served_model
from training.model import GLAIM, GLAIMConfig

CONFIG = GLAIMConfig(3, window=24, d_model=8, layers=1, ffn=8, heads=2, dropout=0.0, d_psi=8, d_g=2, large_kernel=7)


class FakeTensor:
    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self.array = name, array

    def as_numpy(self) -> np.ndarray:
        return self.array


class FakeResponse:
    def __init__(self, output_tensors: list[FakeTensor] | None = None, error: object = None) -> None:
        self.outputs, self.error = output_tensors, error


class FakeError:
    def __init__(self, message: str) -> None:
        self.message = message


def request(**arrays: np.ndarray) -> dict[str, FakeTensor]:
    return {name: FakeTensor(name, array) for name, array in arrays.items()}


@pytest.fixture
def backend(tmp_path: Path, unit_scale: Scale, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The backend, started as Triton would, beside a small model."""
    fake = types.ModuleType("triton_python_backend_utils")
    fake.Tensor, fake.InferenceResponse, fake.TritonError = FakeTensor, FakeResponse, FakeError  # type: ignore[attr-defined]
    fake.get_input_tensor_by_name = lambda asked, name: asked.get(name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", fake)
    torch.manual_seed(0)
    served = served_model(GLAIM(CONFIG).eval(), unit_scale, 6)
    script(served).save(str(tmp_path / "model.pt"))
    shutil.copyfile(BACKEND, tmp_path / "model.py")
    spec = importlib.util.spec_from_file_location("served_model_file", tmp_path / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    inputs = [{"name": name, "dims": ["3", "24"]} for name in ("VALUES", "OBSERVED")]
    model.initialize({"model_config": json.dumps({"input": inputs, "max_batch_size": 64})})
    model.expected = served
    return model


def test_every_request_gets_its_own_windows_back_in_order(backend: Any, unit_scale: Scale) -> None:
    asked, expected = [], []
    for _, values, observed in hard_windows(unit_scale, 24):
        asked.append(request(VALUES=values.numpy(), OBSERVED=observed.numpy()))
        with torch.inference_mode():
            expected.append(backend.expected(values, observed).numpy())
    responses = backend.execute(asked)
    for response, wanted in zip(responses, expected, strict=True):
        assert response.error is None
        assert response.outputs[0].name == "IMPUTED"
        np.testing.assert_allclose(response.outputs[0].array, wanted, atol=1e-3, rtol=1e-5)


def test_a_bad_request_fails_alone(backend: Any, unit_scale: Scale) -> None:
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


def test_a_model_that_fails_says_so_to_those_who_asked(backend: Any, unit_scale: Scale) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    backend.model = broken
    _, values, observed = hard_windows(unit_scale, 24)[0]
    responses = backend.execute([request(VALUES=values.numpy(), OBSERVED=observed.numpy())])
    assert "out of memory" in responses[0].error.message
