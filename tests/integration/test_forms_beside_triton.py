"""Closed forms in the repository of a real Triton: it starts and answers, and loads a model again where it polls."""

import shutil
import time
from pathlib import Path

import pytest
from tritonclient.grpc import InferenceServerClient

from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from deploy.triton_probe import model_problem
from glaim_stream.models import place_form

MODEL, STRANGER = "tiny", "stranger"


@pytest.fixture
def repository(tiny_repository: Path, tmp_path: Path) -> Path:
    """The tiny model, and a model that has a closed form and no network."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    path = tmp_path / "repository"
    shutil.copytree(tiny_repository, path)
    place_form(path / STRANGER, b"a form")
    return path


@pytest.mark.slow  # a start and a load of Triton
def test_a_polling_triton_loads_a_model_again_for_its_form_and_answers_meanwhile(repository: Path) -> None:
    with (
        LocalTriton(repository, models=[MODEL], control_mode="poll", poll_s=1) as triton,
        InferenceServerClient(triton.grpc_url) as client,
    ):

        def loads() -> int:
            return triton.log.read_text().count(f"successfully loaded '{MODEL}'")

        before, end_s = loads(), time.monotonic() + 60
        place_form(repository / MODEL, b"a form")
        while loads() == before:
            assert time.monotonic() < end_s, triton.log.read_text()[-3000:]
            assert model_problem(client, MODEL) is None


@pytest.mark.slow  # a start of Triton
def test_triton_starts_beside_a_model_without_a_version(repository: Path) -> None:
    emptied = shutil.copytree(repository / MODEL, repository / "emptied")
    shutil.rmtree(emptied / "1")
    shutil.rmtree(repository / STRANGER)
    with LocalTriton(repository, models=[MODEL]) as triton, InferenceServerClient(triton.grpc_url) as client:
        assert client.is_model_ready(MODEL)
        assert not client.is_model_ready("emptied")
