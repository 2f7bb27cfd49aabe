"""Triton's pod: resources, arguments, probes, placement, and its Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helm.matrix import MATRIX, SMALLEST, TRITON_SECURED, Values, merged
from tests.helm.rendered import Object, environment, of_kind, triton_pod, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)


def triton(chart: Chart, changes: Values) -> Object:
    container: Object = triton_pod(chart.render(merged(SMALLEST, {"triton": changes})))["spec"]["containers"][0]
    return container


def test_gpu_is_added_to_requests_and_limits(chart: Chart) -> None:
    resources = triton(chart, {})["resources"]
    assert resources == {
        "requests": {"cpu": "1", "memory": "3Gi", "nvidia.com/gpu": 1},
        "limits": {"memory": "6Gi", "nvidia.com/gpu": 1},
    }
    sliced = triton(chart, {"gpu": {"resource": "nvidia.com/mig-1g.10gb", "count": 2}})["resources"]
    assert sliced["requests"]["nvidia.com/mig-1g.10gb"] == sliced["limits"]["nvidia.com/mig-1g.10gb"] == 2
    assert "nvidia.com/gpu" not in sliced["limits"]


def test_cpu_device_requests_no_gpu_and_selects_the_cpu_configuration(chart: Chart) -> None:
    container = triton(chart, {"device": "cpu"})
    assert not any("/" in name for part in container["resources"].values() for name in part)
    assert "--model-config-name=cpu" in container["args"]
    assert environment(container)["OMP_NUM_THREADS"]["value"] == "2"
    assert "--model-config-name=cpu" not in triton(chart, {})["args"]


def test_repository_is_polled_only_if_versions_can_be_added(chart: Chart) -> None:
    assert "--model-control-mode=none" in triton(chart, {})["args"]
    claimed = triton_pod(chart.render(MATRIX["existing objects"]))["spec"]["containers"][0]["args"]
    assert {"--model-control-mode=poll", "--repository-poll-secs=30"} <= set(claimed)


def test_http_with_the_admin_api_is_not_reachable_from_outside_the_pod(chart: Chart) -> None:
    container = triton(chart, {})
    assert "--http-address=127.0.0.1" in container["args"]
    assert {port["name"] for port in container["ports"]} == {"grpc", "metrics"}
    assert "command" not in container, "the entrypoint of the image disables the admin API of gRPC"
    service = of_kind(chart.render(SMALLEST), "Service", "triton")
    assert {port["name"] for port in service["spec"]["ports"]} == {"grpc", "metrics"}


def test_triton_serves_the_repository_whose_contracts_the_workers_read(chart: Chart) -> None:
    for name in ("smallest", "existing objects"):
        objects = chart.render(MATRIX[name])
        paths = {
            environment(pod["spec"]["containers"][0])["GLAIM_MODEL_REPOSITORY"]["value"]
            for pod in (worker_pod(objects), triton_pod(objects))
        }
        assert len(paths) == 1


def test_workers_use_the_headless_service(chart: Chart) -> None:
    objects = chart.render(SMALLEST)
    service = of_kind(objects, "Service", "triton")
    assert service["spec"]["clusterIP"] == "None"
    address = environment(worker_pod(objects)["spec"]["containers"][0])["GLAIM_TRITON"]["value"]
    port = next(port["port"] for port in service["spec"]["ports"] if port["name"] == "grpc")
    assert address == f"{service['metadata']['name']}:{port}"


def test_exit_timeout_fits_into_the_grace_period(chart: Chart) -> None:
    container = triton(chart, {"terminationGracePeriodSeconds": 90})
    assert container["lifecycle"]["preStop"] == {"exec": {"command": ["sleep", "5"]}}
    assert "--exit-timeout-secs=80" in container["args"]


def test_every_probe_is_a_real_inference_and_liveness_is_slower_than_readiness(chart: Chart) -> None:
    container = triton(chart, {})
    probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    for probe in probes:
        command = probe["exec"]["command"]
        assert command[:3] == ["python3", "/opt/glaim/probe.py", "--timeout"]
        assert int(command[3]) == probe["timeoutSeconds"] - 1
    assert [probe["exec"]["command"][4:] for probe in probes] == [["--live"], ["--live"], []]
    (changing,) = [
        each["readinessProbe"]["exec"]["command"][4:]
        for each in triton_pod(chart.render(MATRIX["existing objects"]))["spec"]["containers"]
        if each["name"] == "triton"
    ]
    assert changing == ["--patience", "120"]
    patience = [probe["periodSeconds"] * probe["failureThreshold"] for probe in probes]
    assert patience[0] >= 300
    assert patience[1] > 3 * patience[2]


def test_shared_memory_is_mounted_if_a_size_is_set(chart: Chart) -> None:
    pod = triton_pod(chart.render(merged(SMALLEST, {"triton": {"sharedMemory": "256Mi"}})))["spec"]
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}} in pod["volumes"]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("hosts", ["ScheduleAnyway", "DoNotSchedule", ""])
@pytest.mark.parametrize("zones", ["ScheduleAnyway", "DoNotSchedule", ""])
def test_spread_constraints_follow_the_values(chart: Chart, hosts: str, zones: str) -> None:
    values = {"triton": {"spread": {"hosts": hosts, "zones": zones}}}
    constraints = triton_pod(chart.render(merged(SMALLEST, values)))["spec"].get("topologySpreadConstraints", [])
    expected = {"topology.kubernetes.io/zone": zones, "kubernetes.io/hostname": hosts}
    assert {item["topologyKey"]: item["whenUnsatisfiable"] for item in constraints} == {
        key: how for key, how in expected.items() if how
    }


def test_external_triton_replaces_the_one_of_the_release(chart: Chart) -> None:
    objects = chart.render(MATRIX["outside"])
    assert not [item for item in objects if "triton" in item["metadata"]["name"]]
    address = environment(worker_pod(objects)["spec"]["containers"][0])["GLAIM_TRITON"]["value"]
    assert address == "triton.models:8001"


def test_tls_and_the_certificates_of_clients_are_served(chart: Chart) -> None:
    pod = triton_pod(chart.render(merged(SMALLEST, TRITON_SECURED)))["spec"]
    container = pod["containers"][0]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "triton-tls"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "triton-tls"]
    assert volume["secret"]["secretName"] == "triton-server"
    mounted = {f"{mount['mountPath']}/{item['path']}" for item in volume["secret"]["items"]}
    options = dict(argument.split("=", 1) for argument in container["args"])
    assert (options["--grpc-use-ssl"], options["--grpc-use-ssl-mutual"]) == ("true", "true")
    assert {options[f"--grpc-{name}"] for name in ("server-cert", "server-key", "root-cert")} == mounted
