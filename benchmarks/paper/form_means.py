"""The closed form, and the network over it, in the paper's tables: means over the draws of the test masks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.paper import published
from benchmarks.paper.lines import Line

RECIPE = "closed_form"
CASCADE = "cascade"
SHIFTED_FROM = 0.3  # rate at which the paper's networks are trained in the tables of the shift


def is_cascade(line: Line) -> bool:
    """Whether a line belongs to the network over the closed form, trained to its end or as a trial."""
    return str(line["recipe"]).split("-")[0] == CASCADE


def shifted(line: Line) -> Line:
    """Return the line of a cell's place in the table of the shift: the same numbers, since neither knows a rate."""
    figure = published.glaim(line["pattern"], line["dataset"], line["test_rate"], shifted=True)
    return {
        **line, "table": "shift", "train_rate": SHIFTED_FROM,
        "paper_mse": None if figure is None else figure.mse, "paper_mae": None if figure is None else figure.mae,
    }  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """A cell's mean over its draws, and their deviation; `ratio` is that of the MSE to the paper's."""

    mse: float
    mae: float
    ratio: float | None
    deviation: float = 0.0
    draws: int = 1


def of_cell(forms: Sequence[Line], dataset: str, rate: float) -> Mean | None:
    """Return the mean of a cell, from the lines of one table; None without lines."""
    found = [line for line in forms if line["dataset"] == dataset and line["test_rate"] == rate]
    if not found:
        return None
    mse, mae = (statistics.fmean(line[name] for line in found) for name in ("mse", "mae"))
    printed = found[0]["paper_mse"]
    deviation = statistics.stdev(line["mse"] for line in found) if found[1:] else 0.0
    return Mean(mse, mae, mse / printed if printed else None, deviation, len(found))


def of_rates(forms: Sequence[Line], dataset: str, rates: Sequence[float]) -> Mean | None:
    """Return the mean over the rates; None unless each has a line."""
    means = [mean for rate in rates if (mean := of_cell(forms, dataset, rate)) is not None]
    if len(means) < len(rates):
        return None
    mse, mae = statistics.fmean(mean.mse for mean in means), statistics.fmean(mean.mae for mean in means)
    if any(mean.ratio is None for mean in means):
        return Mean(mse, mae, None)
    return Mean(mse, mae, mse / statistics.fmean(mean.mse / mean.ratio for mean in means if mean.ratio))


def summary(forms: Sequence[Line]) -> str:
    """Describe the ratios on the whole, and how many alternatives each fit compared; empty without ratios."""
    places = dict.fromkeys((str(line["dataset"]), float(line["test_rate"])) for line in forms)
    means = {place: mean.ratio for place in places if (mean := of_cell(forms, *place)) is not None and mean.ratio}
    if not means:
        return ""
    over = [f"{name} {rate:g} ({ratio:.2f})" for (name, rate), ratio in means.items() if ratio > 1]
    whole = math.exp(statistics.fmean(map(math.log, means.values())))
    if is_cascade(forms[0]):
        trials = {line["dataset"]: line["epochs"] for line in forms if line["recipe"] != CASCADE}
        short = ", ".join(f"{name} ({epochs} epochs)" for name, epochs in trials.items())
        return (
            f"Over the closed form: {whole:.2f} times the paper's MSE, geometric mean of {len(means)} cells; above the "
            f"paper: {', '.join(over) or 'none'}.{f' Short trainings: {short}.' if short else ''}\n"
        )
    choices = {line["dataset"]: line["choices"] for line in forms}
    compared = ", ".join(f"{name} {count}" for name, count in choices.items())
    return (
        f"Closed form: {whole:.2f} times the paper's MSE, geometric mean of {len(means)} cells; above the paper: "
        f"{', '.join(over) or 'none'}. Alternatives that its fits compared on validation windows: {compared}.\n"
    )
