"""The result of a run in one sentence: where the model beats the baselines, and where it does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BASELINES = {"interpolation": "linear interpolation", "last_value": "last value", "mean": "training mean"}
RIVALS = {"gaussian": "closed form", **BASELINES}  # not each evaluation has a closed form
LEVEL = 0.01  # smaller differences are neither better nor worse


def verdict(cases: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the MAE of every case with its best baseline, and report where MSE differs.

    Args:
        cases: Cases of `training.evaluate`: case -> {"label", "cells", "methods"}.

    Returns:
        "sentence", and for each case the best baseline and the relative differences of MAE and MSE to it (each metric
        has its own best baseline; negative is better), and the same for each sensor's MAE.
    """
    judged = {name: _case(case) for name, case in cases.items() if case["cells"]}
    return {"sentence": _sentence(judged), "level": LEVEL, "cases": judged}


def standing(difference: float | None) -> str:
    """Return "better", "level" or "worse" for a relative difference; "unknown" for None."""
    if difference is None:
        return "unknown"
    return "level" if abs(difference) < LEVEL else "better" if difference < 0 else "worse"


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    methods = case["methods"]
    baselines = [name for name in RIVALS if name in methods]
    best = min(baselines, key=lambda name: methods[name]["mae"])
    sensors = {}
    for sensor, row in methods["model"]["sensors"].items():
        rival = min(methods[name]["sensors"][sensor]["mae"] for name in baselines)
        sensors[sensor] = _difference(row["mae"], rival) if row["cells"] else None
    return {
        "label": case["label"],
        "best_baseline": best,
        "mae": _difference(methods["model"]["mae"], methods[best]["mae"]),
        "mse": _difference(methods["model"]["mse"], min(methods[name]["mse"] for name in baselines)),
        "sensors": sensors,
    }


def _difference(ours: float, rival: float) -> float | None:
    return ours / rival - 1 if rival > 0 else None


def _sentence(judged: Mapping[str, Mapping[str, Any]]) -> str:
    if not judged:
        return "Nothing could be judged: the test part has no known value to hide."
    by = {
        kind: [each for each in judged.values() if standing(each["mae"]) == kind]
        for kind in ("better", "level", "worse", "unknown")
    }
    total = len(judged)
    parts = []
    if by["better"]:
        how_many = "all" if len(by["better"]) == total else f"{len(by['better'])} of"
        parts.append(f"beats the best baseline in {how_many} {total} cases ({_listed(by['better'])})")
    else:
        parts.append(f"beats the best baseline in none of {total} cases")
    if by["worse"]:
        parts.append(f"loses in {len(by['worse'])} ({_listed(by['worse'])})")
    if by["level"]:
        parts.append(f"is level in {len(by['level'])} ({_listed(by['level'])})")
    if by["unknown"]:
        parts.append(f"cannot be compared in {len(by['unknown'])}, where a baseline makes no error")
    joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"By mean absolute error, the model {joined}.{_squared(judged)}"


def _squared(judged: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a second sentence on the squared error; empty if both metrics agree on every case."""
    if all(standing(case["mse"]) == standing(case["mae"]) for case in judged.values()):
        return ""
    counts = {kind: sum(standing(case["mse"]) == kind for case in judged.values()) for kind in ("better", "worse")}
    better, worse = counts["better"], counts["worse"]
    return f" By mean squared error it is better in {better} and worse in {worse} of {len(judged)} cases."


def _listed(cases: list[Mapping[str, Any]]) -> str:
    ordered = sorted(cases, key=lambda each: each["mae"])
    return "; ".join(f"{each['label']} {percent(each['mae'])}" for each in ordered)


def percent(difference: float | None) -> str:
    """Format a relative difference with a true minus sign; a dash for None."""
    if difference is None:
        return "–"
    return f"{difference:+.0%}".replace("-", "−").replace("%", " %") if abs(difference) >= 0.005 else "0 %"
