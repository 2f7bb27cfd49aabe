"""Runs a real Triton server on this machine, from a PyPI wheel, without containers.

It runs on the CPU and serves TorchScript through the python backend.

    with LocalTriton(Path("model_repo")) as triton:
        print(triton.grpc_url)

From a terminal: `python -m deploy.triton --model-repository model_repo`. Ctrl-C stops it.

The same repository serves a GPU image: a model's `config.pbtxt` is for the libtorch backend of that image,
`configs/python.pbtxt` for this server, which selects it by name.
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

from deploy.cache import Report
from deploy.errors import ServerFailed, TritonUnavailable
from deploy.fetch import fetch
from deploy.keeper import kept_running
from deploy.ports import LOOPBACK, claim_port
from deploy.process import ServerProcess
from deploy.runner import LocalServer, run_in_foreground
from deploy.triton_install import install_triton
from deploy.triton_probe import model_problem
from glaim_stream.models import version_numbers

ControlMode = Literal["none", "poll", "explicit"]

# The HTTP header that gives access to the admin API in explicit mode; over gRPC Triton adds a prefix to its name.
ADMIN_HEADER = "glaim-admin"
_GRPC_ADMIN_HEADER = f"triton-grpc-protocol-{ADMIN_HEADER}"

# By default gRPC waits at least 1 s between attempts to connect, which would slow every start down.
_QUICK_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]

# Of each model: some requests of 256 windows with 16 sensors, 2 MB each. The backend's default is 1 MB.
_SHARED_MEMORY_BYTES = 16 << 20

# The two-column table of options comes last in the log and would push the cause of a failure out of the tail.
_LOG_NOISE = re.compile(r"^\+[-+]+\+$|^\| [^|]+\| [^|]+\|$|^$|NVML|DCGM")


@dataclass(frozen=True)
class ExternalTriton:
    """A Triton that was started elsewhere; only its gRPC address is known."""

    grpc_url: str
    http_url: None = None
    metrics_url: None = None


@dataclass(frozen=True)
class TritonTls:
    """PEM files of a gRPC endpoint with TLS. `authorities` signed the certificate, and with `mutual` those of clients.

    The readiness probe shows the server's own certificate.
    """

    certificate: Path
    key: Path
    authorities: Path
    mutual: bool = False

    @property
    def options(self) -> list[str]:
        """Arguments of the server."""
        return [
            "--grpc-use-ssl=true",
            f"--grpc-use-ssl-mutual={str(self.mutual).lower()}",
            f"--grpc-server-cert={self.certificate}",
            f"--grpc-server-key={self.key}",
            f"--grpc-root-cert={self.authorities}",
        ]

    @property
    def client_options(self) -> dict[str, object]:
        """Arguments of a client."""
        return {
            "ssl": True,
            "root_certificates": str(self.authorities),
            "private_key": str(self.key),
            "certificate_chain": str(self.certificate),
        }


class LocalTriton(LocalServer):
    """One Triton server that ends with this process.

    Args:
        model_repository: Directory with one subdirectory per model.
        grpc_port, http_port, metrics_port: None: a free port, which stays the same after `restart`.
        models: The models that must answer before `start` returns. None: all models of the repository.
        config_name: Name of the model configuration, `configs/<name>.pbtxt`; models without such a file use
            `config.pbtxt`.
        control_mode: `none`: the models present at the start are served, without changes. `poll`: the server scans the
            repository every `poll_s` seconds and loads new versions. `explicit`: the server loads `models`, and others
            on request of the admin API, which needs `admin_headers` (a load request can carry files, so it amounts to
            running code on this machine).
        poll_s: Scan interval, in whole seconds.
        environment: Additions to the server's environment, such as OMP_NUM_THREADS.
        options: More arguments for the server.
        tls: Files for TLS at the gRPC endpoint; read at each start. None: no TLS.
        headers: Headers of the readiness probe, where `options` restrict the access to inferences.
        start_deadline_s: Time limit of a start; usually 4 to 8 s, longer when torch is read from a cold disk.
        report: Receives the progress lines of the installation.
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
        tls: TritonTls | None = None,
        headers: Mapping[str, str] | None = None,
        start_deadline_s: float = 120.0,
        report: Report = print,
    ) -> None:
        super().__init__()
        self.model_repository = model_repository.resolve()
        self._requested_ports = (grpc_port, http_port, metrics_port)
        self._models = list(models) if models is not None else None
        self._config_name = config_name
        self._control_mode = control_mode
        self._poll_s = poll_s
        self._extra_environment = dict(environment or {})
        self._extra_options = list(options)
        self._tls = tls
        self._headers = dict(headers or {})
        self._start_deadline_s = start_deadline_s
        self._report = report
        self._ports: tuple[int, int, int] | None = None
        self._run_dir: Path | None = None
        self._admin_token = secrets.token_urlsafe(24)

    @property
    def grpc_url(self) -> str:
        """`host:port` for tritonclient.grpc."""
        return f"{LOOPBACK}:{self._known_ports()[0]}"

    @property
    def http_url(self) -> str:
        """`host:port` for tritonclient.http."""
        return f"{LOOPBACK}:{self._known_ports()[1]}"

    @property
    def metrics_url(self) -> str:
        """The URL that Prometheus scrapes."""
        return f"http://{LOOPBACK}:{self._known_ports()[2]}/metrics"

    @property
    def admin_headers(self) -> dict[str, str]:
        """Headers for access to the model repository API over gRPC in explicit mode; over HTTP use `ADMIN_HEADER`."""
        return {_GRPC_ADMIN_HEADER: self._admin_token} if self._control_mode == "explicit" else {}

    @property
    def log(self) -> Path:
        """The server's log file."""
        if self._run_dir is None:
            raise ServerFailed("Triton has not been started")
        return self._run_dir / "triton.log"

    def start(self) -> Self:
        """Start the server and wait until every model has answered an inference.

        Raises:
            TritonUnavailable: This machine cannot run it; serve the TorchScript in the worker instead.
            FetchError: A download failed.
            PortInUse: A requested port is taken.
            ServerFailed: The server ended, or a model did not respond in time; the message ends with the tail of its
                log.
        """
        if self.running:
            raise ServerFailed(f"Triton is already running at {self.grpc_url}")
        wanted = self._models if self._models is not None else models_of(self.model_repository)
        if not wanted and self._models is None:
            raise ServerFailed(f"{self.model_repository} holds no model (a subdirectory with a config.pbtxt)")
        installation = install_triton(self._report)
        requested = self._ports or self._requested_ports
        port_options = ("--grpc-port", "--http-port", "--metrics-port")
        grpc_port, http_port, metrics_port = (
            claim_port(port, "Triton", option) for port, option in zip(requested, port_options, strict=True)
        )
        if self._run_dir is None:
            self._run_dir = Path(tempfile.mkdtemp(prefix="glaim-triton-"))
        # Unique for each start: a killed server leaves its shared memory behind, and the next one must not reuse it.
        shared_memory = f"glaim_triton_{secrets.token_hex(4)}_"
        command = [
            str(installation.server),
            f"--model-repository={self.model_repository}",
            f"--model-config-name={self._config_name}",
            f"--backend-directory={installation.backends}",
            f"--backend-config=python,shm-region-prefix-name={shared_memory}",
            # A large batch fits at once: the backend does not have to grow the memory while its stub uses it.
            f"--backend-config=python,shm-default-byte-size={_SHARED_MEMORY_BYTES}",
            # The configurations are complete; auto-completion would import torch once more for every model.
            "--disable-auto-complete-config",
            # A model that fails to load must not make the others unready.
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
            *(self._tls.options if self._tls is not None else []),
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
            # Otherwise the server's first import would write the byte code, and the next scan take it for a new model.
            compileall.compile_dir(self.model_repository, maxlevels=2, quiet=2)
        self._process.start()
        client_options = self._tls.client_options if self._tls is not None else {}
        with grpc_client.InferenceServerClient(
            self.grpc_url, channel_args=_QUICK_RECONNECT, **client_options
        ) as client:
            self._process.wait_ready(lambda: _first_problem(client, wanted, self._headers), self._start_deadline_s)
        return self

    def stop(self) -> None:
        """Send SIGTERM, which lets requests in flight finish, and SIGKILL after 20 s. Idempotent."""
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
            # A folder that holds a closed form alone counts as a model that fails to load, as one without a version.
            folders = [path for path in self.model_repository.glob("*") if path.is_dir()]
            lacking = [path for path in folders if not (path / "config.pbtxt").exists() or not version_numbers(path)]
            return ["--exit-on-error=false"] if lacking else []
        # A new version that fails to load must not end the server, which still serves the old one.
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


def _first_problem(
    client: grpc_client.InferenceServerClient, models: Sequence[str], headers: Mapping[str, str] | None = None
) -> str | None:
    """None if every model answers an inference, otherwise a description of the first problem."""
    problems = (model_problem(client, model, headers=headers) for model in models)
    return next((problem for problem in problems if problem is not None), None)


def models_of(model_repository: Path) -> list[str]:
    """The names of the models in a repository: its directories that contain a `config.pbtxt`, except hidden ones."""
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
    """The Triton at the gRPC address in `GLAIM_TRITON` if that is set, or a `LocalTriton` that is kept running.

    Raises:
        ServerFailed: One of `models` does not respond at `GLAIM_TRITON`.
    """
    address = os.environ.get("GLAIM_TRITON")
    if address:
        with grpc_client.InferenceServerClient(address) as client:
            problem = _first_problem(client, models or models_of(model_repository))
        if problem is not None:
            raise ServerFailed(f"GLAIM_TRITON={address}: {problem}")
        yield ExternalTriton(address)
        return
    with (
        LocalTriton(model_repository, models=models, environment=environment, report=report) as triton,
        kept_running(triton, "Triton", report),
    ):
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
        help="none: serve the models present at the start; poll: load new versions; explicit: load models on request "
        "of the admin API (default: %(default)s)",
    )
    parser.add_argument("--fetch-only", action="store_true", help="install the server and exit")
    options = parser.parse_args(arguments)
    if options.fetch_only:
        return fetch(lambda: f"Triton: {install_triton().server}", named="Triton", unavailable=TritonUnavailable)
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
