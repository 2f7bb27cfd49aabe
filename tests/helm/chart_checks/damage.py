"""Deliberately broken systems, with which the rules are tested."""

import copy
from typing import Any

from tests.helm.chart_checks.system import TEMPLATES, Object, System, inside


class Damaged:
    """A copy of a system that a test changes before it applies a rule."""

    def __init__(self, system: System) -> None:
        self._origin = system
        self.objects: list[Object] = copy.deepcopy(system.objects)

    @property
    def system(self) -> System:
        return System(self.objects, self._origin.values, self._origin.namespace)

    def one(self, kind: str, component: str = "") -> Object:
        """The first object of a kind whose component label begins, or whose name ends, with `component`."""
        for item in self.objects:
            labels, name = item["metadata"]["labels"], item["metadata"]["name"]
            named = labels["app.kubernetes.io/component"].startswith(component) or name.endswith(component)
            if item["kind"] == kind and named:
                return item
        raise LookupError(f"expected a {kind} of {component or 'any component'} in the system, found none")

    def pod(self, kind: str, component: str = "") -> Object:
        """The spec of the pods that this object creates."""
        item = self.one(kind, component)
        template: Object = item if kind == "Pod" else inside(item, *TEMPLATES[kind])
        spec: Object = template["spec"]
        return spec

    def container(self, kind: str, component: str = "") -> Object:
        """The first container of these pods."""
        found: Object = self.pod(kind, component)["containers"][0]
        return found

    def remove(self, kind: str, component: str = "") -> None:
        self.objects.remove(self.one(kind, component))


def put(target: Any, path: str, value: Any) -> None:
    """Set the field at a path of names and indices, such as `ports.0.name`; None removes it."""
    *parents, last = path.split(".")
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
    if value is None:
        del target[last]
    else:
        target[int(last) if isinstance(target, list) else last] = value
