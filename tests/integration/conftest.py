"""Real parts for the tests: one Kafka and one Triton for the whole run, or those of the environment."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka, kafka_from_environment
from deploy.triton import ExternalTriton, LocalTriton, models_of, triton_from_environment
from deploy.triton_install import unsupported_reason
from training.config import ExportSpec
from training.triton_config import libtorch_config, python_config, write_warmup

# Three sensors, four steps answered; every choice else as for a trained model.
TINY = ExportSpec(name="tiny", emitted_steps=4, max_batch=64, preferred_batches=(8, 64))

# Each sensor's mean over what was observed, 0 where nothing was, for the last four steps.
_TINY_FORWARD = """
def forward(self, VALUES: Tensor, OBSERVED: Tensor):
    mask = OBSERVED.to(VALUES.dtype)
    mean = (VALUES * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
    return mean.unsqueeze(-1).repeat(1, 1, 4)
"""


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka | ExternalKafka]:
    """One broker for the whole run; take topic names from `topic_prefix`."""
    with kafka_from_environment(jvm_options=QUICK_START) as running:
        yield running


@pytest.fixture(scope="session")
def triton() -> Iterator[LocalTriton | ExternalTriton]:
    """One server on the model repository of the checkout for the whole run."""
    repository = CHECKOUT / "model_repo"
    if not models_of(repository):
        pytest.skip("model_repo holds no model: run the training commands of the README first")
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with triton_from_environment(repository) as running:
        yield running


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A beginning for topic and consumer group names that no other test has, ending in a dash."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]
    return f"{name}-{uuid.uuid4().hex[:8]}-"


@pytest.fixture(scope="session")
def tiny_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest repository: as `training.export` writes them, but the model is the mean of what was observed."""
    import torch

    repository = tmp_path_factory.mktemp("tiny-repository")
    model = repository / TINY.name
    version = model / "1"
    version.mkdir(parents=True)
    (model / "configs").mkdir()
    (model / "config.pbtxt").write_text(libtorch_config(TINY.name, 3, 96, TINY))
    (model / "configs" / "python.pbtxt").write_text(python_config(TINY.name, 3, 96, TINY))
    write_warmup(model, np.zeros((3, 96)), np.ones((3, 96), dtype=bool))
    shutil.copy(CHECKOUT / "training" / "triton_python_backend.py", version / "model.py")
    module = torch.jit.ScriptModule()
    module.define(_TINY_FORWARD)
    module.save(str(version / "model.pt"))
    return repository
