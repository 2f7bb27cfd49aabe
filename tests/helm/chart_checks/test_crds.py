"""Tests of the CRD schemas: fields that an API server would silently drop are rejected."""

from typing import Any

import pytest

from deploy.gotools import GoUnavailable
from tests.helm.chart_checks.crds import closed, custom_validator, definitions

pytestmark = pytest.mark.timeout(1800)


def valid(schema: dict[str, Any], value: Any) -> bool:
    import jsonschema  # three seconds, which every test process would take

    return jsonschema.Draft202012Validator(closed(schema)).is_valid(value)


def test_undefined_fields_are_rejected() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    assert valid(schema, {"spec": {"a": "x"}})
    assert not valid(schema, {"spec": {"b": "x"}})
    assert not valid(schema, {"spek": {}})


def test_open_schemas_stay_open() -> None:
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    assert valid(labels, {"any": "thing"})
    assert not valid(labels, {"any": 1})
    kept = {"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True}
    assert valid(kept, {"b": 1})
    assert valid({"x-kubernetes-int-or-string": True}, "10%")
    assert valid({"x-kubernetes-int-or-string": True}, 1)
    assert not valid({"x-kubernetes-int-or-string": True}, 1.5)
    assert valid({"type": "string", "nullable": True}, None)
    assert not valid({"type": "string"}, None)


@pytest.fixture(scope="module")
def scaled_object() -> dict[str, Any]:
    try:
        definitions()
    except GoUnavailable as reason:
        pytest.skip(str(reason))
    trigger = {"type": "kafka", "metadata": {"topic": "x"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"scaleTargetRef": {"name": "x"}, "triggers": [trigger]},
    }


def test_real_crd_accepts_a_valid_object_and_rejects_a_typo(scaled_object: dict[str, Any]) -> None:
    validator = custom_validator("keda.sh/v1alpha1", "ScaledObject")
    assert validator.is_valid(scaled_object)
    for wrong in ({"maxReplicaCountt": 3}, {"maxReplicaCount": "three"}, {"triggers": None}):
        assert not validator.is_valid(scaled_object | {"spec": scaled_object["spec"] | wrong}), wrong
