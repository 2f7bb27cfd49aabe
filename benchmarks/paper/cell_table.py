"""The paper's four full tables, one row a cell: its figures, the simple methods, and ours."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.paper import form_means, published
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.lines import Line
from benchmarks.paper.tables import BAR_NAMES, BARS, EMPTY, errors, grid, shown

HEADER = (
    "data set", "rate", "paper", "paper's best baseline", *BAR_NAMES, "GLAIM alone", "closed form", "ratio", "over it",
    "blend", "ratio",
)  # fmt: skip
SHIFTED = (0, 1, 2, 3, 6, 8, 11)  # columns of the tables of the shift; the others repeat those of the cells
PATTERNS = ("random", "block")
ALONE = ("ours", "paper")  # the recipes of the column, in this order; the others are trials


@dataclass(frozen=True)
class CellLines:
    """Lines of one table and pattern: of networks alone, of the closed form, and of the network over it."""

    networks: Sequence[Line]
    forms: Sequence[Line]
    cascades: Sequence[Line]

    def where(self, **values: object) -> CellLines:
        """The lines that have these values."""
        return CellLines(
            *(
                [line for line in some if all(line[name] == value for name, value in values.items())]
                for some in (self.networks, self.forms, self.cascades)
            )
        )


def text(table: str, pattern: str, every: CellLines) -> str:
    """Return one full table: a row for each test rate of the data sets that were run, and a summary of the ratios.

    Args:
        table: `random`, `block` or `shift`, as in the lines.
        pattern: `random` or `block`.
        every: All lines.
    """
    shifted, found = table == "shift", every.where(table=table, pattern=pattern)
    rows: list[list[str]] = []
    for dataset in DATASETS:
        figures = [published.glaim(pattern, dataset, rate, shifted=shifted) for rate in published.RATES]
        if not _has_lines(found.where(dataset=dataset)) or (shifted and not any(figures)):  # the paper prints no slice
            continue
        for rate, glaim in zip(published.RATES, figures, strict=True):
            rival = published.best_baseline(pattern, dataset, rate, shifted=shifted)
            printed = errors(glaim.mse, glaim.mae) if glaim else EMPTY
            rivals = f"{errors(rival.mse, rival.mae)} {rival.model}" if rival else EMPTY
            rows.append([dataset, f"{rate:g}", printed, rivals, *_measured(found, dataset, rate)])
        rows += _mean(found, dataset, figures)
    if not rows:
        return ""
    header: Sequence[str] = HEADER
    if shifted:
        header = [*(HEADER[column] for column in SHIFTED[:-2]), "closed form, ratio", "blend, ratio"]
        rows = [[row[column] for column in SHIFTED] for row in rows]
    return f"{grid(header, rows)}\n{form_means.summary(found.forms)}{form_means.summary(found.cascades)}"


def _has_lines(found: CellLines) -> bool:
    return bool(found.networks or found.forms or found.cascades)


def _measured(found: CellLines, dataset: str, rate: float) -> list[str]:
    """The columns behind the paper's."""
    of_cell = found.where(dataset=dataset, test_rate=rate)
    alone = [line for recipe in ALONE for line in of_cell.networks if line["recipe"] == recipe]
    form, blend = (form_means.of_cell(some, dataset, rate) for some in (found.forms, found.cascades))
    return [
        *_bars(of_cell.forms or of_cell.cascades or of_cell.networks[:1]),
        errors(alone[0]["mse"], alone[0]["mae"]) if alone else EMPTY,
        *_with_ratio(form),
        _network(of_cell.cascades),
        *_with_ratio(blend),
    ]


def _bars(lines: Sequence[Line]) -> list[str]:
    """Interpolation and last value, in the mean over draws."""
    if not lines:
        return [EMPTY] * len(BARS)
    return [
        errors(*(statistics.fmean(line[f"{bar}_{measure}"] for line in lines) for measure in ("mse", "mae")))
        for bar in BARS
    ]


def _network(cascades: Sequence[Line]) -> str:
    """The MSE of the network over the closed form before it is blended, in the mean over draws."""
    return shown(statistics.fmean(line["parts_mse"]["network"] for line in cascades)) if cascades else EMPTY


def _with_ratio(mean: form_means.Mean | None) -> list[str]:
    """Two columns: the mean over draws with its deviation, and the ratio of its MSE to the paper's."""
    if mean is None:
        return [EMPTY, EMPTY]
    spread = f" ± {mean.deviation:.4f} ({mean.draws})" if mean.draws > 1 else ""
    return [f"{errors(mean.mse, mean.mae)}{spread}", EMPTY if mean.ratio is None else f"{mean.ratio:.2f}"]


def _mean(found: CellLines, dataset: str, printed: Sequence[published.Figure | None]) -> list[list[str]]:
    """Return the mean over the rates, as in the paper's main tables, where each has a line; `printed`: the paper's."""
    means = [form_means.of_rates(some, dataset, published.RATES) for some in (found.forms, found.cascades)]
    known = [figure for figure in printed if figure is not None]
    if not any(means) or len(known) < len(published.RATES):
        return []
    theirs = errors(*(round(value, 3) for value in published.mean(known)))
    form, blend = (_with_ratio(mean) for mean in means)
    blank = [EMPTY] * (len(BARS) + 2)
    return [[f"**{dataset}**", "**mean**", theirs, *blank, *form, EMPTY, *blend]]


def glance(every: CellLines) -> str:
    """Return the ratio of the MSE to the paper's, by data set and pattern: geometric means over the four rates."""
    patterns = [every.where(table=pattern, pattern=pattern) for pattern in PATTERNS]
    rows = []
    for dataset in DATASETS:
        ratios = [_ratios(some, dataset) for found in patterns for some in (found.forms, found.cascades)]
        if any(ratios):
            rows.append([dataset, *(_geometric(each, len(published.RATES)) for each in ratios)])
    if not rows:
        return ""
    whole = [
        [ratio for name in DATASETS for found in sides for ratio in _ratios(found, name)]
        for sides in ([found.forms for found in patterns], [found.cascades for found in patterns])
    ]
    says = [
        f"{name} {_geometric(each)} times the paper's MSE over {len(each)} cells, {sum(ratio > 1 for ratio in each)} "
        "of them above it"
        for name, each in zip(("closed form", "blend"), whole, strict=True)
        if each
    ]
    header = ["data set", *(f"{pattern}, {name}" for pattern in PATTERNS for name in ("closed form", "blend"))]
    return f"{grid(header, rows)}\nGeometric means: {'; '.join(says)}.\n"


def _ratios(lines: Sequence[Line], dataset: str) -> list[float]:
    means = [form_means.of_cell(lines, dataset, rate) for rate in published.RATES]
    return [mean.ratio for mean in means if mean is not None and mean.ratio is not None]


def _geometric(ratios: Sequence[float], fewest: int = 1) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}" if len(ratios) >= fewest else EMPTY
