"""Trains a cell from its last checkpoint, scores it, and makes its lines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.paper import published
from benchmarks.paper.cells import PaperCell, TablePlace, config, places
from benchmarks.paper.datasets import DATASETS, read
from benchmarks.paper.lines import KEYS, Line
from benchmarks.paper.score import CellScore, check, model_scores, parts
from training import checkpoint as checkpoints
from training.checkpoint import Checkpoint
from training.config import build
from training.data import SEGMENTS
from training.fit import ended, train_network
from training.runtime import machine

ROOT = Path("build/paper")
Say = Callable[[str], None]


@dataclass(frozen=True)
class CellProgress:
    """The progress of a cell's training: its newest checkpoint, and whether the training is finished."""

    last: Checkpoint
    finished: bool


def progress(cell: PaperCell, root: Path) -> CellProgress | None:
    """Read the progress of a cell; None if it was not begun.

    Raises:
        ConfigError: the checkpoint belongs to another cell.
    """
    file = root / cell.name / "last.pt"
    if not file.is_file():
        return None
    state = checkpoints.load(file)
    expected = config(cell)
    check(build(json.loads(state.config)), cell, expected)
    return CellProgress(state, bool(ended(state, expected.train)))


def train(cell: PaperCell, root: Path, *, device: str = "cpu", minutes: float = 0.0, say: Say = print) -> None:
    """Train a cell to its end, or for some minutes, from its last checkpoint.

    Args:
        cell: The cell.
        root: Holds one directory for each cell.
        device: Torch's name of the device.
        minutes: Time limit, checked after each epoch; 0: none.
        say: Receives one line for each epoch.
    """
    before = progress(cell, root)
    if before is not None and before.finished:
        return
    directory = root / cell.name
    directory.mkdir(parents=True, exist_ok=True)
    run = config(cell)
    spent = before.last.seconds / 60 if before is not None else 0.0
    limit = spent + minutes if minutes else 0.0
    run = dataclasses.replace(run, train=dataclasses.replace(run.train, device=device, max_minutes=limit))
    series = read(DATASETS[cell.dataset])
    split = parts(cell.dataset, run.model.window)

    def heard(text: str) -> None:
        say(f"{cell.key}  {text}")

    train_network(run, series, split, directory, resume=before is not None, say=heard, command=cell.command)


def lines_of(cell: PaperCell, root: Path, now: Sequence[TablePlace] | None = None, device: str = "cpu") -> list[Line]:
    """Score a cell's best weights in each of its places.

    Args:
        cell: A cell with a checkpoint.
        root: Holds one directory for each cell.
        now: The places; by default all of the cell.
        device: Torch's name of the device.
    """
    state = checkpoints.load(root / cell.name / "best.pt")
    so_far = progress(cell, root)
    finished = so_far is not None and so_far.finished
    last = state if so_far is None else so_far.last
    found = []
    scored: dict[tuple[float, tuple[int, int]], tuple[CellScore, dict[str, CellScore]]] = {}
    for place in places(cell) if now is None else now:
        segments = place.segments or SEGMENTS
        missing = tuple(rate for rate in place.rates if (rate, segments) not in scored)
        scores = model_scores(state, cell.dataset, cell.pattern, missing, segments, device)
        scored |= {(rate, segments): pair for rate, pair in scores.items()}
        pairs = [scored[rate, segments] for rate in place.rates]
        found.append(_line(cell, place, pairs, last, finished))
    return found


def _line(
    cell: PaperCell,
    place: TablePlace,
    pairs: Sequence[tuple[CellScore, dict[str, CellScore]]],
    state: Checkpoint,
    finished: bool,
) -> Line:
    """Make the line of one place in a table; several test rates are averaged, as in the paper's ablation table."""
    ours = [pair[0] for pair in pairs]
    printed_mse, printed_mae = printed(cell, place)
    values: Line = {
        **identified(cell, place),
        "mse": _mean([score.mse for score in ours]),
        "mae": _mean([score.mae for score in ours]),
        "paper_mse": printed_mse,
        "paper_mae": printed_mae,
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "seconds": round(state.seconds, 1),
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": cell.command,
        "windows": ours[0].windows,
        "finished": finished,
        "test_rates": list(place.rates),
    }
    for name in ("interpolation", "last_value"):
        values[f"{name}_mse"] = _mean([pair[1][name].mse for pair in pairs])
        values[f"{name}_mae"] = _mean([pair[1][name].mae for pair in pairs])
    return {key: values[key] for key in KEYS}


def identified(cell: PaperCell, place: TablePlace) -> Line:
    """Return the part of a line that identifies it, known before the training."""
    sizes = cell.sizes
    return {
        "table": place.table,
        "dataset": cell.dataset,
        "pattern": cell.pattern,
        "train_rate": cell.rate,
        "test_rate": round(_mean(place.rates), 6),
        "variant": cell.variant,
        "seed": cell.seed,
        "recipe": cell.recipe_name,
        "d_model": cell.d_model,
        "layers": sizes.layers,
        "large_kernel": sizes.large_kernel,
        "segments": list(place.segments or SEGMENTS) if cell.pattern == "block" else None,
    }


def printed(cell: PaperCell, place: TablePlace) -> tuple[float | None, float | None]:
    """Return the paper's MSE and MAE for a place; None if the paper has none."""
    if place.table == "ablation":
        return published.ablation(cell.dataset, cell.variant), None
    if place.table == "sensitivity":
        return None, None
    shown = published.glaim(cell.pattern, cell.dataset, place.rates[0], shifted=place.table == "shift")
    return (None, None) if shown is None else (shown.mse, shown.mae)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
