"""Every set of values of the matrix complies with every rule, for every kind of cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.helm.chart_checks import (
    conventions,
    environment,
    network,
    probes,
    references,
    scheduled,
    schemas,
)
from tests.helm.chart_checks.renderings import CHART, clusters
from tests.helm.matrix import MATRIX, NAMES

if TYPE_CHECKING:
    from tests.helm.chart_checks.renderings import Renderings
    from tests.helm.chart_checks.system import System

# The first test may have to build helm and fetch the CRDs; `make servers` does it beforehand.
pytestmark = pytest.mark.timeout(1800)

RULES: list[Callable[[System], Iterator[str]]] = [
    conventions.check,
    references.check,
    probes.check,
    scheduled.check,
    environment.check,
    network.check,
]


def test_the_version_of_kubernetes_changes_nothing(renderings: Renderings) -> None:
    """Every other test renders for the newest version with and without operators, and checks it against all schemas."""
    rendered: dict[bool, set[str]] = {True: set(), False: set()}
    for cluster in clusters():
        name = "everything at once" if cluster.operators else "settings of every object"
        rendered[cluster.operators].add(renderings.text(name, cluster))
    assert [len(texts) for texts in rendered.values()] == [1, 1]
    templates = [file for file in (CHART / "templates").rglob("*") if file.is_file()]
    assert not [file for file in templates if re.search("KubeVersion|semverCompare", file.read_text())]


@pytest.mark.parametrize("name", NAMES)
def test_objects_comply_with_their_schemas(renderings: Renderings, name: str) -> None:
    problems = {
        f"Kubernetes {cluster.minor}: {problem}"
        for cluster, system in renderings.of(name)
        for problem in schemas.check(system, cluster.minor)
    }
    assert not problems, "\n".join(sorted(problems))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__module__.rpartition(".")[2])
@pytest.mark.parametrize("name", MATRIX)
def test_system_complies_with_the_rules(
    renderings: Renderings, name: str, rule: Callable[[System], Iterator[str]]
) -> None:
    problems = {problem for system in renderings.distinct(name) for problem in rule(system)}
    assert not problems, "\n".join(sorted(problems))
