"""The same TorchScript in the worker, where there is no Triton."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glaim_stream.app import create_ladder
from glaim_stream.contract import file_digest, read_contract, write_contract
from glaim_stream.errors import ContractError, ImputerError
from glaim_stream.imputers.local import LocalImputer
from glaim_stream.imputers.protocol import Windows
from glaim_stream.records import Method
from glaim_stream.settings import Settings
from tests.support import contract


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A model that answers with each sensor's observed mean."""
    torch = pytest.importorskip("torch", reason="the extra `local` is not installed")
    weights = tmp_path / "m" / "1" / "model.pt"
    weights.parent.mkdir(parents=True)

    def forward(values: Any, observed: Any) -> Any:
        mask = observed.to(values.dtype)
        return ((values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).unsqueeze(-1).repeat(1, 1, 3)

    torch.jit.trace(forward, (torch.zeros(1, 2, 6), torch.ones(1, 2, 6, dtype=torch.bool))).save(str(weights))
    write_contract(contract(torchscript_sha256=file_digest(weights)), tmp_path / "m")
    return tmp_path


async def test_it_answers_for_the_newest_steps_with_its_version(repository: Path) -> None:
    imputer = LocalImputer(repository, {"m": read_contract(repository / "m")})
    values = np.arange(24, dtype=np.float32).reshape(2, 2, 6)
    observed = np.ones(values.shape, np.bool_)
    observed[1, 1] = False
    answer = await imputer.impute(Windows("m", values, observed, 2))
    assert answer.values.shape == (2, 2, 2)
    assert answer.values[:, :, 0].tolist() == [[2.5, 8.5], [14.5, 0.0]]
    assert (answer.method == Method.MODEL).all()
    assert answer.version == ["1", "1"]
    await imputer.close()


async def test_a_model_that_was_not_loaded_is_refused(repository: Path) -> None:
    windows = Windows("other", np.zeros((1, 2, 6), np.float32), np.zeros((1, 2, 6), np.bool_), 1)
    with pytest.raises(ImputerError, match=r"no local model other, loaded are \['m'\]"):
        await LocalImputer(repository, {"m": read_contract(repository / "m")}).impute(windows)


def test_weights_that_are_not_the_contracts_are_not_loaded(repository: Path) -> None:
    weights = repository / "m" / "1" / "model.pt"
    weights.write_bytes(weights.read_bytes() + b"\0")
    with pytest.raises(ContractError, match=r"model\.pt of model m version 1"):
        LocalImputer(repository, {"m": read_contract(repository / "m")})


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    original = builtins.__import__

    def without_torch(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(ImputerError, match=r"install glaim-stream\[local\]"):
        LocalImputer(tmp_path, {})


async def test_while_triton_is_away_the_local_model_answers_before_interpolation(repository: Path) -> None:
    chosen = Settings(model_repository=repository, triton="localhost:1", triton_deadline_s=0.2, fallback_local=True)
    ladder = create_ladder(chosen, {"m": read_contract(repository / "m")})
    assert [rung.name for rung in ladder.rungs] == ["triton", "local", "interpolation"]
    windows = Windows("m", np.ones((1, 2, 6), np.float32), np.ones((1, 2, 6), np.bool_), 1)
    answer = await ladder.impute(windows)
    assert (answer.method == Method.MODEL).all()
    assert answer.version == ["1"]
    await ladder.close()
