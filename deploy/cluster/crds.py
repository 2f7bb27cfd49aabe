"""The definitions of the custom resources that the chart uses where available, as published by their projects."""

from __future__ import annotations

from pathlib import Path

import yaml

from deploy import gotools
from deploy.cluster.manifest import Object

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


def definitions() -> list[Object]:
    """CustomResourceDefinitions of the Prometheus operator and of KEDA.

    Raises:
        GoUnavailable: There is no go to download them.
        FetchError: A download failed.
    """
    files: list[Path] = []
    for (module, version, folder), names in _SOURCES.items():
        directory = gotools.module_directory(module, version) / folder
        files += [directory / f"{name}.yaml" for name in names]
    # libyaml's loader, because these files are long and the pure Python loader takes seconds.
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in files]
