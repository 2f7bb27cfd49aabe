"""Fixtures that render the chart with a real helm; skipped if helm is absent and cannot be built."""

import json
import subprocess
from collections.abc import Callable, Sequence
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
    """Runs `helm COMMAND ARGUMENTS...` and returns the completed process."""
    try:
        program = find_helm()
    except HelmUnavailable as reason:
        pytest.skip(str(reason))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)

    return run


class Chart:
    """The chart, rendered with given values; results are cached."""

    def __init__(self, helm: Helm, directory: Path) -> None:
        self._helm = helm
        self._directory = directory
        self._runs: dict[str, subprocess.CompletedProcess[str]] = {}

    def run(
        self,
        values: dict[str, Any],
        command: str = "template",
        apis: Sequence[str] = (),
        *,
        kubernetes: str = "1.34.0",
        more: Sequence[str] = (),
        release: str = "demo",
    ) -> subprocess.CompletedProcess[str]:
        """Run `helm template` or `helm lint` for a cluster of this version that also serves `apis`."""
        text = yaml.safe_dump(values)
        key = json.dumps([text, command, list(apis), kubernetes, list(more), release])
        if key not in self._runs:
            file = self._directory / "values.yaml"
            file.write_text(text)
            name = [release] if command == "template" else ["--strict"]
            arguments = [command, *name, str(CHART), "--values", str(file), "--namespace", "plant", *more]
            # A helm that was built from source assumes Kubernetes 1.20 by default.
            arguments += ["--kube-version", kubernetes]
            if command == "template":
                arguments += [f"--api-versions={api}" for api in apis]
            self._runs[key] = self._helm(*arguments)
        return self._runs[key]

    def render(
        self, values: dict[str, Any], apis: Sequence[str] = (), *, kubernetes: str = "1.34.0"
    ) -> list[dict[str, Any]]:
        """The rendered objects."""
        run = self.run(values, apis=apis, kubernetes=kubernetes)
        assert run.returncode == 0, run.stderr
        assert "warning" not in run.stderr
        return [document for document in yaml.load_all(run.stdout, yaml.CSafeLoader) if document]

    def rejection(self, values: dict[str, Any], apis: Sequence[str] = ()) -> str:
        """The error output of helm for values that it rejects."""
        run = self.run(values, apis=apis)
        assert run.returncode != 0, "expected a rejection, the chart was rendered"
        return run.stderr


@pytest.fixture(scope="session")
def chart(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return Chart(helm, tmp_path_factory.mktemp("chart"))
