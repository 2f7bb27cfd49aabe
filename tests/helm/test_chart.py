"""The chart as helm renders it: what it refuses, and whether what it makes fits together."""

from __future__ import annotations

import copy
import re
import tomllib
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deploy.cache import CHECKOUT
from glaim_stream.catalogue import read_catalogue
from glaim_stream.contract import read_contract
from glaim_stream.settings import Settings, read_settings

if TYPE_CHECKING:
    from conftest import Chart

# The first test may have to build helm; `python -m deploy.helm --fetch-only` does it beforehand.
pytestmark = pytest.mark.timeout(1800)

CHART = CHECKOUT / "helm" / "glaim-stream"
CATALOGUE = CHECKOUT / "deploy" / "catalogues" / "plant.yaml"
CONTRACT = CHECKOUT / "model_repo" / "plant-pump" / "contract.json"
Object = dict[str, Any]

SMALLEST: Object = {
    "kafka": {"bootstrapServers": "kafka-0:9092,kafka-1:9092"},
    "triton": {"address": "triton:8001"},
    "worker": {"image": {"repository": "registry.example/glaim-stream"}},
    "catalogue": {"inline": CATALOGUE.read_text()},
    "models": {"contracts": {"plant-pump": CONTRACT.read_text()}},
}


def merged(values: Object, changes: Object) -> Object:
    """`changes` over `values`, as helm lays one values file over another."""
    result = copy.deepcopy(values)
    for key, change in changes.items():
        result[key] = merged(result.get(key) or {}, change) if isinstance(change, dict) else change
    return result


def without(path: str) -> Object:
    """The smallest values less one."""
    values = copy.deepcopy(SMALLEST)
    *parents, last = path.split(".")
    del reduce(lambda inner, key: inner[key], parents, values)[last]
    return values


SECURED: Object = {
    "kafka": {
        "deadLetterTopic": "unusable",
        "lateTopic": "belated",
        "outageTopic": "dark",
        "maxMessageBytes": 10_000_000,
        "tls": {"enabled": True, "existingSecret": "kafka-ca", "caKey": "root.pem"},
        "sasl": {"enabled": True, "existingSecret": "kafka-login"},
    },
}
MATRIX: dict[str, Object] = {
    "smallest": {},
    "secured": SECURED,
    "TLS by the image's authorities": {"kafka": {"tls": {"enabled": True}}},
    "everything from elsewhere": {
        "fullnameOverride": "a-name-that-is-much-too-long-for-the-label-that-a-statefulset-makes",
        "imagePullSecrets": [{"name": "pull"}],
        "catalogue": {"inline": "", "existingConfigMap": "our-groups", "existingConfigMapKey": "plant.yaml"},
        "models": {"contracts": None, "existingClaim": "models", "subPath": "model_repo"},
        "serviceAccount": {"create": False, "name": "ours"},
        "podDisruptionBudget": {"enabled": False},
        "global": {"of": "a parent chart"},
    },
    "no model": {
        "triton": {"address": ""},
        "models": {"contracts": None},
        "worker": {"imputer": "interpolation"},
    },
    "every knob of the pod": {
        "metrics": {"port": 9999, "service": {"annotations": {"prometheus.io/scrape": "true"}}},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "serviceAccount": {"annotations": {"role": "reader"}},
        "worker": {
            "replicas": 12,
            "image": {"digest": "sha256:" + "0" * 64},
            "runAsUser": None,
            "runAsGroup": None,
            "spreadOverNodes": False,
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "podAnnotations": {"a": "b"},
            "podLabels": {"team": "plant"},
            "nodeSelector": {"pool": "streams"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
        },
    },
}
every_combination = pytest.mark.parametrize("changes", MATRIX.values(), ids=MATRIX)


def of_kind(objects: list[Object], kind: str) -> Object:
    found = [item for item in objects if item["kind"] == kind]
    assert len(found) == 1, f"expected one {kind}, found {len(found)}"
    return found[0]


def pod_of(objects: list[Object]) -> Object:
    template: Object = of_kind(objects, "StatefulSet")["spec"]["template"]
    return template


def environment(objects: list[Object]) -> dict[str, Object]:
    variables = pod_of(objects)["spec"]["containers"][0]["env"]
    names = [variable["name"] for variable in variables]
    assert len(names) == len(set(names)), "a variable is set twice"
    return {variable["name"]: variable for variable in variables}


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("changes", [{}, SECURED], ids=["smallest", "secured"])
def test_helm_lint_has_nothing_to_say(chart: Chart, changes: Object) -> None:
    run = chart.run(merged(SMALLEST, changes), "lint")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("kafka.bootstrapServers", "kafka.bootstrapServers is required: host:port of one or more brokers"),
        ("triton.address", "triton.address is required while worker.imputer is triton"),
        ("worker.image.repository", "worker.image.repository is required: no image is published"),
        ("catalogue.inline", "A catalogue is required: catalogue.inline"),
        ("models.contracts", "worker.imputer triton needs the models' contracts"),
    ],
)
def test_what_is_missing_is_asked_for_with_a_sentence(chart: Chart, path: str, sentence: str) -> None:
    assert sentence in chart.refusal(without(path))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kafka": {"bootstrapServers": "kafka"}}, 'must be host:port, comma separated, found "kafka"'),
        ({"triton": {"address": "http://triton:8001"}}, "triton.address must be host:port"),
        ({"kafka": {"sasl": {"enabled": True}}}, "kafka.sasl.existingSecret is required"),
        ({"kafka": {"sasl": {"existingSecret": "s"}}}, "kafka.sasl.enabled is false"),
        ({"kafka": {"tls": {"existingSecret": "s"}}}, "kafka.tls.enabled is false"),
        ({"catalogue": {"existingConfigMap": "c"}}, "Either catalogue.inline or catalogue.existingConfigMap"),
        ({"catalogue": {"inline": "groups: []"}}, "found no models in it"),
        ({"models": {"existingClaim": "c"}}, "Either models.contracts or models.existingClaim"),
        ({"models": {"subPath": "p"}}, "models.subPath is a folder of models.existingClaim"),
        ({"models": {"contracts": {"plant-pump": "[]"}}}, "models.contracts.plant-pump must be the text"),
        ({"catalogue": {"inline": "models: [{name: other}]"}}, 'names model "other", of which models.contracts'),
        ({"worker": {"imputer": "local"}}, "worker.imputer local reads the weights itself"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is required"),
        ({"worker": {"extraEnv": [{"name": "GLAIM_KAFKA", "value": "x:1"}]}}, "extraEnv sets GLAIM_KAFKA"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_sentence(chart: Chart, changes: Object, sentence: str) -> None:
    assert sentence in chart.refusal(merged(SMALLEST, changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kafak": {}}, "kafak"),
        ({"kafka": {"bootstrapServer": "kafka:9092"}}, "bootstrapServer"),
        ({"worker": {"probes": {"liveness": {"periodSecond": 3}}}}, "periodSecond"),
        ({"worker": {"replicas": "two"}}, "replicas"),
        ({"worker": {"imputer": "tritn"}}, "imputer"),
        ({"worker": {"runAsUser": 0}}, "runAsUser"),
        ({"metrics": {"port": 70_000}}, "port"),
        ({"kafka": {"sasl": {"password": "never in values"}}}, "password"),
    ],
)
def test_the_schema_refuses_a_typo_and_names_it(chart: Chart, changes: Object, named: str) -> None:
    assert named in chart.refusal(merged(SMALLEST, changes))


# ------------------------------------------------------------------------------------- what is made fits together


@every_combination
def test_selectors_match_the_pods(chart: Chart, changes: Object) -> None:
    objects = chart.render(merged(SMALLEST, changes))
    stateful_set, service = of_kind(objects, "StatefulSet"), of_kind(objects, "Service")
    labels = pod_of(objects)["metadata"]["labels"].items()
    selectors = [stateful_set["spec"]["selector"]["matchLabels"], service["spec"]["selector"]]
    selectors += [item["spec"]["selector"]["matchLabels"] for item in objects if item["kind"] == "PodDisruptionBudget"]
    spread = pod_of(objects)["spec"].get("topologySpreadConstraints", [])
    selectors += [constraint["labelSelector"]["matchLabels"] for constraint in spread]
    assert all(selector and selector.items() <= labels for selector in selectors)
    assert stateful_set["spec"]["serviceName"] == service["metadata"]["name"]


@every_combination
def test_ports_and_probes_meet_the_port_the_worker_listens_on(chart: Chart, changes: Object) -> None:
    objects = chart.render(merged(SMALLEST, changes))
    container = pod_of(objects)["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"metrics": int(environment(objects)["GLAIM_METRICS_PORT"]["value"])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    (service_port,) = of_kind(objects, "Service")["spec"]["ports"]
    assert (service_port["targetPort"], service_port["port"]) == ("metrics", ports["metrics"])


@every_combination
def test_what_is_mounted_and_named_is_there(chart: Chart, changes: Object) -> None:
    objects = chart.render(merged(SMALLEST, changes))
    pod = pod_of(objects)["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert len(mounts) == len(pod["containers"][0]["volumeMounts"])
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    made = {item["metadata"]["name"]: item for item in objects if item["kind"] == "ConfigMap"}
    for volume in pod["volumes"]:
        source = volume.get("configMap")
        if source and source["name"] != "our-groups":
            assert {item["key"] for item in source["items"]} == set(made.pop(source["name"])["data"])
    assert not made, "a ConfigMap is made that nothing mounts"
    accounts = [item["metadata"]["name"] for item in objects if item["kind"] == "ServiceAccount"]
    assert pod["serviceAccountName"] in (accounts or ["ours"])
    variables = {name: variable.get("value", "") for name, variable in environment(objects).items()}
    for name in ("GLAIM_CATALOGUE", "GLAIM_SSL_CA_FILE"):
        assert name not in variables or str(Path(variables[name]).parent) in mounts.values()


@every_combination
def test_pods_keep_to_the_policy_restricted(chart: Chart, changes: Object) -> None:
    """Every rule of the Pod Security Standard `restricted` that can apply to a pod of Linux, and read-only roots."""
    pod = pod_of(chart.render(merged(SMALLEST, changes)))["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"} & set(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"].get("runAsUser") != 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "sysctls" not in pod["securityContext"]
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    assert all(set(volume) - {"name"} <= allowed for volume in pod["volumes"])
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert all("hostPort" not in port for port in container["ports"])
        writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        assert set(writable) <= {"/tmp", "/scratch"}
    assert pod["automountServiceAccountToken"] is False


@every_combination
def test_names_fit_and_everything_stands_in_the_namespace(chart: Chart, changes: Object) -> None:
    objects = chart.render(merged(SMALLEST, changes))
    for item in objects:
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", item["metadata"]["name"])
        assert item["metadata"]["namespace"] == "plant"
    # The label controller-revision-hash is the StatefulSet's name, a dash and ten digits.
    assert len(of_kind(objects, "StatefulSet")["metadata"]["name"]) <= 63 - 11


# ------------------------------------------------------------------------------------------- what the worker reads


def from_pod(objects: list[Object], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings that a worker of this pod would read."""
    for name, variable in environment(objects).items():
        monkeypatch.setenv(name, variable.get("value", f"from {next(iter(variable.get('valueFrom', {'': 0})))}"))
    return read_settings()


@every_combination
def test_every_variable_is_a_setting_of_the_worker(
    chart: Chart, changes: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = chart.render(merged(SMALLEST, changes))
    names = set(environment(objects)) - {"TZ"}
    assert names <= {f"GLAIM_{field.upper()}" for field in Settings.model_fields}
    from_pod(objects, monkeypatch)


def test_every_setting_of_the_worker_has_a_value_in_the_chart(chart: Chart) -> None:
    names = set(environment(chart.render(merged(SMALLEST, SECURED))))
    missing = {f"GLAIM_{field.upper()}" for field in Settings.model_fields} - names
    assert not missing, "give it a value in values.yaml and a line in _environment.tpl"


def test_defaults_are_the_workers_own_but_where_the_values_say_why(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Settings().model_dump()
    settings = from_pod(chart.render(SMALLEST), monkeypatch).model_dump()
    differing = {name for name in own if settings[name] != own[name]}
    given = {"kafka", "triton", "instance_id", "catalogue", "model_repository"}
    assert differing - given == {"replication_factor", "session_timeout_s"}


def test_values_reach_the_worker(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = chart.render(merged(SMALLEST, SECURED))
    settings = from_pod(objects, monkeypatch)
    assert settings.kafka == "kafka-0:9092,kafka-1:9092"
    assert settings.max_message_bytes == 10_000_000
    assert settings.topics[2:] == ("unusable", "belated", "dark")
    assert (settings.security_protocol, settings.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    variables = environment(objects)
    assert variables["GLAIM_SASL_PASSWORD"]["valueFrom"] == {"secretKeyRef": {"name": "kafka-login", "key": "password"}}
    assert variables["GLAIM_INSTANCE_ID"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol"),
    [(False, False, "PLAINTEXT"), (True, False, "SSL"), (False, True, "SASL_PLAINTEXT"), (True, True, "SASL_SSL")],
)
def test_the_protocol_follows_from_tls_and_sasl(chart: Chart, tls: bool, sasl: bool, protocol: str) -> None:
    kafka = {"tls": {"enabled": tls}, "sasl": {"enabled": sasl, "existingSecret": "login" if sasl else ""}}
    variables = environment(chart.render(merged(SMALLEST, {"kafka": kafka})))
    assert variables["GLAIM_SECURITY_PROTOCOL"]["value"] == protocol


def test_the_worker_reads_the_catalogue_and_the_contract_that_were_given(chart: Chart, tmp_path: Path) -> None:
    objects = chart.render(SMALLEST)
    maps = {item["metadata"]["name"]: item["data"] for item in objects if item["kind"] == "ConfigMap"}
    for volume in pod_of(objects)["spec"]["volumes"]:
        for item in volume.get("configMap", {}).get("items", []):  # as the kubelet lays them out
            target = tmp_path / volume["name"] / item["path"]
            target.parent.mkdir(parents=True)
            target.write_text(maps[volume["configMap"]["name"]][item["key"]])
    catalogue = read_catalogue(tmp_path / "catalogue" / "groups.yaml")
    assert catalogue == read_catalogue(CATALOGUE)
    contract = read_contract(tmp_path / "models" / "plant-pump")
    assert contract == read_contract(CONTRACT)
    catalogue.models[0].require_contract(contract)


def test_another_catalogue_makes_other_pods_and_another_image_does_not_change_the_selector(chart: Chart) -> None:
    first = chart.render(SMALLEST)
    other = chart.render(merged(SMALLEST, {"catalogue": {"inline": CATALOGUE.read_text() + "\nmax_ahead_s: 60\n"}}))
    newer = chart.render(merged(SMALLEST, {"worker": {"image": {"tag": "9.9.9"}}}))
    assert pod_of(first)["metadata"]["annotations"] != pod_of(other)["metadata"]["annotations"]
    selectors = [of_kind(objects, "StatefulSet")["spec"]["selector"] for objects in (first, newer)]
    assert selectors[0] == selectors[1]


def test_the_image_is_the_one_named_by_digest_then_tag_then_version(chart: Chart) -> None:
    def image(**changes: str) -> str:
        pod = pod_of(chart.render(merged(SMALLEST, {"worker": {"image": changes}})))
        return str(pod["spec"]["containers"][0]["image"])

    digest = "sha256:" + "a" * 64
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    assert image() == f"registry.example/glaim-stream:{version}"
    assert image(tag="1.2.3") == "registry.example/glaim-stream:1.2.3"
    assert image(tag="1.2.3", digest=digest) == f"registry.example/glaim-stream@{digest}"


# ------------------------------------------------------------------------------------------------- what is written


def leaves(values: Object, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in values.items():
        found += leaves(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [prefix + name]
    return found


def test_the_schema_knows_every_value_and_refuses_all_others() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def check(schema: Object, values: Object, path: str) -> None:
        assert schema["additionalProperties"] is False, path
        assert set(values) == set(schema["properties"]) - {"global", "initialDelaySeconds", "claims"}, path
        for name, value in values.items():
            if "properties" in schema["properties"][name]:
                check(schema["properties"][name], value, f"{path}.{name}")

    check(schema, values, "values")


def test_the_readme_tells_every_group_of_values_and_no_value_that_is_not_there() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    readme = (CHART / "README.md").read_text()
    known = set(leaves(values))
    told = set(re.findall(rf"`((?:{'|'.join(values)})\.[A-Za-z.]+)`", readme))
    prefixes = {name[: match.start()] for name in known for match in re.finditer(r"\.", name)}
    assert told <= known | prefixes, told - known - prefixes
    assert {name.split(".")[0] for name in told} >= {"kafka", "triton", "catalogue", "models", "metrics", "worker"}
