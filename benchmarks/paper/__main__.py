"""Train and score the cells of the paper's tables, for each of its data sets that is available.

    python -m benchmarks.paper --plan                         finished and open cells, and the time they take
    python -m benchmarks.paper --only Illness/block/0.3       one cell: train, score, write the page
    python -m benchmarks.paper --only 'ETTh1/*/0.3' --only Illness --jobs 2 --d-model 64 --recipe ours
    python -m benchmarks.paper --score-only                   score finished checkpoints, train nothing
    python -m benchmarks.paper --tables stability,efficiency
    python -m benchmarks.paper --tables draws --only Illness/random/0.1        its weights on other draws of the gaps
    python -m benchmarks.paper closed-form                    the closed form: seconds a data set, no training
    python -m benchmarks.paper cascade --only Illness --d-model 64             GLAIM over the closed form
    python -m benchmarks.paper simple --only Illness          imputers that need no network
    python -m benchmarks.paper --peers --only Illness/block/0.3 --minutes 10   imputers of PyPOTS on the same gaps

A cell is named data set/pattern/rate/variant; the variant is `full` or an ablation (no_staglo, no_sacoref, no_prior,
no_gate), or a size (layers_1, kernel_31, ...). GLAIM_DATA names the folder of the data sets. Runs are stored in
build/paper/<cell>/ and continue from their last checkpoint; results go to build/results/paper.jsonl, one line for
each place in a table, from which the page paper.md beside it is made. A cell with its line is not run again.
`--results benchmarks/paper/results` continues the page of this repository.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.paper import cascade, closed_form, jobs, lines, measures, page, peer_networks, peers, plan, tables
from benchmarks.paper.cells import PAPER_WIDTH, RECIPES, SEED, TABLES, PaperCell, TablePlace, cells, matches
from benchmarks.paper.datasets import DATASETS, absence, find
from benchmarks.paper.run import ROOT, lines_of, progress, train
from training.errors import ConfigError, exits_with_errors
from training.runtime import keep_memory

DEFAULT = ("random", "block", "shift", "ablation")
CHOICES = (*TABLES, *measures.TABLES)


def parser() -> argparse.ArgumentParser:
    """Build the command line parser."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = made.add_argument_group("which cells")
    what.add_argument(
        "--only", action="append", default=[], metavar="CELL", help="only these, with * as in file names; repeatable"
    )
    what.add_argument(
        "--tables", default=",".join(DEFAULT), help=f"of {', '.join(CHOICES)}, or all (default %(default)s)"
    )
    what.add_argument("--d-model", type=int, default=PAPER_WIDTH, help="hidden dimension (the paper's: %(default)s)")
    what.add_argument("--recipe", choices=RECIPES, default="paper", help="how to train (default %(default)s)")
    what.add_argument("--epochs", type=int, default=0, help="most epochs, for a trial; stored apart from full cells")
    what.add_argument("--seed", type=int, default=SEED, help="random seed of the training (default %(default)s)")
    how = made.add_argument_group("how")
    how.add_argument("--plan", action="store_true", help="print the plan and exit")
    how.add_argument("--score-only", action="store_true", help="score all checkpoints; unfinished ones are marked")
    how.add_argument("--table", action="store_true", help="only write the page from the existing lines")
    how.add_argument("--again", action="store_true", help="score cells again that have their lines")
    how.add_argument(
        "--sampler", action="append", default=[], metavar="LOW..HIGH",
        help="score trained block cells under other numbers of segments, like 2..7; repeatable; trains nothing",
    )  # fmt: skip
    how.add_argument(
        "--peers", nargs="?", const="all", metavar="NAMES",
        help=f"train others instead of ours: {', '.join(peer_networks.PEERS)}, with commas, or all; one at a time, "
        "--recipe, --epochs and --jobs do not apply (needs PyPOTS)",
    )  # fmt: skip
    how.add_argument(
        "--minutes",
        type=float,
        default=20.0,
        help="processor time for each of the --peers; 0: no limit (default %(default)g)",
    )
    how.add_argument("--max-minutes", type=float, default=0.0, help="begin no cell after so many minutes; 0: no limit")
    how.add_argument("--jobs", type=int, default=1, help="cells at a time, one thread each (default %(default)s)")
    how.add_argument("--device", default="cpu", help="torch's name of the device (default %(default)s)")
    where = made.add_argument_group("where")
    where.add_argument("--runs", type=Path, default=ROOT, help="checkpoints (default %(default)s)")
    where.add_argument("--results", type=Path, default=lines.RESULTS, help=lines.HELP)
    return made


def segments(text: str) -> tuple[int, int]:
    """`2..7` as two numbers.

    Raises:
        ConfigError: anything else.
    """
    low, dots, high = text.partition("..")
    if not (dots and low.isdigit() and high.isdigit() and 1 <= int(low) <= int(high)):
        raise ConfigError(f"expected --sampler LOW..HIGH like 2..7, found {text!r}")
    return int(low), int(high)


def chosen(given: argparse.Namespace) -> tuple[list[PaperCell], list[str]]:
    """Return the requested cells and the names of the tables.

    Raises:
        ConfigError: a table is unknown, or no cell matches.
    """
    names = list(CHOICES) if given.tables == "all" else [name.strip() for name in given.tables.split(",")]
    unknown = sorted(set(names) - set(CHOICES))
    if unknown:
        raise ConfigError(f"expected --tables of {', '.join(CHOICES)}; found {', '.join(unknown)}")
    marks = {"seed": given.seed, "recipe": given.recipe, "d_model": given.d_model, "epochs": given.epochs}
    wanted = [dataclasses.replace(cell, **marks) for cell in cells(list(DATASETS), names) if matches(cell, given.only)]
    if given.only and not wanted:
        raise ConfigError(f"no cell of the tables {', '.join(names)} is called {' or '.join(given.only)}")
    here = {name for name, dataset in DATASETS.items() if find(dataset) is not None}
    for name in dict.fromkeys(cell.dataset for cell in wanted):
        if name not in here:
            print(absence(DATASETS[name]))
    return [cell for cell in wanted if cell.dataset in here], names


def score(cell: PaperCell, given: argparse.Namespace, places: Sequence[TablePlace] | None = None) -> None:
    """Score a cell, store its lines and print the result."""
    if not (given.runs / cell.name / "best.pt").is_file():
        return
    found = lines_of(cell, given.runs, places, given.device)
    lines.put(given.results, found)
    for line in found:
        paper = tables.errors(line["paper_mse"], line["paper_mae"])
        print(
            f"{cell.key}  {line['table']} at {line['test_rate']:g}: {tables.errors(line['mse'], line['mae'])}"
            f"{f', paper {paper}' if paper else ''}, interpolation {line['interpolation_mse']:.3f} / "
            f"{line['interpolation_mae']:.3f}  ({line['epochs']} epochs{'' if line['finished'] else ', not finished'})",
            flush=True,
        )


def work(wanted: Sequence[PaperCell], given: argparse.Namespace, until: float) -> list[str]:
    """Train and score one cell after the other, or several at a time; return the names of the failed ones."""
    if given.jobs > 1 and len(wanted) > 1:
        return jobs.run([(cell.key, _command(cell, given, until)) for cell in wanted], given.jobs, print, until)
    for number, cell in enumerate(wanted, start=1):
        if time.monotonic() >= until:
            break
        print(f"{cell.key}  cell {number} of {len(wanted)}", flush=True)
        minutes = 0.0 if until == float("inf") else (until - time.monotonic()) / 60
        train(cell, given.runs, device=given.device, minutes=minutes, say=lambda text: print(text, flush=True))
        score(cell, given)
    return []


def _command(cell: PaperCell, given: argparse.Namespace, until: float) -> list[str]:
    """Return the command for one cell alone; the parent writes the page."""
    arguments = ["-m", "benchmarks.paper", "--only", cell.key, "--tables", given.tables, "--recipe", cell.recipe]
    arguments += ["--d-model", str(cell.d_model), "--epochs", str(cell.epochs), "--seed", str(cell.seed)]
    arguments += ["--device", given.device, "--runs", str(given.runs), "--results", str(given.results)]
    if until != float("inf"):
        arguments += ["--max-minutes", f"{max(0.1, (until - time.monotonic()) / 60):.2f}"]
    return [*arguments, *(["--again"] if given.again else [])]


def simple(arguments: Sequence[str]) -> int:
    """Run the command of the imputers that need no network.

    Raises:
        ConfigError: their libraries are not installed.
    """
    try:
        from benchmarks.paper.simple import command
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed: pip install 'glaim-stream[simple]'") from error
    return command.main(arguments)


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 1 if a cell failed, 2 for bad input, 130 or 143 when stopped."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["closed-form"]:
        return closed_form.main(words[1:])
    if words[:1] == ["cascade"]:
        return cascade.main(words[1:])
    if words[:1] == ["simple"]:
        return simple(words[1:])
    given = parser().parse_args(words)
    given.results = lines.file_in(given.results)
    keep_memory()
    torch.set_num_threads(1)
    until = time.monotonic() + 60 * given.max_minutes if given.max_minutes else float("inf")
    failed: list[str] = []
    try:
        if given.table:
            print(f"wrote {page.write(given.results)}")
            return 0
        samplers = [segments(text) for text in given.sampler]
        wanted, names = chosen(given)
        if given.peers:
            with jobs.stoppable():
                peers.run(peers.named(given.peers), wanted, given, until)
            if not given.plan:
                print(f"wrote {page.write(given.results)}")
            return 0
        kept = {lines.identity(line): line for line in lines.read(given.results)}
        if given.plan:
            print(plan.text(plan.make(wanted, kept, given.runs), given.jobs))
            return 0
        with jobs.stoppable():
            for cell in wanted if samplers else []:
                if cell.pattern == "block" and cell.variant == "full":
                    score(cell, given, [TablePlace("sampler", (cell.rate,), pair) for pair in samplers])
            for cell in wanted if given.score_only and not samplers else []:
                state = progress(cell, given.runs)
                if state and (given.again or not plan.is_scored(cell, kept, state.last.epoch)):
                    score(cell, given)
            if not (samplers or given.score_only):
                todo = [cell for cell in wanted if given.again or not plan.is_scored(cell, kept)]
                print(f"{len(wanted)} cells, {len(wanted) - len(todo)} done before")
                failed = work(todo, given, until)
            measures.write(names, wanted, given.runs, given.results.parent, given.device)
            print(f"wrote {page.write(given.results)}")
    except (jobs.Stopped, KeyboardInterrupt) as stop:
        print("stopped; the same command continues from the last checkpoint", file=sys.stderr)
        return 128 + int(getattr(stop, "signal", signal.SIGINT))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
