"""Metrics of published rows: by method, revision, doubt, age of the filled gap, and cause of a missing value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core import metrics
from glaim_stream.core.vocabulary import GAP_AGE_NAMES, GAP_AGES, Method, Status
from glaim_stream.output import Rows
from glaim_stream.pipeline.predictions import HolePredictions
from glaim_stream.windows import Place

WITHHELD = {
    "gap": (Status.BAD_NO_COMMUNICATION, Status.BAD_NO_DATA, Status.BAD_SENSOR_FAILURE),
    "interval": (Status.BAD_AGGREGATE_INVALID_INPUTS,),
}


def count_rows(rows: Rows) -> None:
    """Add rows to the counters."""
    by_method = np.bincount(rows.method, minlength=len(Method)).tolist()
    for method in Method:
        metrics.rows.labels(method.name.lower()).inc(by_method[method])
    metrics.revisions.inc(int((rows.revision > 0).sum()))
    metrics.doubted_rows.inc(int((rows.status == Status.UNCERTAIN_SENSOR_NOT_ACCURATE).sum()))
    filled = rows.gap_age[~rows.observed & np.isfinite(rows.value)]
    if len(filled):
        counts = np.bincount(np.searchsorted(GAP_AGES, filled), minlength=len(GAP_AGE_NAMES)).tolist()
        for name, count in zip(GAP_AGE_NAMES, counts, strict=True):
            metrics.filled_rows.labels(name).inc(count)
    null = rows.status[rows.method == Method.NONE]
    if len(null):
        for cause, statuses in WITHHELD.items():
            metrics.withheld_rows.labels(cause).inc(int(np.isin(null, statuses).sum()))


def count_weights(
    model: str,
    experts: Sequence[str],
    holes: HolePredictions,
    weights: NDArray[np.float64],
    published: NDArray[np.bool_],
) -> None:
    """Add the experts' weights in filled values to the counters.

    Args:
        model: name of the model.
        experts: names of its experts.
        holes: the filled cells.
        weights: weights of the experts in each cell, [holes, experts].
        published: whether each row of the closed steps is published with a value, [rows].
    """
    chosen = published[holes.row]
    place = holes.cells.place[chosen]
    for expert, of_expert in zip(experts, weights[chosen].T, strict=False):  # a model without a form has two
        sums = np.bincount(place, of_expert, minlength=len(Place)).tolist()
        for position, total in zip(Place, sums, strict=True):
            if total:
                metrics.expert_weight.labels(model, expert, position.name.lower()).inc(total)
