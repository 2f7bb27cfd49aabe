"""The worker's pod: its variables are read as settings, and its files are read by the worker's code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from deploy.cache import CHECKOUT
from glaim_stream.core.catalogue import read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import Settings, read_settings
from tests.helm.matrix import APIS, CATALOGUE, CONTRACT, MATRIX, OUTSIDE, SECURED, SMALLEST, TRITON_SECURED, merged
from tests.helm.rendered import Object, environment, worker_pod

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

pytestmark = pytest.mark.timeout(1800)

ALL_SECURED_BY_TOKEN = merged(
    merged(SMALLEST, merged(SECURED, TRITON_SECURED)),
    {"kafka": {"sasl": {"mechanism": "OAUTHBEARER", "tokenKey": "jwt"}}},
)

every_combination = pytest.mark.parametrize("name", MATRIX)


def variables_of(objects: list[Object]) -> dict[str, Object]:
    return environment(worker_pod(objects)["spec"]["containers"][0])


def secret_of(objects: list[Object], path: str) -> tuple[str, str]:
    """Name of the Secret and key behind a file of the worker."""
    pod = worker_pod(objects)["spec"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if path.startswith(each["mountPath"] + "/")]
    (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    (item,) = [each for each in volume["secret"]["items"] if f"{mount['mountPath']}/{each['path']}" == path]
    return volume["secret"]["secretName"], item["key"]


def from_pod(objects: list[Object], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings that a worker in this pod reads."""
    for name, variable in variables_of(objects).items():
        monkeypatch.setenv(name, variable.get("value", f"from {next(iter(variable.get('valueFrom', {'': 0})))}"))
    return read_settings()


@every_combination
def test_every_variable_is_a_setting_of_the_worker(chart: Chart, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = chart.render(MATRIX[name], APIS.get(name, ()))
    names = set(variables_of(objects)) - {"TZ"}
    assert names <= {f"GLAIM_{field.upper()}" for field in Settings.model_fields}
    from_pod(objects, monkeypatch)


def test_every_setting_of_the_worker_has_a_value_in_the_chart(chart: Chart) -> None:
    names = set(variables_of(chart.render(merged(MATRIX["mutual TLS"], SECURED))))
    names |= set(variables_of(chart.render(ALL_SECURED_BY_TOKEN)))
    names |= set(variables_of(chart.render(MATRIX["the page"])))
    names |= set(variables_of(chart.render(MATRIX["closed forms with probes"])))
    names |= set(variables_of(chart.render(MATRIX["metrics by mutual TLS"])))
    missing = {f"GLAIM_{field.upper()}" for field in Settings.model_fields} - names
    assert not missing, "give it a value in values.yaml and a line in _environment.tpl"


@pytest.mark.parametrize(
    ("worker", "share"),
    [
        ({}, 0.05), ({"imputer": "gaussian"}, 0.0), ({"imputer": "gaussian", "scoreShare": 0.1}, 0.1),
        ({"scoreShare": 0}, 0.0),
    ],
)  # fmt: skip
def test_the_share_of_probes_follows_the_imputer_unless_it_is_given(
    chart: Chart, worker: dict[str, object], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = {"enabled": "imputer" not in worker}
    objects = chart.render(merged(SMALLEST, {"triton": triton, "worker": worker}))
    assert from_pod(objects, monkeypatch).probed_share == share


def test_defaults_equal_those_of_the_worker_with_two_documented_exceptions(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = Settings().model_dump()
    settings = from_pod(chart.render(SMALLEST), monkeypatch).model_dump()
    differing = {name for name in defaults if settings[name] != defaults[name]}
    given = {"kafka", "triton", "instance_id", "catalogue", "model_repository"}
    assert differing - given == {"replication_factor", "kafka_extra"}


def test_values_reach_the_worker(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = chart.render(merged(SMALLEST, SECURED))
    settings = from_pod(objects, monkeypatch)
    assert settings.kafka == "kafka-0:9092,kafka-1:9092"
    assert settings.max_message_bytes == 10_000_000
    assert settings.topics[2:5] == ("unusable", "belated", "dark")
    assert settings.kafka_extra == {
        "session_timeout_ms": 45_000, "linger_ms": 20, "max_poll_records": 1_000_000, "compression_type": "lz4",
    }  # fmt: skip
    assert (settings.security_protocol, settings.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    variables = variables_of(objects)
    assert variables["GLAIM_SASL_USERNAME"]["valueFrom"] == {"secretKeyRef": {"name": "kafka-login", "key": "username"}}
    assert secret_of(objects, variables["GLAIM_SASL_SECRET_FILE"]["value"]) == ("kafka-login", "password")
    assert variables["GLAIM_INSTANCE_ID"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_the_page_needs_a_token_in_the_cluster(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    assert from_pod(chart.render(SMALLEST), monkeypatch).page_address is None, "off by default"
    objects = chart.render(MATRIX["the page"])
    settings = from_pod(objects, monkeypatch)
    assert settings.page_address == ("0.0.0.0", 9465)
    assert secret_of(objects, str(settings.page_token_file)) == ("page", "viewers")
    ports = worker_pod(objects)["spec"]["containers"][0]["ports"]
    assert {"name": "page", "containerPort": 9465, "protocol": "TCP"} in ports


def test_secrets_for_triton_and_a_token_for_kafka_are_files_of_the_worker(chart: Chart) -> None:
    objects = chart.render(ALL_SECURED_BY_TOKEN)
    variables = variables_of(objects)
    assert variables["GLAIM_TRITON"]["value"].startswith("grpcs://")
    assert variables["GLAIM_TRITON_TOKEN_HEADER"]["value"] == "authorization"
    for name, secret in (
        ("GLAIM_TRITON_CA_FILE", ("triton-ca", "ca.crt")),
        ("GLAIM_TRITON_CERT_FILE", ("triton-worker", "tls.crt")),
        ("GLAIM_TRITON_KEY_FILE", ("triton-worker", "tls.key")),
        ("GLAIM_TRITON_TOKEN_FILE", ("triton-token", "token")),
        ("GLAIM_SASL_SECRET_FILE", ("kafka-login", "jwt")),
    ):
        assert secret_of(objects, variables[name]["value"]) == secret
    assert "GLAIM_SASL_USERNAME" not in variables


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol"),
    [(False, False, "PLAINTEXT"), (True, False, "SSL"), (False, True, "SASL_PLAINTEXT"), (True, True, "SASL_SSL")],
)
def test_protocol_follows_from_tls_and_sasl(chart: Chart, tls: bool, sasl: bool, protocol: str) -> None:
    kafka = {"tls": {"enabled": tls}, "sasl": {"enabled": sasl, "existingSecret": "login" if sasl else ""}}
    variables = variables_of(chart.render(merged(SMALLEST, {"kafka": kafka})))
    assert variables["GLAIM_SECURITY_PROTOCOL"]["value"] == protocol


def test_worker_reads_the_given_catalogue_and_contract(chart: Chart, tmp_path: Path) -> None:
    objects = chart.render(merged(SMALLEST, OUTSIDE))
    maps = {item["metadata"]["name"]: item["data"] for item in objects if item["kind"] == "ConfigMap"}
    for volume in worker_pod(objects)["spec"]["volumes"]:
        for item in volume.get("configMap", {}).get("items", []):  # as the kubelet writes them
            target = tmp_path / volume["name"] / item["path"]
            target.parent.mkdir(parents=True)
            target.write_text(maps[volume["configMap"]["name"]][item["key"]])
    catalogue = read_catalogue(tmp_path / "catalogue" / "groups.yaml")
    assert catalogue == read_catalogue(CATALOGUE)
    contract = read_contract(tmp_path / "models" / "plant-pump")
    assert contract == read_contract(CONTRACT)
    catalogue.models[0].require_contract(contract)


def test_app_version_equals_the_package_version() -> None:
    chart = yaml.safe_load((CHECKOUT / "helm" / "glaim-stream" / "Chart.yaml").read_text())
    assert chart["appVersion"] == tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
