"""The custom resources that the chart uses where they are there, as their projects publish them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deploy import gotools

_SOURCES = {
    ("github.com/prometheus-operator/prometheus-operator", "v0.85.0", "example/prometheus-operator-crd"): (
        "monitoring.coreos.com_podmonitors",
        "monitoring.coreos.com_servicemonitors",
        "monitoring.coreos.com_prometheusrules",
    ),
    ("github.com/kedacore/keda/v2", "v2.21.0", "config/crd/bases"): (
        "keda.sh_scaledobjects",
        "keda.sh_triggerauthentications",
    ),
}


def definitions() -> list[dict[str, Any]]:
    """CustomResourceDefinitions of the Prometheus operator and of KEDA.

    Raises:
        GoUnavailable: There is no go to fetch them with.
        FetchError: One did not come.
    """
    files: list[Path] = []
    for (module, version, folder), names in _SOURCES.items():
        directory = gotools.module_directory(module, version) / folder
        files += [directory / f"{name}.yaml" for name in names]
    # By libyaml: these files are long, and Python's own reader takes seconds.
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in files]
