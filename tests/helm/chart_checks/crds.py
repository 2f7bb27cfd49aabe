"""The operators' kinds, by their real CustomResourceDefinitions: those of their Go modules' published source.

A CRD's schema prunes what it does not know: a misspelt field would be dropped in silence. Here it is refused. What is
not checked are the rules that a CRD states in CEL; `make cluster-test` has a real API server check those.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema

from deploy.cluster import crds
from tests.helm.chart_checks.system import Object


@cache
def definitions() -> dict[tuple[str, str], Object]:
    """(apiVersion, kind) -> OpenAPI schema of that version, of the CRDs that the cluster tests install."""
    found = {}
    for crd in crds.definitions():
        for version in crd["spec"]["versions"]:
            api = f"{crd['spec']['group']}/{version['name']}"
            found[api, crd["spec"]["names"]["kind"]] = version["schema"]["openAPIV3Schema"]
    return found


@cache
def custom_kinds() -> frozenset[tuple[str, str]]:
    return frozenset(definitions())


@cache
def custom_validator(api: str, kind: str) -> jsonschema.protocols.Validator:
    return jsonschema.Draft202012Validator(closed(definitions()[api, kind]))


def closed(schema: Any) -> Any:
    """An OpenAPI schema of a CRD as JSON schema, in which an object has the fields that are written down and no others.

    Where a schema says itself that it keeps unknown fields, or that its keys are free (additionalProperties), it stays
    open. `nullable` becomes a type of its own, and `x-kubernetes-int-or-string` the two types that it stands for.
    """
    if isinstance(schema, list):
        return [closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    for name in ("properties", "patternProperties"):
        if name in result:
            result[name] = {key: closed(inner) for key, inner in result[name].items()}
    for name in ("items", "additionalProperties", "not"):
        if name in result:
            result[name] = closed(result[name])
    # What stands below allOf, anyOf and oneOf may only restrict fields that are named outside: it stays as it is.
    if result.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if result.pop("nullable", False) and "type" in result:
        result["type"] = [result["type"], "null"] if isinstance(result["type"], str) else [*result["type"], "null"]
    open_ended = result.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in result
    if "properties" in result and not open_ended:
        result["additionalProperties"] = False
    return result
