"""The local Triton serves the TorchScript models of a repository, and leaves no process or memory behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as aio_client
from tritonclient.utils import InferenceServerException

from deploy.cache import CHECKOUT
from deploy.errors import ServerFailed
from deploy.triton import ExternalTriton, LocalTriton, models_of, triton_from_environment
from deploy.triton_install import unsupported_reason
from deploy.triton_probe import model_problem

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))

MODEL = "tiny"
SENSORS, WINDOW, STEPS = 3, 96, 4


@pytest.fixture(scope="module")
def disposable_triton(tiny_repository: Path) -> Iterator[LocalTriton]:
    """A server for this file alone, which tests may kill."""
    with LocalTriton(tiny_repository) as triton:
        yield triton


def windows(batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    values = generator.normal(20, 5, (batch, SENSORS, WINDOW)).astype(np.float32)
    observed = generator.random(values.shape) < 0.7
    return np.where(observed, values, 0).astype(np.float32), observed


def expected(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
    mean = values.sum(-1) / np.maximum(observed.sum(-1), 1)
    return np.repeat(mean[..., None], STEPS, axis=-1)


def tensors(values: np.ndarray, observed: np.ndarray) -> list[grpc_client.InferInput]:
    inputs = [
        grpc_client.InferInput("VALUES", list(values.shape), "FP32"),
        grpc_client.InferInput("OBSERVED", list(observed.shape), "BOOL"),
    ]
    inputs[0].set_data_from_numpy(values)
    inputs[1].set_data_from_numpy(observed)
    return inputs


def infer_all(url: str, batches: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """Send the requests concurrently, as the worker does."""

    async def run() -> list[np.ndarray]:
        async with aio_client.InferenceServerClient(url) as client:
            calls = [client.infer(MODEL, tensors(*batch), client_timeout=20) for batch in batches]
            return [answer.as_numpy("IMPUTED") for answer in await asyncio.gather(*calls)]

    return asyncio.run(run())


def command_lines_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in line:
                found.append(line)
    return found


def wait_until_gone(text: str, timeout_s: float = 15) -> list[str]:
    give_up = time.monotonic() + timeout_s
    while command_lines_with(text) and time.monotonic() < give_up:
        time.sleep(0.1)
    return command_lines_with(text)


def shared_memory(prefix: str) -> set[str]:
    return {path.name for path in Path("/dev/shm").glob(f"{prefix}*")}


def prefix_in(command_line: str) -> str:
    return command_line.split("shm-region-prefix-name=")[1].split("\0")[0].split()[0]


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_the_load_api_is_disabled(disposable_triton: LocalTriton) -> None:
    """A load request can carry a model.py, so an open load API would allow code execution."""
    with (
        grpc_client.InferenceServerClient(disposable_triton.grpc_url) as client,
        pytest.raises(InferenceServerException, match="explicit"),
    ):
        client.load_model(MODEL)


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_a_model_that_does_not_load_shows_the_log(tiny_repository: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(tiny_repository, repository)
    (repository / MODEL / "1" / "model.pt").write_bytes(b"not a TorchScript file")
    with (
        pytest.raises(ServerFailed, match=r"(?s)Triton ended while starting.*PytorchStreamReader"),
        LocalTriton(repository),
    ):
        pass
    assert wait_until_gone(str(repository)) == []


def test_a_repository_without_models_is_rejected_at_once(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="holds no model"):
        LocalTriton(tmp_path).start()


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_a_server_that_crashes_comes_back_on_its_port(tiny_repository: Path) -> None:
    reports: list[str] = []
    values, observed = windows(2)
    with triton_from_environment(tiny_repository, report=reports.append) as triton:
        assert isinstance(triton, LocalTriton)
        url, pid = triton.grpc_url, triton.pid
        assert pid is not None
        os.kill(pid, signal.SIGABRT)
        give_up = time.monotonic() + 60
        while triton.pid in (None, pid) or not serves(url):
            assert time.monotonic() < give_up, reports
            time.sleep(0.1)
        np.testing.assert_allclose(infer_all(url, [(values, observed)])[0], expected(values, observed), rtol=1e-5)
    assert not triton.running
    (crash,) = [report for report in reports if "ended by itself" in report]
    assert f"exit status {128 + signal.SIGABRT}" in crash


@pytest.mark.slow  # quicker: the guard in tests/deploy/test_process.py
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_program_leaves_no_process_and_no_shared_memory(
    end: signal.Signals, tiny_repository: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(tiny_repository, repository)
    program = subprocess.Popen(
        [sys.executable, "-m", "deploy.triton", "--model-repository", str(repository)],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:  # closes its output and waits, even after a failure
        try:
            assert program.stdout is not None
            assert any("Triton is ready" in line for line in program.stdout), "the program ended early"
            (prefix,) = {prefix_in(line) for line in command_lines_with(str(repository)) if "shm-region-prefix" in line}
            assert shared_memory(prefix)
            program.send_signal(end)
            program.wait(40)
        finally:
            program.kill()
    assert wait_until_gone(str(tmp_path)) == []
    assert not shared_memory(prefix)
    assert list(tmp_path.glob("glaim-triton-*")) == []


def test_every_model_of_the_checkout_is_served(triton: LocalTriton | ExternalTriton) -> None:
    with grpc_client.InferenceServerClient(triton.grpc_url) as client:
        problems = [model_problem(client, model) for model in models_of(CHECKOUT / "model_repo")]
    assert problems == [None] * len(problems)


def serves(url: str) -> bool:
    with grpc_client.InferenceServerClient(url) as client:
        return model_problem(client, MODEL, timeout_s=5) is None
