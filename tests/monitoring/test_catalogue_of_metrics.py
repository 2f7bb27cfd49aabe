"""docs/metrics.md and the program name the same metrics, with the same labels and types."""

from prometheus_client import REGISTRY

import glaim_stream.worker.app
import glaim_stream.worker.run
from deploy.cache import CHECKOUT

LOADED = (glaim_stream.worker.app, glaim_stream.worker.run)  # importing these registers all metrics


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    lines = (CHECKOUT / "docs" / "metrics.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `glaim_")]
    assert all(len(row) == 6 for row in rows)
    assert all(row[2] and row[4] for row in rows), "a unit or a meaning is missing"
    names = [row[0].strip("`") for row in rows]
    assert len(names) == len(set(names)), "a metric has two rows"
    labels = [frozenset(label.strip() for label in row[3].split(",") if label.strip()) for row in rows]
    return {name: (row[1], names_of_labels) for name, row, names_of_labels in zip(names, rows, labels, strict=True)}


def registered() -> dict[str, tuple[str, frozenset[str]]]:
    collectors = {id(collector): collector for collector in REGISTRY._names_to_collectors.values()}
    out = {}
    for collector in collectors.values():
        for family in getattr(collector, "describe", list)():
            if family.name.startswith("glaim_"):
                name = family.name + ("_total" if family.type == "counter" else "")
                out[name] = (family.type, frozenset(getattr(collector, "_labelnames", ())))
    return out


def test_the_document_lists_exactly_the_metrics_of_the_program() -> None:
    assert documented() == registered()


def test_there_are_metrics_to_compare() -> None:
    assert len(registered()) >= 39
