"""One release of the chart in a namespace that enforces Pod Security, and queries for its objects."""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from deploy.cache import CHECKOUT
from deploy.cluster import LocalCluster
from deploy.cluster.manifest import Object

CHART = CHECKOUT / "helm" / "glaim-stream"
# The only required value.
SMALLEST: Object = {
    "image": {"registry": "registry.example/team"},
    "kafka": {"bootstrapServers": "kafka.plant:9092"},
}
_numbers = itertools.count(1)
# Objects that controllers create in every namespace.
_IN_EVERY_NAMESPACE = {"kube-root-ca.crt", "default"}


def merged(values: Object, changes: Object) -> Object:
    """Merge `changes` into `values`, as helm merges values files."""
    result = dict(values)
    for name, change in changes.items():
        old = result.get(name)
        result[name] = merged(old, change) if isinstance(old, dict) and isinstance(change, dict) else change
    return result


def labels_of(thing: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = thing["metadata"].get("labels") or {}
    return labels


def conditions_of(thing: Object) -> dict[str, str]:
    return {item["type"]: item["status"] for item in thing.get("status", {}).get("conditions") or []}


class Release:
    """A release named `plant` that can be installed, upgraded and removed."""

    name = "plant"

    def __init__(self, cluster: LocalCluster, helm: Path, directory: Path) -> None:
        self.api = cluster.api
        self.namespace = f"test-{next(_numbers)}"
        self._helm = helm
        self._directory = directory
        self._environment = os.environ | {
            "KUBECONFIG": str(cluster.kubeconfig),
            "HELM_CACHE_HOME": str(directory / "helm"),
            "HELM_CONFIG_HOME": str(directory / "helm"),
            "HELM_DATA_HOME": str(directory / "helm"),
        }

    def __enter__(self) -> Self:
        self._free_volumes()
        policy = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        self.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": policy}}
        )
        until(lambda: self.one("v1", "ServiceAccount", "default") is not None, "the namespace has a service account")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.api.delete("v1", "Namespace", self.namespace)

    def _free_volumes(self) -> None:
        """Make volumes whose claims were deleted available to new claims, as an administrator does manually."""
        for volume in self.api.listed("v1", "PersistentVolume"):
            if volume["status"]["phase"] == "Released":
                self.api.patch("v1", "PersistentVolume", volume["metadata"]["name"], {"spec": {"claimRef": None}})

    # ----------------------------------------------------------------------------------------------- helm commands

    def helm(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `helm COMMAND plant ARGUMENTS...` in the namespace, without checking the result."""
        line = [str(self._helm), *command.split(), self.name, *arguments, "--namespace", self.namespace]
        return subprocess.run(line, env=self._environment, capture_output=True, text=True, timeout=150, check=False)

    def install(self, changes: Object | None = None, *, wait: bool = True, chart: Path = CHART) -> str:
        """Install the chart with the required value and changes, wait until all pods are Ready, return the notes."""
        return self._apply("install", changes, wait, chart)

    def upgrade(self, changes: Object | None = None, *, wait: bool = True) -> str:
        """Upgrade in the same way; values that `changes` does not contain return to their defaults."""
        return self._apply("upgrade", changes, wait)

    def rejection(self, changes: Object, command: str = "install") -> str:
        """The error output of helm for values that it must reject."""
        run = self.helm(command, str(CHART), "--values", str(self._values(changes)))
        assert run.returncode != 0, "expected helm to reject the values, but it installed the chart"
        return run.stderr

    def _apply(self, command: str, changes: Object | None, wait: bool, chart: Path = CHART) -> str:
        options = ["--wait", "--timeout", "60s"] if wait else []
        run = self.helm(command, str(chart), "--values", str(self._values(changes or {})), *options)
        assert run.returncode == 0, run.stderr + self.events()
        assert "arning" not in run.stderr, run.stderr  # from Pod Security or for deprecated APIs
        return run.stdout

    def _values(self, changes: Object) -> Path:
        file = self._directory / "values.yaml"
        file.write_text(yaml.safe_dump(merged(SMALLEST, changes)))
        return file

    def manifest(self, *, hooks: bool = False) -> list[Object]:
        """The rendered objects of the release."""
        run = self.helm("get hooks" if hooks else "get manifest")
        assert run.returncode == 0, run.stderr
        return [document for document in yaml.load_all(run.stdout, yaml.CSafeLoader) if document]

    # ------------------------------------------------------------------------------------------ state of the cluster

    def one(self, api_version: str, kind: str, name: str) -> Object | None:
        return self.api.get(api_version, kind, name, self.namespace)

    def all(self, api_version: str, kind: str, component: str = "") -> list[Object]:
        """Objects of a kind in the release, of one component or of all."""
        selector = f"app.kubernetes.io/instance={self.name}"
        if component:
            selector += f",app.kubernetes.io/component={component}"
        return self.api.listed(api_version, kind, self.namespace, selector)

    def pods(self, component: str = "") -> list[Object]:
        """Pods that are not being deleted, sorted by name."""
        found = [pod for pod in self.all("v1", "Pod", component) if "deletionTimestamp" not in pod["metadata"]]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def ready(self, component: str = "") -> list[Object]:
        return [pod for pod in self.pods(component) if conditions_of(pod).get("Ready") == "True"]

    def nodes(self, component: str) -> list[str]:
        """The node of each scheduled pod of the component."""
        return [pod["spec"]["nodeName"] for pod in self.pods(component) if "nodeName" in pod["spec"]]

    def disruptions_allowed(self, component: str) -> int:
        """The number of pods of a component that the budget would let be evicted now; 0 until it has counted them."""
        budgets = self.all("policy/v1", "PodDisruptionBudget", component)
        return sum(budget.get("status", {}).get("disruptionsAllowed", 0) for budget in budgets)

    def until(self, done: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Wait until a condition holds; a failure reports the condition and the warnings of the cluster."""
        try:
            until(done, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}{self.events()}") from None

    def stays(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Check that a condition holds for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert holds(), f"no longer: {what}"
            time.sleep(0.2)

    def objects(self) -> list[str]:
        """All objects in the namespace as `Kind/name`, except events and those in every namespace."""
        everything = self.api.everything(self.namespace, "")
        kept = [thing for thing in everything if thing["kind"] != "Event"]
        names = {f"{thing['kind']}/{thing['metadata']['name']}" for thing in kept}
        return sorted(name for name in names if name.split("/", 1)[1] not in _IN_EVERY_NAMESPACE)

    def events(self) -> str:
        """The warnings of controllers and scheduler, for a message."""
        events = self.api.listed("v1", "Event", self.namespace)
        return "".join(f"\n{event['reason']}: {event.get('message')}" for event in events if event["type"] == "Warning")


def until(done: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait until a condition holds; a failure reports the condition."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"expected within {seconds:.0f} s: {what}"
        time.sleep(0.1)
