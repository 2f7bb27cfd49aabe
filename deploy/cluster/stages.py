"""The stages of kwok's fake kubelets: upstream's fast stages and two additions, for broken pods and for helm tests."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from deploy import gotools
from deploy.cluster.manifest import Object
from deploy.cluster.programs import KWOK_VERSION

# A pod with this annotation runs and never becomes Ready, as in a broken release.
NEVER_READY = "local-cluster/never-ready"
# Upstream's stage completes only the pods of Jobs; helm's test pods must complete too.
TEST_HOOK = "helm.sh/hook"


def write_stages(path: Path) -> None:
    """Write the stages into one file for `kwok --config`.

    Raises:
        FetchError: kwok's source could not be downloaded.
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


def _stage(file: Path) -> Object:
    stage: Object = yaml.safe_load(file.read_text())
    return stage


def _expressions(stage: Object) -> list[Object]:
    expressions: list[Object] = stage["spec"]["selector"]["matchExpressions"]
    return expressions


def _copied(stage: Object, name: str) -> Object:
    copied: Object = json.loads(json.dumps(stage))
    copied["metadata"]["name"] = name
    return copied


def _with_condition_false(template: str, condition: str) -> str:
    """Set a condition of a status template to False; upstream writes `status: "True"` above the `type`."""
    true, false = (f'status: "{value}"\n  type: {condition}\n' for value in ("True", "False"))
    if true not in template:
        raise ValueError(f"expected the condition {condition} in kwok's stage pod-ready, found {template[:300]}")
    return template.replace(true, false)
