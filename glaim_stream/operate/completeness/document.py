"""A report for programs: JSON, sensor by sensor, so that a large one is never in memory whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from glaim_stream.core.times import text_of_ms
from glaim_stream.operate.completeness.figures import FIGURES, FILLED_BY, Figures, SensorDays, percent, summed
from glaim_stream.operate.completeness.report import CompletenessReport

FORMAT = 1  # increased when a name changes its meaning or is removed


def pieces(report: CompletenessReport) -> Iterator[str]:
    """Yield the document piece by piece; it ends with a line end."""
    days = len(report.days)
    head = {
        "format": FORMAT,
        "title": report.title,
        "source": dict(report.source),
        "timezone": report.timezone,
        "begin": text_of_ms(report.begin_ms),
        "end": text_of_ms(report.end_ms),
        "groups": report.groups,
        "unread": report.unread,
        "notes": list(report.notes),
        "total": _named(report, summed(report.by_day)),
        "days": [
            {"date": report.days.names[day], **_named(report, _row(report.by_day, day))}
            for day in range(days)
            if report.by_day["expected"][day]
        ],
    }
    text = json.dumps(head, indent=2, ensure_ascii=False)
    yield text[: -len("\n}")] + ',\n  "sensors": ['
    for number, each in enumerate(report.sensors):
        yield (",\n    " if number else "\n    ") + json.dumps(_sensor(report, each), ensure_ascii=False)
    yield "\n  ]\n}\n" if report.sensors else "]\n}\n"


def _sensor(report: CompletenessReport, each: SensorDays) -> dict[str, Any]:
    return {
        "group": each.group,
        "sensor": each.sensor,
        "cell_s": each.cell_ms / 1000,
        **_named(report, each.total, each.cell_ms),
        "days": [
            {"date": report.days.names[int(day)], **_named(report, _row(each.figures, place), each.cell_ms)}
            for place, day in enumerate(each.figures["day"])
        ],
    }


def _row(figures: Figures, place: int) -> dict[str, Any]:
    return {name: figures[name][place].item() for name in FIGURES.names or () if name != "day"}


def _named(report: CompletenessReport, found: Mapping[str, Any], cell_ms: int | None = None) -> dict[str, Any]:
    """Figures by the names of the document; None for those that a source cannot tell."""
    expected = found["expected"]
    out: dict[str, Any] = {
        "expected": expected,
        "arrived": found["arrived"],
        "good": found["good"],
        "late": found["late"] if report.stream else None,
        "too_late": found["too_late"] if report.stream else None,
        "filled": {method: found[method] for method in FILLED_BY} if report.filled else None,
        "null": found["null"],
        "without_row": found["without_row"],
        "pct_good": percent(found["good"], expected),
        "pct_with_value": percent(expected - found["null"], expected),
        "mean_delay_s": found["delay_ms"] / found["delays"] / 1000 if found["delays"] else None,
    }
    if cell_ms is not None:  # sensors together may have cells of different lengths
        out |= {"longest_gap": found["longest_gap"], "longest_gap_s": found["longest_gap"] * cell_ms / 1000}
    return out
