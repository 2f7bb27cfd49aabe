"""Figures of live accuracy added up over records: what the page shows, coverage by position, and pooled regret.

Added here with plain Python from the JSON alone, as a reader of the topic would.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from tests.output.quality.streams import Document

# Methods of the page, and the columns of a record that add up to each.
COLUMNS_OF = {
    "model": ("model",), "gaussian": ("gaussian",), "baseline": ("interpolation", "last_value"), "blend": ("published",)
}  # fmt: skip
FIRST = ("edge", "row_edge")


def page_of(documents: Iterable[Document]) -> dict[str, Any]:
    """Errors by place, sensor and method, and coverage, in the form in which the page has them."""
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


def assert_page_agrees(page: dict[str, Any], documents: Iterable[Document], *, rel: float) -> None:
    """The page counts from the start until now, records count stretches that are over: almost the same cells."""
    summed = page_of(documents)
    assert page["since_start"]
    assert page["judged"] == pytest.approx(summed["judged"], rel=rel)
    assert page["coverage"] == pytest.approx(summed["coverage"], abs=0.005)
    compared = 0
    for place, by_sensor in summed["errors"].items():
        assert page["errors"][place].keys() == by_sensor.keys()
        for sensor, figures in by_sensor.items():
            shown = page["errors"][place][sensor]
            assert shown == pytest.approx(figures, rel=rel), (place, sensor, shown, figures)
            compared += int(figures["count"])
    print(f"the page beside the records: {compared} cells, coverage {page['coverage']:.4f}, {summed['coverage']:.4f}")


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
