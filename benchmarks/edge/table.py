"""The table of `benchmarks.edge`: from answers to lines of results, and from lines to a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.edge.answers import EdgeAnswers
from benchmarks.edge.cases import CASES, LABELS, LAGS
from benchmarks.edge.experts import MAX_GAP, EdgeWeights, blended
from training.data import Floats

Line = dict[str, Any]
METHODS = ("model", "blend", "gaussian")  # the first where there is a network, the last where the form was measured
# The aims at the newest step, by case: the MAE is below the last value's by this share.
GAINS: Mapping[str, float] = {"one": 0.40, "all": 0.10}
SHOWN = (0, 1, 8)  # lags whose rows are always on the page
IDENTITY = ("dataset", "run", "method", "case", "lag")


def score(
    groups: Sequence[Mapping[tuple[str, int], EdgeAnswers]],
    weights: Mapping[int, EdgeWeights],
    about: Mapping[str, Any],
    *,
    network: bool = True,
) -> list[Line]:
    """Return one line for each method, case and lag.

    Args:
        groups: Each group's answers.
        weights: The experts' weights by step.
        about: Further columns of every line: data set, run, machine and the like.
        network: Whether there is one; else there are no lines of the model.

    Returns:
        Errors over all hidden cells of all groups, standardised. A baseline without an observation counts as 0, the
        training mean.
    """
    lines = []
    for case in CASES:
        for lag in LAGS:
            by_group = [group[case, lag] for group in groups]
            if not any(np.isfinite(answers.truth).any() for answers in by_group):
                continue
            mixed = [blended(answers, weights) for answers in by_group]
            interpolated = _errors(by_group, [answers.interpolation for answers in by_group])
            carried = _errors(by_group, [answers.last_value for answers in by_group])
            methods = [("model", [answers.model for answers in by_group])] if network else []
            methods.append(("blend", mixed))
            forms = [answers.gaussian for answers in by_group if answers.gaussian is not None]
            methods += [("gaussian", forms)] if forms else []
            for method, filled in methods:
                mse, mae = _errors(by_group, filled)
                lines.append(
                    {
                        "dataset": about["dataset"], "method": method, "case": case, "lag": lag, "mse": mse, "mae": mae,
                        "last_value_mse": carried[0], "last_value_mae": carried[1],
                        "interpolation_mse": interpolated[0], "interpolation_mae": interpolated[1],
                        "groups": len(by_group), "windows": sum(len(answers.steps) for answers in by_group),
                        "cells": sum(int(np.isfinite(answers.truth).sum()) for answers in by_group), **about,
                    }
                )  # fmt: skip
    return lines


def _errors(by_group: Sequence[EdgeAnswers], filled: Sequence[Floats]) -> tuple[float, float]:
    """Return MSE and MAE over the cells whose truth is known."""
    errors = np.concatenate(
        [
            (np.nan_to_num(values.astype(np.float64)) - answers.truth)[np.isfinite(answers.truth)]
            for answers, values in zip(by_group, filled, strict=True)
        ]
    )
    return round(float(np.square(errors).mean()), 5), round(float(np.abs(errors).mean()), 5)


def misses(line: Mapping[str, Any]) -> list[str]:
    """Describe how a line misses the aim; empty when it does not.

    The aim: never worse than the better of last value and interpolation, and at the newest step an MAE under the last
    value's by `GAINS`.
    """
    found = []
    for metric in ("mse", "mae"):
        bar = min(line[f"last_value_{metric}"], line[f"interpolation_{metric}"])
        if line[metric] > bar:
            found.append(f"{metric.upper()} {100 * (line[metric] / bar - 1):.0f} % over the better baseline")
    gain = GAINS.get(line["case"], 0.0) if line["lag"] == 0 else 0.0
    if gain and line["mae"] > (1 - gain) * line["last_value_mae"]:
        found.append(f"MAE only {100 * (1 - line['mae'] / line['last_value_mae']):.0f} % under last value")
    return found


def markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: one table for each run, the data sets in the order of their lines."""
    page = [
        "# The newest steps of a stream",
        "",
        "Error (MSE / MAE, standardised) of one missing step, so many steps before the newest; everything else that",
        "was observed is visible. `model` is the network alone. `gaussian` is the closed form alone, fitted from the",
        "training part; it is empty where it was not measured. `blend` is what a worker publishes: model,",
        "interpolation and closed form as the experts of `glaim_stream/blend/experts.py`, fed by the worker's own",
        "probes of earlier steps with the default settings, all groups of the data set in one partition. At the newest",
        "step interpolation equals the last value. For a sensor that is silent for the whole window the baselines have",
        "only the training mean, and the blend has model and closed form; a worker publishes no value after",
        f"{MAX_GAP} silent steps.",
        "Bold: the best of the row. The aim: never worse than the better baseline, and at the newest step an MAE under",
        f"the last value's by {100 * GAINS['one']:.0f} % with one sensor missing and by {100 * GAINS['all']:.0f} %",
        "with the whole group missing; [why rows miss it](edge-notes.md). Rows of 2 and 4 steps back, which lie",
        "between those of 1 and 8, are left out where they reach the aim; `edge.jsonl` has them.",
        "",
    ]
    for (dataset, run), rows in _by_run(lines):
        first = rows[0]
        page += [
            f"## {dataset}: {run}",
            "",
            _trained(first) + f"; {first['windows']:,} windows of {_groups(first['groups'])}.",
            f"Command: `{first['command']}` ({first['date']}, {first['machine']}).",
            "",
            "| missing | steps back | model | gaussian | blend | interpolation | last value | blend reaches the aim |",
            "|---|---|---|---|---|---|---|---|",
        ]
        page += list(_table(rows))
        page.append("")
    return "\n".join(page)


def _trained(line: Mapping[str, Any]) -> str:
    if not line["d_model"]:
        return "No network: the blend is that of a worker with the closed form alone"
    epoch = f", epoch {line['epochs']}" if line["epochs"] else ""
    return f"Trained with {line['masks']} masks, D = {line['d_model']}{epoch}"


def _groups(count: int) -> str:
    return "one group" if count == 1 else f"{count} groups"


def _by_run(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], list[Mapping[str, Any]]]]:
    names = dict.fromkeys((str(line["dataset"]), str(line["run"])) for line in lines)
    order = list(dict.fromkeys(dataset for dataset, _ in names))
    for name in sorted(names, key=lambda pair: order.index(pair[0])):
        yield name, [line for line in lines if (line["dataset"], line["run"]) == name]


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    by_place = {(row["case"], row["lag"], row["method"]): row for row in rows}
    for case in CASES:
        for lag in LAGS:
            model, mixed, form = (by_place.get((case, lag, method)) for method in METHODS)
            if mixed is None or (lag not in SHOWN and not misses(mixed)):
                continue
            pairs = [
                *((math.inf, math.inf) if each is None else (each["mse"], each["mae"]) for each in (model, form)),
                (mixed["mse"], mixed["mae"]),
                (mixed["interpolation_mse"], mixed["interpolation_mae"]),
                (mixed["last_value_mse"], mixed["last_value_mae"]),
            ]
            best = [min(pair[place] for pair in pairs) for place in (0, 1)]
            shown = [_pair(pair, best) for pair in pairs]
            yield f"| {LABELS[case]} | {lag} | {' | '.join(shown)} | {'; '.join(misses(mixed)) or 'yes'} |"


def _pair(pair: tuple[float, float], best: Sequence[float]) -> str:
    """Format MSE and MAE, the best ones bold; empty where they were not measured."""
    if math.isinf(pair[0]):
        return ""
    return " / ".join(f"**{x:.3f}**" if x <= top else f"{x:.3f}" for x, top in zip(pair, best, strict=True))
