"""Every set of values of the matrix, rendered for every supported kind of cluster."""

import re
import subprocess
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.cache import CHECKOUT
from tests.helm.chart_checks.crds import custom_kinds
from tests.helm.chart_checks.schemas import newest_minors
from tests.helm.chart_checks.system import System

CHART = CHECKOUT / "helm" / "glaim-stream"
NAMESPACE = "plant"
CONCURRENT = 4  # helm processes; one takes a tenth of a second

Helm = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Cluster:
    """A kind of cluster: its version, and whether it serves the kinds of the operators."""

    minor: str
    operators: bool


def oldest_minor() -> str:
    """The oldest minor version of Kubernetes that Chart.yaml allows, such as "1.27"."""
    constraint = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    match = re.match(r">=\s*(1\.\d+)", constraint)
    if match is None:
        raise ValueError(f"expected kubeVersion to begin with >=1.N, found {constraint!r}")
    return match[1]


def clusters() -> list[Cluster]:
    """The three newest minor versions and the oldest supported one; the oldest and newest also without operators."""
    oldest, newest = oldest_minor(), newest_minors(3)
    with_operators = [Cluster(minor, operators=True) for minor in (oldest, *newest)]
    return [*with_operators, Cluster(oldest, operators=False), Cluster(newest[-1], operators=False)]


class Renderings:
    """The systems that helm renders, for every set of values and every cluster; each set on its first use.

    Args:
        helm: Runs helm.
        matrix: Name -> values.
        operated: Names of the values that require the operators' kinds and are rejected without them.
        directory: For the files of values.
    """

    def __init__(self, helm: Helm, matrix: dict[str, Any], operated: Container[str], directory: Path) -> None:
        self._helm, self._directory, self._matrix, self._operated = helm, directory, matrix, operated
        self._systems: dict[str, list[tuple[Cluster, System]]] = {}

    def of(self, name: str) -> list[tuple[Cluster, System]]:
        """The system rendered from these values, for each cluster."""
        if name not in self._systems:
            served = [cluster for cluster in clusters() if cluster.operators or name not in self._operated]
            # The templates do not ask for the version of Kubernetes (test_every_rule.py): newest ones stand for all.
            newest = {cluster.operators: cluster for cluster in served}
            with ThreadPoolExecutor(CONCURRENT) as pool:
                texts = dict(zip(newest, pool.map(lambda each: self.text(name, each), newest.values()), strict=True))
            systems = {operators: self._system(name, text) for operators, text in texts.items()}
            self._systems[name] = [(cluster, systems[cluster.operators]) for cluster in served]
        return self._systems[name]

    def distinct(self, name: str) -> list[System]:
        """The same without duplicates: most versions of Kubernetes make no difference."""
        found: list[System] = []
        for _, system in self.of(name):
            if all(system is not other and system.objects != other.objects for other in found):
                found.append(system)
        return found

    def text(self, name: str, cluster: Cluster) -> str:
        """What helm renders from these values for this cluster."""
        file = self._directory / f"{re.sub('[^a-z0-9]+', '-', name.lower())}-{cluster.minor}-{cluster.operators}.yaml"
        file.write_text(yaml.safe_dump(self._matrix[name]))
        arguments = ["template", "demo", str(CHART), "--values", str(file), "--namespace", NAMESPACE]
        arguments += ["--kube-version", f"{cluster.minor}.0"]
        if cluster.operators:
            known = {api for api, _ in custom_kinds()} | {f"{api}/{kind}" for api, kind in custom_kinds()}
            arguments += ["--api-versions", ",".join(sorted(known))]
        run = self._helm(*arguments)
        if run.returncode != 0:
            raise AssertionError(f"{name}, Kubernetes {cluster.minor}: {run.stderr}")
        return run.stdout

    def _system(self, name: str, text: str) -> System:
        objects = [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]
        return System(objects, self._matrix[name], NAMESPACE)
