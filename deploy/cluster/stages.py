"""What kwok's fake kubelets do with a pod: upstream's fast stages, and two things more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from deploy import gotools
from deploy.cluster.programs import KWOK_VERSION

# A pod with this annotation runs and never becomes Ready: a release that is broken.
NEVER_READY = "local-cluster/never-ready"
# Upstream's finishes the pods of Jobs; helm's test pods are finished too.
TEST_HOOK = "helm.sh/hook"


def write_stages(path: Path) -> None:
    """The stages as one file for `kwok --config`.

    Raises:
        FetchError: kwok's source did not come.
    """
    source = gotools.module_directory("sigs.k8s.io/kwok", KWOK_VERSION) / "kustomize" / "stage"
    stages = {file.stem: _stage(file) for file in (source / "pod" / "fast").glob("pod-*.yaml")}
    ready, complete = stages["pod-ready"], stages["pod-complete"]
    _expressions(ready).append({"key": f'.metadata.annotations["{NEVER_READY}"]', "operator": "DoesNotExist"})
    broken = _copied(ready, "pod-never-ready")
    _expressions(broken)[-1]["operator"] = "Exists"
    template: str = broken["spec"]["next"]["statusTemplate"]
    for condition in ("Ready", "ContainersReady"):
        template = _with_condition_false(template, condition)
    broken["spec"]["next"]["statusTemplate"] = template.replace("ready: true", "ready: false", 1)
    tests = _copied(complete, "test-complete")
    _expressions(tests)[-1] = {"key": f'.metadata.annotations["{TEST_HOOK}"]', "operator": "In", "values": ["test"]}
    node = _stage(source / "node" / "fast" / "node-initialize.yaml")
    path.write_text("\n---\n".join(json.dumps(stage) for stage in [node, *stages.values(), broken, tests]))


def _stage(file: Path) -> dict[str, Any]:
    stage: dict[str, Any] = yaml.safe_load(file.read_text())
    return stage


def _expressions(stage: dict[str, Any]) -> list[dict[str, Any]]:
    expressions: list[dict[str, Any]] = stage["spec"]["selector"]["matchExpressions"]
    return expressions


def _copied(stage: dict[str, Any], name: str) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(stage))
    copied["metadata"]["name"] = name
    return copied


def _with_condition_false(template: str, condition: str) -> str:
    """Upstream writes each condition as `status: "True"` above its `type`."""
    true, false = (f'status: "{value}"\n  type: {condition}\n' for value in ("True", "False"))
    if true not in template:
        raise ValueError(f"expected the condition {condition} in kwok's stage pod-ready, found {template[:300]}")
    return template.replace(true, false)
