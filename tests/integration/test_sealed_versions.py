"""A real Triton beside `models fetch`, as in the chart: what does not match its manifest never reaches the server."""

import shutil
import time
from pathlib import Path

import pytest
import tritonclient.grpc as grpc_client

from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.contract import file_digest, write_contract
from glaim_stream.core.errors import ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models import fetch, open_store, seal
from tests.support import contract

pytestmark = [
    pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason())),
    pytest.mark.slow,  # quicker: tests/models/test_sealed.py, without a server
]

MODEL = "tiny"
TRUST = Trust(require_manifest=True)


@pytest.fixture
def repository(tiny_repository: Path, tmp_path: Path) -> Path:
    """The tiny model with contract and manifest."""
    path = tmp_path / "repository"
    shutil.copytree(tiny_repository, path, ignore=shutil.ignore_patterns("__pycache__"))
    add(path, 1)
    return path


def add(repository: Path, version: int) -> Path:
    folder = repository / MODEL / str(version)
    if version > 1:
        shutil.copytree(repository / MODEL / "1", folder, ignore=shutil.ignore_patterns("__pycache__", "manifest*"))
    made = contract(
        3, window=96, emitted_steps=4, name=MODEL, version=version, torchscript_sha256=file_digest(folder / "model.pt")
    )
    write_contract(made, folder)
    write_contract(made, repository / MODEL)
    seal(repository / MODEL, version)
    return folder


def infect(code: Path, trace: Path) -> None:
    code.write_text(f"open({str(trace)!r}, 'w').close()\n{code.read_text()}")


def served(client: grpc_client.InferenceServerClient, version: str) -> bool:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        if client.is_model_ready(MODEL, version):
            return True
        time.sleep(0.1)
    return False


def take(repository: Path, private: Path) -> int:
    return fetch(open_store(str(repository)), private, mirror=True, trust=TRUST)


def test_triton_runs_what_was_checked_and_nothing_else(repository: Path, tmp_path: Path) -> None:
    private, trace = tmp_path / "private", tmp_path / "trace"
    take(repository, private)
    infect(repository / MODEL / "1" / "model.py", trace)  # swapped between the check and the load
    with (
        LocalTriton(private, control_mode="poll", poll_s=1) as triton,
        grpc_client.InferenceServerClient(triton.grpc_url) as client,
    ):
        assert served(client, "1")
        assert not trace.exists()
        shutil.copy(private / MODEL / "1" / "model.py", repository / MODEL / "1" / "model.py")

        folder = add(repository, 2)
        infect(folder / "model.py", trace)
        with pytest.raises(ModelError, match=r"tiny version 2 is refused: '2/model\.py' has more than"):
            take(repository, private)
        shutil.copy(repository / MODEL / "1" / "model.py", folder / "model.py")
        shutil.copy(folder / "model.py", folder / "extra.py")
        with pytest.raises(ModelError, match=r"tiny version 2 is refused: its manifest does not list '2/extra\.py'"):
            take(repository, private)
        (folder / "extra.py").unlink()

        assert take(repository, private) == 1
        assert served(client, "2")
        assert client.is_model_ready(MODEL, "1")
    assert not trace.exists()


def test_a_triton_on_the_repository_itself_would_run_it(repository: Path, tmp_path: Path) -> None:
    """Why there is a private copy: no check inside of a model comes before its own code."""
    trace = tmp_path / "trace"
    infect(repository / MODEL / "1" / "model.py", trace)
    with LocalTriton(repository):
        assert trace.exists()
