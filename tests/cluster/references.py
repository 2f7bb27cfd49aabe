"""Checks that the objects to which pods refer exist, because fake kubelets do not check it as real ones do."""

from collections.abc import Iterator

from deploy.cluster.manifest import Object
from tests.cluster.release import Release


def assert_complete(release: Release) -> None:
    """Every pod is Ready, its references exist, and the API server accepts each object without unknown fields."""
    pods = release.pods()
    assert pods
    assert len(release.ready()) == len(pods), release.events()
    assert dangling(release) == []
    for thing in [*release.manifest(), *release.manifest(hooks=True)]:
        thing["metadata"].pop("name")
        thing["metadata"]["generateName"] = "checked-"
        release.api.create(thing, release.namespace, strict_dry_run=True)


def dangling(release: Release) -> list[str]:
    """The references of the release's pods to missing objects, one message each."""
    return sorted(
        {
            problem
            for spec in _specs(release)
            for kind, name, keys in _named(spec)
            if (problem := _problem(release, kind, name, keys)) is not None
        }
    )


def _specs(release: Release) -> list[Object]:
    """The specs of the existing pods, and of those that the CronJobs will create."""
    schedules = [item["spec"]["jobTemplate"]["spec"] for item in release.all("batch/v1", "CronJob")]
    return [thing["spec"] for thing in release.pods()] + [job["template"]["spec"] for job in schedules]


def _named(spec: Object) -> Iterator[tuple[str, str, list[str]]]:
    """Kind, name and keys of every object that a kubelet would read."""
    yield "ServiceAccount", spec.get("serviceAccountName", "default"), []
    for secret in spec.get("imagePullSecrets") or []:
        yield "Secret", secret["name"], []
    for volume in spec.get("volumes") or []:
        sources = volume.get("projected", {}).get("sources") or [volume]
        for source in sources:
            if "configMap" in source:
                yield "ConfigMap", source["configMap"]["name"], _keys(source["configMap"])
            if "secret" in source:
                secret = source["secret"]
                yield "Secret", secret.get("secretName") or secret["name"], _keys(secret)
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], []
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        for variable in container.get("env") or []:
            source = variable.get("valueFrom") or {}
            for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                if field in source:
                    yield kind, source[field]["name"], [source[field]["key"]]
        for source in container.get("envFrom") or []:
            for field, kind in (("secretRef", "Secret"), ("configMapRef", "ConfigMap")):
                if field in source:
                    yield kind, source[field]["name"], []


def _keys(source: Object) -> list[str]:
    return [item["key"] for item in source.get("items") or []]


def _problem(release: Release, kind: str, name: str, keys: list[str]) -> str | None:
    found = release.one("v1", kind, name)
    if found is None:
        return f"{kind} {name} does not exist"
    if kind == "PersistentVolumeClaim" and found["status"]["phase"] != "Bound":
        return f"claim {name} is {found['status']['phase']}"
    missing = set(keys) - set(found.get("data") or {})
    return f"{kind} {name} has no {', '.join(sorted(missing))}" if missing else None
