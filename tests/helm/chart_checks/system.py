"""The objects of one rendering, their pods, and the names of existing objects in the values."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Object = dict[str, Any]

# Kinds that create pods -> path of the pod template.
TEMPLATES = {
    "DaemonSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def inside(value: Any, *path: str) -> Any:
    """The value at `path`, or an empty dict if a part of the path is absent or null."""
    for key in path:
        value = (value or {}).get(key)
    return {} if value is None else value


def is_selected(labels: Object, selector: Object) -> bool:
    """Whether a label selector matches these labels; an empty selector matches everything, as in Kubernetes."""
    plain = (selector.get("matchLabels") or {}).items() <= labels.items()
    return plain and all(_holds(labels, rule) for rule in selector.get("matchExpressions") or [])


def _holds(labels: Object, rule: Object) -> bool:
    value = labels.get(rule["key"])
    match rule["operator"]:
        case "In":
            return value in rule["values"]
        case "NotIn":
            return value not in rule["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"expected an operator of a label selector, found {rule['operator']!r}")


@dataclass(frozen=True)
class Container:
    """A container of a pod; `where` identifies it in messages."""

    where: str
    kind: str  # containers | initContainers | ephemeralContainers
    spec: Object

    @property
    def sidecar(self) -> bool:
        """Whether it is a sidecar: an init container with restartPolicy Always."""
        return self.kind == "initContainers" and self.spec.get("restartPolicy") == "Always"

    @property
    def ports(self) -> dict[str, int]:
        """Name of each port, or its number if it has no name -> number."""
        return {
            str(port.get("name", port["containerPort"])): port["containerPort"] for port in self.spec.get("ports") or []
        }


@dataclass(frozen=True)
class Pod:
    """A pod or a pod template."""

    owner: Object
    labels: Object
    annotations: Object
    spec: Object

    @property
    def where(self) -> str:
        return name_of(self.owner)

    @property
    def is_long_running(self) -> bool:
        return self.owner["kind"] in ("DaemonSet", "Deployment", "StatefulSet")

    @property
    def containers(self) -> list[Container]:
        """All init, main and ephemeral containers."""
        return [
            Container(f"{self.where}, container {spec.get('name', '?')}", kind, spec)
            for kind in ("initContainers", "containers", "ephemeralContainers")
            for spec in self.spec.get(kind) or []
        ]

    def port(self, target: str | int) -> int | None:
        """The number of the open port with this name or number, or None."""
        for container in self.containers:
            for name, number in container.ports.items():
                if target in (name, number):
                    return number
        return None


def name_of(item: Object) -> str:
    """`Kind/name`."""
    return f"{item.get('kind', '?')}/{inside(item, 'metadata', 'name') or '?'}"


class System:
    """The objects of one rendering.

    Args:
        objects: The objects that helm printed.
        values: The user's values. Every string in them counts as the name of an existing object.
        release_namespace: The namespace for which the release was rendered.
    """

    def __init__(self, objects: list[Object], values: Object, release_namespace: str) -> None:
        self.objects = objects
        self.values = values
        self.namespace = release_namespace

    def of_kind(self, *kinds: str) -> list[Object]:
        return [item for item in self.objects if item["kind"] in kinds]

    def find(self, kind: str, name: str) -> Object | None:
        return next((item for item in self.of_kind(kind) if item["metadata"]["name"] == name), None)

    @cached_property
    def pods(self) -> list[Pod]:
        """Every pod and pod template, including those of `helm test`."""
        found = []
        for item in self.objects:
            template = item if item["kind"] == "Pod" else inside(item, *TEMPLATES.get(item["kind"], ("nothing",)))
            if template:
                metadata = template.get("metadata") or {}
                labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
                found.append(Pod(item, labels, notes, template.get("spec") or {}))
        return found

    def selected(self, selector: Object) -> list[Pod]:
        """The pods that a label selector matches."""
        return [pod for pod in self.pods if is_selected(pod.labels, selector)]

    @cached_property
    def given(self) -> frozenset[str]:
        """Every string in the user's values."""

        def texts(value: Any) -> Iterator[str]:
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict):
                for inner in value.values():
                    yield from texts(inner)
            elif isinstance(value, list):
                for inner in value:
                    yield from texts(inner)

        return frozenset(texts(self.values))
