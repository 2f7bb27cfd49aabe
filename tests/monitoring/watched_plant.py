"""A Prometheus that scrapes a worker, to which the simulated plant sends readings with dropouts."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.errors import FetchError
from deploy.gotools import GoUnavailable
from deploy.prometheus import LocalPrometheus
from deploy.prometheus_install import PrometheusUnavailable, find_prometheus
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import WorkerProcess, environment_of


def require_prometheus() -> None:
    try:
        find_prometheus()
    except (PrometheusUnavailable, GoUnavailable, FetchError) as reason:
        pytest.skip(str(reason))


@contextmanager
def watched_plant(settings: Settings, log: Path, *, speed: int) -> Iterator[LocalPrometheus]:
    """Run the worker and feed it three pumps, at `speed` times the pace of their times."""
    ensure_topics(settings)
    target = {"targets": [f"{settings.metrics_host}:{settings.metrics_port}"]}
    scrape = {"job_name": "glaim-stream-worker", "scrape_interval": "1s", "static_configs": [target]}
    with WorkerProcess(settings, log), LocalPrometheus({"scrape_configs": [scrape]}) as started:
        feed = subprocess.Popen(
            [sys.executable, "-m", "glaim_stream", "produce", "--plant", "--groups", "3", "--days", "1",
             "--drop", "0.12", "--speed", str(speed)],
            env=environment_of(settings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield started
        finally:
            feed.kill()
            feed.wait()
