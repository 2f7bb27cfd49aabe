"""What is measured besides the errors of cells: dependency stability and efficiency, each kept in its own file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from training.benchmark import efficiency, lines, stability
from training.benchmark.cells import Cell

TABLES = ("stability", "efficiency")


def write(names: Sequence[str], cells: Sequence[Cell], runs: Path, results: Path, device: str) -> None:
    """Measure what is asked for and keep its lines."""
    if "stability" in names:
        lines.put(results / stability.FILE, stability.measure(cells, runs), stability.IDENTITY)
    if "efficiency" in names:
        measured = [efficiency.measure(dataset, device=device) for dataset in efficiency.MEASURED]
        lines.put(results / efficiency.FILE, measured, efficiency.IDENTITY)
