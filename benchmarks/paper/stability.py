"""The similarity of the learned dependencies at different missing rates (the paper's "Dependency Visualization").

Interpretation of what the paper leaves open: "The aggregated dependency matrices produced by the first StaGlo
layer" are the mean over all D features of the matrices G_d of the first layer, [C, C]. Rank agreement is Spearman's
correlation over all C x C entries. The Jensen-Shannon divergence is in nats and taken over the matrix divided by its
sum; since every row of it sums to 1, this is also the mean of the rows' divergences.

All models of a family begin with the same seed and therefore with the same dependencies. So the untrained network is
compared too, as rate `start`: agreement before training does not come from the data.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.paper import lines, published
from benchmarks.paper.cells import STABLE, PaperCell
from benchmarks.paper.lines import Line
from benchmarks.paper.published import RATES
from benchmarks.paper.run import progress
from benchmarks.paper.tables import grid
from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.evaluate import restore
from training.network import GLAIM, build_network
from training.runtime import machine

FILE = "stability.jsonl"
START = "start"
IDENTITY = ("dataset", "pattern", "one", "other", "recipe", "d_model", "seed")
Matrix = NDArray[np.float64]


def aggregated(model: GLAIM) -> Matrix:
    """Return the mean over the features of the first StaGlo layer's matrices, [C, C]; each row sums to 1."""
    with torch.inference_mode():
        matrices: Matrix = model.layers[0].staglo.dependencies(model.tokens).mean(dim=0).double().numpy()
    return matrices


def start(state: Checkpoint) -> GLAIM:
    """Return the network as it was before its training: the loop builds it right after seeding."""
    config, _, _ = restore(state)
    torch.manual_seed(config.train.seed)
    model = build_network(config.model)
    model.eval()
    return model


def spearman(one: Matrix, other: Matrix) -> float:
    """Return Pearson's correlation of the ranks of all entries; equal entries share their mean rank."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(matrix: Matrix) -> Matrix:
    _, place, count = np.unique(matrix, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: Matrix = (last - (count - 1) / 2)[place.ravel()]
    return ranks


def jensen_shannon(one: Matrix, other: Matrix) -> float:
    """Return the divergence in nats, 0 to ln 2, of two non-negative matrices, each divided by its sum."""
    p, q = one / one.sum(), other / other.sum()
    middle = (p + q) / 2
    return (_divergence(p, middle) + _divergence(q, middle)) / 2


def _divergence(p: Matrix, q: Matrix) -> float:
    inside = p > 0
    return float(np.sum(p[inside] * np.log(p[inside] / q[inside])))


def families(cells: Sequence[PaperCell]) -> Iterator[dict[float, PaperCell]]:
    """Return the trained families that the paper compares: equal in everything but the rate."""
    full = [cell for cell in cells if cell.variant == "full" and (cell.dataset, cell.pattern) in STABLE]
    for dataset, pattern in STABLE:
        yield {cell.rate: cell for cell in full if (cell.dataset, cell.pattern) == (dataset, pattern)}


def measure(cells: Sequence[PaperCell], root: Path) -> list[Line]:
    """Return a line for each pair of trained rates of a family, and for each rate with the untrained network."""
    found: list[Line] = []
    for family in families(cells):
        matrices: dict[str, Matrix] = {}
        trained: dict[str, PaperCell] = {}
        unfinished = False
        for rate in RATES:
            cell = family.get(rate)
            file = None if cell is None else root / cell.name / "best.pt"
            if cell is None or file is None or not file.is_file():
                continue
            state = checkpoints.load(file)
            now = progress(cell, root)
            unfinished |= now is None or not now.finished
            matrices.setdefault(START, aggregated(start(state)))
            matrices[f"{rate:g}"] = aggregated(restore(state)[1])
            trained[f"{rate:g}"] = cell
        for one, other in itertools.combinations(matrices, 2):
            found.append(_line(trained[other], one, matrices[one], other, matrices[other], not unfinished))
    return found


def _line(cell: PaperCell, one: str, first: Matrix, other: str, second: Matrix, finished: bool) -> Line:
    printed = published.figures()["stability"].get(f"{cell.dataset}-{cell.pattern}", {})
    pair = f"{one}-{other}"
    only = f"--only '{cell.dataset}/{cell.pattern}/*/full'"
    return {
        "dataset": cell.dataset,
        "pattern": cell.pattern,
        "one": one,
        "other": other,
        "spearman": spearman(first, second),
        "jensen_shannon": jensen_shannon(first, second),
        "paper_spearman": printed.get("spearman", {}).get(pair),
        "paper_jensen_shannon": printed.get("jensen_shannon", {}).get(pair),
        "recipe": cell.recipe_name,
        "d_model": cell.d_model,
        "seed": cell.seed,
        "finished": finished,
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": f"python -m benchmarks.paper --tables stability {only} --d-model {cell.d_model} "
        f"--recipe {cell.recipe}",
    }


def section(results: Path) -> str:
    """Return the table of the measurements."""
    found = lines.read(results / FILE)
    if not found:
        return ""
    rows = []
    for line in found:
        printed = published.figures()["stability"].get(f"{line['dataset']}-{line['pattern']}", {})
        pair = [line["paper_spearman"], line["paper_jensen_shannon"]]
        texts = ["" if value is None else f"{value:.3f}" for value in pair]
        for number, span in enumerate(("spearman_range", "jensen_shannon_range")):
            if span in printed and line["one"] != START:
                texts[number] = "{:.3f} to {:.3f}".format(*printed[span])
        mark = "" if line["finished"] else "+"
        name = [f"{line['dataset']} {line['pattern']}", line["one"], f"{line['other']}{mark}"]
        pairs = [f"{line['spearman']:.3f}", texts[0], f"{line['jensen_shannon']:.3f}", texts[1]]
        rows.append([*name, *pairs, line["recipe"], str(line["d_model"]), line["date"]])
    header = ["family", "rate", "and rate", "Spearman", "paper", "Jensen-Shannon", "paper", "recipe", "D", "date"]
    note = (
        "Mean over the features of the first StaGlo layer's matrices; Spearman over all entries, Jensen-Shannon in\n"
        "nats. The paper does not say how it aggregates, nor which logarithm. `start` is the untrained network, from\n"
        "which all rates begin: agreement with it, or between rates that have hardly left it, is not learned.\n"
    )
    return f"{grid(header, rows)}\n{note}"
