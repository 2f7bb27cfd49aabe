"""A stand-in for Triton's python backend utilities, and a loader of a served model's `model.py` with it."""

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest


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


def start(version: Path, sensors: int, window: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start the backend in a version's folder as Triton would."""
    fake = types.ModuleType("triton_python_backend_utils")
    fake.Tensor, fake.InferenceResponse, fake.TritonError = FakeTensor, FakeResponse, FakeError  # type: ignore[attr-defined]
    fake.get_input_tensor_by_name = lambda request, name: request.get(name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", fake)
    spec = importlib.util.spec_from_file_location("served_model_file", version / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    inputs = [{"name": name, "dims": [str(sensors), str(window)]} for name in ("VALUES", "OBSERVED")]
    model.initialize({"model_config": json.dumps({"input": inputs, "max_batch_size": 64})})
    return model
