"""The effect of the draw of the hidden cells alone on a figure: trained weights, scored on other draws.

The paper seeds the mask of a test window by data set, pattern, rate, window length and index, but does not state the
function. So its masks are one draw of many, and ours another: a ratio of two figures varies with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.paper import lines
from benchmarks.paper.cells import PaperCell, TablePlace, places
from benchmarks.paper.lines import Line
from benchmarks.paper.run import Say, printed
from benchmarks.paper.score import HiddenCells, score
from benchmarks.paper.tables import errors, grid
from training import checkpoint as checkpoints
from training.evaluate import model_fill, restore
from training.runtime import machine

FILE = "draws.jsonl"
DRAWS = 12  # the first is that of the tables
IDENTITY = ("dataset", "pattern", "train_rate", "test_rate", "recipe", "d_model", "seed")


def measure(cells: Sequence[PaperCell], root: Path, say: Say = print, draws: int = DRAWS) -> list[Line]:
    """Return a line for each rate at which a trained cell is tested alone.

    Args:
        cells: Cells with weights below `root` are scored, except ablations and other sizes.
        root: Holds one directory for each cell.
        say: Receives a line for each cell without weights.
        draws: Number of draws.
    """
    found = []
    for cell in cells:
        file = root / cell.name / "best.pt"
        if cell.variant != "full":
            continue
        if not file.is_file():
            say(f"{cell.key}  no weights in {file.parent}: --again trains what has its line already")
            continue
        state = checkpoints.load(file)
        _, model, _ = restore(state)
        fill = model_fill(model)
        alone = {place.rates: place for place in places(cell) if len(place.rates) == 1}
        for (rate,), place in alone.items():
            scores = [
                score(fill, HiddenCells(cell.dataset, cell.pattern, rate, draw, window=model.window))
                for draw in range(draws)
            ]
            found.append(_line(cell, place, [each.mse for each in scores], [each.mae for each in scores]))
    return found


def _line(cell: PaperCell, place: TablePlace, mse: Sequence[float], mae: Sequence[float]) -> Line:
    paper_mse, paper_mae = printed(cell, place)
    return {
        "dataset": cell.dataset,
        "pattern": cell.pattern,
        "train_rate": cell.rate,
        "test_rate": place.rates[0],
        "mse": list(mse),
        "mae": list(mae),
        "paper_mse": paper_mse,
        "paper_mae": paper_mae,
        "recipe": cell.recipe_name,
        "d_model": cell.d_model,
        "seed": cell.seed,
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": f"{cell.command} --tables draws",
    }


def section(results: Path) -> str:
    """Return the table: the draw of the other tables beside mean and spread of all draws."""
    rows = []
    for line in sorted(lines.read(results / FILE), key=lambda line: [str(line[name]) for name in IDENTITY]):
        mse, mae = np.array(line["mse"]), np.array(line["mae"])
        name = [line["dataset"], line["pattern"], f"{line['train_rate']:g}", f"{line['test_rate']:g}"]
        means = f"{mse.mean():.4f} ± {mse.std(ddof=1):.4f} / {mae.mean():.4f} ± {mae.std(ddof=1):.4f}"
        printed = line["paper_mse"]
        ratio = f"{mse.mean() / printed:.2f}" if printed else ""
        first = f"{mse[0]:.4f} / {mae[0]:.4f}"
        trained = [line["recipe"], str(line["d_model"]), line["date"]]
        rows.append([*name, errors(printed, line["paper_mae"]), first, means, str(mse.size), ratio, *trained])
    if not rows:
        return ""
    header = ["data set", "pattern", "trained at", "rate", "paper", "this draw", "mean of all draws", "draws", "ratio"]
    note = (
        "Mean and standard deviation over draws of the test masks, the weights being the same; `this draw` is that of\n"
        "the other tables, and the ratio is that of the mean to the paper's figure, which is one draw as well."
    )
    return f"{grid([*header, 'recipe', 'D', 'date'], rows)}\n{note}\n"
