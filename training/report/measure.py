"""All numbers of a run's report, as plain values; the page is made from them alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glaim_stream.core.contract import ResidualQuantiles
from glaim_stream.core.masks import runs
from glaim_stream.form import interpolation, last_value
from training.checkpoint import Checkpoint
from training.config import RunConfig, data_path
from training.data import GroupSeries, Scale, Split, WindowSet, load, split
from training.errors import DataError
from training.evaluate import Fill, evaluate_run, model_fill, restore, with_fallback
from training.network import GLAIM, StaGlo, count_parameters
from training.report import examples, gaps, intervals
from training.report.verdict import verdict
from training.runtime import machine
from training.serve import residual_quantiles

FORMAT = 1
DIGITS = 6  # significant digits to keep


def measure(
    state: Checkpoint, history: Sequence[Mapping[str, float]], *, data: Path | None = None,
    evaluation: Mapping[str, Any] | None = None, quantiles: ResidualQuantiles | None = None, windows: int = 300,
) -> dict[str, Any]:  # fmt: skip
    """Score a checkpoint on the test part of its data in all ways of the page.

    Args:
        state: The checkpoint, its best epoch.
        history: One line for each epoch; the history of the last checkpoint goes beyond the best epoch.
        data: The data file, if it has moved since the training.
        evaluation: The report of `evaluate_run` on this checkpoint; measured here by default.
        quantiles: The residual quantiles of the exported contract; by default measured here on fewer windows.
        windows: Most test windows for each case; each kind of gap gets a fifth of it.

    Raises:
        DataError: the file's sensors differ from the checkpoint's, or it has too few rows.
    """
    began = time.monotonic()
    config, model, scale = restore(state)
    path = data or data_path(config.data.file)
    series = load(config.data, path)
    if list(series.sensors) != state.sensors:
        raise DataError(f"the checkpoint was trained on sensors {state.sensors}, the data has {list(series.sensors)}")
    parts = split(series, config.data, config.model.window)
    test = _windows(config, scale, parts.test)
    fills: dict[str, Fill] = {
        "model": model_fill(model),
        "interpolation": with_fallback(interpolation),
        "last_value": with_fallback(last_value),
        "mean": lambda values, observed: np.where(observed, values, np.float32(0)),
    }
    seed = config.train.seed
    few = max(2, windows // 5)
    scores = evaluation if evaluation is not None else evaluate_run(state, data=path, most=windows)
    probes = gaps.probe(test, fills, len(state.sensors), most=few, seed=seed)
    held_out = _windows(config, scale, parts.validation)
    source = "contract" if quantiles is not None else "measured"
    if quantiles is None:
        lag = max(1, config.export.emitted_steps // 2)
        quantiles = residual_quantiles(held_out, fills["model"], scale, lag=lag, most=few, seed=seed)
    drawn = examples.examples(
        test, fills["model"], fills["interpolation"], parts.test, scale, quantiles, most=windows, seed=seed
    )
    report = {
        "format": FORMAT,
        "run": config.name,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "git_commit": state.git_commit,
        "data": _data(state, series, parts, config),
        "model": _model(model, config),
        "training": {
            "epochs": len(history) or state.epoch,
            "best_epoch": state.best_epoch,
            "seconds": max([state.seconds, *(float(line.get("seconds", 0.0)) for line in history)]),
        },
        "config": _public(json.loads(state.config)),
        "verdict": verdict(scores["cases"]),
        "curves": [dict(line) for line in history],
        "cases": scores["cases"],
        "gaps": gaps.summary(probes, state.sensors, scale.std),
        "intervals": {
            "source": source,
            "windows": len(held_out.spread(few)) if source == "measured" else None,
            "validation_windows": len(held_out),
            **intervals.coverage(probes.errors, quantiles, scale.std, state.sensors),
        },
        "examples": drawn,
        "dependencies": dependencies(model, state.sensors),
        "seconds": time.monotonic() - began,
    }
    tidied: dict[str, Any] = tidy(report)
    return tidied


def tidy(value: Any) -> Any:
    """Convert to values that JSON keeps exactly: no numpy, floats of six significant digits, None if not finite."""
    if isinstance(value, Mapping):
        return {str(key): tidy(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [tidy(each) for each in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def _windows(config: RunConfig, scale: Scale, part: GroupSeries) -> WindowSet:
    return WindowSet(scale.apply(part.values), config.model.window, 1, config.train.minimum_observed)


def _data(state: Checkpoint, series: GroupSeries, parts: Split, config: RunConfig) -> dict[str, Any]:
    named = {"training": parts.train, "validation": parts.validation, "test": parts.test}
    holes = {name: ~np.isfinite(part.values) for name, part in named.items()}
    sensors = []
    for row, (name, unit) in enumerate(zip(state.sensors, state.units, strict=True)):
        missing = {part: float(each[:, row].mean()) for part, each in holes.items()}
        longest = max(_longest(group) for group in ~np.isfinite(series.values[:, row]))
        mean, std = state.scale["mean"][row], state.scale["std"][row]
        sensors.append(
            {"name": name, "unit": unit, "mean": mean, "std": std, "missing": missing, "longest_hole": longest}
        )
    return {
        "source": state.source,
        "sha256": series.sha256,
        "trained_on_sha256": state.source_sha256,
        "rows": series.rows,
        "step_s": state.step_s,
        "groups": list(series.groups),
        "history": config.data.history,
        "sensors": sensors,
        "parts": {
            name: {
                "rows": part.rows,
                "first_ms": int(part.times_ms[0]),
                "last_ms": int(part.times_ms[-1]),
                "missing": float(holes[name].mean()),
            }
            for name, part in named.items()
        },
    }


def _longest(missing: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
    """Return the longest run of True, in steps."""
    return int(np.diff(runs(missing)).max(initial=0))


def _model(model: GLAIM, config: RunConfig) -> dict[str, Any]:
    sizes = config.model
    return {
        "parameters": count_parameters(model),
        "window": sizes.window,
        "d_model": sizes.d_model,
        "layers": sizes.layers,
        "masks": config.masks.pattern,
        "emitted_steps": config.export.emitted_steps,
    }


def _public(config: dict[str, Any]) -> dict[str, Any]:
    """Remove the folders of the machine from the configuration, because a report is shown to others."""
    for section, key in (("data", "file"), ("export", "directory")):
        if config.get(section, {}).get(key):
            config[section][key] = Path(config[section][key]).name
    return config


STRONGEST = 8


@torch.inference_mode()
def dependencies(model: GLAIM, sensors: Sequence[str]) -> dict[str, Any] | None:
    """Return the mean over the D features of G [D, C, C] of the first layer; None for a model without StaGlo.

    Row i holds the weights with which sensor i mixes in the sensors j; rows sum to 1. `alpha` is the share of the
    mixture in each feature; the rest is the sensor itself (U = (1 - alpha) Z + alpha G Z). Its mean, minimum and
    maximum over the features are given. The mean is not weighted by alpha.
    """
    staglo = model.layers[0].staglo
    if not isinstance(staglo, StaGlo):
        return None
    matrix = staglo.dependencies(model.tokens).mean(dim=0).double().numpy()  # (C, C)
    alpha = torch.sigmoid(staglo.alpha_logit).double()
    pairs = [(float(matrix[i, j]), i, j) for i in range(len(sensors)) for j in range(len(sensors)) if i != j]
    strongest = sorted(pairs, reverse=True)[:STRONGEST]
    return {
        "matrix": matrix.tolist(),
        "uniform": 1 / len(sensors),
        "features": int(alpha.numel()),
        "alpha": {"mean": float(alpha.mean()), "smallest": float(alpha.min()), "largest": float(alpha.max())},
        "strongest": [{"to": sensors[i], "from": sensors[j], "weight": weight} for weight, i, j in strongest],
    }
