"""Score imputers that need no network on the cells of the paper's tables.

    python -m benchmarks.paper simple                                         all data sets that are here
    python -m benchmarks.paper simple --only Illness/block/0.3
    python -m benchmarks.paper simple --only Weather --every 16               fewer test windows of a large set

Every method fills the same hidden cells, those of draw 0 of the tables. What a method learns is learned from training
rows; the number of neighbours, the strength of a shrinkage, and whether a window's own means are taken from it first,
are chosen on validation windows with gaps of the cell's own pattern and rate. The closed form and one of each sensor
alone are scored beside them. A cell with its lines is not scored again. Needs scikit-learn and scipy (the extra
`simple`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from benchmarks.paper import lines, subcommand
from benchmarks.paper.cells import PaperCell
from benchmarks.paper.closed_form import cells_of
from benchmarks.paper.datasets import DATASETS, WINDOW
from benchmarks.paper.lines import Line
from benchmarks.paper.score import HiddenCells, parts, rows_of_form
from benchmarks.paper.simple.methods import FIXED, LEARNED, TUNED, TrainingRows, level_of, without_level
from benchmarks.paper.simple.table import COLUMNS, FILE, IDENTITY
from training.closed_form import Ints, TimedFill
from training.data import MaskSpec, WindowBatch, WindowSet, fit_scale, fixed_batches
from training.errors import exits_with_errors
from training.evaluate import BATCH, ErrorTally
from training.runtime import ProgressLine, machine

NAME = "simple"
_LEARNING_WINDOWS, _VALIDATION_WINDOWS = 100, 200
Say = Callable[[str], None]


@lru_cache(maxsize=1)
def training_of(dataset: str) -> TrainingRows:
    """Return the training data of the methods of a data set."""
    split = parts(dataset, WINDOW)
    return TrainingRows(rows_of_form(dataset, WINDOW), split.validation, fit_scale(split.train), WINDOW)


@lru_cache(maxsize=len(LEARNED))
def learned(dataset: str, name: str) -> TimedFill:
    """Return a method that learns once for all cells of a data set."""
    return LEARNED[name](training_of(dataset))


def method(name: str, cell: PaperCell) -> tuple[TimedFill, list[float] | None]:
    """Return a method for a cell, and the choices of validation: its constant, and 1 with levels or 0 without."""
    if name in FIXED:
        return FIXED[name], None
    if name in LEARNED:
        return learned(cell.dataset, name), None
    choices, make = TUNED[name]
    batches, holes = _validation_batches(cell), _training_batch(cell)
    found = []
    for level in (True, False):
        windows = training_of(cell.dataset).windows(level)
        known = holes if level else replace(holes, values=holes.values - level_of(holes.values, holes.observed))
        for choice in choices:
            fill = make(windows, known, choice)
            fill = fill if level else without_level(fill)
            error = _tally(fill, batches, DATASETS[cell.dataset].sensors).mse
            found.append((error, [choice, float(level)], fill))
    _, chosen, best = min(found, key=lambda each: each[0])
    return best, chosen


def _tally(fill: TimedFill, batches: Sequence[tuple[WindowBatch, Ints]], sensors: int) -> ErrorTally:
    tally = ErrorTally(sensors)
    for batch, end_ms in batches:
        tally.add(fill(batch.values, batch.observed, end_ms), batch.truth, batch.hidden)
    return tally


def _masks(cell: PaperCell) -> MaskSpec:
    return MaskSpec(pattern=cell.pattern, rates=(cell.rate, cell.rate))


def _training_batch(cell: PaperCell) -> WindowBatch:
    """Training windows with holes like the cell's."""
    training = training_of(cell.dataset)
    windows = WindowSet(training.values[None], WINDOW)
    return fixed_batches(windows, _masks(cell), _LEARNING_WINDOWS, _LEARNING_WINDOWS, f"{cell.key}|simple|train")[0]


def _validation_batches(cell: PaperCell) -> list[tuple[WindowBatch, Ints]]:
    """Validation windows with holes like the cell's; only cells of rows outside the training part count."""
    training = training_of(cell.dataset)
    series = training.validation
    windows = WindowSet(training.scale.apply(series.values), WINDOW)
    starts = windows.starts[windows.spread(_VALIDATION_WINDOWS)]
    times_ms = series.times_ms[starts[:, None] + np.arange(WINDOW)]
    unseen = (times_ms > training.rows.times_ms[-1])[:, None, :]
    batches = fixed_batches(windows, _masks(cell), BATCH, _VALIDATION_WINDOWS, f"{cell.key}|simple|validation")
    found = []
    for number, batch in enumerate(batches):
        rows = slice(number * BATCH, (number + 1) * BATCH)
        found.append((replace(batch, hidden=batch.hidden & unseen[rows]), times_ms[rows, -1]))
    return found


def lines_of(cell: PaperCell, names: Sequence[str], every: int, progress: ProgressLine) -> list[Line]:
    """Score methods on a cell, each at the same hidden cells; return a line for each."""
    cells = HiddenCells(cell.dataset, cell.pattern, cell.rate, every=every)
    made = {name: method(name, cell) for name in names}
    tallies = {name: ErrorTally(cells.sensors) for name in names}
    progress.begin(cells.name, len(cells))
    for batch, end_ms in cells.batches():
        for name, (fill, _) in made.items():
            tallies[name].add(fill(batch.values, batch.observed, end_ms), batch.truth, batch.hidden)
        progress.step(count=len(end_ms))
    progress.end()
    return [
        {
            "method": name, "dataset": cell.dataset, "pattern": cell.pattern, "rate": cell.rate,
            "mse": tally.mse, "mae": tally.mae, "windows": len(cells), "setting": made[name][1],
            "machine": machine(), "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "command": subcommand.of_cell(NAME, cell, every),
        }
        for name, tally in tallies.items()
    ]  # fmt: skip


def run(wanted: Sequence[PaperCell], results: Path, say: Say = print, *, every: int | None = None) -> None:
    """Score the methods that have no line of a cell yet.

    every: interval between scored test windows; None: see `Dataset.every`.
    """
    progress = ProgressLine(say)
    for cell in wanted:
        nth = every or DATASETS[cell.dataset].every
        kept = {
            line["method"] for line in lines.read(results)
            if (line["dataset"], line["pattern"], line["rate"], line["command"])
            == (cell.dataset, cell.pattern, cell.rate, subcommand.of_cell(NAME, cell, nth))
        }  # fmt: skip
        names = [name for name in COLUMNS if name not in kept]
        if not names:
            continue
        found = lines_of(cell, names, nth, progress)
        lines.put(results, found, IDENTITY)
        errors = ", ".join(f"{line['method']} {line['mse']:.4f}" for line in found)
        say(f"{cell.dataset}/{cell.pattern}/{cell.rate:g}, {found[0]['windows']:,} windows: {errors}")


@exits_with_errors
def main(arguments: Sequence[str]) -> int:
    """Run the command line; return 0, 2 for bad input, 130 or 143 when stopped."""
    parser = subcommand.parser(NAME, __doc__)
    parser.add_argument("--results", type=Path, default=lines.RESULTS, help=f"folder of {FILE} (default %(default)s)")
    given = subcommand.parsed(parser, arguments)
    return subcommand.until_stopped(
        lambda: run(cells_of(given.only), given.results / FILE, partial(print, flush=True), every=given.every),
        given.results / lines.NAME,
    )
