"""The figures of GLAIM's paper, transcribed from its tables for comparison.

`published.json` holds the four full tables of the appendix (random and block, and both missing-rate shifts) with
every model, the ablations, the efficiency table, the stability of the dependencies and the averages of the sensitivity
study. The paper's sensitivity figures have no numbers per cell, only the averages named in its text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RATES = (0.1, 0.3, 0.5, 0.7)
ABLATION_RATES = (0.1, 0.3, 0.5)
OURS = "GLAIM"


@dataclass(frozen=True)
class Figure:
    """One printed pair of errors, standardised, three decimals."""

    model: str
    mse: float
    mae: float


@cache
def figures() -> dict[str, Any]:
    """Read the whole transcription."""
    content: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text())
    return content


def section(pattern: str, shifted: bool) -> str:
    """Return the name of one of the four full tables."""
    return f"{pattern}_shift" if shifted else pattern


def full_row(pattern: str, dataset: str, test_rate: float, *, shifted: bool = False) -> list[Figure]:
    """Return all models of one cell of the full tables; empty if the paper has no such cell.

    Args:
        pattern: `random` or `block`.
        dataset: As the paper spells it.
        test_rate: Missing rate of the test, and of training unless `shifted`, where training had 0.3.
        shifted: Take the missing-rate shift table.
    """
    table = figures().get(section(pattern, shifted), {})
    row = table.get("cells", {}).get(dataset, {}).get(f"{test_rate:g}", [])
    return [Figure(model, *pair) for model, pair in zip(table.get("models", []), row, strict=bool(row))]


def glaim(pattern: str, dataset: str, test_rate: float, *, shifted: bool = False) -> Figure | None:
    """Return the paper's own GLAIM in that cell."""
    return next((row for row in full_row(pattern, dataset, test_rate, shifted=shifted) if row.model == OURS), None)


def mean(figures: Sequence[Figure]) -> tuple[float, float]:
    """Return the mean MSE and MAE; the paper's main tables print them to three decimals."""
    mse, mae = (sum(getattr(figure, name) for figure in figures) / len(figures) for name in ("mse", "mae"))
    return mse, mae


def best_baseline(pattern: str, dataset: str, test_rate: float, *, shifted: bool = False) -> Figure | None:
    """Return the baseline with the lowest MSE in that cell of the paper."""
    rivals = [row for row in full_row(pattern, dataset, test_rate, shifted=shifted) if row.model != OURS]
    return min(rivals, key=lambda row: (row.mse, row.mae), default=None)


def ablation(dataset: str, variant: str) -> float | None:
    """Return the MSE averaged over the test rates 0.1, 0.3 and 0.5, trained on blocks at 0.3; None if absent."""
    value = figures()["ablation"].get(dataset, {}).get(variant)
    return None if value is None else float(value)
