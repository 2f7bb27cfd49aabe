"""The rule by which export accepts or refuses a model, applied to the report of an evaluation.

In each case of the evaluation (single cells, blocks, the newest step, a silent sensor) the model is compared with the
better baseline, interpolation or last value, chosen separately for the squared and for the absolute error: the ratio of
the two errors is below 1 where the model is better. A case is behind when *both* ratios are 1 or more. Neither error
suffices alone: a few storms dominate the squared one, a sensor that mostly stands still the absolute one, and a model
that wins one of them is still useful. A model is refused when

    on the whole    the geometric mean of the ratios over all cases is 1 or more for both errors, or
    in one case     both ratios are 1.05 or more.

The 5 % allow for random variation: when the newest step of the whole group is missing, only the last value is known, a
good model ties with it, and a retrained one must not be refused by chance. A smaller deficit, or one for only some
sensors, becomes a note: the worker's ladder has both baselines too. Differences below a thousandth of a deviation are
ignored, and a score that is not a number counts as behind.
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
FEW_WINDOWS = 40  # with fewer validation windows the 5 % quantile of an interval is the error of one or two windows
SHOWN = 8  # most sensors to name; if all of a larger number lose, only their number is given
NOTHING = {"mse": 1e-6, "mae": 1e-3}  # standardised: smaller differences are ignored


@dataclass(frozen=True)
class Standing:
    """The model beside the better baseline in one case: metric -> (model, name of the baseline, its error)."""

    label: str
    scores: Mapping[str, tuple[float, str, float]]
    losing: tuple[str, ...]  # sensors for which a baseline has the lower MAE

    def ratio(self, metric: str) -> float:
        """Return the model's error over the better baseline's; infinite if the former is not a number."""
        model, _, baseline = self.scores[metric]
        ratio = (model + NOTHING[metric]) / (baseline + NOTHING[metric])
        return ratio if math.isfinite(ratio) else math.inf

    def behind(self, margin: float = 1.0) -> bool:
        """Whether both ratios are `margin` or more."""
        return all(self.ratio(metric) >= margin for metric in METRICS)

    def sentence(self) -> str:
        """Describe the case, its numbers and the sensors that lose."""
        pairs = []
        for metric in METRICS:
            model, name, baseline = self.scores[metric]
            pairs.append(f"{metric.upper()} {model:.3f} against {baseline:.3f} of {name.replace('_', ' ')}")
        sensors = f"; behind in MAE for {', '.join(self.losing)}" if self.losing else ""
        return f"{self.label}: {', '.join(pairs)}{sensors}"


@dataclass(frozen=True)
class ExportVerdict:
    """The decision: `refusals` are reasons not to serve the model, `notes` are for the operator of an accepted one."""

    refusals: tuple[str, ...]
    notes: tuple[str, ...]


def judge(report: Mapping[str, Any]) -> ExportVerdict:
    """Apply the rule to the report of `training.evaluate`.

    A case without a hidden cell is skipped, and so is a silent sensor in a group of one, because no method has any
    observation then.
    """
    standings = _standings(report)
    if not standings:
        return ExportVerdict(("the evaluation scored no hidden cell, so nothing shows that the model is of use",), ())
    refusals = [f"worse in a case - {one.sentence()}" for one in standings if one.behind(MARGIN)]
    means = {metric: _geometric([one.ratio(metric) for one in standings]) for metric in METRICS}
    if all(mean >= 1 for mean in means.values()):
        shown = ", ".join(f"{metric.upper()} {mean:.2f} times the better baseline's" for metric, mean in means.items())
        refusals.insert(0, f"worse on the whole - {shown}, geometric mean over {len(standings)} cases")
    notes = [f"not better in a case - {one.sentence()}" for one in standings if one.behind() and not one.behind(MARGIN)]
    notes += [
        f"{one.label}: a baseline has the lower MAE for {', '.join(one.losing)}"
        for one in standings
        if one.losing and not one.behind()
    ]
    return ExportVerdict(tuple(refusals), tuple(notes))


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List where an earlier model did better on the same hidden cells; empty if the cells differ.

    Args:
        before: A contract's `metrics`: case -> method -> mse and mae.
        now: Metrics of the new model, in the same form.

    The baselines have no weights, so equal scores of baselines mean equal cells. The caller ensures that the data is
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
        found.append(Standing(case["label"], scores, (f"all {len(losing)} sensors",) if everybody else tuple(losing)))
    return found


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def _same_cells(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    try:
        return all(
            math.isclose(before[method][metric], now[method][metric], rel_tol=1e-5, abs_tol=2e-6)
            for method in BASELINES
            for metric in METRICS
        )
    except KeyError:
        return False
