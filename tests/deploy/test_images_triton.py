"""The files of the Triton image with a real Triton: `serve` starts it, `probe.py` checks the served models."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.cache import CHECKOUT
from deploy.ports import LOOPBACK, choose_port
from deploy.process import ServerProcess
from deploy.triton_install import install_triton, unsupported_reason

pytestmark = pytest.mark.skipif(unsupported_reason() is not None, reason=str(unsupported_reason()))

FILES = CHECKOUT / "deploy" / "images" / "triton"
MODELS = sorted(path.parent.name for path in (CHECKOUT / "model_repo").glob("*/config.pbtxt"))


@dataclass
class Served:
    """A Triton started by `serve`."""

    process: ServerProcess
    http: str
    admin_file: Path

    def probe(self, *arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-I", FILES / "probe.py", "--url", self.http, *arguments]
        environment = os.environ | {"GLAIM_ADMIN_FILE": str(self.admin_file)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert not run.stderr, run.stderr
        return run.returncode, run.stdout.strip()

    def status(self, path: str, body: object = None, **headers: str) -> int:
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.http + path, data, headers), timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def wait(self, done: str) -> str:
        """Wait until the output of the probe begins with `done`, and return it."""
        deadline = time.monotonic() + 90
        while True:
            line = self.probe()[1]
            if line.startswith(done):
                return line
            assert time.monotonic() < deadline, f"{line}\n{self.process.log.read_text()[-3000:]}"
            time.sleep(0.3)


@pytest.fixture(params=["python"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A Triton with the shipped models, started by the image's script with additional options as in the chart."""
    installation = install_triton()
    ports = {name: choose_port() for name in ("http", "grpc", "metrics")}
    prefix = f"glaim_probe_{secrets.token_hex(4)}_"
    admin_file = tmp_path / "admin"
    process = ServerProcess(
        "Triton by serve",
        [
            str(FILES / "serve"),
            "--model-control-mode=none",
            f"--model-config-name={request.param}",
            f"--backend-directory={installation.backends}",
            f"--backend-config=python,shm-region-prefix-name={prefix}",
            *(f"--{name}-address={LOOPBACK}" for name in ports),
            *(f"--{name}-port={port}" for name, port in ports.items()),
        ],
        environment=installation.environment
        | {
            "PATH": f"{installation.server.parent}{os.pathsep}{installation.environment['PATH']}",
            "GLAIM_MODEL_REPOSITORY": str(CHECKOUT / "model_repo"),
            "GLAIM_ADMIN_FILE": str(admin_file),
        },
        log=tmp_path / "triton.log",
        clean_globs=[f"/dev/shm/{prefix}*"],
    )
    process.start()
    try:
        yield Served(process, f"http://{LOOPBACK}:{ports['http']}", admin_file)
    finally:
        process.kill()


def kill_model(server: int, model: str) -> None:
    """Kill the processes that run a model for Triton's Python backend, one for each of its instances."""
    killed = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if parent == server and "triton_python_backend_stub" in line and f"/{model}/" in line:
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    assert killed, f"expected children of process {server} that run {model}, found none"


@pytest.mark.slow  # quicker: the server without the backend, below
def test_probe_and_serve_with_a_real_triton(served: Served) -> None:
    """One test with one server, because each start is slow."""
    assert served.wait(f"{len(MODELS)} served") == f"{len(MODELS)} served: {', '.join(MODELS)}"
    assert served.probe() == (0, f"{len(MODELS)} served: {', '.join(MODELS)}")
    assert served.probe("plant-pump") == (0, "1 served: plant-pump")
    code, line = served.probe("no-such-model")
    assert code == 1
    assert line.startswith("model no-such-model: ")

    assert served.probe("--patience", "600")[0] == 0  # remembers that all have answered

    # The script ends with exec, so the started process is Triton and receives the signals.
    pid = served.process.pid
    assert pid is not None
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "tritonserver"

    # APIs that change the server or read its files are restricted to the owner of the secret.
    assert served.admin_file.stat().st_mode & 0o777 == 0o600
    secret = served.admin_file.read_text()
    assert len(secret) == 48
    for path in ("/v2/repository/index", "/v2/repository/models/plant-pump/load"):
        assert served.status(path, {}) == 403
    assert served.status("/v2/systemsharedmemory/region/x/register", {"key": "/x", "offset": 0, "byte_size": 8}) == 403
    assert served.status("/v2/logging") == 403
    assert served.status("/v2/repository/index", {}, **{"glaim-admin": secret}) == 200
    assert served.status("/v2/repository/index", {}, **{"glaim-admin": secret[:-1] + "x"}) == 403
    assert served.status("/v2/models/plant-pump") == 200

    # The processes of one model die: Triton still reports ready, but the probe fails and names the model.
    kill_model(pid, "plant-pump")
    code, line = served.probe("--timeout", "5")
    assert code == 1
    assert line.startswith("model plant-pump: ")
    assert "beijing-air" not in line
    assert served.status("/v2/health/ready") == 200
    assert served.status("/v2/models/plant-pump/ready") == 200
    assert served.probe("beijing-air")[0] == 0

    # It is out of service, and the server stays: neither a restart nor unready for the other models.
    for option in (["--live"], ["--patience", "600"]):
        code, line = served.probe("--timeout", "5", *option)
        assert code == 0
        assert line.startswith("model plant-pump: ")

    # A new server is strict until its patience is over: a roll-out must not go on with a bad model.
    served.admin_file.with_name("admin-answered").unlink()
    assert served.probe("--timeout", "5", "--patience", "600")[0] == 1
    assert served.probe("--timeout", "5", "--patience", "0")[0] == 0
    served.admin_file.with_name("admin-answered").write_text("the secret of an earlier start")
    assert served.probe("--timeout", "5", "--patience", "600")[0] == 1

    # No model answers at all: a restart is the remedy.
    for model in MODELS:
        if model != "plant-pump":
            kill_model(pid, model)
    assert served.probe("--timeout", "5", "--live")[0] == 1
    assert served.probe("--timeout", "5", "--patience", "0")[0] == 1

    served.process.kill()
    assert served.probe("--timeout", "2", "--live")[0] == 1
    code, line = served.probe("--timeout", "2")
    assert code == 1
    assert line.startswith("the models cannot be listed: ")


@pytest.mark.parametrize("served", ["cpu"], indirect=True)
def test_cpu_configuration_lacks_only_the_backend(served: Served) -> None:
    """Without the libtorch backend the models cannot load; the server reports no other problem with the file."""
    assert served.wait("expected at least") == "expected at least one ready model, found none"
    assert served.probe()[0] == 1
    assert served.probe("--live") == (0, "the server responds, and has no ready model")
    log = served.process.log.read_text()
    for model in MODELS:
        assert f"failed to load '{model}' version 1" in log
    assert log.count("unable to find backend library for backend 'pytorch'") >= len(MODELS)
