"""The local Triton serves the TorchScript models of a repository, and leaves no process or memory behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as aio_client
from tritonclient.utils import InferenceServerException

from deploy.cache import CHECKOUT
from deploy.errors import PortInUse, ServerFailed
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


def shared_memory_prefix(server: LocalTriton) -> str:
    """The name prefix of this server's shared memory; another server may run beside it."""
    return prefix_in(Path(f"/proc/{server.pid}/cmdline").read_bytes().decode())


def prefix_in(command_line: str) -> str:
    return command_line.split("shm-region-prefix-name=")[1].split("\0")[0].split()[0]


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_windows_are_imputed_alone_and_in_batches(disposable_triton: LocalTriton) -> None:
    batches = [windows(size, seed) for seed, size in enumerate((1, 1, 2, 5, 16, 1, 3))]
    answers = infer_all(disposable_triton.grpc_url, batches)
    for (values, observed), imputed in zip(batches, answers, strict=True):
        assert imputed.shape == (len(values), SENSORS, STEPS)
        np.testing.assert_allclose(imputed, expected(values, observed), rtol=1e-5)


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_a_window_without_any_observation_is_answered(disposable_triton: LocalTriton) -> None:
    values, observed = (np.full((1, SENSORS, WINDOW), 7.0, np.float32), np.zeros((1, SENSORS, WINDOW), bool))
    (imputed,) = infer_all(disposable_triton.grpc_url, [(values, observed)])
    # The tiny model returns 0 without any observation, and ignores values that are not observed.
    np.testing.assert_array_equal(imputed, np.zeros((1, SENSORS, STEPS), np.float32))


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
@pytest.mark.parametrize("shape", [(1, SENSORS, WINDOW - 1), (1, SENSORS + 1, WINDOW), (65, SENSORS, WINDOW)])
def test_a_wrong_shape_or_batch_is_an_invalid_argument(disposable_triton: LocalTriton, shape: tuple[int, ...]) -> None:
    with (
        grpc_client.InferenceServerClient(disposable_triton.grpc_url) as client,
        pytest.raises(InferenceServerException) as error,
    ):
        client.infer(MODEL, tensors(np.zeros(shape, np.float32), np.zeros(shape, bool)), client_timeout=10)
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_metrics_count_the_inferences(disposable_triton: LocalTriton) -> None:
    with urllib.request.urlopen(disposable_triton.metrics_url, timeout=10) as page:
        text = page.read().decode()
    assert f'nv_inference_request_success{{model="{MODEL}",version="1"}}' in text


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_the_load_api_is_disabled(disposable_triton: LocalTriton) -> None:
    """A load request can carry a model.py, so an open load API would allow code execution."""
    with (
        grpc_client.InferenceServerClient(disposable_triton.grpc_url) as client,
        pytest.raises(InferenceServerException, match="explicit"),
    ):
        client.load_model(MODEL)


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_kill_9_and_restart_serves_again_on_the_same_ports(disposable_triton: LocalTriton) -> None:
    url, pid = disposable_triton.grpc_url, disposable_triton.pid
    prefix = shared_memory_prefix(disposable_triton)
    assert shared_memory(prefix)
    disposable_triton.kill()
    assert disposable_triton.pid is None
    assert not shared_memory(prefix), "the shared memory of a killed server must be removed"
    disposable_triton.restart()
    assert disposable_triton.grpc_url == url
    assert disposable_triton.pid not in (None, pid)
    values, observed = windows(2)
    np.testing.assert_allclose(infer_all(url, [(values, observed)])[0], expected(values, observed), rtol=1e-5)


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_the_probe_detects_a_dead_interpreter_that_server_health_misses(disposable_triton: LocalTriton) -> None:
    """The server never restarts a dead interpreter and still reports ready."""
    interpreters = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _parent(entry) == disposable_triton.pid and _is_stub(entry)
    ]
    assert interpreters
    for pid in interpreters:
        os.kill(pid, signal.SIGKILL)
    with grpc_client.InferenceServerClient(disposable_triton.grpc_url) as client:
        assert model_problem(client, MODEL, timeout_s=5) is not None
        assert client.is_server_ready()
    disposable_triton.kill()  # a clean stop would wait 10 s for the dead interpreter
    disposable_triton.restart()


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_poll_mode_loads_a_new_version(tiny_repository: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(tiny_repository, repository)
    with (
        LocalTriton(repository, control_mode="poll", poll_s=1) as triton,
        grpc_client.InferenceServerClient(triton.grpc_url) as client,
    ):
        assert list(client.get_model_metadata(MODEL).versions) == ["1"]
        # Copied elsewhere and renamed, so that the poll never sees an incomplete version.
        shutil.copytree(repository / MODEL / "1", tmp_path / "next")
        (tmp_path / "next").rename(repository / MODEL / "2")
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            if client.is_model_ready(MODEL, "2"):
                break
            time.sleep(0.2)
        assert client.is_model_ready(MODEL, "2")


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_explicit_mode_needs_the_admin_header(tiny_repository: Path) -> None:
    with (
        LocalTriton(tiny_repository, control_mode="explicit") as triton,
        grpc_client.InferenceServerClient(triton.grpc_url) as client,
    ):
        with pytest.raises(InferenceServerException, match="restricted"):
            client.load_model(MODEL)
        client.load_model(MODEL, headers=triton.admin_headers)
        assert model_problem(client, MODEL) is None


@pytest.mark.slow  # quicker: tests/deploy/test_process.py, with a program that answers at once
def test_the_error_for_a_port_in_use_names_the_port_and_the_option(
    disposable_triton: LocalTriton, tiny_repository: Path
) -> None:
    port = int(disposable_triton.grpc_url.rsplit(":", 1)[1])
    with pytest.raises(PortInUse, match=rf"port {port} .*in use.*--grpc-port"):
        LocalTriton(tiny_repository, grpc_port=port).start()


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
def test_the_environment_names_another_triton(
    disposable_triton: LocalTriton, tiny_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLAIM_TRITON", disposable_triton.grpc_url)
    with triton_from_environment(tiny_repository) as other:
        assert isinstance(other, ExternalTriton)
        assert other.grpc_url == disposable_triton.grpc_url
    with (
        pytest.raises(ServerFailed, match=r"GLAIM_TRITON.*nowhere"),
        triton_from_environment(tiny_repository, models=["nowhere"]),
    ):
        pass


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


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def _is_stub(entry: Path) -> bool:
    try:
        return b"triton_python_backend_stub" in (entry / "cmdline").read_bytes()
    except OSError:
        return False
