"""Renders the chart with a real helm; skips with the reason where there is none and none can be built."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cache import CHECKOUT
from deploy.helm import HelmUnavailable, find_helm

CHART = CHECKOUT / "helm" / "glaim-stream"

Helm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Runs `helm COMMAND ARGUMENTS...` and returns what it did."""
    try:
        program = find_helm()
    except HelmUnavailable as reason:
        pytest.skip(str(reason))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)

    return run


class Chart:
    """The chart, to be rendered with values over the smallest set that it takes."""

    def __init__(self, helm: Helm, directory: Path) -> None:
        self._helm = helm
        self._directory = directory

    def run(self, values: dict[str, Any], command: str = "template") -> subprocess.CompletedProcess[str]:
        """`helm template` or `helm lint` with exactly these values."""
        file = self._directory / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        name = ["demo"] if command == "template" else ["--strict"]
        # A helm that was built from source knows no newer Kubernetes than 1.20 unless told.
        return self._helm(
            command, *name, str(CHART), "--values", str(file), "--namespace", "plant", "--kube-version", "1.34.0"
        )

    def render(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The objects that these values make."""
        run = self.run(values)
        assert run.returncode == 0, run.stderr
        assert "warning" not in run.stderr
        return [document for document in yaml.safe_load_all(run.stdout) if document]

    def refusal(self, values: dict[str, Any]) -> str:
        """What helm says to values that it does not take."""
        run = self.run(values)
        assert run.returncode != 0, "expected a refusal, the chart was rendered"
        return run.stderr


@pytest.fixture
def chart(helm: Helm, tmp_path: Path) -> Chart:
    return Chart(helm, tmp_path)
