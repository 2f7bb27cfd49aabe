"""Values that the chart rejects: contradictions with a message that names the value, typos by the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.chart_schema import GONE
from glaim_stream.core.gone_settings import gone_values
from tests.helm.matrix import MATRIX, OUTSIDE, SMALLEST, Values, merged

if TYPE_CHECKING:
    from tests.helm.conftest import Chart

# The first test may have to build helm; `python -m deploy.helm --fetch-only` does it beforehand.
pytestmark = pytest.mark.timeout(1800)

TRAINED: Values = {"training": {"enabled": True, "model": "plant-pump", "config": "name = 'again'"}}
BY_TLS: Values = {"metrics": {"tls": {"enabled": True, "existingSecret": "s"}}}
IN_A_VOLUME = merged(TRAINED, {"models": {"source": "claim"}})

LEARNING_MEMORY: Values = {"worker": {"resources": {"requests": {"memory": "3Gi"}, "limits": {"memory": "4Gi"}}}}
LEARNS: Values = {"catalogue": {"inline": "models: [{name: pumps, learn: true}]"}, "models": {"source": "claim"}}
LEARNS = merged(LEARNS, LEARNING_MEMORY)

CHART = CHECKOUT / "helm" / "glaim-stream"
KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"


@pytest.mark.slow  # quicker: chart_checks/test_every_rule.py renders the same sets
@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_helm_lint_passes(chart: Chart, values: Values) -> None:
    if "keda" in str(values):
        return  # `helm lint` has no option for the APIs that a cluster serves
    run = chart.run(values, "lint")
    assert run.returncode == 0, run.stdout + run.stderr


def test_only_kafka_and_a_registry_are_required(chart: Chart) -> None:
    missing = chart.rejection({})
    assert "kafka.bootstrapServers is required: host:port of one or more brokers" in missing
    assert "Without it glaim-stream/worker, glaim-stream/triton would come from a public registry" in missing
    kinds = [item["kind"] for item in chart.render(SMALLEST)]
    assert {"StatefulSet", "Deployment", "Service", "PodDisruptionBudget", "ServiceAccount"} <= set(kinds)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (merged(LEARNS, {"models": {"source": "image"}}), "Set models.source to claim."),
        (merged(LEARNING_MEMORY, {"worker": {"learns": True}}), "worker.learns is true but models.source is image"),
        (merged(LEARNS, {"models": {"subPath": "/"}}), "learn: true but models.subPath is empty: forms that are"),
        (merged(LEARNS, {"models": {"trust": {"key": KEY}}}), "learn: true but models.trust.key is set: a form that"),
        (
            merged(LEARNS, {"worker": {"resources": {"limits": {"memory": "4095Mi"}}}}),
            "worker.resources.limits.memory is 4095Mi: set it to at least 4Gi, because a learning takes up to 2Gi",
        ),
        (
            merged(LEARNS, {"worker": {"resources": {"requests": {"memory": "3G"}}}}),
            "worker.resources.requests.memory is 3G: set it to at least 3Gi",
        ),
        ({"kafka": {"bootstrapServers": "kafka"}}, 'must be host:port, separated by commas, found "kafka"'),
        ({"kafka": {"sasl": {"enabled": True}}}, "kafka.sasl.existingSecret is required"),
        ({"kafka": {"extra": {"session_timeout_ms": 5000}}}, "kafka.extra.session_timeout_ms is 5000, below the least"),
        ({"page": {"enabled": True}}, "page.existingSecret is required if page.enabled is true"),
        ({"page": {"existingSecret": "page"}}, "page.existingSecret is set but page.enabled is false"),
        ({"metrics": {"tls": {"enabled": True}}}, "metrics.tls.existingSecret is required if metrics.tls.enabled"),
        ({"metrics": {"tls": {"existingSecret": "s"}}}, "is set but metrics.tls.enabled is false"),
        ({"metrics": {"tls": {"mutual": True}}}, "is set but metrics.tls.enabled is false"),
        (
            merged(BY_TLS, {"metrics": {"tls": {"mutual": True}}, "monitoring": {"podMonitor": {"enabled": True}}}),
            "metrics.tls.clientCertificate.existingSecret is required if metrics.tls.mutual is true",
        ),
        (
            merged(BY_TLS, {"metrics": {"tls": {"clientCertificate": {"existingSecret": "c"}}}}),
            "metrics.tls.clientCertificate.existingSecret is set but metrics.tls.mutual is false",
        ),
        (
            {"worker": {"extraEnv": [{"name": "GLAIM_METRICS_TLS_CERT", "value": "/opt/glaim/a"}]}},
            "worker.extraEnv sets GLAIM_METRICS_TLS_CERT, which the chart sets",
        ),
        ({"page": {"port": 9464}}, "page.port and metrics.port are both 9464"),
        ({"image": {"registry": ""}}, "image.registry is required: the registry to which the images"),
        ({"podDisruptionBudget": {"maxUnavailable": 0}}, "podDisruptionBudget.maxUnavailable is 0, which blocks"),
        ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "podDisruptionBudget.maxUnavailable is 0%, which blocks"),
        (
            {"triton": {"client": {"fixedBatch": True, "batch": 60}}},
            "triton.client.fixedBatch is true but triton.client.batch is 60: set it to a power of two",
        ),
        (
            {"triton": {"client": {"deadlineSeconds": 31}}},
            "triton.client.deadlineSeconds is 31 but triton.terminationGracePeriodSeconds is 40, of which 10 s",
        ),
        (
            {"triton": {"client": {"deadlineSeconds": 55}, "terminationGracePeriodSeconds": 90}},
            "triton.client.deadlineSeconds is 55 but a worker ends itself 55 s after SIGTERM",
        ),
        (
            {"worker": {"terminationGracePeriodSeconds": 59}},
            "worker.terminationGracePeriodSeconds is 59: set it to at least 60",
        ),
        ({"kafka": {"sasl": {"existingSecret": "s"}}}, "kafka.sasl.enabled is false"),
        ({"kafka": {"tls": {"existingSecret": "s"}}}, "kafka.tls.enabled is false"),
        ({"triton": {"tls": {"enabled": True}}}, "triton.tls.existingSecret is required"),
        (
            {"triton": {"client": {"tls": {"enabled": True}}}},
            "triton.tls.enabled is false but triton.client.tls.enabled is true",
        ),
        ({"triton": {"client": {"token": {"existingSecret": "s"}}}}, "triton.client.tls.enabled is false"),
        ({"catalogue": {"inline": "models: []", "existingConfigMap": "c"}}, "Either catalogue.inline or"),
        ({"catalogue": {"inline": "groups: []"}}, "found no models in it"),
        ({"models": {"existingClaim": "c"}}, "models.existingClaim is set but models.source is image"),
        (
            {"models": {"source": "objectStore"}},
            "models.objectStore.uri is required if models.source is objectStore",
        ),
        (
            {"models": {"source": "objectStore", "objectStore": {"uri": "s3://bucket"}}},
            'a folder in an s3, gs or abfss bucket, such as s3://bucket/models, found "s3://bucket"',
        ),
        (
            {"models": {"objectStore": {"uri": "s3://b/m"}}},
            "models.objectStore.uri is set but models.source is image",
        ),
        (TRAINED, "to which no new version can be added: set it to claim or objectStore"),
        (merged(OUTSIDE, TRAINED), "models.source is inline, to which no new version can be added"),
        (
            merged(IN_A_VOLUME, {"models": {"subPath": "/"}}),
            "models.subPath is required if training.enabled is true",
        ),
        (merged(IN_A_VOLUME, {"training": {"config": ""}}), "training.config is required if training.enabled"),
        (merged(IN_A_VOLUME, {"training": {"existingConfigMap": "c"}}), "Either training.config or training.existing"),
        ({"rollback": {"enabled": True, "model": "plant-pump"}}, "rollback.enabled is true but models.source is image"),
        (
            {"rollback": {"enabled": True}, "models": {"source": "claim", "subPath": "/"}},
            "models.subPath is required if rollback.enabled is true",
        ),
        (
            {"rollback": {"enabled": True}, "models": {"source": "claim"}},
            "rollback.model is required if rollback.enabled is true",
        ),
        (merged(IN_A_VOLUME, {"training": {"model": ""}}), "training.model is required if training.enabled is"),
        (
            merged(IN_A_VOLUME, {"training": {"data": {"existingClaim": "c"}}}),
            "training.data.existingClaim is set but training.data.source is topic",
        ),
        (merged(IN_A_VOLUME, {"training": {"data": {"source": "claim"}}}), "training.data.existingClaim is required"),
        (
            merged(IN_A_VOLUME, {"training": {"serviceAccount": {"create": False}}}),
            "training.serviceAccount.name is required",
        ),
        ({"models": {"subPath": "../p"}}, 'models.subPath must be a folder in the volume, found "../p"'),
        ({"models": {"contracts": {"m": "{}"}}}, "models.contracts is set but models.source is image"),
        ({"models": {"source": "inline"}}, "models.source inline provides contracts but no weights, so triton.enabled"),
        (merged(OUTSIDE, {"models": {"contracts": None}}), "models.contracts is required if models.source is"),
        (merged(OUTSIDE, {"models": {"contracts": {"plant-pump": "[]"}}}), "contracts.plant-pump must be the content"),
        (merged(OUTSIDE, {"catalogue": {"inline": "models: [{name: o}]"}}), 'contains model "o", but models.contr'),
        (merged(OUTSIDE, {"models": {"trust": {"key": KEY}}}), "contracts without manifests"),
        (merged(OUTSIDE, {"worker": {"imputer": "local"}}), "provides no weights, which worker.imputer local"),
        ({"triton": {"address": "triton:8001"}}, "triton.address is set but triton.enabled is true"),
        ({"triton": {"enabled": False}}, "triton.address is required if triton.enabled is false"),
        (merged(OUTSIDE, {"triton": {"address": "http://triton:8001"}}), "triton.address must be host:port"),
        ({"triton": {"strategy": {"maxSurge": 0}}}, "are both 0: no pod could ever be replaced"),
        (
            {"triton": {"extraArgs": ["--http-address=0.0.0.0"]}},
            "triton.extraArgs sets --http-address, which",
        ),
        ({"triton": {"extraArgs": ["--grpc-restricted-protocol=x"]}}, "extraArgs sets --grpc-restricted-protocol"),
        ({"triton": {"extraEnv": [{"name": "HOME", "value": "/"}]}}, "triton.extraEnv sets HOME"),
        ({"triton": {"serviceAccount": {"create": False}}}, "triton.serviceAccount.name is required"),
        ({"triton": {"terminationGracePeriodSeconds": 10}}, "triton.terminationGracePeriodSeconds must be at least 15"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is required"),
        ({"worker": {"imputer": "interpolation"}}, "so the Triton of this release would not be used"),
        (merged(OUTSIDE, {"worker": {"imputer": "local"}}), "contains neither torch nor the weights"),
        ({"worker": {"replicas": 5}}, "worker.replicas is 5 but kafka.partitions is 4"),
        ({"kafka": {"tls": {"clientCertificate": {"existingSecret": "s"}}}}, "kafka.tls.clientCertificate.existingSec"),
        ({"autoscaling": {"kind": "hpa", "maxReplicas": 9}}, "autoscaling.maxReplicas is 9 but kafka.partitions is 4"),
        ({"autoscaling": {"kind": "hpa", "minReplicas": 5}}, "limits the workers to 4"),
        (
            {"triton": {"autoscaling": {"kind": "keda"}}},
            "triton.autoscaling.kind is keda but this cluster does not serve keda.sh/v1alpha1",
        ),
        (
            {"triton": {"autoscaling": {"kind": "keda"}}},
            "triton.autoscaling.prometheusAddress is required if triton.autoscaling.kind is keda",
        ),
        (
            {"triton": {"autoscaling": {"kind": "keda", "minReplicas": 5}}},
            "triton.autoscaling.minReplicas is 5, but triton.autoscaling.maxReplicas is 4",
        ),
        ({"autoscaling": {"kind": "keda"}}, "this cluster does not serve keda.sh/v1alpha1: install KEDA first"),
        ({"autoscaling": {"kind": "hpa"}, "worker": {"resources": {"requests": {"cpu": None}}}}, "requests.cpu, rela"),
        ({"worker": {"extraEnv": [{"name": "GLAIM_KAFKA", "value": "x:1"}]}}, "extraEnv sets GLAIM_KAFKA"),
    ],
)
def test_missing_or_contradictory_values_are_rejected_with_a_message(
    chart: Chart, changes: Values, message: str
) -> None:
    assert message in chart.rejection(merged(SMALLEST, changes))


def test_every_problem_is_reported_at_once(chart: Chart) -> None:
    rejection = chart.rejection({"worker": {"replicas": 5}, "serviceAccount": {"create": False}})
    for message in ("kafka.bootstrapServers is required", "worker.replicas is 5", "serviceAccount.name is required"):
        assert message in rejection


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kafak": {}}, "kafak"),
        ({"kafka": {"bootstrapServer": "kafka:9092"}}, "bootstrapServer"),
        ({"worker": {"probes": {"liveness": {"periodSecond": 3}}}}, "periodSecond"),
        ({"worker": {"replicas": "two"}}, "replicas"),
        ({"worker": {"imputer": "tritn"}}, "imputer"),
        ({"worker": {"runAsUser": 0}}, "runAsUser"),
        ({"triton": {"runAsUser": 0}}, "runAsUser"),
        ({"triton": {"gpu": {"resource": "gpu"}}}, "resource"),
        ({"triton": {"device": "tpu"}}, "device"),
        ({"triton": {"client": {"deadline": 3}}}, "deadline"),
        ({"triton": {"tolerations": [{"key": "k", "operater": "Exists"}]}}, "operater"),
        ({"models": {"source": "disk"}}, "source"),
        ({"training": {"keepVersions": 1}}, "keepVersions"),
        ({"metrics": {"port": 70_000}}, "port"),
        ({"autoscaling": {"kind": "vpa"}}, "kind"),
        ({"autoscaling": {"minReplicas": 0}}, "minReplicas"),
        ({"autoscaling": {"keda": {"lagTreshold": 1}}}, "lagTreshold"),
        ({"networkPolicy": {"enable": True}}, "enable"),
        ({"tests": {"timeout": 1}}, "timeout"),
        ({"metrics": {"port": 80}}, "port"),
        ({"kafka": {"sasl": {"password": "never in values"}}}, "password"),
    ],
)
def test_schema_rejects_a_typo_and_names_it(chart: Chart, changes: Values, named: str) -> None:
    assert named in chart.rejection(merged(SMALLEST, changes))


def at(path: str, value: object) -> Values:
    """Values with this one alone."""
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def test_a_value_that_is_gone_is_refused_with_what_it_became(chart: Chart) -> None:
    changes: Values = {}
    for number, path in enumerate(gone_values(), 1):
        changes = merged(changes, at(path, number))
    found = chart.rejection(merged(SMALLEST, changes))
    for path, became in gone_values().items():
        assert f"- {path} is gone: {became}." in found
    copied = merged(at("kafka.lateTopic", ""), {"page": {"enabled": True}})  # an empty default of the earlier chart
    assert "is gone" not in chart.rejection(merged(SMALLEST, copied))


def test_schema_lists_every_value_and_rejects_all_others() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    # Properties without a default in values.yaml.
    without_default = {"global", "initialDelaySeconds", "claims", "nameservers", "searches", "options"}

    def check(part: Values, values: Values, path: str) -> None:
        part = schema["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
        if "properties" not in part:
            return
        assert part["additionalProperties"] is False, path
        gone = {name for name, each in part["properties"].items() if each.get("description", "").startswith(GONE)}
        assert set(part["properties"]) - without_default - gone <= set(values) or path.endswith("affinity"), path
        assert not gone & set(values), path
        assert set(values) <= set(part["properties"]), path
        for name, value in values.items():
            if isinstance(value, dict):
                check(part["properties"][name], value, f"{path}.{name}")

    check(schema, values, "values")
