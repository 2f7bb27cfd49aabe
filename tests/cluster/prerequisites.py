"""Objects that a platform team creates before it installs the chart: Secrets, claims, accounts, classes, labels."""

from deploy.cluster.api import Api
from deploy.cluster.manifest import Object
from tests.cluster.release import Release, until

_SECRETS = {
    "page": ["viewers"],
    "metrics-server": ["tls.crt", "tls.key", "server.crt", "server.key", "ca.crt", "root.pem"],
    "prometheus": ["user.crt", "user.key"],
    "kafka-ca": ["ca.crt", "root.pem"],
    "kafka-login": ["username", "password"],
    "plant-user": ["user.crt", "user.key"],
    "bucket-login": ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
    "pull": [".dockerconfigjson"],
}
_CONFIG_MAPS = {"our-groups": ["plant.yaml"], "recipe": ["plant.toml"]}
_ACCOUNTS = ("ours", "trainer")
CLAIMS = ("models", "history", "scratch")


def prepare_cluster(api: Api) -> None:
    """Create objects without a namespace: a PriorityClass, NVIDIA's RuntimeClass, and a label on every node."""
    api.create(_named("scheduling.k8s.io/v1", "PriorityClass", "high", {"value": 1000}))
    api.create(_named("node.k8s.io/v1", "RuntimeClass", "nvidia", {"handler": "nvidia"}))
    for node in api.listed("v1", "Node"):
        api.patch("v1", "Node", node["metadata"]["name"], {"metadata": {"labels": {"pool": "streams"}}})


def prepare_namespace(release: Release) -> None:
    """Create the objects in the namespace to which a release may refer and which the chart does not create."""
    for name, keys in _SECRETS.items():
        release.api.create(_named("v1", "Secret", name, {"stringData": dict.fromkeys(keys, "{}")}), release.namespace)
    for name, keys in _CONFIG_MAPS.items():
        release.api.create(_named("v1", "ConfigMap", name, {"data": dict.fromkeys(keys, "")}), release.namespace)
    for name in _ACCOUNTS:
        release.api.create(_named("v1", "ServiceAccount", name, {}), release.namespace)
    for name in CLAIMS:
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}}
        release.api.create(_named("v1", "PersistentVolumeClaim", name, {"spec": spec}), release.namespace)
    until(lambda: all(_bound(release, name) for name in CLAIMS), "the claims have volumes")


def _bound(release: Release, name: str) -> bool:
    claim = release.one("v1", "PersistentVolumeClaim", name)
    return claim is not None and claim["status"]["phase"] == "Bound"


def _named(api_version: str, kind: str, name: str, rest: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}
