"""Autoscaling of the workers by lag or by CPU: targets, limits, speed and credentials."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.helm.matrix import APIS, KEDA, MATRIX, SMALLEST, merged
from tests.helm.rendered import environment, of_kind, worker_pod
from tests.monitoring.test_alerts import promtool

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helm.conftest import Chart

__all__ = ["promtool"]  # fixture

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("kind", ["none", "keda", "hpa"])
def test_at_most_one_autoscaler_sets_the_number_of_workers(chart: Chart, kind: str) -> None:
    objects = chart.render(merged(SMALLEST, {"autoscaling": {"kind": kind}}), KEDA)
    worker = of_kind(objects, "StatefulSet", "worker")
    assert ("replicas" in worker["spec"]) == (kind == "none"), (
        "an upgrade would reset the number that the autoscaler has set"
    )
    scalers = [item for item in objects if item["kind"] in ("ScaledObject", "HorizontalPodAutoscaler")]
    assert len(scalers) == (kind != "none")
    for scaler in scalers:
        target = scaler["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("StatefulSet", worker["metadata"]["name"])


def test_there_are_never_more_workers_than_partitions(chart: Chart) -> None:
    def most(partitions: int, workers: int) -> object:
        values = {"kafka": {"partitions": partitions}, "autoscaling": {"kind": "keda", "maxReplicas": workers}}
        return of_kind(chart.render(merged(SMALLEST, values), KEDA), "ScaledObject")["spec"]["maxReplicaCount"]

    assert most(64, 0) == 64
    assert most(64, 48) == 48


def test_scaling_down_is_slow_with_either_autoscaler(chart: Chart) -> None:
    by_lag = of_kind(chart.render(MATRIX["scaled by lag"], KEDA), "ScaledObject")["spec"]
    by_cpu = of_kind(chart.render(MATRIX["scaled by CPU"]), "HorizontalPodAutoscaler")["spec"]
    behaviours = [by_lag["advanced"]["horizontalPodAutoscalerConfig"]["behavior"], by_cpu["behavior"]]
    assert behaviours[0] == behaviours[1]
    down = behaviours[0]["scaleDown"]
    assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 300}]
    assert down["stabilizationWindowSeconds"] >= 10 * behaviours[0]["scaleUp"]["stabilizationWindowSeconds"]


def test_keda_queries_the_kafka_of_the_workers_with_their_secrets(chart: Chart) -> None:
    objects = chart.render(MATRIX["scaled by lag"], APIS["scaled by lag"])
    container = worker_pod(objects)["spec"]["containers"][0]
    variables = environment(container)
    (trigger,) = of_kind(objects, "ScaledObject")["spec"]["triggers"]
    assert trigger["metadata"]["bootstrapServers"] == variables["GLAIM_KAFKA"]["value"]
    assert trigger["metadata"]["topic"] == variables["GLAIM_INPUT_TOPIC"]["value"]
    assert trigger["metadata"]["consumerGroup"] == variables["GLAIM_CONSUMER_GROUP"]["value"]
    assert (trigger["metadata"]["sasl"], trigger["metadata"]["tls"]) == ("scram_sha512", "enable")
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    authentication = of_kind(objects, "TriggerAuthentication")
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    secrets = {item["parameter"]: (item["name"], item["key"]) for item in authentication["spec"]["secretTargetRef"]}
    assert secrets["password"] == ("kafka-login", "password")
    assert secrets["ca"] == ("kafka-ca", "root.pem")
    assert set(secrets) == {"username", "password", "ca"}


def test_keda_uses_the_client_certificate_of_the_workers(chart: Chart) -> None:
    objects = chart.render(merged(MATRIX["mutual TLS"], {"autoscaling": {"kind": "keda"}}), KEDA)
    authentication = of_kind(objects, "TriggerAuthentication")
    secrets = {item["parameter"]: (item["name"], item["key"]) for item in authentication["spec"]["secretTargetRef"]}
    assert secrets["cert"] == ("plant-user", "user.crt")
    assert secrets["key"] == ("plant-user", "user.key")


IN_QUEUES = {"triton": {"autoscaling": {"kind": "keda", "prometheusAddress": "http://prometheus:9090"}}}


def test_tritons_are_scaled_by_the_requests_that_wait(chart: Chart) -> None:
    objects = chart.render(merged(SMALLEST, IN_QUEUES), KEDA)
    deployment = of_kind(objects, "Deployment", "triton")
    assert "replicas" not in deployment["spec"], "an upgrade would reset the number that the autoscaler has set"
    scaler = of_kind(objects, "ScaledObject", "triton")["spec"]
    assert scaler["scaleTargetRef"] == {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"],
    }  # fmt: skip
    assert (scaler["minReplicaCount"], scaler["maxReplicaCount"]) == (1, 4)
    (trigger,) = scaler["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert (trigger["metadata"]["serverAddress"], trigger["metadata"]["threshold"]) == ("http://prometheus:9090", "2")


def test_the_query_counts_the_waiting_requests_of_its_release(chart: Chart, promtool: Path, tmp_path: Path) -> None:
    """Three requests wait at two servers of the release, on average, and nine at another release's."""
    scaler = of_kind(chart.render(merged(SMALLEST, IN_QUEUES), KEDA), "ScaledObject", "triton")["spec"]
    query = scaler["triggers"][0]["metadata"]["query"]
    series = [
        ("demo", "a", 1_000_000), ("demo", "b", 2_000_000), ("other", "c", 9_000_000),
    ]  # fmt: skip
    unit = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {
                        "series": "nv_inference_queue_duration_us"
                        f'{{namespace="plant",release="{release}",instance="{instance}",model="pump"}}',
                        "values": f"0+{60 * per_second}x30",
                    }
                    for release, instance, per_second in series
                ],
                "promql_expr_test": [
                    {"expr": query, "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": 3}]}
                ],
            }
        ],
    }
    (tmp_path / "queues.yaml").write_text(yaml.safe_dump(unit))
    done = subprocess.run([promtool, "test", "rules", tmp_path / "queues.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
