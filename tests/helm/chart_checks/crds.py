"""Schemas of the operators' kinds, from the CustomResourceDefinitions in the published source of their Go modules.

An API server silently drops fields that a CRD does not define, such as a misspelt one; these schemas reject them. CEL
rules of a CRD are not checked here; `make cluster-test` has them checked by a real API server.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from deploy.cluster import crds
from tests.helm.chart_checks.system import Object

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


@cache
def definitions() -> dict[tuple[str, str], Object]:
    """(apiVersion, kind) -> OpenAPI schema, for the CRDs that the cluster tests install."""
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
def custom_validator(api: str, kind: str) -> Validator:
    import jsonschema  # three seconds, which every test process would take

    return jsonschema.Draft202012Validator(closed(definitions()[api, kind]))


def closed(schema: Any) -> Any:
    """Convert the OpenAPI schema of a CRD to a JSON schema that rejects undefined fields.

    Objects that preserve unknown fields or allow any key (additionalProperties) stay open. `nullable` becomes the type
    null, and `x-kubernetes-int-or-string` becomes the types integer and string.
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
    # Schemas below allOf, anyOf and oneOf only restrict fields that are defined outside of them, so they are kept.
    if result.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if result.pop("nullable", False) and "type" in result:
        result["type"] = [result["type"], "null"] if isinstance(result["type"], str) else [*result["type"], "null"]
    open_ended = result.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in result
    if "properties" in result and not open_ended:
        result["additionalProperties"] = False
    return result
