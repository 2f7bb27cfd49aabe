"""Functions that find objects in the output of helm."""

from typing import Any

Object = dict[str, Any]


def of_kind(objects: list[Object], kind: str, component: str | None = None) -> Object:
    """The only object of this kind, and of this component if one is given."""
    found = [item for item in objects if item["kind"] == kind]
    if component is not None:
        found = [item for item in found if component_of(item) == component]
    assert len(found) == 1, f"expected one {kind} of {component or 'any component'}, found {len(found)}"
    return found[0]


def component_of(item: Object) -> str:
    """Component of an object: worker, triton, training or test."""
    return str(item["metadata"]["labels"]["app.kubernetes.io/component"])


def worker_pod(objects: list[Object]) -> Object:
    """The template of the worker pods."""
    template: Object = of_kind(objects, "StatefulSet", "worker")["spec"]["template"]
    return template


def triton_pod(objects: list[Object]) -> Object:
    """The template of the Triton pods."""
    template: Object = of_kind(objects, "Deployment", "triton")["spec"]["template"]
    return template


def pods(objects: list[Object]) -> dict[str, Object]:
    """Kind and name of each object that creates pods -> the template of its pods."""
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
    """Every container of a pod, including its init containers."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def environment(container: Object) -> dict[str, Object]:
    """Name -> variable. Fails if a variable is set twice."""
    variables = container.get("env", [])
    names = [variable["name"] for variable in variables]
    assert len(names) == len(set(names)), f"a variable is set twice: {names}"
    return {variable["name"]: variable for variable in variables}
