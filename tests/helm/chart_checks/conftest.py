"""Fixtures that render every set of values of the matrix at most once; skipped if helm or the CRDs are unavailable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy.gotools import GoUnavailable
from tests.helm.chart_checks.crds import definitions
from tests.helm.chart_checks.renderings import Renderings
from tests.helm.matrix import APIS, MATRIX

if TYPE_CHECKING:
    from tests.helm.chart_checks.renderings import Helm
    from tests.helm.chart_checks.system import System


@pytest.fixture(scope="session")
def renderings(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Renderings:
    try:
        definitions()
    except GoUnavailable as reason:
        pytest.skip(str(reason))
    return Renderings(helm, MATRIX, APIS, tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="session")
def full(renderings: Renderings) -> System:
    """A system that complies with every rule, to be damaged by tests."""
    *_, (_, system) = renderings.of("everything at once")
    return system
