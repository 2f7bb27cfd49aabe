"""kube-score and Trivy's rules find nothing in the rendered chart but what deploy/linters.toml argues for."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from deploy.gotools import GoUnavailable
from deploy.linters import (
    Accepted,
    Finding,
    LinterFailed,
    find_kube_score,
    find_trivy_rules,
    kube_score,
    read_accepted,
    trivy,
)
from tests.helm.chart_checks.damage import Damaged, put
from tests.helm.chart_checks.renderings import Renderings
from tests.helm.chart_checks.system import System
from tests.helm.matrix import MATRIX

# Quicker tests: the rules of tests/helm/chart_checks. The first test may have to build the linters.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def programs() -> tuple[Path, Path]:
    try:
        return find_kube_score(), find_trivy_rules()
    except GoUnavailable as reason:
        pytest.skip(str(reason))


def findings(programs: tuple[Path, Path], systems: Sequence[System]) -> list[set[Finding]]:
    texts = [yaml.dump_all(system.objects, Dumper=yaml.CSafeDumper) for system in systems]
    return [
        kube_score(programs[0], text) | by_trivy
        for text, by_trivy in zip(texts, trivy(programs[1], texts), strict=True)
    ]


@pytest.fixture(scope="module")
def found(programs: tuple[Path, Path], renderings: Renderings) -> dict[str, set[Finding]]:
    """Every finding by the name of the set of values, in whatever clusters the rendering differs."""
    systems = [(name, system) for name in MATRIX for system in renderings.distinct(name)]
    collected: dict[str, set[Finding]] = {name: set() for name in MATRIX}
    for (name, _), each in zip(systems, findings(programs, [system for _, system in systems]), strict=True):
        collected[name] |= each
    return collected


def test_every_finding_is_argued_for(found: dict[str, set[Finding]]) -> None:
    accepted = read_accepted()
    open_ = [
        f"{name}: {each}"
        for name, all_of_set in found.items()
        for each in sorted(all_of_set)
        if not any(one.covers(each, name) for one in accepted)
    ]
    assert not open_, "\n".join(open_)


def test_every_exception_is_needed_and_has_a_reason(found: dict[str, set[Finding]]) -> None:
    for one in read_accepted():
        assert len(one.reason) > 8, one
        assert set(one.sets) <= set(MATRIX), one
        assert any(one.covers(each, name) for name in found for each in found[name]), f"{one} covers nothing"


def test_damage_is_found(programs: tuple[Path, Path], full: System) -> None:
    """Otherwise the other tests would prove nothing."""
    damaged = Damaged(full)
    container = damaged.container("StatefulSet", "worker")
    put(container, "securityContext.privileged", True)
    put(container, "securityContext.readOnlyRootFilesystem", False)
    put(container, "image", "worker:latest")
    sound, broken = findings(programs, [full, damaged.system])
    new = broken - sound
    assert {each.rule for each in new if each.linter == "kube-score"} >= {
        "container-security-context-privileged",
        "container-security-context-readonlyrootfilesystem",
        "container-image-tag",
    }
    assert {each.rule for each in new if each.linter == "trivy"} >= {"AVD-KSV-0017", "AVD-KSV-0014", "AVD-KSV-0013"}
    assert not any(one.covers(each, "everything at once") for one in read_accepted() for each in new)


def test_a_linter_that_looks_at_nothing_has_failed(programs: tuple[Path, Path]) -> None:
    with pytest.raises(LinterFailed):
        kube_score(programs[0], "")
    with pytest.raises(LinterFailed):
        trivy(programs[1], [""])


def test_an_exception_for_some_sets_covers_no_other() -> None:
    one = Accepted("trivy", "A", "b+", "because", ("smallest",))
    finding = Finding("trivy", "A", "abba")
    assert one.covers(finding, "smallest")
    assert not one.covers(finding, "outside")
    assert not one.covers(Finding("trivy", "A", "aa"), "smallest")
    assert not one.covers(Finding("kube-score", "A", "abba"), "smallest")
