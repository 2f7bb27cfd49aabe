"""A tiny model for the tests that run it on a real Triton, and a broker with access rules."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, LocalKafka
from training.config import ExportSpec
from training.serve import libtorch_config, python_config, write_warmup

# Three sensors and four answered steps; all other settings as for a trained model.
TINY = ExportSpec(name="tiny", emitted_steps=4, max_batch=64, preferred_batches=(8, 64))

# For the last four steps, each sensor's mean of its observed values, or 0 without any.
_TINY_FORWARD = """
def forward(self, VALUES: Tensor, OBSERVED: Tensor):
    mask = OBSERVED.to(VALUES.dtype)
    mean = (VALUES * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
    return mean.unsqueeze(-1).repeat(1, 1, 4)
"""


@pytest.fixture(scope="session")
def tiny_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minimal repository as `training.export` writes it, with the mean of the observed values as the model."""
    import torch

    repository = tmp_path_factory.mktemp("tiny-repository")
    model = repository / TINY.name
    version = model / "1"
    version.mkdir(parents=True)
    (model / "configs").mkdir()
    (model / "config.pbtxt").write_text(libtorch_config(TINY.name, 3, 96, TINY))
    (model / "configs" / "python.pbtxt").write_text(python_config(TINY.name, 3, 96, TINY))
    write_warmup(model, np.zeros((3, 96)), np.ones((3, 96), dtype=bool))
    shutil.copy(CHECKOUT / "training" / "serve" / "triton_python_backend.py", version / "model.py")
    module = torch.jit.ScriptModule()
    module.define(_TINY_FORWARD)
    module.save(str(version / "model.pt"))
    return repository


@pytest.fixture(scope="module")
def kafka_with_acls() -> Iterator[LocalKafka]:
    """A broker with access rules; operations without a rule are allowed."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with LocalKafka(properties=properties, jvm_options=QUICK_START) as running:
        yield running
