"""Measurements besides the cells' errors: other draws of their gaps, stability, efficiency, each with its own file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper import draws, efficiency, lines, stability
from benchmarks.paper.cells import PaperCell

TABLES = ("draws", "stability", "efficiency")


def write(names: Sequence[str], cells: Sequence[PaperCell], runs: Path, results: Path, device: str) -> None:
    """Make the requested measurements and store their lines."""
    if "draws" in names:
        lines.put(results / draws.FILE, draws.measure(cells, runs), draws.IDENTITY)
    if "stability" in names:
        lines.put(results / stability.FILE, stability.measure(cells, runs), stability.IDENTITY)
    if "efficiency" in names:
        measured = [efficiency.measure(dataset, device=device) for dataset in efficiency.MEASURED]
        lines.put(results / efficiency.FILE, measured, efficiency.IDENTITY)
