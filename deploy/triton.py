"""A real Triton server on this machine, from a PyPI wheel: no containers, CPU, TorchScript through the python backend.

    with LocalTriton(Path("model_repo")) as triton:
        print(triton.grpc_url)

From a terminal, until Ctrl-C: `python -m deploy.triton --model-repository model_repo`.

The same repository serves a GPU image: `config.pbtxt` of a model is for its libtorch backend, `configs/python.pbtxt`
for this one, and the server is told by name which to take.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import tritonclient.grpc as grpc_client

from deploy.bring import CANNOT_RUN_HERE
from deploy.errors import DeployError, ServerFailed, TritonUnavailable
from deploy.ports import LOOPBACK, claim_port
from deploy.process import ServerProcess
from deploy.runner import LocalServer, run_in_foreground
from deploy.triton_install import Report, install_triton
from deploy.triton_probe import model_problem

ControlMode = Literal["none", "poll", "explicit"]

# The header that opens the admin API of an explicit server, over HTTP; over gRPC it carries Triton's own prefix.
ADMIN_HEADER = "glaim-admin"
_GRPC_ADMIN_HEADER = f"triton-grpc-protocol-{ADMIN_HEADER}"

# gRPC waits 1 s and more between attempts to connect, which would show in every start.
_IMPATIENT = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]

# The table of options, two columns wide, comes last and pushes the cause of a failure out of sight.
_LOG_NOISE = re.compile(r"^\+[-+]+\+$|^\| [^|]+\| [^|]+\|$|^$|NVML|DCGM")


@dataclass(frozen=True)
class ExternalTriton:
    """A Triton that somebody else runs; only its gRPC address is known."""

    grpc_url: str
    http_url: None = None
    metrics_url: None = None


class LocalTriton(LocalServer):
    """One Triton server that ends with this process.

    Args:
        model_repository: Directory with one directory a model.
        grpc_port, http_port, metrics_port: None: a free one, the same again after `restart`.
        models: The models that must answer before `start` returns. None: every one of the repository.
        config_name: Which configuration of a model to take: `configs/<name>.pbtxt`; where a model has none,
            its `config.pbtxt`.
        control_mode: `none`: what is there at the start is served, for ever. `poll`: the repository is looked at every
            `poll_s` seconds, new versions are taken up. `explicit`: `models` are loaded, the rest by the admin API,
            which needs `admin_headers` (a load request can carry files: it is as good as running code here).
        poll_s: Whole seconds.
        environment: Additions to the server's environment, such as OMP_NUM_THREADS.
        options: More arguments of the server.
        start_deadline_s: How long a start may take: 4 to 8 s are usual, more when torch is read from a cold disk.
        report: Receives the lines of a set-up's progress.
    """

    def __init__(
        self,
        model_repository: Path,
        *,
        grpc_port: int | None = None,
        http_port: int | None = None,
        metrics_port: int | None = None,
        models: Sequence[str] | None = None,
        config_name: str = "python",
        control_mode: ControlMode = "none",
        poll_s: int = 2,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        start_deadline_s: float = 120.0,
        report: Report = print,
    ) -> None:
        super().__init__()
        self.model_repository = model_repository.resolve()
        self._asked_ports = (grpc_port, http_port, metrics_port)
        self._models = list(models) if models is not None else None
        self._config_name = config_name
        self._control_mode = control_mode
        self._poll_s = poll_s
        self._extra_environment = dict(environment or {})
        self._extra_options = list(options)
        self._start_deadline_s = start_deadline_s
        self._report = report
        self._ports: tuple[int, int, int] | None = None
        self._run_dir: Path | None = None
        self._admin_token = secrets.token_urlsafe(24)

    @property
    def grpc_url(self) -> str:
        """`host:port`, as tritonclient.grpc wants it."""
        return f"{LOOPBACK}:{self._known_ports()[0]}"

    @property
    def http_url(self) -> str:
        """`host:port`, as tritonclient.http wants it."""
        return f"{LOOPBACK}:{self._known_ports()[1]}"

    @property
    def metrics_url(self) -> str:
        """Where Prometheus reads."""
        return f"http://{LOOPBACK}:{self._known_ports()[2]}/metrics"

    @property
    def admin_headers(self) -> dict[str, str]:
        """Headers that open the model repository API over gRPC, in explicit mode; `ADMIN_HEADER` names HTTP's."""
        return {_GRPC_ADMIN_HEADER: self._admin_token} if self._control_mode == "explicit" else {}

    @property
    def log(self) -> Path:
        """What the server writes."""
        if self._run_dir is None:
            raise ServerFailed("Triton has not been started")
        return self._run_dir / "triton.log"

    def start(self) -> Self:
        """Start the server and wait until every model has answered an inference.

        Raises:
            TritonUnavailable: If this machine cannot run it: serve the TorchScript in the worker instead.
            FetchError: If something of it could not be brought.
            PortInUse: If an asked port is taken.
            ServerFailed: If it ends, or a model does not answer in time, with the tail of its log.
        """
        if self.running:
            raise ServerFailed(f"Triton runs already at {self.grpc_url}")
        wanted = self._models if self._models is not None else models_of(self.model_repository)
        if not wanted and self._models is None:
            raise ServerFailed(f"{self.model_repository} holds no model (a directory with a config.pbtxt)")
        installation = install_triton(self._report)
        asked = self._ports or self._asked_ports
        port_options = ("--grpc-port", "--http-port", "--metrics-port")
        grpc_port, http_port, metrics_port = (
            claim_port(port, "Triton", option) for port, option in zip(asked, port_options, strict=True)
        )
        if self._run_dir is None:
            self._run_dir = Path(tempfile.mkdtemp(prefix="glaim-triton-"))
        # Unique a start: a killed server leaves its shared memory, and the next must not take it over.
        shared_memory = f"glaim_triton_{secrets.token_hex(4)}_"
        command = [
            str(installation.server),
            f"--model-repository={self.model_repository}",
            f"--model-config-name={self._config_name}",
            f"--backend-directory={installation.backends}",
            f"--backend-config=python,shm-region-prefix-name={shared_memory}",
            # Our configurations are complete; completing them would import torch once more for every model.
            "--disable-auto-complete-config",
            # One model that does not load must not make the others look unready.
            "--strict-readiness=false",
            f"--grpc-address={LOOPBACK}",
            f"--http-address={LOOPBACK}",
            f"--metrics-address={LOOPBACK}",
            f"--grpc-port={grpc_port}",
            f"--http-port={http_port}",
            f"--metrics-port={metrics_port}",
            "--exit-timeout-secs=10",
            f"--model-control-mode={self._control_mode}",
            *self._control_options(wanted),
            *self._extra_options,
        ]
        self._process = ServerProcess(
            "Triton",
            command,
            environment={**installation.environment, **self._extra_environment},
            log=self.log,
            clean_globs=[f"/dev/shm/{shared_memory}*"],  # noqa: S108, where Linux keeps shared memory
            orphan_dirs=[self._run_dir],
            noise=_LOG_NOISE,
        )
        self._ports = (grpc_port, http_port, metrics_port)
        if self._control_mode == "poll":
            # The server's first import would write the byte code itself, and the poll take that for a new model.
            compileall.compile_dir(self.model_repository, maxlevels=2, quiet=2)
        self._process.start()
        try:
            with grpc_client.InferenceServerClient(self.grpc_url, channel_args=_IMPATIENT) as client:
                self._process.wait_ready(lambda: self._missing(client, wanted), self._start_deadline_s)
        except BaseException:
            # Ctrl-C while waiting included: a failed start leaves nothing running.
            self._process.kill()
            raise
        return self

    def stop(self) -> None:
        """SIGTERM, which lets requests in flight finish; SIGKILL to everything after 20 s. Idempotent."""
        if self._process is not None:
            self._process.stop()
        if self._run_dir is not None:
            shutil.rmtree(self._run_dir, ignore_errors=True)
            self._run_dir = None

    def _known_ports(self) -> tuple[int, int, int]:
        if self._ports is None:
            raise ServerFailed("Triton has not been started")
        return self._ports

    def _control_options(self, wanted: Sequence[str]) -> list[str]:
        if self._control_mode == "none":
            return []
        # A bad new version is reported by its model, and is no reason to end the server that serves the old one.
        options = ["--exit-on-error=false"]
        if self._control_mode == "poll":
            return [*options, f"--repository-poll-secs={self._poll_s}"]
        restricted = f"model-repository,shared-memory:{ADMIN_HEADER}={self._admin_token}"
        return [
            *options,
            *(f"--load-model={model}" for model in wanted),
            f"--grpc-restricted-protocol={restricted}",
            f"--http-restricted-api={restricted}",
        ]

    @staticmethod
    def _missing(client: grpc_client.InferenceServerClient, models: Sequence[str]) -> str | None:
        for model in models:
            problem = model_problem(client, model)
            if problem is not None:
                return problem
        return None


def models_of(model_repository: Path) -> list[str]:
    """The names of the models in a repository: its directories that hold a `config.pbtxt`, hidden ones aside."""
    names = (path.parent.name for path in model_repository.glob("*/config.pbtxt"))
    return sorted(name for name in names if not name.startswith("."))


@contextmanager
def triton_from_environment(
    model_repository: Path,
    *,
    models: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    report: Report = print,
) -> Iterator[LocalTriton | ExternalTriton]:
    """The Triton whose gRPC address is in `GLAIM_TRITON` if that is set, else a `LocalTriton` of these arguments.

    Raises:
        ServerFailed: If one of `models` does not answer at `GLAIM_TRITON`.
    """
    address = os.environ.get("GLAIM_TRITON")
    if address:
        with grpc_client.InferenceServerClient(address) as client:
            for model in models or models_of(model_repository):
                problem = model_problem(client, model)
                if problem is not None:
                    raise ServerFailed(f"GLAIM_TRITON={address}: {problem}")
        yield ExternalTriton(address)
        return
    with LocalTriton(model_repository, models=models, environment=environment, report=report) as triton:
        yield triton


def main(arguments: list[str] | None = None) -> int:
    """Run a server until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m deploy.triton", description="Run a real Triton server here (CPU).")
    parser.add_argument("--model-repository", type=Path, default=Path("model_repo"), help="default: %(default)s")
    parser.add_argument("--grpc-port", type=int, help="default: a free port")
    parser.add_argument("--http-port", type=int, help="default: a free port")
    parser.add_argument("--metrics-port", type=int, help="default: a free port")
    parser.add_argument("--model-config-name", default="python", help="configs/<name>.pbtxt (default: %(default)s)")
    parser.add_argument(
        "--model-control-mode",
        choices=("none", "poll", "explicit"),
        default="none",
        help="none: serve what is there; poll: take up new versions; explicit: by the admin API (default: %(default)s)",
    )
    parser.add_argument("--fetch-only", action="store_true", help="set the server up, start nothing")
    options = parser.parse_args(arguments)
    if options.fetch_only:
        try:
            print(f"Triton: {install_triton().server}")
        except TritonUnavailable as error:
            print(f"Triton cannot run here: {error}")
            return CANNOT_RUN_HERE
        except DeployError as error:
            print(f"error: {error}")
            return 1
        return 0
    triton = LocalTriton(
        options.model_repository,
        grpc_port=options.grpc_port,
        http_port=options.http_port,
        metrics_port=options.metrics_port,
        config_name=options.model_config_name,
        control_mode=options.model_control_mode,
    )

    def describe() -> str:
        admin = "".join(f"; admin header {name}: {value}" for name, value in triton.admin_headers.items())
        return f"gRPC {triton.grpc_url}, HTTP {triton.http_url}, {triton.metrics_url} (log: {triton.log}){admin}"

    return run_in_foreground(triton, "Triton", describe)


if __name__ == "__main__":
    raise SystemExit(main())
