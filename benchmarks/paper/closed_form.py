"""The recipe `closed_form`: one fit for each data set fills all of its cells, for every draw of the test masks.

    python -m benchmarks.paper closed-form                                  all data sets that are here, 12 draws
    python -m benchmarks.paper closed-form --only Illness/block/0.3 --draws 1
    python -m benchmarks.paper closed-form --only Weather --every 1         all test windows, also of a large set

The fit takes its statistics from the training rows alone. Its constants are chosen on the newest of them, or on the
validation part where those are fewer than two windows. It knows no pattern and no rate, so it is the same for every
cell. Every sensor is filled as a number on a line, as the paper's squared errors measure it: a wind direction
between 359 and 1 degrees counts as wrong by its difference from the true number, and not on the circle as elsewhere in
this project. The numbers that people chose are those of `glaim_stream/form/search.py` for every data set.
Every cell and draw has a line of its own in
paper.jsonl, also in the tables of the missing-rate shift: the same numbers beside other figures of the paper.
The command can be stopped at any time: cells with a line of the same closed form are not scored again. Hundreds of
sensors take their time: with 321 simulated ones and Electricity's number of rows the fit took 20 minutes beside other
work, a cell of 165 windows 7 minutes, and memory 3.5 GB (2026-11-26, Intel Xeon, one core).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.paper import lines, published, subcommand, tables
from benchmarks.paper.cells import PAPER_WIDTH, SEED, PaperCell, matches
from benchmarks.paper.datasets import DATASETS, WINDOW, absence, find
from benchmarks.paper.draws import DRAWS
from benchmarks.paper.form_means import RECIPE, shifted
from benchmarks.paper.lines import Line
from benchmarks.paper.score import HiddenCells, baselines, parts, rows_of_form
from glaim_stream.form import Fitted
from training import closed_form
from training.data import SEGMENTS, fit_scale
from training.errors import ConfigError, exits_with_errors
from training.evaluate import ErrorTally
from training.runtime import ProgressLine, machine

NAME = "closed-form"
Say = Callable[[str], None]


@dataclass(frozen=True)
class DataSetForm:
    """The closed form of a data set, and the seconds of its fit."""

    fitted: Fitted
    seconds: float

    @property
    def digest(self) -> str:
        """The first digits of its SHA-256."""
        return self.fitted.form.digest[:16]


def fitted(dataset: str) -> DataSetForm:
    """Fit the closed form of a data set; the test part is not used."""
    start_s = time.perf_counter()
    validation = parts(dataset, WINDOW).validation
    form = closed_form.fit(rows_of_form(dataset, WINDOW), WINDOW, validation, only_numbers=True)
    return DataSetForm(form, time.perf_counter() - start_s)


def score(form: DataSetForm, cells: HiddenCells, progress: ProgressLine) -> Line:
    """Score a closed form and both baselines; MSE and MAE by method, and the windows."""
    fill = closed_form.fill_of(form.fitted.form, fit_scale(parts(cells.dataset, WINDOW).train))
    own, windows = ErrorTally(cells.sensors), 0
    progress.begin(cells.name, len(cells))
    for batch, end_ms in cells.batches():
        own.add(fill(batch.values, batch.observed, end_ms), batch.truth, batch.hidden)
        windows += len(end_ms)
        progress.step(count=len(end_ms))
    progress.end()
    found: Line = {"windows": windows, "mse": own.mse, "mae": own.mae}
    for name, bar in baselines(cells).items():
        found |= {f"{name}_mse": bar.mse, f"{name}_mae": bar.mae}
    return found


def lines_of(form: DataSetForm, cell: PaperCell, draw: int, progress: ProgressLine, every: int = 1) -> list[Line]:
    """Score one draw of a cell; return its line, and the line of its place in the table of the shift."""
    scores = score(form, HiddenCells(cell.dataset, cell.pattern, cell.rate, draw, every), progress)
    figure = published.glaim(cell.pattern, cell.dataset, cell.rate)
    values: Line = {
        **identified(cell, draw), **scores,
        "paper_mse": None if figure is None else figure.mse, "paper_mae": None if figure is None else figure.mae,
        "epochs": 0, "best_epoch": 0, "finished": True, "seconds": round(form.seconds, 1), "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "test_rates": [cell.rate],
        "command": subcommand.of_cell(NAME, cell, every),
    }  # fmt: skip
    extra = {"draw": draw, "digest": form.digest, "choices": form.fitted.report.choices}
    line = {key: values[key] for key in lines.KEYS} | extra
    return [line, shifted(line)]


def identified(cell: PaperCell, draw: int) -> Line:
    """Return the part of a line that identifies it; there is no network, so its sizes are 0."""
    return {
        "table": cell.pattern, "dataset": cell.dataset, "pattern": cell.pattern, "train_rate": cell.rate,
        "test_rate": cell.rate, "variant": "full", "seed": SEED, "recipe": RECIPE, "d_model": 0, "layers": 0,
        "large_kernel": 0,
        "segments": list(SEGMENTS) if cell.pattern == "block" else None, "draw": draw,
    }  # fmt: skip


def run(wanted: Sequence[PaperCell], draws: int, results: Path, say: Say = print, *, every: int | None = None) -> None:
    """Score the cells that have no line of the present closed form; the first draw of all cells comes first.

    every: interval between scored test windows; None: see `Dataset.every`.
    """
    forms: dict[str, DataSetForm] = {}
    progress = ProgressLine(say)
    for draw in range(draws):
        for cell in wanted:
            if cell.dataset not in forms:
                forms[cell.dataset] = form = fitted(cell.dataset)
                choices = form.fitted.report.choices
                say(f"{cell.dataset}: closed form {form.digest} fitted in {form.seconds:.0f} s, {choices} choices")
            form = forms[cell.dataset]
            kept = {lines.identity(line): line for line in lines.read(results)}
            own = identified(cell, draw)
            places = [kept.get(lines.identity(each)) for each in (own, shifted(own))]
            nth = every or DATASETS[cell.dataset].every
            state = form.digest, subcommand.of_cell(NAME, cell, nth)
            if all(line is not None and (line["digest"], line["command"]) == state for line in places):
                continue
            start_s = time.perf_counter()
            found = lines_of(form, cell, draw, progress, nth)
            lines.put(results, found)
            line = found[0]
            shown = tables.errors(line["paper_mse"], line["paper_mae"])
            say(
                f"{cell.dataset}/{cell.pattern}/{cell.rate:g}, draw {draw}: {tables.errors(line['mse'], line['mae'])}"
                f"{f', paper {shown}' if shown else ''} ({line['windows']:,} windows, "
                f"{time.perf_counter() - start_s:.0f} s)"
            )


def cells_of(only: Sequence[str]) -> list[PaperCell]:
    """Return the cells of both patterns for the data sets that are here.

    Raises:
        ConfigError: no cell matches.
    """
    every = [
        PaperCell(dataset, pattern, rate, recipe=RECIPE, d_model=PAPER_WIDTH)
        for dataset in DATASETS
        for pattern in ("block", "random")
        for rate in published.RATES
    ]
    wanted = [cell for cell in every if matches(cell, only)]
    if not wanted:
        raise ConfigError(f"no cell is called {' or '.join(only)}")
    for name in dict.fromkeys(cell.dataset for cell in wanted):
        if find(DATASETS[name]) is None:
            print(absence(DATASETS[name]))
    return [cell for cell in wanted if find(DATASETS[cell.dataset]) is not None]


@exits_with_errors
def main(arguments: Sequence[str]) -> int:
    """Run the command line; return 0, 2 for bad input, 130 or 143 when stopped."""
    parser = subcommand.parser(NAME, __doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of the masks (default %(default)s)")
    parser.add_argument("--results", type=Path, default=lines.RESULTS, help=lines.HELP)
    given = subcommand.parsed(parser, arguments)
    results = lines.file_in(given.results)
    return subcommand.until_stopped(
        lambda: run(cells_of(given.only), given.draws, results, partial(print, flush=True), every=given.every), results
    )
