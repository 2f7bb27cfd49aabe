"""Every metric has the prefix `glaim_`, a base unit, a description, and labels with few values."""

import pytest
from prometheus_client import Counter, Gauge, Histogram

from glaim_stream.core import metrics

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
    "against",
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


def test_a_partition_that_moves_away_leaves_no_series() -> None:
    """One gauge with a second label ended the worker at the first rebalance."""
    for gauge in metrics.OF_PARTITIONS:
        for partition in ("7", "8"):
            gauge.labels(**{name: partition if name == "partition" else "x" for name in gauge._labelnames}).set(1)
    metrics.forget_partition(7)
    metrics.forget_partition(7)  # of a partition without series, too
    left = [sample.labels["partition"] for gauge in metrics.OF_PARTITIONS for sample in gauge.collect()[0].samples]
    assert "7" not in left
    assert left.count("8") == len(metrics.OF_PARTITIONS)
    metrics.forget_partition(8)
