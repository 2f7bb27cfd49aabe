"""Real parts for the tests: one Kafka and one Triton for the whole run, or those of the environment."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka, kafka_from_environment
from deploy.triton import ExternalTriton, LocalTriton, models_of, triton_from_environment
from deploy.triton_install import unsupported_reason

TINY_MODEL = "tiny"

_TINY_TENSORS = """
max_batch_size: 16
input [
  { name: "VALUES" data_type: TYPE_FP32 dims: [ 3, 96 ] },
  { name: "OBSERVED" data_type: TYPE_BOOL dims: [ 3, 96 ] }
]
output [ { name: "IMPUTED" data_type: TYPE_FP32 dims: [ 3, 4 ] } ]
dynamic_batching { max_queue_delay_microseconds: 1000 }
"""

_TINY_MODEL_PY = """\
import os

import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads(1)
        self.module = torch.jit.load(os.path.join(args["model_repository"], args["model_version"], "model.pt"))

    def execute(self, requests):
        answers = []
        for request in requests:
            arrays = [pb_utils.get_input_tensor_by_name(request, n).as_numpy().copy() for n in ("VALUES", "OBSERVED")]
            with torch.inference_mode():
                imputed = self.module(*map(torch.from_numpy, arrays))
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("IMPUTED", imputed.numpy())]))
        return answers
"""

# Each sensor's mean over what was observed, 0 where nothing was, for the last four steps.
_TINY_FORWARD = """
def forward(self, values: Tensor, observed: Tensor):
    mask = observed.to(values.dtype)
    mean = (values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
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
    """The smallest model repository with our contract: three sensors, the mean of what was observed.

    As in the real one, `config.pbtxt` is for a backend that the local server does not have.
    """
    import torch

    repository = tmp_path_factory.mktemp("tiny-repository")
    model = repository / TINY_MODEL
    version = model / "1"
    version.mkdir(parents=True)
    (model / "configs").mkdir()
    (model / "config.pbtxt").write_text(f'name: "{TINY_MODEL}"\nbackend: "pytorch"\n{_TINY_TENSORS}')
    (model / "configs" / "python.pbtxt").write_text(f'name: "{TINY_MODEL}"\nbackend: "python"\n{_TINY_TENSORS}')
    (version / "model.py").write_text(_TINY_MODEL_PY)
    module = torch.jit.ScriptModule()
    module.define(_TINY_FORWARD)
    module.save(str(version / "model.pt"))
    return repository
