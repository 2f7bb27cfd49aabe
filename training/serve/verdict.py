"""May a model take the place of what costs nothing? The rule by which export decides, on an evaluation's report.

In each case of the evaluation (single cells, blocks, the newest step, a silent sensor) the model is held against the
better baseline, interpolation or last value, chosen for the squared and for the absolute error apart: the quotient of
the two errors is below 1 where the model is better. A case is behind when *both* quotients are 1 or more. Either error
alone would not do: a handful of storms decides the squared one, a sensor that mostly stands still the absolute one,
and a model that wins one of them is still worth having. A model is refused when

    on the whole    the geometric mean of the quotients over all cases is 1 or more for both errors, or
    in one case     both quotients are 1.05 or more.

The 5 % are room for chance: when the newest step of the whole group is out, nothing but the last value is known, a
good model ties with it, and a retrained one must not be refused for a coin's fall. What is behind by less, or only for
some sensors, is a note: the worker's ladder has both baselines too. Differences below a thousandth of a deviation
count for nothing, and scores that are no numbers count as behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.evaluate import losing_sensors

BASELINES = ("interpolation", "last_value")
METRICS = ("mse", "mae")
MARGIN = 1.05
FEW_WINDOWS = 40  # to validate on: below, the 5 % quantile of an interval is the error of a window or two
SHOWN = 8  # sensors; when all of more than so many lose, their number says it
NOTHING = {"mse": 1e-6, "mae": 1e-3}  # standardised: errors this small are the same


@dataclass(frozen=True)
class Standing:
    """The model beside the better baseline in one case: metric -> (model, name of the baseline, its error)."""

    says: str
    scores: Mapping[str, tuple[float, str, float]]
    losing: tuple[str, ...]  # sensors for which a baseline has the lower MAE

    def quotient(self, metric: str) -> float:
        """The model's error over the better baseline's; infinite when the model's is no number."""
        model, _, baseline = self.scores[metric]
        quotient = (model + NOTHING[metric]) / (baseline + NOTHING[metric])
        return quotient if math.isfinite(quotient) else math.inf

    def behind(self, margin: float = 1.0) -> bool:
        """Behind by both errors, each by `margin` or more."""
        return all(self.quotient(metric) >= margin for metric in METRICS)

    def sentence(self) -> str:
        """The case, its numbers and the sensors, for people."""
        pairs = []
        for metric in METRICS:
            model, name, baseline = self.scores[metric]
            pairs.append(f"{metric.upper()} {model:.3f} against {baseline:.3f} of {name.replace('_', ' ')}")
        sensors = f"; behind in MAE for {', '.join(self.losing)}" if self.losing else ""
        return f"{self.says}: {', '.join(pairs)}{sensors}"


@dataclass(frozen=True)
class Verdict:
    """`refusals` say why a model must not be served; `notes` what an operator should know of one that may."""

    refusals: tuple[str, ...]
    notes: tuple[str, ...]


def judge(report: Mapping[str, Any]) -> Verdict:
    """Apply the rule to the report of `training.evaluate`.

    A case without a hidden cell says nothing and is passed over; so is a silent sensor where the group has no other,
    because then no method has anything to go by.
    """
    standings = _standings(report)
    if not standings:
        return Verdict(("the evaluation scored no hidden cell, so nothing shows that the model is of use",), ())
    refusals = [f"worse in a case - {one.sentence()}" for one in standings if one.behind(MARGIN)]
    means = {metric: _geometric([one.quotient(metric) for one in standings]) for metric in METRICS}
    if all(mean >= 1 for mean in means.values()):
        shown = ", ".join(f"{metric.upper()} {mean:.2f} times the better baseline's" for metric, mean in means.items())
        refusals.insert(0, f"worse on the whole - {shown}, geometric mean over {len(standings)} cases")
    notes = [f"not better in a case - {one.sentence()}" for one in standings if one.behind() and not one.behind(MARGIN)]
    notes += [
        f"{one.says}: a baseline has the lower MAE for {', '.join(one.losing)}"
        for one in standings
        if one.losing and not one.behind()
    ]
    return Verdict(tuple(refusals), tuple(notes))


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Where an earlier model did better on the very same hidden cells; empty too when the cells are not the same.

    Args:
        before: A contract's `metrics`: case -> method -> mse and mae.
        now: The new model's, in the same form.

    The baselines have no weights, so equal scores of theirs mean equal cells. The caller sees to it that the data is
    the same.
    """
    lines = []
    for name in [name for name in now if name in before and _same_cells(before[name], now[name])]:
        pairs = [
            f"{metric.upper()} {old:.3f} against {new:.3f} now"
            for metric in METRICS
            if (old := before[name]["model"][metric]) < (new := now[name]["model"][metric])
        ]
        if pairs:
            lines.append(f"{name}: {', '.join(pairs)}")
    return lines


def _standings(report: Mapping[str, Any]) -> list[Standing]:
    found = []
    for name, case in report.get("cases", {}).items():
        methods = case["methods"]
        if not case["cells"] or (name.startswith("silent") and len(methods["model"]["sensors"]) == 1):
            continue
        scores = {}
        for metric in METRICS:
            error, best = min((float(methods[baseline][metric]), baseline) for baseline in BASELINES)
            scores[metric] = (float(methods["model"][metric]), best, error)
        losing = losing_sensors(case)
        everybody = len(losing) == len(methods["model"]["sensors"]) > SHOWN
        found.append(Standing(case["says"], scores, (f"all {len(losing)} sensors",) if everybody else tuple(losing)))
    return found


def _geometric(quotients: Sequence[float]) -> float:
    return math.exp(sum(math.log(quotient) for quotient in quotients) / len(quotients))


def _same_cells(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    try:
        return all(
            math.isclose(before[method][metric], now[method][metric], rel_tol=1e-5, abs_tol=2e-6)
            for method in BASELINES
            for metric in METRICS
        )
    except KeyError:
        return False
