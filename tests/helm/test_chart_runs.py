"""The commands of the rendered pods, run with their variables and files against a real Kafka and Triton."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, claim_port
from deploy.triton import ExternalTriton, LocalTriton
from tests.helm.matrix import OUTSIDE, SMALLEST, merged
from tests.helm.rendered import Object, containers, environment, pods, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

PROGRAMS = {"glaim-stream": [sys.executable, "-m", "glaim_stream"], "python": [sys.executable]}


class Kubelet:
    """A stand-in for the kubelet: writes a pod's ConfigMaps to a directory and runs its first container's command."""

    def __init__(self, objects: list[Object], directory: Path) -> None:
        self._maps = {item["metadata"]["name"]: item["data"] for item in objects if item["kind"] == "ConfigMap"}
        self._directory = directory

    def start(self, pod: Object, name: str, service: str, log: Path) -> subprocess.Popen[bytes]:
        container = containers(pod)[0]
        moved = self._mount(pod, container) | {service: LOOPBACK}
        program, *arguments = container["command"]
        variables = {
            key: name if "fieldRef" in variable.get("valueFrom", {}) else str(variable["value"])
            for key, variable in environment(container).items()
        }
        for old, new in moved.items():
            arguments = [new if argument == old else argument for argument in arguments]
            variables = {key: value.replace(old, new) for key, value in variables.items()}
        with log.open("wb") as output:
            return subprocess.Popen(
                [*PROGRAMS[program], *arguments],
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)} | variables,
                cwd=self._directory,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _mount(self, pod: Object, container: Object) -> dict[str, str]:
        places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        moved = {}
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                moved[places[volume["name"]]] = str(self._directory / volume["name"])
                for item in volume["configMap"]["items"]:
                    file = self._directory / volume["name"] / item["path"]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(self._maps[volume["configMap"]["name"]][item["key"]])
        return moved


def test_worker_becomes_ready_and_helm_tests_pass(
    chart: Chart,
    kafka: LocalKafka | ExternalKafka,
    triton: LocalTriton | ExternalTriton,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    port = claim_port(None, "the worker", "metrics.port")
    topics = {"inputTopic": f"{topic_prefix}in", "outputTopic": f"{topic_prefix}out"}
    values = merged(merged(SMALLEST, OUTSIDE), {
        "kafka": {
            "bootstrapServers": kafka.bootstrap_servers, **topics, "consumerGroup": f"{topic_prefix}group",
            "partitions": 2, "replicationFactor": 1,
        },
        "triton": {"address": triton.grpc_url},
        "metrics": {"port": port, "host": LOOPBACK},
        "worker": {"replicas": 1},
    })  # fmt: skip
    objects = chart.render(values)
    kubelet = Kubelet(objects, tmp_path)
    tests = {owner.rpartition("-")[2]: pod for owner, pod in pods(objects).items() if owner.startswith("Pod ")}
    service = "demo-glaim-stream-worker"

    def outcome(test: str) -> tuple[int, str]:
        log = tmp_path / f"{test}.log"
        status = kubelet.start(tests[test], f"demo-glaim-stream-test-{test}", service, log).wait(timeout=120)
        return status, log.read_text()

    status, output = outcome("workers")
    assert (status, "did not respond" in output) == (1, True), "no worker is running yet"
    worker = kubelet.start(worker_pod(objects), "demo-glaim-stream-worker-0", service, tmp_path / "worker.log")
    try:
        deadline = time.monotonic() + 90
        while (result := outcome("workers"))[0] != 0:
            assert worker.poll() is None, (tmp_path / "worker.log").read_text()
            assert time.monotonic() < deadline, result[1]
            time.sleep(1)
        assert f"{LOOPBACK} is ready" in result[1]
        status, output = outcome("check")
        assert status == 0, output
        assert "model plant-pump on triton" in output
        assert "found none of that name" not in output, "the worker has created the topics"
    finally:
        worker.terminate()
        assert worker.wait(timeout=60) == 0
