"""Figures of live accuracy added up over records: what the metrics say, coverage by position, and pooled regret.

Added here with plain Python from the JSON alone, as a reader of the topic would.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

from glaim_stream.core import metrics
from tests.output.quality.streams import Document

# Methods of the metrics, and the columns of a record that add up to each.
COLUMNS_OF = {
    "model": ("model",), "gaussian": ("gaussian",), "baseline": ("interpolation", "last_value"), "blend": ("published",)
}  # fmt: skip
FIRST = ("edge", "row_edge")


def summed_of(documents: Iterable[Document]) -> dict[str, Any]:
    """Errors by place, sensor and method, and coverage, as of `scraped`."""
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    errors: dict[tuple[str, str, str], float] = defaultdict(float)
    judged, held = 0, 0.0
    for figures in (each for document in documents for each in document["sensors"]):
        place = "first" if figures["position"] in FIRST else "final"
        for method, columns in COLUMNS_OF.items():
            for figure in (figures["methods"][column] for column in columns if column in figures["methods"]):
                counts[place, figures["sensor"], method] += figure["count"]
                errors[place, figures["sensor"], method] += figure["count"] * figure["mae"]
        judged += figures["intervals"]
        held += figures["intervals"] * (figures["coverage"] or 0.0)
    out: dict[str, dict[str, dict[str, float]]] = {"first": {}, "final": {}}
    for (place, sensor, method), count in counts.items():
        of_sensor = out[place].setdefault(sensor, {"count": 0.0})
        of_sensor[method] = errors[place, sensor, method] / count
        of_sensor["count"] = max(of_sensor["count"], count)
    return {"errors": out, "coverage": held / judged, "judged": judged}


def scraped(model: str) -> dict[str, Any]:
    """Errors by place, sensor and method, and coverage, since the start of the process, as metrics have them."""

    def samples(metric: MetricWrapperBase) -> Iterable[tuple[dict[str, str], float]]:
        for sample in (each for family in metric.collect() for each in family.samples):
            if not sample.name.endswith("_created") and sample.labels["model"] == model:
                yield sample.labels, sample.value

    def place(labels: dict[str, str]) -> str:
        return "first" if labels["position"] in FIRST else "final"

    out: dict[str, dict[str, dict[str, float]]] = {"first": {}, "final": {}}
    asked: Counter[tuple[str, str, str]] = Counter()
    for labels, value in samples(metrics.score_questions):
        asked[place(labels), labels["sensor"], labels["method"]] += value
    for (where, sensor, method), count in asked.items():
        if count:
            of_sensor = out[where].setdefault(sensor, {"count": 0.0})
            of_sensor["count"] = max(of_sensor["count"], count)
            of_sensor[method] = 0.0
    for labels, value in samples(metrics.score_error):
        if value:
            where, sensor, method = place(labels), labels["sensor"], labels["method"]
            out[where][sensor][method] += value / asked[where, sensor, method]
    judged = sum(value for _, value in samples(metrics.score_intervals))
    held = sum(value for _, value in samples(metrics.score_intervals_holding))
    return {"errors": out, "coverage": held / judged, "judged": judged}


def assert_metrics_agree(found: dict[str, Any], documents: Iterable[Document], *, rel: float) -> None:
    """The metrics count from the start until now, records count stretches that are over: almost the same cells."""
    summed = summed_of(documents)
    assert found["judged"] == pytest.approx(summed["judged"], rel=rel)
    assert found["coverage"] == pytest.approx(summed["coverage"], abs=0.005)
    compared = 0
    for place, by_sensor in summed["errors"].items():
        assert found["errors"][place].keys() == by_sensor.keys()
        for sensor, figures in by_sensor.items():
            shown = found["errors"][place][sensor]
            assert shown == pytest.approx(figures, rel=rel), (place, sensor, shown, figures)
            compared += int(figures["count"])
    print(
        f"the metrics beside the records: {compared} cells, coverage {found['coverage']:.4f}, {summed['coverage']:.4f}"
    )


def coverage_by_position(documents: Iterable[Document], without: str = "") -> dict[str, tuple[float, int]]:
    """Coverage and number of intervals by position, without one sensor."""
    sums: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for figures in (each for document in documents for each in document["sensors"]):
        if figures["intervals"] and figures["sensor"] != without:
            held, count = sums[figures["position"]]
            drawn = figures["intervals"]
            sums[figures["position"]] = held + drawn * figures["coverage"], count + drawn
    return {position: (held / count, count) for position, (held, count) in sums.items()}


def pooled_regret(documents: Iterable[Document]) -> tuple[float, dict[str, float], int]:
    """Regret against the best single method over all records, the mean scaled errors of the methods, and cells."""
    sums: dict[str, float] = defaultdict(float)
    count = 0
    for regret in (document["regret"] for document in documents if document["regret"] is not None):
        count += regret["count"]
        for method, scaled in regret["scaled_mae"].items():
            sums[method] += regret["count"] * scaled
    means = {method: total / count for method, total in sums.items()}
    best = min(scaled for method, scaled in means.items() if method != "published")
    return (means["published"] - best) / means["published"], means, count


def print_regret(regret: float, means: dict[str, float], count: int) -> None:
    """Print a pooled regret."""
    errors = ", ".join(f"{method} {scaled:.3f}" for method, scaled in means.items())
    print(f"pooled regret {regret:.4f} of {count} cells: {errors}")
