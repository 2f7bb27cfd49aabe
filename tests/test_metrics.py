"""Every metric has the prefix `glaim_`, a base unit, a description, and labels with few values."""

from __future__ import annotations

import pytest
from prometheus_client import Counter, Gauge, Histogram

from glaim_stream import metrics

ALL = {name: metric for name, metric in vars(metrics).items() if isinstance(metric, Counter | Gauge | Histogram)}
FEW_VALUES = {
    "cause",
    "detector",
    "state",
    "method",
    "imputer",
    "partition",
    "model",
    "sensor",
    "position",
    "kind",
    "outcome",
    "page",
    "reason",
} | {
    "version",
    "gap_age",
    "use",
    "file",
    "source",
}


@pytest.mark.parametrize("name", ALL)
def test_a_metric_has_a_valid_name_description_and_labels(name: str) -> None:
    metric = ALL[name]
    (family,) = metric.describe()
    assert family.name.startswith("glaim_")
    assert family.documentation
    assert not any(family.name.endswith(unit) for unit in ("_ms", "_milliseconds", "_minutes", "_kb"))
    assert set(metric._labelnames) <= FEW_VALUES
    if isinstance(metric, Histogram):
        assert family.name.endswith("_seconds")


def test_there_are_metrics_to_check() -> None:
    assert len(ALL) >= 18
