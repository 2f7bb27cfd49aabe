"""The table of peers: imputers as we trained them, beside our own cells, two baselines, and the paper's figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from benchmarks.paper import form_means, lines, published
from benchmarks.paper.cells import PaperCell
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.lines import Line
from benchmarks.paper.peers import FILE
from benchmarks.paper.tables import BARS, EMPTY, epochs, errors, grid, recipe
from training.network import build_network, count_parameters

HEADER = (
    "data set", "pattern", "rate", "method", "D", "parameters", "MSE / MAE", "the paper prints", "epochs", "minutes",
    "ended by",
)  # fmt: skip
NOTE = """All methods have the same windows, the same standardisation, and the same hidden cells in every test window.
PyPOTS's networks train with its loss (mean absolute error over observed and hidden cells) and its Adam, batches
of 16, constant rate; the training gaps are ours, drawn for every batch, and the best epoch is chosen by the
validation MSE. D sizes them as it sizes ours (`benchmarks/paper/peers.py`); it is not always what their
authors chose. Ours train on the mean squared error. The budgets differ: a training ended by `minutes` is
incomplete, and shows the result of that many minutes, not what the network can reach. Minutes are wall
clock, in brackets those of the processor: one thread, on a machine that had other work. One fit of the closed
form, and one training of the network over it, fill all eight cells of a data set; where that was trained on
a GPU, the minutes are the GPU's. CSDI answers with the mean of 5 draws, in at most 200 of the test windows,
because a draw takes half a second a window; its authors average 100 draws. PyPOTS's PatchTST and
iTransformer do not standardise every window by itself, as the networks of that name in the paper's
comparison may have done; this can matter on drifting data like Illness. Each line of `peers.jsonl` has its
command, machine and date.
"""


def section(folder: Path, ours: Sequence[Line]) -> str:
    """Return the table; empty if no peer was trained.

    Args:
        folder: Holds peers.jsonl.
        ours: The lines of paper.jsonl; of the closed form and the networks over it, those of draw 0 are shown.
    """
    found = lines.read(folder / FILE)
    if not found:
        return ""
    order = {name: index for index, name in enumerate(DATASETS)}
    places = {(line["dataset"], line["pattern"], line["train_rate"], line["test_rate"]) for line in found}
    rows: list[list[str]] = []
    for place in sorted(places, key=lambda one: (order.get(one[0], len(order)), one)):
        theirs = [line for line in found if _place(line) == place]
        mine = [line for line in ours if _place(line) == place and _is_full(line)]
        rows += [_ours(line) for line in mine]
        most = max(theirs, key=lambda line: line["windows"])
        rows += [_peer(line, most["windows"]) for line in sorted(theirs, key=lambda line: line["mse"])]
        for bar in BARS:
            result = errors(most[f"{bar}_mse"], most[f"{bar}_mae"])
            rows.append([*_head(most), bar.replace("_", " "), EMPTY, EMPTY, result, *[EMPTY] * 4])
    versions = ", ".join(sorted({line["pypots"] for line in found}))
    return f"{grid(HEADER, rows)}\n{NOTE}PyPOTS {versions}.\n"


def _place(line: Line) -> tuple[str, str, float, float]:
    return line["dataset"], line["pattern"], line["train_rate"], line["test_rate"]


def _is_full(line: Line) -> bool:
    """Whether a line of paper.jsonl belongs to the main tables, which have every trained rate once."""
    return bool(line["table"] == line["pattern"] and line["variant"] == "full" and not line.get("draw"))


def _head(line: Line) -> list[str]:
    return [line["dataset"], line["pattern"], f"{line['test_rate']:g}"]


def _training(line: Line, ended: str) -> list[str]:
    minutes = f"{line['seconds'] / 60:.{0 if line['seconds'] >= 60 else 1}f}"
    if "processor_s" in line:
        minutes += f" ({line['processor_s'] / 60:.0f})"
    return [minutes, ended]


def _ours(line: Line) -> list[str]:
    result, printed = errors(line["mse"], line["mae"]), _printed(published.OURS, line)
    if line["recipe"] == form_means.RECIPE:
        return [*_head(line), "ours (closed form)", EMPTY, EMPTY, result, printed, EMPTY, *_training(line, "its fit")]
    count = EMPTY if form_means.is_cascade(line) else f"{_parameters(line['dataset'], line['d_model']) / 1e6:.3f} M"
    name = [f"ours ({recipe(line)})", str(line["d_model"]), count, result]
    ended = "its recipe" if line["finished"] else "not yet"
    return [*_head(line), *name, printed, epochs(line), *_training(line, ended)]


def _peer(line: Line, windows: int) -> list[str]:
    sizes, method = line["sizes"], line["method"]
    width = sizes.get("d_model") or sizes.get("n_channels") or sizes["d_input_embed"] + sizes["d_learnable_embed"]
    if line["windows"] < windows:
        method += f", {line['windows']} windows (interpolation there {line['interpolation_mse']:.3f})"
    name = [method, str(width), f"{line['parameters'] / 1e6:.3f} M", errors(line["mse"], line["mae"])]
    count = f"{line['epochs']}, best {line['best_epoch']}"
    return [*_head(line), *name, _printed(line["method"], line), count, *_training(line, line["ended"])]


def _printed(method: str, line: Line) -> str:
    row = published.full_row(line["pattern"], line["dataset"], line["test_rate"])
    return next((errors(figure.mse, figure.mae) for figure in row if figure.model == method), EMPTY)


@lru_cache
def _parameters(dataset: str, width: int) -> int:
    """Count the parameters of the full network, without allocating them."""
    sizes = dataclasses.replace(
        PaperCell(dataset, "block", 0.3, d_model=width).sizes, num_variables=DATASETS[dataset].sensors
    )
    with torch.device("meta"):
        return count_parameters(build_network(sizes))
