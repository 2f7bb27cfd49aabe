"""Score models at the steps that a stream publishes: the newest one, and 1, 2, 4 and 8 steps before it.

    python -m benchmarks.edge build/runs/illness build/runs/etth1
    python -m benchmarks.edge --served model_repo/beijing-air --windows 400
    python -m benchmarks.edge build/paper/Illness-block-0.3-full-s2021     # for contrast: trained as in the paper
    python -m benchmarks.edge --form Illness --form ETTh1                  # the closed form alone: `model: learn`

One step is missing: of one sensor (each in turn), of several, or of the whole group; in a further case one sensor is
silent for the whole window. The windows of the test part are scored in the order of time: the model alone, the closed
form alone (the served model's own, else fitted from the training part), and the blend of model, interpolation and
closed form that a worker publishes (see benchmarks/edge/experts.py). Cells whose true value is unknown are not scored.

The results go to build/results/edge.jsonl, one line for each data set, run, method, case and lag, where a newer line
replaces the older one. The page edge.md beside it shows all of its lines. `--results benchmarks/edge/results` renews
the page of this repository.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from benchmarks.edge.answers import fill_hidden, stretches
from benchmarks.edge.experts import expert_weights
from benchmarks.edge.sources import EdgeSource, from_form, from_run, from_served
from benchmarks.edge.table import IDENTITY, Line, markdown, misses, score
from benchmarks.paper import lines
from training.errors import exits_with_errors
from training.runtime import keep_memory, machine

CONFIGS = Path(__file__).parents[2] / "training" / "configs"


def measure(source: EdgeSource, most: int, most_groups: int, command: str) -> list[Line]:
    """Return all lines of one model: at most `most` windows of each of `most_groups` groups, evenly spread; 0: all."""
    part = source.part
    names = np.unique(part.windows.groups)
    if 0 < most_groups < names.size:
        names = names[np.linspace(0, names.size - 1, most_groups).round().astype(np.int64)]
    groups = []
    for group in names.tolist():
        index = stretches(part.windows, group, most)
        groups.append(
            fill_hidden(part.windows, index, source.fill, source.dataset, closed=part.closed, times_ms=part.times_ms)
        )
        print(f"{source.dataset}, {source.run}: group {group + 1}, {index.size} windows", flush=True)
    steps = np.concatenate([answers.steps for group in groups for answers in group.values()])
    weights = expert_weights(
        part.values, part.windows.window, part.groups, source.fill, steps, part.closed, part.times_ms
    )
    about = {
        "dataset": source.dataset, "run": source.run, "d_model": source.d_model, "masks": source.masks,
        "epochs": source.epochs, "machine": machine(), "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": command,
    }  # fmt: skip
    return score(groups, weights, about, network=source.fill is not None)


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.edge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="a run's directory, or one of its checkpoints"
    )
    parser.add_argument("--served", action="append", default=[], type=Path, help="model_repo/<model>; may be repeated")
    parser.add_argument(
        "--form", action="append", default=[], metavar="DATASET", help="the paper's name; may be repeated"
    )
    parser.add_argument(
        "--config", type=Path, help="configuration of the --served model (default training/configs/<model>.toml)"
    )
    parser.add_argument(
        "--dataset",
        default="",
        help="its name in the table (default: the paper's name of the data set, else the run's)",
    )
    parser.add_argument("--data", type=Path, help="the data file, if it has moved since the training")
    parser.add_argument(
        "--windows", type=int, default=0, help="maximum windows per group, in four stretches (default 0: all)"
    )
    parser.add_argument("--groups", type=int, default=0, help="maximum groups, evenly spread (default 0: all)")
    parser.add_argument(
        "--results",
        type=Path,
        default=lines.RESULTS,
        help="folder of edge.jsonl and the page, or a .jsonl file (default %(default)s)",
    )
    parser.add_argument("--page-only", action="store_true", help="write the page again from the existing lines")
    given = parser.parse_args(arguments)
    if not (given.runs or given.served or given.form or given.page_only):
        parser.error("expected a RUN, --served or --form, found none")
    given.results = lines.file_in(given.results, "edge.jsonl")
    keep_memory()
    torch.set_num_threads(1)
    for path in given.runs:
        _add(from_run(path, data=given.data, dataset=given.dataset), given)
    for path in given.served:
        config = given.config or CONFIGS / f"{path.name}.toml"
        _add(from_served(path, config, data=given.data, dataset=given.dataset), given)
    for dataset in given.form:
        _add(from_form(dataset), given)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.with_suffix(".md").write_text(markdown(lines.read(given.results)))
    return 0


def _add(source: EdgeSource, given: argparse.Namespace) -> None:
    options = "".join(f" --{name} {value}" for name in ("windows", "groups") if (value := getattr(given, name)))
    new = measure(source, given.windows, given.groups, f"python -m benchmarks.edge {source.command}{options}")
    lines.put(given.results, new, IDENTITY)
    rows = sum(line["method"] == "blend" for line in new)
    short = [line for line in new if line["method"] == "blend" and misses(line)]
    print(f"{source.dataset}, {source.run}: the blend misses the aim in {len(short)} of {rows} rows")
    for line in short:
        print(f"  {line['case']}, {line['lag']} steps before the newest: {'; '.join(misses(line))}")


if __name__ == "__main__":
    sys.exit(main())
