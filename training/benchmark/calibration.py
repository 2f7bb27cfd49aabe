"""What the paper leaves open, settled on its own DLinear column: which test rows, and which sampler of blocks.

    python -m training.benchmark.calibration
    python -m training.benchmark.calibration --datasets Illness ETTh1 --samplers 2..16 3..8

DLinear without normalisation has its optimum in closed form (dlinear.py). So its figure for any choice of test rows and
of block sampler comes out without training, and the choice whose figures are the paper's is the paper's, as far as
figures can tell. A gap of a few percent stays: the paper's DLinear was trained with an optimiser and stopped early, and
its figures have three decimals.

Writes calibration.json, every figure, and calibration.md, the tables, into training/results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shlex
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from training.benchmark import paper
from training.benchmark.__main__ import segments
from training.benchmark.datasets import DATASETS, WINDOW, Dataset, absence, find, read
from training.benchmark.dlinear import RIDGE, AffineMap, Doubles, data_moments, gap_moments, optimum
from training.benchmark.tables import grid
from training.data.masks import SEGMENTS, MaskSpec
from training.data.outages import Bools
from training.data.series import Floats, fit_scale, split
from training.data.windows import Batch, WindowSet, hide, seeded
from training.errors import ConfigError, DataError, in_sentences
from training.evaluate import Tally
from training.progress import Progress
from training.runtime import machine

RESULTS = Path(__file__).parents[1] / "results"
MODEL = "DLinear"
# A range of counts around the one that fits; a pair of equal numbers fixes the count.
SAMPLERS = ("2..16", "2..10", "2..12", "2..20", "3..8", "8..8")
# The paper's table of data sets counts twice the field's test rows for ETT.
TEST_ROWS = ("ETTh1=5760", "ETTm1=23040")
CHUNK = 1024  # windows at a time: 1024 x 21 sensors x 97 regressors x 8 bytes = 167 MB for Weather
TEST_SAMPLE = 20_000  # windows times sensors scored


@dataclasses.dataclass(frozen=True)
class Gaps:
    """What a sampler at a rate hides: in training as counts, in the test row by row. Data sets share them."""

    train: Floats  # [T, T + 1, T + 1], of dlinear.gap_moments
    test: Bools  # [N, T]: sensors have gaps of their own, so each may take any row

    @classmethod
    @cache
    def draw(cls, pattern: str, rate: float, segments: tuple[int, int], hidden: int, seed: int) -> Gaps:
        """So many rows for each of the two that about `hidden` of them hide a given step."""
        masks = MaskSpec(pattern=pattern, rates=(rate, rate), segments=segments)
        everything = np.ones((1, round(hidden / rate), WINDOW), np.bool_)
        key = f"calibration|{pattern}|{rate:g}|{segments}"
        train, test = (masks.sample(seeded(f"{key}|{part}", seed), everything)[0] for part in ("train", "test"))
        return cls(gap_moments(train), test)


@dataclasses.dataclass(frozen=True)
class Sample:
    """Test windows, enough for about `TEST_SAMPLE` window-and-sensor rows.

    Neighbouring windows share 95 of 96 steps, so a large part gives every `stride`-th window; a small one gives all of
    them `draws` times, each time with other gaps.
    """

    windows: WindowSet
    sensors: int
    stride: int
    draws: int

    @classmethod
    def of(cls, values: Floats) -> Sample:
        """From standardised values [1, C, R]."""
        sensors = values.shape[1]
        stride = max(1, (values.shape[-1] - WINDOW + 1) * sensors // TEST_SAMPLE)
        windows = WindowSet(values, WINDOW, stride)
        return cls(windows, sensors, stride, max(1, math.ceil(TEST_SAMPLE / (len(windows) * sensors))))

    def batches(self, hidden: Bools, seed: int) -> Iterator[Batch]:
        """The windows under rows of `hidden` [N, T], picked by the seed for each window and sensor."""
        rng = np.random.default_rng(seed)
        for _ in range(self.draws):
            for values in chunks(self.windows):
                yield hide(values, hidden[rng.integers(0, len(hidden), size=values.shape[:2])])


def chunks(windows: WindowSet) -> Iterator[Floats]:
    """All windows in order, [up to CHUNK, C, T] at a time."""
    for start in range(0, len(windows), CHUNK):
        yield windows.take(np.arange(start, min(start + CHUNK, len(windows))))


def training_moments(values: Floats) -> Doubles:
    """`data_moments` of all windows of standardised values [1, C, R], stride 1.

    Raises:
        DataError: a cell has no value; the closed form needs complete windows, as the paper's data sets are.
    """
    absent = int(np.isnan(values).sum())
    if absent:
        raise DataError(f"expected a value in every cell of the training rows, found {absent} without")
    found = np.zeros((WINDOW + 1, WINDOW + 1))
    for windows in chunks(WindowSet(values, WINDOW)):
        found += data_moments(windows.reshape(-1, WINDOW))
    return found


def score(found: AffineMap, sample: Sample, hidden: Bools, seed: int) -> dict[str, Any]:
    """Its errors on the hidden cells of test windows, standardised."""
    tally = Tally(sample.sensors)
    for batch in sample.batches(hidden, seed):
        tally.add(found.fill(batch.values, batch.observed), batch.truth, batch.hidden)
    cells = int(tally.count.sum())
    return {
        "mse": float(tally.squared.sum() / cells),
        "mae": float(tally.absolute.sum() / cells),
        "test_windows": len(sample.windows),
        "test_stride": sample.stride,
        "test_draws": sample.draws,
    }


def parts(dataset: Dataset, test_rows: Sequence[int]) -> tuple[Doubles, dict[int, Sample]]:
    """Moments of the training windows, and the test windows for each number of test rows; all standardised.

    Raises:
        DataError: the file cannot be used, or has fewer rows than are asked for.
    """
    series = read(dataset)
    tests = {}
    for count in test_rows:
        found = split(series, dataclasses.replace(dataset.spec, rows=(*dataset.rows[:2], count)), WINDOW)
        scale = fit_scale(found.train)
        tests[count] = Sample.of(scale.apply(found.test.values))
    return training_moments(scale.apply(found.train.values)), tests


def cells_of(
    name: str, samplers: Sequence[tuple[int, int]], more_rows: Sequence[int], hidden: int, seed: int, progress: Progress
) -> list[dict[str, Any]]:
    """All figures of one data set: random gaps on each number of test rows, blocks under each sampler.

    Args:
        name: The data set's.
        samplers: Fewest and most segments of each block sampler.
        more_rows: Numbers of test rows beside the field's.
        hidden: Draws of the gaps that hide a given step.
        seed: Of the gaps.
        progress: Told of every fit.
    """
    dataset = DATASETS[name]
    moments, tests = parts(dataset, (dataset.rows[2], *more_rows))
    field = dataset.rows[2]
    cells = []
    plan: list[tuple[str, tuple[int, int] | None]] = [("random", None), *(("block", pair) for pair in samplers)]
    progress.begin(name, len(plan) * len(paper.RATES))
    for pattern, pair in plan:
        for rate in paper.RATES:
            gaps = Gaps.draw(pattern, rate, pair or SEGMENTS, hidden, seed)
            found = optimum(moments, gaps.train)
            printed = next(row for row in paper.full_row(pattern, name, rate) if row.model == MODEL)
            for count in tests if pattern == "random" else (field,):
                cells.append({
                    "dataset": name, "pattern": pattern, "rate": rate, "segments": pair, "test_rows": count,
                    "field_rows": count == field, **score(found, tests[count], gaps.test, seed),
                    "paper_mse": printed.mse, "paper_mae": printed.mae,
                })  # fmt: skip
            progress.step()
    progress.end()
    return cells


def log_error(cells: Iterable[dict[str, Any]], metric: str = "mse") -> float:
    """Mean of |log(ours / paper's)|: 0.05 is about 5 %, either way."""
    return statistics.fmean(abs(math.log(cell[metric] / cell[f"paper_{metric}"])) for cell in cells)


def by_sampler(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far each block sampler is from the paper, the nearest first."""
    blocks = [cell for cell in cells if cell["pattern"] == "block"]
    rows = []
    for pair in dict.fromkeys(tuple(cell["segments"]) for cell in blocks):
        own = [cell for cell in blocks if tuple(cell["segments"]) == pair]
        names = dict.fromkeys(cell["dataset"] for cell in own)
        rows.append({
            "segments": list(pair), "cells": len(own), "log_error_mse": log_error(own),
            "log_error_mae": log_error(own, "mae"),
            "datasets": {name: log_error(cell for cell in own if cell["dataset"] == name) for name in names},
        })  # fmt: skip
    return sorted(rows, key=lambda row: row["log_error_mse"])


def _label(pair: Sequence[int]) -> str:
    return f"{pair[0]}..{pair[1]}" if pair[0] != pair[1] else f"{pair[0]} always"


def _figures(cells: Iterable[dict[str, Any]], metric: str) -> list[str]:
    return [f"{cell[metric]:.3f}" for cell in cells]


def _rows_table(cells: Sequence[dict[str, Any]]) -> str:
    """Random gaps: a row for each number of test rows, and the paper's."""
    rows = []
    for name in dict.fromkeys(cell["dataset"] for cell in cells):
        own = [cell for cell in cells if cell["dataset"] == name and cell["pattern"] == "random"]
        for count in dict.fromkeys(cell["test_rows"] for cell in own):
            found = [cell for cell in own if cell["test_rows"] == count]
            off = f"{log_error(found):.3f}", f"{log_error(found, 'mae'):.3f}"
            rows.append([name, f"{count:,} test rows", *_figures(found, "mse"), *_figures(found, "mae"), *off])
        found = [cell for cell in own if cell["field_rows"]]
        rows.append([name, "paper", *_figures(found, "paper_mse"), *_figures(found, "paper_mae"), "", ""])
    rates = [f"{metric} {rate:g}" for metric in ("MSE", "MAE") for rate in paper.RATES]
    return grid(["data set", "whose", *rates, "off, MSE", "off, MAE"], rows)


def _sampler_table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(rows[0]["datasets"])
    body = [
        [_label(row["segments"]), str(row["cells"]), f"{row['log_error_mse']:.3f}", f"{row['log_error_mae']:.3f}"]
        + [f"{row['datasets'][name]:.3f}" for name in names]
        for row in rows
    ]
    return grid(["segments", "cells", "off, MSE", "off, MAE", *(f"{name}, MSE" for name in names)], body)


def _block_table(cells: Sequence[dict[str, Any]], pair: Sequence[int]) -> str:
    rows = [
        [cell["dataset"], f"{cell['rate']:g}"]
        + [f"{cell[whose + 'mse']:.3f} / {cell[whose + 'mae']:.3f}" for whose in ("", "paper_")]
        + [f"{cell['mse'] / cell['paper_mse']:.2f}"]
        for cell in cells
        if cell["pattern"] == "block" and list(cell["segments"]) == list(pair)
    ]
    return grid(["data set", "rate", "closed form", "paper", "MSE ratio"], rows)


def page(content: dict[str, Any]) -> str:
    """The page of a run, from what its JSON holds."""
    cells, samplers = content["cells"], content["samplers"]
    used = {cell["dataset"]: cell for cell in cells if cell["field_rows"]}
    spacing = ", ".join(f"{name} {cell['test_stride']} x {cell['test_draws']}" for name, cell in used.items())
    lines = [
        "# What the paper leaves open, settled on its own DLinear column\n",
        f"Command: `{content['command']}`\n",
        f"{content['date']}, {content['machine']}; {content['seconds']:.0f} seconds on one thread, seed "
        f"{content['seed']}.\n",
        "DLinear without normalisation is linear, so its optimum has a closed form: one least-squares system for each "
        "of the 96 output steps, over the training windows and sensors in which that step is hidden "
        "(`training/benchmark/dlinear.py`). No training noise: what differs from the paper is the choice of rows or "
        'of sampler, the paper\'s own training, and its rounding to three decimals. "Off" is the mean of |log(ours / '
        "paper's)|: 0.05 is about 5 %. Paper: appendix, full results under random and block missingness.\n",
        f"Training: every window, stride 1, under every row of the drawn gaps, of which about {content['hidden']:,} "
        f"hide a given step. Test: about {TEST_SAMPLE:,} windows times sensors, every k-th window under n draws of the "
        f"gaps (k x n: {spacing}). Each system gets a ridge of {RIDGE:g} of its mean diagonal: a "
        "hidden step's own input is 0, so it would be singular.\n",
        "## Which test rows: random gaps\n",
        _rows_table(cells),
    ]
    if samplers:
        lines += [
            "## Which block sampler\n",
            "For each sensor round(rate x 96) steps are hidden in n segments, n uniform between the two numbers; "
            "lengths a uniformly random composition, at least one observed step between segments "
            "(`training.data.masks.block_cells`). Field's test rows.\n",
            _sampler_table(samplers),
            f"## Blocks under {_label(samplers[0]['segments'])}, cell by cell (MSE / MAE)\n",
            _block_table(cells, samplers[0]["segments"]),
        ]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m training.benchmark.calibration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--datasets", nargs="+", default=list(DATASETS), metavar="NAME", help="default: all that are here"
    )
    made.add_argument(
        "--samplers", nargs="*", default=list(SAMPLERS), metavar="LOW..HIGH",
        help=f"numbers of segments of the block sampler (default {' '.join(SAMPLERS)})",
    )  # fmt: skip
    made.add_argument(
        "--test-rows", nargs="*", default=list(TEST_ROWS), metavar="NAME=ROWS",
        help=f"further numbers of test rows, beside the field's (default {' '.join(TEST_ROWS)})",
    )  # fmt: skip
    made.add_argument(
        "--hidden", type=int, default=6_000,
        help="draws of the gaps that hide a given step, about sixty for each of the 97 weights of its least squares "
        "(default %(default)s)",
    )  # fmt: skip
    made.add_argument("--seed", type=int, default=2021, help="of the gaps (default %(default)s)")
    made.add_argument("--results", type=Path, default=RESULTS, help="where the page goes")
    return made


def more_test_rows(texts: Iterable[str]) -> dict[str, list[int]]:
    """`ETTh1=5760` as a name and a number.

    Raises:
        ConfigError: anything else.
    """
    found: dict[str, list[int]] = {}
    for text in texts:
        name, _, count = text.partition("=")
        if name not in DATASETS or not count.isdigit() or int(count) < 1:
            raise ConfigError(f"expected --test-rows NAME=ROWS like ETTh1=5760, found {text!r}")
        found.setdefault(name, []).append(int(count))
    return found


def run(given: argparse.Namespace, command: str) -> dict[str, Any]:
    """Everything that is asked for.

    Raises:
        ConfigError: an unknown data set or a sampler that is none, or no data set is here.
        DataError: a file cannot be used.
    """
    unknown = [name for name in given.datasets if name not in DATASETS]
    if unknown:
        raise ConfigError(f"expected --datasets of {', '.join(DATASETS)}; found {', '.join(unknown)}")
    if given.hidden < 1:
        raise ConfigError(f"expected --hidden of 1 or more, found {given.hidden}")
    samplers = list(dict.fromkeys(segments(text) for text in given.samplers))
    more = more_test_rows(given.test_rows)
    here = [name for name in given.datasets if find(DATASETS[name]) is not None]
    for name in given.datasets:
        if name not in here:
            print(absence(DATASETS[name]))
    if not here:
        folder = os.environ.get("GLAIM_DATA", "../shared/data")
        raise ConfigError(f"expected the paper's data sets in {folder} (GLAIM_DATA), found none of those asked for")
    started = time.monotonic()
    progress = Progress(partial(print, flush=True))
    cells = [
        cell
        for name in here
        for cell in cells_of(name, samplers, more.get(name, []), given.hidden, given.seed, progress)
    ]
    return {
        "command": command,
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": time.monotonic() - started,
        "seed": given.seed,
        "hidden": given.hidden,
        "source": "GLAIM paper, appendix tables of full random and block results, DLinear columns",
        "samplers": by_sampler(cells),
        "cells": cells,
    }


@in_sentences
def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser().parse_args(arguments)
    content = run(given, shlex.join(["python", "-m", "training.benchmark.calibration", *arguments]))
    given.results.mkdir(parents=True, exist_ok=True)
    text = page(content)
    given.results.joinpath("calibration.json").write_text(json.dumps(content, indent=1) + "\n")
    given.results.joinpath("calibration.md").write_text(text)
    print(text)
    print(f"wrote {given.results / 'calibration.md'} and calibration.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
