"""Validates rendered objects against the schemas of Kubernetes and of the operators; unknown fields are rejected."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.helm.chart_checks.crds import custom_kinds, custom_validator
from tests.helm.chart_checks.system import Object, System, name_of

# A Kubernetes quantity. The schemas accept any string; only the API server would reject "1Gx".
QUANTITY = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")

POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@cache
def _kubernetes_validate() -> Any:
    """The library, which would read the same definitions, 1.4 MB, again for every object."""
    import kubernetes_validate.utils  # three seconds, for the jsonschema that it loads

    kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)
    return kubernetes_validate


def newest_minors(count: int) -> list[str]:
    """The newest minor versions of Kubernetes with a bundled schema, oldest first: ["1.35", "1.36", "1.37"]."""
    utils = _kubernetes_validate().utils
    known = {utils.major_minor(version) for version in utils.all_versions()}
    return sorted(known, key=lambda version: int(version.split(".")[1]))[-count:]


def check(system: System, minor: str) -> Iterator[str]:
    """Validate every object against the schema of its kind in this minor version of Kubernetes."""
    for item in system.objects:
        # The matrix repeats many objects, so results are cached.
        for problem in problems_of(json.dumps(item, sort_keys=True), minor):
            yield f"{name_of(item)}: {problem}"


@cache
def problems_of(text: str, minor: str) -> tuple[str, ...]:
    """The problems of one object, given as JSON."""
    item = json.loads(text)
    found = _custom(item) if (item["apiVersion"], item["kind"]) in custom_kinds() else _built_in(item, minor)
    return (*found, *quantities(item))


def _built_in(item: Object, minor: str) -> list[str]:
    kubernetes_validate = _kubernetes_validate()
    try:
        kubernetes_validate.validate(item, minor, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    except kubernetes_validate.SchemaNotFoundError:
        return [f"Kubernetes {minor} has no {item['kind']} of {item['apiVersion']}"]
    return []


def _custom(item: Object) -> list[str]:
    errors = custom_validator(item["apiVersion"], item["kind"]).iter_errors(item)
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in errors]


def quantities(item: Object) -> Iterator[str]:
    """Invalid quantities, and requests above their limits."""
    for path, resources in _resources(item):
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name, amount in [*limits.items(), *requests.items()]:
            if not QUANTITY.fullmatch(str(amount)):
                yield f"{path}: {name} is not a quantity: {amount!r}"
        for name in requests.keys() & limits.keys():
            readable = all(QUANTITY.fullmatch(str(amount[name])) for amount in (requests, limits))
            if readable and size(requests[name]) > size(limits[name]):
                yield f"{path}: requests {requests[name]} of {name}, more than its limit {limits[name]}"


def _resources(value: object, path: str = "") -> Iterator[tuple[str, Object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "resources" and isinstance(inner, dict):
                yield f"{path}resources", inner
            yield from _resources(inner, f"{path}{name}.")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _resources(inner, f"{path}{number}.")


def size(quantity: object) -> float:
    """A quantity as a number: "1Gi" is 1073741824.0, "250m" is 0.25."""
    match = QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError(f"expected a quantity, found {quantity!r}")
    number, suffix = float(match[1]), match[2] or ""
    if suffix.endswith("i"):
        return number * 1024.0 ** ("KMGTPE".index(suffix[0]) + 1)
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return number * 10.0 ** int(suffix[1:])
    return number * 10.0 ** POWERS[suffix]
