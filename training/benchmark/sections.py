"""The parts of the page that are not errors of cells: dependency stability and efficiency, each in its own file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from training.benchmark.cells import Cell

TABLES = ("stability", "efficiency")


def write(names: Sequence[str], cells: Sequence[Cell], runs: Path, results: Path) -> None:
    """Measure what is asked for."""


def pages(results: Path) -> list[str]:
    """The sections of what was measured before."""
    return []
