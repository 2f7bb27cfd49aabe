"""Versions that load and then fail, in repositories that a real Triton serves."""

import shutil
import time
from pathlib import Path

import numpy as np
import torch
import tritonclient.grpc as grpc_client

from deploy.cache import CHECKOUT
from glaim_stream.core.contract import file_digest, write_contract
from tests.support import contract
from training.config import ExportSpec
from training.serve import libtorch_config, python_config, write_warmup

SENSORS, WINDOW, EMITTED = 3, 96, 4


class Mean(torch.nn.Module):
    """Each sensor's mean of its observed values."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        mask = observed.to(values.dtype)
        mean = (values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        return mean.unsqueeze(-1).repeat(1, 1, 4)


class Raises(torch.nn.Module):
    """Fails on every window except for the warm-up's, in which all values are 0 and observed."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        assert bool((values.abs().sum() + (~observed).sum() == 0).item()), "no such kernel"
        return values[:, :, :4]


class NotFinite(torch.nn.Module):
    """Answers NaN."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        return values[:, :, :4] * float("nan")


class WrongShape(torch.nn.Module):
    """Answers one step more than the configuration says."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        return values[:, :, :5]


class Unloadable(torch.nn.Module):
    """Fails on every window, the warm-up's too, so Triton does not load it."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        assert values.shape[0] < 0, "no such kernel"
        return values[:, :, :4]


BAD: dict[str, type[torch.nn.Module]] = {"error": Raises, "not_finite": NotFinite, "shape": WrongShape}


def add_model(repository: Path, name: str, network: type[torch.nn.Module]) -> None:
    """Add a model with one version."""
    export = ExportSpec(name=name, emitted_steps=EMITTED, max_batch=64, preferred_batches=(8, 64))
    folder = repository / name
    (folder / "configs").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(libtorch_config(name, SENSORS, WINDOW, export))
    (folder / "configs" / "python.pbtxt").write_text(python_config(name, SENSORS, WINDOW, export))
    write_warmup(folder, np.zeros((SENSORS, WINDOW)), np.ones((SENSORS, WINDOW), bool))
    add_version(repository, name, 1, network)


def add_version(repository: Path, name: str, version: int, network: type[torch.nn.Module], **fields: object) -> None:
    """Add a version by one rename; `fields` of its contract differ from the other versions'."""
    made = repository.with_name(f"{repository.name}.staging") / name / str(version)
    made.mkdir(parents=True)
    shutil.copy(CHECKOUT / "training" / "serve" / "triton_python_backend.py", made / "model.py")
    torch.jit.script(network()).save(str(made / "model.pt"))
    digest = file_digest(made / "model.pt")
    described = contract(
        SENSORS, window=WINDOW, emitted_steps=EMITTED, name=name, version=version, torchscript_sha256=digest
    ).model_copy(update=fields)
    write_contract(described, made)
    made.rename(repository / name / str(version))
    write_contract(described, repository / name)


def wait_until_served(url: str, name: str, *versions: str) -> None:
    """Wait until a Triton serves exactly these versions."""
    found: list[str] = []
    give_up = time.monotonic() + 90
    with grpc_client.InferenceServerClient(url) as client:
        while time.monotonic() < give_up:
            if client.is_model_ready(name):
                found = list(client.get_model_metadata(name).versions)
                if found == list(versions):
                    return
            time.sleep(0.2)
    raise AssertionError(f"expected {name} with versions {versions}, found {found}")
