"""compose.yaml is valid for the specification's loader, and its files, ports, images and settings exist."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.bases import FILE, read_bases
from deploy.cache import CHECKOUT
from deploy.compose_spec import docker_compose, find_loader
from deploy.gotools import GoUnavailable
from deploy.release import IMAGES, version_of_checkout
from glaim_stream.core.settings import Settings

COMPOSE = CHECKOUT / "deploy" / "compose.yaml"
LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def loader() -> Path:
    try:
        return find_loader()
    except GoUnavailable as error:
        pytest.skip(str(error))


def load(loader: Path, text: str, folder: Path) -> dict[str, Any]:
    """The project that a text stands for in the place of compose.yaml.

    The loader's program knows no variables, so those of deploy/.env are put in here, as `docker compose` does.
    """
    bases = read_bases()
    file = folder / "compose.yaml"
    file.write_text(re.sub(r"\$\{(\w+_IMAGE):\?[^}]*\}", lambda found: bases[found[1]].reference, text))
    command = [loader, "-format", "json", file]
    run = subprocess.run(command, cwd=COMPOSE.parent, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ValueError(run.stderr)
    return dict(json.loads(run.stdout))


@pytest.fixture(scope="module")
def project(loader: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return load(loader, COMPOSE.read_text(), tmp_path_factory.mktemp("compose"))


@pytest.fixture(scope="module")
def services(project: dict[str, Any]) -> dict[str, Any]:
    return dict(project["services"])


def test_loader_rejects_unknown_fields(loader: Path, tmp_path: Path) -> None:
    """Otherwise the other tests would prove nothing."""
    spoilt = COMPOSE.read_text().replace("mem_limit: 256m", "memory_limit: 256m", 1)
    with pytest.raises(ValueError, match="memory_limit"):
        load(loader, spoilt, tmp_path)


def test_docker_compose_accepts_it(tmp_path: Path) -> None:
    """`docker compose config`, which also reads deploy/.env by itself; the other tests use its loader."""
    program = docker_compose()
    if not program.is_file():
        pytest.skip("docker compose is not built: python -m deploy.compose_spec --docker-compose")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for profile in ("cpu", "gpu"):
        command = [program, "-f", COMPOSE, "--profile", profile, "config", "--format", "json"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")
        found = json.loads(run.stdout)["services"]
        assert f"triton-{profile}" in found
        images = {service["image"] for service in found.values() if "build" not in service}
        assert images <= {base.reference for base in read_bases().values()}
    spoilt = tmp_path / "compose.yaml"
    spoilt.write_text(COMPOSE.read_text().replace("mem_limit: 256m", "memory_limit: 256m", 1))
    command = [program, "-f", spoilt, "--env-file", FILE, "config", "--quiet"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "memory_limit" in run.stderr


def test_all_services_and_volumes_exist(project: dict[str, Any], services: dict[str, Any]) -> None:
    assert set(services) == {
        "kafka", "topics", "triton-cpu", "triton-gpu", "worker", "producer", "prometheus", "alertmanager", "grafana",
    }  # fmt: skip
    assert {name: each["profiles"] for name, each in services.items() if "profiles" in each} == {
        "triton-cpu": ["cpu"], "triton-gpu": ["gpu"],
    }  # fmt: skip
    assert project["name"] == "glaim-stream"


def test_every_container_is_hardened_and_limited(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "/tmp" in service["tmpfs"], name
        assert service["mem_limit"], name
        assert service["cpus"] <= 2, name
        assert service["logging"]["options"]["max-size"], name
        assert not {"privileged", "cap_add", "network_mode", "pid", "user"} & set(service), name
        assert "restart" in service, name
        if name not in ("topics", "producer"):  # one exits, the other serves nothing to check
            assert service["healthcheck"]["test"][0] == "CMD", name


def test_ports_are_published_on_loopback_and_unique(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in published} == {LOOPBACK}
    numbers = [port["published"] for port in published]
    assert len(numbers) == len(set(numbers))
    assert sorted(numbers) == ["3000", "9090", "9092", "9093"]


def test_images_come_from_the_one_file_or_are_built_here(services: dict[str, Any]) -> None:
    bases = read_bases()
    version = version_of_checkout()
    for name, service in services.items():
        if service["image"].startswith("glaim-stream/"):
            assert service["image"].rpartition(":")[2] == version
            assert Path(service["build"]["context"]) == CHECKOUT
            assert (CHECKOUT / service["build"]["dockerfile"]).is_file()
            image = service["image"].split("/")[1].split(":")[0]
            assert service["build"]["dockerfile"].split("/")[2] == image
            variable = IMAGES[image][0]
            assert service["build"]["args"] == {variable: bases[variable].reference}, name
        else:
            assert "build" not in service
            assert service["image"] in {base.reference for base in bases.values()}, name
    assert not re.search(r"^ *image: (?!glaim-stream/|\$\{)", COMPOSE.read_text(), re.MULTILINE)
    assert FILE.parent == COMPOSE.parent  # where compose looks for it


def test_kafka_version_equals_that_of_the_tests() -> None:
    pinned = re.search(r":kafka_2\.13:(\S+)", (CHECKOUT / "deploy" / "kafka-artifacts.txt").read_text())
    assert pinned is not None
    assert read_bases()["KAFKA_IMAGE"].tagged == f"apache/kafka:{pinned[1].split()[0]}"


def mounts(services: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [mount for service in services.values() for mount in service.get("volumes", []) if mount["type"] == kind]


def test_mounted_files_exist_and_are_read_only(project: dict[str, Any], services: dict[str, Any]) -> None:
    bound = mounts(services, "bind")
    assert bound
    for mount in bound:
        source = Path(mount["source"])
        assert source.exists(), source
        assert source.is_relative_to(CHECKOUT)
        assert mount["read_only"] is True, source
    files = {str(Path(mount["source"]).relative_to(CHECKOUT)) for mount in bound}
    # The rules and the dashboard of the chart, not copies.
    assert {"helm/glaim-stream/files/rules.yaml", "helm/glaim-stream/files/dashboard.json"} <= files
    assert {mount["source"] for mount in mounts(services, "volume")} == set(project["volumes"])


def test_dependencies_exist_and_can_be_met(services: dict[str, Any]) -> None:
    waited = [
        (name, other, each)
        for name, service in services.items()
        for other, each in service.get("depends_on", {}).items()
    ]
    assert waited
    for name, other, each in waited:
        assert other in services, f"{name} waits for {other}"
        if each["condition"] == "service_healthy":
            assert "healthcheck" in services[other]
        if each["condition"] == "service_completed_successfully":
            assert services[other]["restart"].startswith("on-failure")
        # A service with a profile may be disabled, so no dependency on it may be required.
        assert each["required"] is not bool(services[other].get("profiles"))


def test_settings_exist(services: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    known = {f"GLAIM_{name.upper()}" for name in Settings.model_fields}
    for name in ("worker", "producer", "topics"):
        environment = services[name]["environment"]
        assert set(environment) <= known, name
        with monkeypatch.context() as patched:
            for variable in [variable for variable in os.environ if variable.startswith("GLAIM_")]:
                patched.delenv(variable)
            for variable, value in environment.items():
                patched.setenv(variable, value)
            settings = Settings()
        assert settings.kafka == "kafka:29092"
    assert services["worker"]["environment"]["GLAIM_TRITON"] == "triton:8001"
    for name in ("triton-cpu", "triton-gpu"):
        assert services[name]["networks"]["default"]["aliases"] == ["triton"]


def test_prometheus_targets_are_services(services: dict[str, Any]) -> None:
    configuration = yaml.safe_load((CHECKOUT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    names = set(services) | {"triton"}
    static = [
        target
        for job in configuration["scrape_configs"] + configuration["alerting"]["alertmanagers"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    ]
    looked_up = [
        f"{name}:{group['port']}"
        for job in configuration["scrape_configs"]
        for group in job.get("dns_sd_configs", [])
        for name in group["names"]
    ]
    assert {"worker:9464", "triton:8002", "alertmanager:9093"} <= {*static, *looked_up}
    assert all(target.rpartition(":")[0] in names | {"localhost"} for target in (*static, *looked_up))
    # The files that it reads are mounted at these paths.
    mounted = {mount["target"] for mount in services["prometheus"]["volumes"]}
    for pattern in configuration["rule_files"]:
        assert any(Path(target).match(pattern) for target in mounted), pattern


def test_grafana_has_no_login_and_anonymous_read_access(services: dict[str, Any]) -> None:
    environment = services["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
    assert environment["GF_AUTH_BASIC_ENABLED"] == "false"
    mounted = {mount["target"] for mount in services["grafana"]["volumes"]}
    for file in (CHECKOUT / "deploy" / "grafana" / "provisioning" / "dashboards").glob("*.y*ml"):
        for provider in yaml.safe_load(file.read_text())["providers"]:
            folder = provider["options"]["path"]
            assert any(Path(target).is_relative_to(folder) for target in mounted), folder
    sources = list((CHECKOUT / "deploy" / "grafana" / "provisioning" / "datasources").glob("*.y*ml"))
    urls = {source["url"] for file in sources for source in yaml.safe_load(file.read_text())["datasources"]}
    assert "http://prometheus:9090" in urls
