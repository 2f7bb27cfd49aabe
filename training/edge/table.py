"""Answers to lines of results, and lines to a page: each row held against what costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from training.data.series import Floats
from training.edge.answers import Answers
from training.edge.cases import CASES, LAGS, SAYS
from training.edge.walk import walk

Line = dict[str, Any]
METHODS = ("model", "blend")
GAIN = 0.30  # the aim at the newest step with one sensor missing: so much less MAE than the last value's
IDENTITY = ("dataset", "run", "method", "case", "lag")


def score(groups: Sequence[Mapping[tuple[str, int], Answers]], about: Mapping[str, Any]) -> list[Line]:
    """One line a method, case and lag.

    Args:
        groups: Each group's answers; each walks with a blend of its own.
        about: What every line says besides: data set, run, machine and the like.

    Returns:
        Errors over all asked cells of all groups, standardised. Where a baseline has nothing to go by it says 0, the
        training mean.
    """
    lines = []
    for case in CASES:
        for lag in LAGS:
            asked = [group[case, lag] for group in groups]
            if not any(np.isfinite(answers.truth).any() for answers in asked):
                continue
            blended = [walk(answers) for answers in asked]
            interpolated = _errors(asked, [answers.interpolation for answers in asked])
            carried = _errors(asked, [answers.last_value for answers in asked])
            for method, filled in (("model", [answers.model for answers in asked]), ("blend", blended)):
                mse, mae = _errors(asked, filled)
                lines.append(
                    {
                        "dataset": about["dataset"], "method": method, "case": case, "lag": lag, "mse": mse, "mae": mae,
                        "last_value_mse": carried[0], "last_value_mae": carried[1],
                        "interpolation_mse": interpolated[0], "interpolation_mae": interpolated[1],
                        "groups": len(asked), "windows": sum(len(answers.steps) for answers in asked),
                        "cells": sum(int(np.isfinite(answers.truth).sum()) for answers in asked), **about,
                    }
                )  # fmt: skip
    return lines


def _errors(asked: Sequence[Answers], filled: Sequence[Floats]) -> tuple[float, float]:
    """MSE and MAE over the cells whose truth is known."""
    errors = np.concatenate(
        [
            (np.nan_to_num(values.astype(np.float64)) - answers.truth)[np.isfinite(answers.truth)]
            for answers, values in zip(asked, filled, strict=True)
        ]
    )
    return round(float(np.square(errors).mean()), 5), round(float(np.abs(errors).mean()), 5)


def misses(line: Mapping[str, Any]) -> list[str]:
    """What of the aim a line does not reach, in words; empty when it does.

    The aim: never worse than the better of last value and interpolation, and at the newest step with one sensor
    missing an MAE at least 30 % under the last value's.
    """
    found = []
    for metric in ("mse", "mae"):
        bar = min(line[f"last_value_{metric}"], line[f"interpolation_{metric}"])
        if line[metric] > bar:
            found.append(f"{metric.upper()} {100 * (line[metric] / bar - 1):.0f} % over the better baseline")
    if line["case"] == "one" and line["lag"] == 0 and line["mae"] > (1 - GAIN) * line["last_value_mae"]:
        found.append(f"MAE only {100 * (1 - line['mae'] / line['last_value_mae']):.0f} % under last value")
    return found


def markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """The page: a table a run, the data sets in the order in which they came."""
    page = [
        "# The newest steps of a stream",
        "",
        "Error (MSE / MAE, standardised) of one missing step, so many steps before the newest; everything else that",
        "was observed is visible. The windows of the test part are walked through step by step. `model` is the network",
        "alone; `blend` mixes it with interpolation by weights for each sensor that know the errors of earlier windows",
        "only (`blend/mixture.py`). At the newest step interpolation carries the last value on. For a sensor that",
        "is silent for the whole window the baselines have nothing but the training mean, and the blend is the model.",
        "Bold: the best of the row. The aim: never worse than the better baseline, and with one sensor missing at the",
        f"newest step an MAE {100 * GAIN:.0f} % under the last value's; [why rows miss it](edge-notes.md).",
        "",
    ]
    for (dataset, run), rows in _by_run(lines):
        first = rows[0]
        page += [
            f"## {dataset}: {run}",
            "",
            f"Trained with {first['masks']} masks, D = {first['d_model']}"
            + (f", epoch {first['epochs']}" if first["epochs"] else "")
            + f"; {first['windows']:,} windows of {_groups(first['groups'])}.",
            f"Command: `{first['command']}` ({first['date']}, {first['machine']}).",
            "",
            "| missing | steps back | model | blend | interpolation | last value | blend reaches the aim |",
            "|---|---|---|---|---|---|---|",
        ]
        page += list(_table(rows))
        page.append("")
    return "\n".join(page)


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
            if (case, lag, "blend") not in by_place:
                continue
            model, blended = (by_place[case, lag, method] for method in METHODS)
            pairs = [
                (model["mse"], model["mae"]),
                (blended["mse"], blended["mae"]),
                (blended["interpolation_mse"], blended["interpolation_mae"]),
                (blended["last_value_mse"], blended["last_value_mae"]),
            ]
            best = [min(pair[place] for pair in pairs) for place in (0, 1)]
            shown = [
                " / ".join(f"**{x:.3f}**" if x <= top else f"{x:.3f}" for x, top in zip(pair, best, strict=True))
                for pair in pairs
            ]
            yield f"| {SAYS[case]} | {lag} | {' | '.join(shown)} | {'; '.join(misses(blended)) or 'yes'} |"
