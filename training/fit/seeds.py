"""Runs with several seeds, each in its own directory, and the spread of their scores.

All of them are scored on the hidden cells of the first seed. The deviation is the sample deviation (n - 1).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from glaim_stream.form import ClosedForm
from training import config as configs
from training.checkpoint import Checkpoint
from training.config import RunConfig
from training.evaluate import evaluate_run, methods_of, shown_name

METRICS = ("mse", "mae")


def parse(text: str) -> tuple[int, ...]:
    """Parse seeds like "2021,2022": two or more, all different."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) < 2 or len(set(found)) < len(found) or min(found) < 0:
        raise argparse.ArgumentTypeError(f"expected two or more different seeds like 2021,2022,2023, found {text!r}")
    return found


def runs(config: RunConfig, seeds: Sequence[int], directory: Path) -> dict[Path, RunConfig]:
    """Return the run of each seed, by its directory."""
    return {
        directory / f"seed-{seed}": dataclasses.replace(config, train=dataclasses.replace(config.train, seed=seed))
        for seed in seeds
    }


def summarise(
    trained: Mapping[Path, Checkpoint],
    directory: Path,
    data: Path,
    command: str,
    say: Callable[[str], None],
    form: ClosedForm | None = None,
) -> Path:
    """Score every run, write seeds.json and seeds.md, and return the directory of the best by validation."""
    first = configs.build(json.loads(next(iter(trained.values())).config)).train.seed
    reports = {}
    for place, best in trained.items():
        say(f"scoring {place.name}")
        reports[place] = evaluate_run(_with_seed(best, first), data=data, form=form)
    winner = min(trained, key=lambda place: trained[place].best_score)
    found = {
        "command": command,
        "runs": {
            place.name: {"validation_mse": best.best_score, "best_epoch": best.best_epoch, "epochs": best.epoch,
                         "seconds": round(best.seconds, 1)}
            for place, best in trained.items()
        },
        "best": winner.name,
        "cases": spread(list(reports.values())),
        **{key: reports[winner][key] for key in ("machine", "date", "git_commit")},
    }  # fmt: skip
    (directory / "seeds.json").write_text(json.dumps(found, indent=1) + "\n")
    (directory / "seeds.md").write_text(page(found))
    say(table(found["cases"]))
    say(f"best by validation: {winner.name}")
    return winner


def spread(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return, by case, {"label", method -> {"mse", "mae" -> {"mean", "std", "runs"}}} over the reports of runs."""
    found: dict[str, Any] = {}
    for name, case in reports[0]["cases"].items():
        found[name] = {"label": case["label"]}
        for method in methods_of(reports[0]):
            scores = [report["cases"][name]["methods"][method] for report in reports]
            found[name][method] = {metric: _moments([float(score[metric]) for score in scores]) for metric in METRICS}
    return found


def _moments(numbers: list[float]) -> dict[str, Any]:
    return {"mean": statistics.fmean(numbers), "std": statistics.stdev(numbers), "runs": numbers}


def table(cases: Mapping[str, Any]) -> str:
    """Return mean and deviation of the model, and the baselines, which have no seed, as a Markdown table."""
    present = [name for name in ("gaussian", "interpolation", "last_value") if name in next(iter(cases.values()))]
    heads = " | ".join(shown_name(name) for name in present)
    lines = [f"| hidden | model MSE | model MAE | {heads} |", f"|---|---|---|{'---|' * len(present)}"]
    for case in cases.values():
        model = [f"{case['model'][metric]['mean']:.4f} ± {case['model'][metric]['std']:.4f}" for metric in METRICS]
        rivals = [" / ".join(f"{case[method][metric]['mean']:.3f}" for metric in METRICS) for method in present]
        lines.append(f"| {case['label']} | {' | '.join([*model, *rivals])} |")
    return "\n".join(lines)


def page(found: Mapping[str, Any]) -> str:
    """Return the text of seeds.md."""
    lines = [f"# {len(found['runs'])} seeds", "", f"Command: `{found['command']}`", ""]
    lines += [f"{found['date']}, {found['machine']}. Standardised, on the test part; mean ± deviation.", ""]
    lines += [table(found["cases"]), "", "| run | validation MSE | best epoch | epochs |", "|---|---|---|---|"]
    lines += [
        f"| {name}{' (exported)' if name == found['best'] else ''} | {run['validation_mse']:.4f} | "
        f"{run['best_epoch']} | {run['epochs']} |"
        for name, run in found["runs"].items()
    ]
    return "\n".join(lines) + "\n"


def _with_seed(state: Checkpoint, seed: int) -> Checkpoint:
    """Replace the seed in a checkpoint's configuration, which also seeds the hidden cells of the test."""
    config = configs.build(json.loads(state.config))
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, seed=seed))
    return dataclasses.replace(state, config=config.to_json())
