"""Score a trained model on hidden cells of the test part, beside the closed form, interpolation, last value and mean.

    python -m training.evaluate build/runs/plant-pump

The cases occur in streams: single cells and blocks missing; the newest step missing, of one sensor (each in turn) or of
the whole group; and a sensor that is silent for the whole window. Every method fills the same cells. Errors are given
standardised (by the training part's deviation, so that sensors can be averaged) and in each sensor's own unit. The
closed form is that of the run's directory; without one there, the table has no column for it. A
baseline without an observation (a silent sensor) falls back to the training mean. Where the closed form knows a sensor
as a direction in degrees, errors go the shorter way.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glaim_stream.core.contract import FORM_FILE
from glaim_stream.form import ClosedForm, interpolation, last_value
from training import checkpoint as checkpoints
from training import closed_form
from training.checkpoint import Checkpoint
from training.config import RunConfig, build, data_path
from training.data import (
    Bools,
    Floats,
    GroupSeries,
    Scale,
    Split,
    WindowSet,
    block_cells,
    edge_cells,
    fit_scale,
    hide,
    load,
    random_cells,
    silent_sensors,
    split,
)
from training.errors import exits_with_errors
from training.network import GLAIM, build_network
from training.runtime import keep_memory, machine

Fill = Callable[[Floats, Bools], Floats]  # (values with 0 where missing, observed), both [B, C, T] -> filled [B, C, T]
BATCH = 64
BEYOND_NOISE = 2.0  # standard errors by which the best of a table has to be better
METHODS = ("model", "gaussian", "interpolation", "last_value", "mean")  # a report may lack one of the first two
BY_SENSOR = ("block_0.3", "edge_one")  # cases with a table of the sensors on the page; the JSON has all
NAMES = {"gaussian": "closed form", "interpolation": "linear interpolation", "last_value": "last value"}


@dataclass(frozen=True)
class GapCase:
    """One pattern of missing cells; `hide` takes a seeded generator, the first window's number, and the known cells."""

    name: str
    label: str
    hide: Callable[[np.random.Generator, int, Bools], Bools]


def _edge_one(_: np.random.Generator, first: int, known: Bools) -> Bools:
    hidden = np.zeros_like(known)
    for index in range(known.shape[0]):
        sensor = (first + index) % known.shape[1]
        hidden[index] = edge_cells(known[index : index + 1], sensor)[0]
    return hidden


CASES: tuple[GapCase, ...] = (
    GapCase("random_0.3", "single cells, 30 %", lambda rng, _, known: random_cells(rng, known, 0.3)),
    GapCase("block_0.3", "blocks, 30 % of each sensor", lambda rng, _, known: block_cells(rng, known, 0.3)),
    GapCase("edge_one", "newest step, one sensor", _edge_one),
    GapCase("edge_all", "newest step, whole group", lambda _rng, _, known: edge_cells(known, None)),
    GapCase("silent_one", "one sensor silent for the window", lambda rng, _, known: silent_sensors(rng, known, most=1)),
)


class ErrorTally:
    """Sums of errors per sensor, [C] each, for one method in one case."""

    def __init__(self, sensors: int) -> None:
        self.squared = np.zeros(sensors)
        self.absolute = np.zeros(sensors)
        self.count = np.zeros(sensors, np.int64)
        self.by_window: list[NDArray[np.float64]] = []  # of each batch [B, 2]: sums of squared and absolute errors

    def add(self, filled: Floats, truth: Floats, hidden: Bools) -> None:
        """Add the errors of the hidden cells of a batch [B, C, T]."""
        error = np.where(hidden, filled.astype(np.float64) - truth, 0.0)
        self.by_window.append(np.stack([np.square(error).sum(axis=(1, 2)), np.abs(error).sum(axis=(1, 2))], axis=1))
        self.squared += np.square(error).sum(axis=(0, 2))
        self.absolute += np.abs(error).sum(axis=(0, 2))
        self.count += hidden.sum(axis=(0, 2))

    @property
    def mse(self) -> float:
        """Mean squared error over all hidden cells."""
        return float(self.squared.sum() / max(int(self.count.sum()), 1))

    @property
    def mae(self) -> float:
        """Mean absolute error over all hidden cells."""
        return float(self.absolute.sum() / max(int(self.count.sum()), 1))

    def summary(self, sensors: Sequence[str], std: NDArray[np.float64]) -> dict[str, Any]:
        """Return MSE and MAE over all hidden cells and per sensor, standardised and in the sensor's unit."""
        rows = {}
        for index, name in enumerate(sensors):
            count = max(int(self.count[index]), 1)
            mse, mae = self.squared[index] / count, self.absolute[index] / count
            unit = {"mse_unit": mse * std[index] ** 2, "mae_unit": mae * std[index]}
            rows[name] = {"cells": int(self.count[index]), "mse": mse, "mae": mae, **unit}
        return {"mse": self.mse, "mae": self.mae, "sensors": rows}


def winners(tallies: Mapping[str, ErrorTally]) -> dict[str, str | None]:
    """Return for `mse` and `mae` the method with the least error, None where another one is as good within the noise.

    The noise is that of the difference in the same windows: BEYOND_NOISE standard errors of its mean. Windows that
    overlap are not independent, so it is rather too small.
    """
    by_window = {name: np.concatenate(tally.by_window) for name, tally in tallies.items()}
    found: dict[str, str | None] = {}
    for column, metric in enumerate(("mse", "mae")):
        best = min(by_window, key=lambda name: float(by_window[name][:, column].sum()))
        behind = [by_window[name][:, column] - by_window[best][:, column] for name in by_window if name != best]
        clear = all(
            len(each) > 1 and each.mean() > BEYOND_NOISE * each.std(ddof=1) / np.sqrt(len(each)) for each in behind
        )
        found[metric] = best if clear else None
    return found


def with_fallback(fill: Fill) -> Fill:
    """Make a baseline return 0, the standardised training mean, where it has no value."""

    def filled(values: Floats, observed: Bools) -> Floats:
        return np.nan_to_num(fill(values, observed), nan=0.0)

    return filled


def model_fill(model: GLAIM) -> Fill:
    """Wrap the network as a function of arrays that computes on the device of its weights."""
    device = next(model.parameters()).device

    @torch.inference_mode()
    def fill(values: Floats, observed: Bools) -> Floats:
        filled: Floats = model(torch.from_numpy(values).to(device), torch.from_numpy(observed).to(device)).cpu().numpy()
        return filled

    typed: Fill = fill
    return typed


BASELINES: Mapping[str, Fill] = {
    "interpolation": with_fallback(interpolation),
    "last_value": with_fallback(last_value),
    "mean": lambda values, observed: np.where(observed, values, np.float32(0)),
}


def evaluate(
    windows: WindowSet,
    fills: Mapping[str, Fill],
    sensors: Sequence[str],
    scale: Scale,
    *,
    most: int,
    seed: int,
    form: ClosedForm | None = None,
    times_ms: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Score every method in every case.

    Args:
        windows: Standardised test windows.
        fills: Methods by name.
        sensors: Names of the sensors, in the order of the rows.
        scale: Turns errors back into sensor units.
        most: Most windows of a case, evenly spread over groups and time; 0: all.
        seed: Seed of the hidden cells.
        form: A closed form, scored as the method `gaussian`. The method `model` has its values where it fills alone.
        times_ms: Times of the windows' rows [R]; needed with `form`.

    Returns:
        case -> {"label", "windows", "cells", "winners": metric -> method or None (see `winners`),
        "methods": method -> {"mse", "mae", "sensors": sensor -> ...}}.
    """
    chosen = windows.spread(most)
    closed = None if form is None else closed_form.fill_of(form, scale)
    results: dict[str, Any] = {}
    for number, case in enumerate(CASES):
        tallies = {name: ErrorTally(len(sensors)) for name in [*fills, *(["gaussian"] if closed is not None else [])]}
        for start in range(0, len(chosen), BATCH):
            values = windows.take(chosen[start : start + BATCH])
            rng = np.random.default_rng([seed, number, start])
            batch = hide(values, case.hide(rng, start, np.isfinite(values)))
            found = {name: fill(batch.values, batch.observed) for name, fill in fills.items()}
            if form is not None and closed is not None and times_ms is not None:
                end_ms = times_ms[windows.starts[chosen[start : start + BATCH]] + windows.window - 1]
                found["gaussian"] = closed(batch.values, batch.observed, end_ms)
                alone = closed_form.filled_alone(form, scale, batch.values, batch.observed)
                if "model" in found and alone is not None:
                    found["model"] = np.where(alone[:, :, None], found["gaussian"], found["model"])
            for name, filled in found.items():
                near = closed_form.nearest(form, scale, filled, batch.truth)
                tallies[name].add(near, batch.truth, batch.hidden)
        cells = int(next(iter(tallies.values())).count.sum())
        methods = {name: tally.summary(sensors, scale.std) for name, tally in tallies.items()}
        results[case.name] = {
            "label": case.label, "windows": len(chosen), "cells": cells,
            "winners": winners(tallies), "methods": methods,
        }  # fmt: skip
    return results


def restore(state: Checkpoint) -> tuple[RunConfig, GLAIM, Scale]:
    """Return a checkpoint's configuration, its network with the averaged weights in evaluation mode, and its scale."""
    config = build(json.loads(state.config))
    model = build_network(config.model)
    model.load_state_dict(state.averaged)
    scale = Scale(*(np.array(state.scale[name]) for name in ("mean", "std", "minimum", "maximum")))
    return config, model.eval(), scale


def evaluate_run(
    state: Checkpoint, *, data: Path | None = None, most: int = 6000, form: ClosedForm | None = None
) -> dict[str, Any]:
    """Score a checkpoint on the test part of its data, beside a closed form; return the report as plain values."""
    config, model, scale = restore(state)
    series = load(config.data, data or data_path(config.data.file))
    parts = split(series, config.data, config.model.window)
    windows = WindowSet(scale.apply(parts.test.values), config.model.window, 1, config.train.minimum_observed)
    fills: dict[str, Fill] = {"model": model_fill(model), **BASELINES}
    cases = evaluate(
        windows, fills, state.sensors, scale, most=most, seed=config.train.seed, form=form, times_ms=parts.test.times_ms
    )
    return {
        **described(config, series, parts),
        "parameters": sum(p.numel() for p in model.parameters()),
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "training_seconds": round(state.seconds, 1),
        "git_commit": state.git_commit,
        "cases": cases,
    }


def evaluate_form(
    form: ClosedForm, seconds: float, config: RunConfig, series: GroupSeries, *, most: int = 6000
) -> dict[str, Any]:
    """Score a closed form alone on the test part; return a report like that of `evaluate_run`, without a model."""
    parts = split(series, config.data, config.model.window)
    scale = fit_scale(parts.train)
    windows = WindowSet(scale.apply(parts.test.values), config.model.window, 1, config.train.minimum_observed)
    cases = evaluate(
        windows, BASELINES, series.sensors, scale, most=most, seed=config.train.seed, form=form,
        times_ms=parts.test.times_ms,
    )  # fmt: skip
    return {
        **described(config, series, parts), "parameters": 0, "epochs": 0, "best_epoch": 0,
        "training_seconds": round(seconds, 1), "git_commit": checkpoints.git_commit(), "cases": cases,
    }  # fmt: skip


def described(config: RunConfig, series: GroupSeries, parts: Split) -> dict[str, Any]:
    """Return the part of a report that describes run, data and machine."""
    return {
        "run": config.name,
        "data": {"source": series.source, "sha256": series.sha256, "rows": series.rows, "step_s": series.step_s},
        "groups": len(series.groups),
        "split": list(config.data.split),
        "test": {
            "first": _stamp(parts.test.times_ms[0]),
            "last": _stamp(parts.test.times_ms[-1]),
            "rows": parts.test.rows,
        },
        "window": config.model.window,
        "units": dict(zip(series.sensors, series.units, strict=True)),
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _stamp(time_ms: Any) -> str:
    return datetime.fromtimestamp(int(time_ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def methods_of(report: Mapping[str, Any]) -> list[str]:
    """Return the methods of a report, in the order of METHODS."""
    present = {name for case in report["cases"].values() for name in case["methods"]}
    return [name for name in METHODS if name in present]


def shown_name(method: str) -> str:
    """Return the name of a method in tables."""
    return NAMES.get(method, method)


def shortfalls(report: Mapping[str, Any]) -> list[str]:
    """List the cases in which the model, or a closed form alone, does not beat a baseline on average."""
    lines = []
    judged, *rivals = (name for name in methods_of(report) if name != "mean")
    for case in report["cases"].values():
        model = case["methods"][judged]
        for name in rivals:
            other = case["methods"][name]
            behind = [metric.upper() for metric in ("mse", "mae") if model[metric] >= other[metric]]
            if behind:
                pairs = ", ".join(
                    f"{metric} {model[metric.lower()]:.3f} against {other[metric.lower()]:.3f}" for metric in behind
                )
                lines.append(f"{case['label']}: not better than {shown_name(name)} ({pairs})")
    return lines


def losing_sensors(case: Mapping[str, Any]) -> list[str]:
    """Return the sensors for which a baseline has the lower MAE in a case."""
    methods = case["methods"]
    rivals = [methods[name]["sensors"] for name in ("interpolation", "last_value")]
    return [
        sensor
        for sensor, row in methods["model" if "model" in methods else "gaussian"]["sensors"].items()
        if row["cells"] and row["mae"] >= min(rival[sensor]["mae"] for rival in rivals)
    ]


def markdown(report: Mapping[str, Any], command: str) -> str:
    """Return the report as a page: all cases on average, then two cases by sensor in its unit."""
    data, test = report["data"], report["test"]
    methods = methods_of(report)
    heads = " | ".join(shown_name(method) for method in methods)
    trained = (
        f"{report['parameters']:,} parameters, {report['training_seconds'] / 60:.0f} minutes of training "
        f"(best epoch {report['best_epoch']} of {report['epochs']})"
        if "model" in methods
        else f"the closed form alone, fitted in {report['training_seconds']:.0f} s"
    )
    lines = [
        f"# {report['run']}",
        "",
        f"Command: `{command}`",
        "",
        f"{report['date']}, {report['machine']}; {trained}.",
        "",
        f"Data: {data['source']} ({data['rows']} rows, {report['groups']} groups, step {data['step_s']:g} s), split in "
        f"time order {'/'.join(f'{share:g}' for share in report['split'])}; scored on the last part, "
        f"{test['first']} to {test['last']} UTC, on known cells that were hidden. "
        f"Windows of {report['window']} steps lie entirely in that part.",
        "",
        *([report["note"], ""] if report.get("note") else []),
        "## On average, standardised (MSE / MAE)",
        "",
        f"Bold: the least error, where it is below each other by more than {BEYOND_NOISE:g} standard errors of the "
        "difference in the same windows.",
        "",
        f"| hidden | {heads} |",
        f"|---|{'---|' * len(methods)}",
    ]
    for case in report["cases"].values():
        cells = []
        for method in methods:
            score = case["methods"][method]
            shown = [
                f"**{score[k]:.3f}**" if case["winners"][k] == method else f"{score[k]:.3f}" for k in ("mse", "mae")
            ]
            cells.append(" / ".join(shown))
        lines.append(f"| {case['label']} | {' | '.join(cells)} |")
    short = shortfalls(report)
    whose = "model" if "model" in methods else "closed form"
    lines += ["", f"Where the {whose} does not win on average: {'; '.join(short) or 'in none of these cases'}.", ""]
    lines.append("Sensors for which interpolation or last value has the lower MAE:")
    lines.append("")
    for case in report["cases"].values():
        lines.append(f"- {case['label']}: {', '.join(losing_sensors(case)) or 'none'}")
    lines.append("")
    for name, case in report["cases"].items():
        if name not in BY_SENSOR:
            continue
        lines += [
            f"## {case['label']}: each sensor, MAE in its unit (standardised MSE)",
            "",
            f"{case['windows']} windows, {case['cells']} hidden cells.",
            "",
            f"| sensor | unit | cells | {heads} |",
            f"|---|---|---|{'---|' * len(methods)}",
        ]
        for sensor, unit in report["units"].items():
            rows = [case["methods"][method]["sensors"][sensor] for method in methods]
            numbers = " | ".join(f"{row['mae_unit']:.4g} ({row['mse']:.3f})" for row in rows)
            lines.append(f"| {sensor} | {unit} | {rows[0]['cells']} | {numbers} |")
        lines.append("")
    lines += [f"The sensors in the other cases: `{report['run']}.json`.", ""]
    return "\n".join(lines)


def write_report(report: Mapping[str, Any], command: str, directory: Path) -> None:
    """Write `<run>.md` and `<run>.json` to the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{report['run']}.md").write_text(markdown(report, command))
    text = json.dumps({"command": command, **report}, indent=1, default=float)
    (directory / f"{report['run']}.json").write_text(text + "\n")


@exits_with_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m training.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run's directory, or one of its checkpoints")
    parser.add_argument("--data", type=Path, help="the data file, if it has moved since the training")
    parser.add_argument("--windows", type=int, default=6000, help="most windows of a case; 0: all (default 6000)")
    parser.add_argument("--results", type=Path, help="where to write the report (default: the run's directory)")
    given = parser.parse_args(arguments)
    keep_memory()
    torch.set_num_threads(1)
    folder = given.run if given.run.is_dir() else given.run.parent
    form = ClosedForm.load(folder) if (folder / FORM_FILE).is_file() else None
    report = evaluate_run(checkpoints.load(given.run), data=given.data, most=given.windows, form=form)
    command = f"python -m training.evaluate {given.run}"
    write_report(report, command, given.results or folder)
    print(markdown(report, command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
