"""What a rendering made: its objects, the pods in them, and what the values named that must be there already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Object = dict[str, Any]

# Kinds that make pods, and where their pods' template lies.
TEMPLATES = {
    "DaemonSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def inside(value: Any, *path: str) -> Any:
    """What lies at `path`, or an empty dict where a part of it is absent or null."""
    for key in path:
        value = (value or {}).get(key)
    return {} if value is None else value


def is_selected(labels: Object, selector: Object) -> bool:
    """Whether a label selector takes these labels; an empty selector takes everything, as in Kubernetes."""
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
    """A container of a pod, and how to name it in a sentence."""

    where: str
    kind: str  # containers | initContainers | ephemeralContainers
    spec: Object

    @property
    def sidecar(self) -> bool:
        """Whether it starts before the others and stays: an init container that is restarted always."""
        return self.kind == "initContainers" and self.spec.get("restartPolicy") == "Always"

    @property
    def ports(self) -> dict[str, int]:
        """Its ports by name; one without a name by its number."""
        return {
            str(port.get("name", port["containerPort"])): port["containerPort"] for port in self.spec.get("ports") or []
        }


@dataclass(frozen=True)
class Pod:
    """A pod, or the template of one."""

    owner: Object
    labels: Object
    annotations: Object
    spec: Object

    @property
    def where(self) -> str:
        return name_of(self.owner)

    @property
    def runs_for_ever(self) -> bool:
        return self.owner["kind"] in ("DaemonSet", "Deployment", "StatefulSet")

    @property
    def containers(self) -> list[Container]:
        """Init containers, containers and ephemeral ones: a rule that forgets one kind is no rule."""
        return [
            Container(f"{self.where}, container {spec.get('name', '?')}", kind, spec)
            for kind in ("initContainers", "containers", "ephemeralContainers")
            for spec in self.spec.get(kind) or []
        ]

    def port(self, target: str | int) -> int | None:
        """The number of a port that some container opens, asked for by name or number."""
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
        objects: what helm printed.
        values: what the user gave; every text in it counts as the name of something that is there already.
        release_namespace: where the release was rendered for.
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
        """Every pod and every template of one, those of `helm test` included."""
        found = []
        for item in self.objects:
            template = item if item["kind"] == "Pod" else inside(item, *TEMPLATES.get(item["kind"], ("nothing",)))
            if template:
                metadata = template.get("metadata") or {}
                labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
                found.append(Pod(item, labels, notes, template.get("spec") or {}))
        return found

    def selected(self, selector: Object) -> list[Pod]:
        """The pods that a label selector takes."""
        return [pod for pod in self.pods if is_selected(pod.labels, selector)]

    @cached_property
    def given(self) -> frozenset[str]:
        """Every text in the user's values."""

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
