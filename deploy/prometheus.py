"""A real Prometheus and a real Alertmanager on this machine: no containers, nothing installed.

    with LocalAlertmanager(config) as alertmanager, LocalPrometheus(config_of(alertmanager)) as prometheus:
        print(prometheus.url)

`python -m deploy.prometheus --fetch-only` brings the programs, so that no test waits for them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from deploy.bring import bring
from deploy.gotools import GoUnavailable
from deploy.ports import LOOPBACK, choose_port
from deploy.process import ServerProcess
from deploy.prometheus_install import PrometheusUnavailable, find_alertmanager, find_prometheus
from deploy.runner import LocalServer

_START_DEADLINE_S = 60.0


class _Monitor(LocalServer):
    """What the two have in common: a configuration, a port, a temporary directory, a page that says ready."""

    name = ""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        super().__init__()
        self.configuration = configuration
        self._directory: Path | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """`host:port`, once started."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def url(self) -> str:
        """Base of its HTTP API."""
        return f"http://{self.address}"

    def command(self, configuration: Path, data: Path) -> list[str]:
        """Program and arguments."""
        raise NotImplementedError

    def start(self) -> Self:
        """Start it and wait until it says that it is ready.

        Raises:
            PrometheusUnavailable, GoUnavailable: this machine has none and cannot bring it.
            FetchError: it could not be brought.
            ServerFailed: it ended or did not get ready, with the tail of its log.
        """
        self._port = self._port or choose_port()
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"glaim-{self.name.lower()}-"))
        configuration = self._directory / "configuration.yml"
        configuration.write_text(yaml.safe_dump(dict(self.configuration)))
        self._process = ServerProcess(
            self.name,
            self.command(configuration, self._directory / "data"),
            environment=os.environ,
            log=self._directory / "log",
            orphan_dirs=[self._directory],
        )
        self._process.start()
        try:
            self._process.wait_ready(self._missing, _START_DEADLINE_S)
        except BaseException:
            self._process.kill()
            raise
        return self

    def stop(self) -> None:
        """SIGTERM; its directory is deleted. Idempotent."""
        if self._process is not None:
            self._process.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _missing(self) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2):  # noqa: S310, our own http address
                return None
        except (urllib.error.URLError, OSError) as error:
            return f"{self.url}/-/ready does not say yes: {error}"


class LocalPrometheus(_Monitor):
    """One Prometheus that ends with this process; `configuration` as of prometheus.yml, paths in it absolute."""

    name = "Prometheus"

    def command(self, configuration: Path, data: Path) -> list[str]:
        """See _Monitor."""
        return [
            str(find_prometheus().server),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={self.address}",
        ]


class LocalAlertmanager(_Monitor):
    """One Alertmanager, without a cluster, that ends with this process; `configuration` as of alertmanager.yml."""

    name = "Alertmanager"

    def command(self, configuration: Path, data: Path) -> list[str]:
        """See _Monitor."""
        return [
            str(find_alertmanager().server),
            f"--config.file={configuration}",
            f"--storage.path={data}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]


def main(arguments: list[str] | None = None) -> int:
    """Find or fetch the programs and say where they are."""
    return bring(
        "prometheus",
        "Bring Prometheus and its tools.",
        lambda: f"Prometheus: {find_prometheus().server}\nAlertmanager: {find_alertmanager().server}",
        named="Prometheus and Alertmanager",
        unavailable=(PrometheusUnavailable, GoUnavailable),
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
