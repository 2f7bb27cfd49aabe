"""Finding one's way in what helm rendered."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def of_kind(objects: list[Object], kind: str, component: str | None = None) -> Object:
    """The one object of this kind, of this component if one is named."""
    found = [item for item in objects if item["kind"] == kind]
    if component is not None:
        found = [item for item in found if component_of(item) == component]
    assert len(found) == 1, f"expected one {kind} of {component or 'all'}, found {len(found)}"
    return found[0]


def component_of(item: Object) -> str:
    """worker, triton and so on."""
    return str(item["metadata"]["labels"]["app.kubernetes.io/component"])


def worker_pod(objects: list[Object]) -> Object:
    """Template of the worker's pods."""
    template: Object = of_kind(objects, "StatefulSet", "worker")["spec"]["template"]
    return template


def triton_pod(objects: list[Object]) -> Object:
    """Template of Triton's pods."""
    template: Object = of_kind(objects, "Deployment", "triton")["spec"]["template"]
    return template


def pods(objects: list[Object]) -> dict[str, Object]:
    """Name of the owner -> template of its pods, of every object that makes pods."""
    found: dict[str, Object] = {}
    for item in objects:
        name = f"{item['kind']} {item['metadata']['name']}"
        if item["kind"] in ("StatefulSet", "Deployment", "Job"):
            found[name] = item["spec"]["template"]
        elif item["kind"] == "CronJob":
            found[name] = item["spec"]["jobTemplate"]["spec"]["template"]
        elif item["kind"] == "Pod":
            found[name] = item
    return found


def containers(pod: Object) -> list[Object]:
    """Every container of a pod, the initial ones included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def environment(container: Object) -> dict[str, Object]:
    """Name -> variable; a variable that is set twice is a fault."""
    variables = container.get("env", [])
    names = [variable["name"] for variable in variables]
    assert len(names) == len(set(names)), f"a variable is set twice: {names}"
    return {variable["name"]: variable for variable in variables}
