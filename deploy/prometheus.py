"""Runs a real Prometheus and a real Alertmanager on this machine, without containers or installation.

    with LocalAlertmanager(config) as alertmanager, LocalPrometheus(config_of(alertmanager)) as prometheus:
        print(prometheus.url)

`python -m deploy.prometheus --fetch-only` fetches the programs, so that no test has to wait for them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import yaml

from deploy.fetch import fetch_command
from deploy.gotools import GoUnavailable
from deploy.ports import LOOPBACK, choose_port
from deploy.process import ServerProcess
from deploy.prometheus_install import PrometheusUnavailable, find_alertmanager, find_prometheus
from deploy.runner import LocalServer

_START_DEADLINE_S = 60.0


class _Monitor(LocalServer):
    """A server with a YAML configuration, one port, a temporary directory and a `/-/ready` page."""

    name = ""

    def __init__(self, configuration: Mapping[str, object]) -> None:
        super().__init__()
        self.configuration = configuration
        self._directory: Path | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """`host:port`, known once the server has been started."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def url(self) -> str:
        """Base URL of the HTTP API."""
        return f"http://{self.address}"

    def command(self, configuration: Path, data: Path) -> list[str]:
        """Program and arguments."""
        raise NotImplementedError

    def start(self) -> Self:
        """Start the server and wait until it reports that it is ready.

        Raises:
            PrometheusUnavailable, GoUnavailable: The program is absent, and this machine cannot fetch it.
            FetchError: The program could not be fetched.
            ServerFailed: The server ended or did not become ready; the message ends with the tail of its log.
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
        self._process.wait_ready(self._missing, _START_DEADLINE_S)
        return self

    def stop(self) -> None:
        """Stop the server and delete its directory. Idempotent."""
        if self._process is not None:
            self._process.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _missing(self) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2):  # noqa: S310, a local http address
                return None
        except (urllib.error.URLError, OSError) as error:
            return f"{self.url}/-/ready failed: {error}"


class LocalPrometheus(_Monitor):
    """One Prometheus that ends with this process.

    Args:
        configuration: The content of prometheus.yml, with absolute paths.
    """

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
    """One Alertmanager, without clustering, that ends with this process.

    Args:
        configuration: The content of alertmanager.yml.
    """

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
    """Find or fetch the programs and print their paths."""
    return fetch_command(
        "prometheus",
        "Find or fetch Prometheus, Alertmanager and their tools.",
        lambda: f"Prometheus: {find_prometheus().server}\nAlertmanager: {find_alertmanager().server}",
        named="Prometheus with Alertmanager",
        unavailable=(PrometheusUnavailable, GoUnavailable),
        arguments=arguments,
    )


if __name__ == "__main__":
    raise SystemExit(main())
