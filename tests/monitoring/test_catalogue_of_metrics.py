"""docs/metrics.md and the program name the same metrics, with the same labels and types."""

from __future__ import annotations

from prometheus_client import REGISTRY

import glaim_stream.worker.app
import glaim_stream.worker.run
from deploy.cache import CHECKOUT

LOADED = (glaim_stream.worker.app, glaim_stream.worker.run)  # whatever they import has registered its metrics


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    lines = (CHECKOUT / "docs" / "metrics.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `glaim_")]
    assert all(len(row) == 6 for row in rows)
    assert all(row[2] and row[4] for row in rows), "a unit or a meaning is missing"
    names = [row[0].strip("`") for row in rows]
    assert len(names) == len(set(names)), "a metric has two rows"
    labels = [frozenset(label.strip() for label in row[3].split(",") if label.strip()) for row in rows]
    return {name: (row[1], of) for name, row, of in zip(names, rows, labels, strict=True)}


def in_the_program() -> dict[str, tuple[str, frozenset[str]]]:
    collectors = {id(collector): collector for collector in REGISTRY._names_to_collectors.values()}
    out = {}
    for collector in collectors.values():
        for family in getattr(collector, "describe", list)():
            if family.name.startswith("glaim_"):
                name = family.name + ("_total" if family.type == "counter" else "")
                out[name] = (family.type, frozenset(getattr(collector, "_labelnames", ())))
    return out


def test_every_metric_has_its_row_and_every_row_its_metric() -> None:
    assert documented() == in_the_program()


def test_there_are_metrics_to_compare() -> None:
    assert len(in_the_program()) >= 39
