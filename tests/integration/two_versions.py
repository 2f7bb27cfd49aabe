"""A repository in which a second version of the plant's network is worse than the first."""

import shutil
from pathlib import Path

import torch

from glaim_stream.core.contract import file_digest, read_contract, write_contract
from tests.integration.worker_process import without_forms

MODEL, FORMER, NEWEST = "plant-pump", "1", "2"


class Means(torch.nn.Module):
    """Each sensor's mean of its observed values."""

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        mask = observed.to(values.dtype)
        mean = (values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        return mean.unsqueeze(-1).repeat(1, 1, 16)


def with_a_worse_version(folder: Path) -> Path:
    """The plant's model without its closed form, and a second version, as of a retraining that went wrong."""
    repository = without_forms(folder)
    shutil.rmtree(repository / "beijing-air")
    made = repository / MODEL / NEWEST
    made.mkdir()
    shutil.copy(repository / MODEL / FORMER / "model.py", made)
    torch.jit.script(Means()).save(str(made / "model.pt"))
    first = read_contract(repository / MODEL)
    described = first.model_copy(update={"version": 2, "torchscript_sha256": file_digest(made / "model.pt")})
    write_contract(described, made)
    write_contract(described, repository / MODEL)
    return repository
