"""NetworkPolicies, and the pods of `helm test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.cache import CHECKOUT
from glaim_stream.core.tls import METRICS, TlsFiles, WatchedTls
from glaim_stream.worker.health import Health, PartitionState
from glaim_stream.worker.health_pages import serve_pages
from tests.certificates import signed
from tests.helm.chart_checks.network import Peer, ingress_allowed
from tests.helm.chart_checks.system import System
from tests.helm.matrix import MATRIX, SMALLEST, merged
from tests.helm.rendered import Object, containers, environment, of_kind, pods, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)


def policy(objects: list[Object], component: str) -> Object:
    spec: Object = of_kind(objects, "NetworkPolicy", component)["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    return spec


def ports(rules: list[Object]) -> set[int]:
    return {port["port"] for rule in rules for port in rule["ports"]}


def test_workers_can_connect_to_dns_kafka_and_triton_only(chart: Chart) -> None:
    spec = policy(chart.render(merged(SMALLEST, MATRIX["mutual TLS"])), "worker")
    assert ports(spec["egress"]) == {53, 5353, 9093, 9094, 8001}
    assert ports(spec["ingress"]) == {9464}


def test_viewers_reach_the_page_and_nothing_else(chart: Chart) -> None:
    assert ports(policy(chart.render(SMALLEST), "worker")["ingress"]) == {9464}
    shown = MATRIX["the page"]
    rules = [rule for rule in policy(chart.render(shown), "worker")["ingress"] if 9465 in ports([rule])]
    assert [(ports([rule]), rule["from"]) for rule in rules] == [({9465}, shown["networkPolicy"]["pageFrom"])]
    hidden = chart.render(merged(shown, {"networkPolicy": {"pageFrom": []}}))
    assert ports(policy(hidden, "worker")["ingress"]) == {9464}, "an empty list of peers would admit everybody"


def test_triton_has_no_egress_and_admits_only_workers_and_tests(chart: Chart) -> None:
    spec = policy(chart.render(SMALLEST), "triton")
    assert "egress" not in spec
    grpc = [rule for rule in spec["ingress"] if ports([rule]) == {8001}]
    callers = {
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for rule in grpc for peer in rule["from"]
    }
    assert callers == {"worker", "test"}
    assert all(set(peer) == {"podSelector"} for rule in grpc for peer in rule["from"])
    assert ports(spec["ingress"]) == {8001, 8002}


def test_peers_and_ports_come_from_the_values(chart: Chart) -> None:
    objects = chart.render(MATRIX["narrow network"])
    expected = MATRIX["narrow network"]["networkPolicy"]
    for component, port in (("worker", 9464), ("triton", 8002)):
        first = policy(objects, component)["ingress"][0]
        assert (ports([first]), first["from"]) == ({port}, expected["metricsFrom"])
    egress = policy(objects, "worker")["egress"]
    kafka = next(rule for rule in egress if 9092 in ports([rule]))
    assert (ports([kafka]), kafka["to"]) == ({9092, 19092}, expected["kafkaTo"])
    assert expected["extraEgress"][0] in egress
    assert policy(objects, "triton")["egress"][1:] == expected["extraEgress"]


PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


@pytest.mark.parametrize(
    ("peers", "admitted"),
    [
        (None, {("monitoring", "prometheus"), ("plant", "prometheus")}),
        ([MONITORING | {"podSelector": {"matchLabels": PROMETHEUS}}], {("monitoring", "prometheus")}),
        ([], set()),
    ],
)
def test_metrics_are_open_to_the_named_prometheus_alone(
    chart: Chart, peers: list[Object] | None, admitted: set[tuple[str, str]]
) -> None:
    values = {} if peers is None else {"networkPolicy": {"metricsFrom": peers}}
    system = System(chart.render(merged(SMALLEST, values)), {}, "plant")
    scraped = [pod for pod in system.pods if pod.is_long_running]
    assert len(scraped) == 2
    for pod in scraped:
        port = pod.port("metrics")
        assert port is not None
        found = {
            (namespace, name)
            for namespace in ("monitoring", "plant")
            for name in ("prometheus", "grafana")
            if ingress_allowed(system, pod, Peer(name, {"app.kubernetes.io/name": name}, namespace), port)
        }
        assert found == admitted
        assert not ingress_allowed(system, pod, Peer("a node"), port)


@pytest.mark.parametrize("peer", [{}, {"namespaceSelectors": {}}])
def test_a_peer_that_admits_everybody_by_mistake_is_rejected(chart: Chart, peer: Object) -> None:
    assert "metricsFrom" in chart.rejection(merged(SMALLEST, {"networkPolicy": {"metricsFrom": [peer]}}))


@pytest.mark.parametrize(
    "name",
    [
        "smallest",
        "mutual TLS",
        "secured",
        "outside",
        "every setting of the pods",
        "metrics by mutual TLS",
    ],
)
def test_check_pod_has_the_settings_and_files_of_a_worker(chart: Chart, name: str) -> None:
    objects = chart.render(MATRIX[name])
    worker = worker_pod(objects)
    (check,) = [pod for owner, pod in pods(objects).items() if owner.endswith("-test-check")]
    assert containers(check)[0]["command"] == ["glaim-stream", "check"]
    assert environment(containers(check)[0]) == environment(containers(worker)[0])
    assert check["spec"]["volumes"] == worker["spec"]["volumes"]
    assert containers(check)[0]["volumeMounts"] == containers(worker)[0]["volumeMounts"]
    assert check["metadata"]["annotations"]["helm.sh/hook"] == "test"


def run_check(port: int, count: int, host: str = "127.0.0.1", *more: str) -> subprocess.CompletedProcess[str]:
    script = CHECKOUT / "helm" / "glaim-stream" / "files" / "check_workers.py"
    command = [sys.executable, "-c", script.read_text(), host, str(port), str(count), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_worker_check_reads_real_health_pages() -> None:
    health = Health()
    port = serve_pages(health, "127.0.0.1", 0)
    run = run_check(port, 1)
    assert run.returncode == 1
    assert "127.0.0.1 is not ready" in run.stdout
    assert "Kafka has not confirmed yet" in run.stdout
    health.topics_are_there()
    health.joined()
    health.watch(lambda: {0: PartitionState.WHOLE})
    assert run_check(port, 1).returncode == 0
    missing = run_check(port, 2)
    assert (missing.returncode, "expected at least 2 workers, found 1" in missing.stdout) == (1, True)


def test_worker_check_reads_pages_by_tls_also_while_scrapers_must_show_a_certificate(tmp_path: Path) -> None:
    authority = signed("authority")
    certificate, key = signed("worker", authority).write(tmp_path)
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    health = Health()
    port = serve_pages(health, "127.0.0.1", 0, WatchedTls(METRICS, TlsFiles(tmp_path / "ca.crt", certificate, key)))
    assert "127.0.0.1 is not ready" in run_check(port, 1, "127.0.0.1", "https").stdout
    health.topics_are_there()
    health.joined()
    assert run_check(port, 1, "127.0.0.1", "https").returncode == 0
    assert "did not respond" in run_check(port, 1).stdout, "by HTTP"


def test_worker_check_reports_what_it_could_not_reach() -> None:
    assert "did not respond" in run_check(1, 1).stdout
    assert "cannot resolve" in run_check(1, 1, "no-such-host.invalid").stdout


def test_worker_check_gets_service_port_and_number_of_workers(chart: Chart) -> None:
    objects = chart.render(merged(SMALLEST, {"metrics": {"port": 9999}, "worker": {"replicas": 3}}))
    (test,) = [pod for owner, pod in pods(objects).items() if owner.endswith("-test-workers")]
    service = of_kind(objects, "Service", "worker")["metadata"]["name"]
    assert containers(test)[0]["command"][3:] == [service, "9999", "3"]
    (test,) = [pod for owner, pod in pods(chart.render(MATRIX["metrics by TLS"])).items() if "-test-workers" in owner]
    assert containers(test)[0]["command"][3:] == [service, "9464", "2", "https"]
