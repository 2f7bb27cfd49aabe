"""Creates every metric series whose labels are known when the worker starts.

A counter that first appears with its first increment has no rate for that increment: an alert on the first dead letter
of a cause would never fire, and a panel would stay empty while nothing fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import product

from glaim_stream.core import metrics
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.contract import Contract
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.core.vocabulary import GAP_AGE_NAMES, Method
from glaim_stream.health import DETECTORS
from glaim_stream.imputers import State
from glaim_stream.output.quality import TruthSource
from glaim_stream.pipeline import WITHHELD
from glaim_stream.windows import Place

EXPERTS = ("model", "baseline")  # the series of a closed form begin with its first answer


def create_series(
    catalogue: Catalogue,
    contracts: Mapping[str, Contract],
    rungs: Iterable[str],
    *,
    scored: bool,
    quality: bool = False,
    networks: Collection[str],
) -> None:
    """Start every series of one worker at 0.

    Args:
        catalogue: the models and sensors that become labels.
        contracts: contracts by model name; `glaim_model_info` shows their versions.
        rungs: names of the ladder's imputers that may be unavailable.
        scored: True if probe windows are imputed to measure live accuracy.
        quality: True if live accuracy is also published as records.
        networks: names of the models that a network serves.
    """
    metrics.build_info.labels(_program_version()).set(1)
    for cause in DeadLetterCause:
        if cause is not DeadLetterCause.TOO_LATE:  # counted by glaim_late_readings_total
            metrics.dead_letters.labels(cause.value)
    for method in Method:
        metrics.rows.labels(method.name.lower())
    for age in GAP_AGE_NAMES:
        metrics.filled_rows.labels(age)
    for withheld in WITHHELD:
        metrics.withheld_rows.labels(withheld)
    for outcome in ("in_time", "late"):
        metrics.timed_rows.labels(outcome)
    for outcome in ("published", "missing"):
        metrics.due_rows.labels(outcome)
    for kind in ("dark", "speaks"):
        metrics.outages.labels(kind)
    for detector, state in product(DETECTORS, ("begin", "end")):
        metrics.sensor_health_events.labels(detector, state)
    for rung, model in product(rungs, catalogue.models):
        metrics.imputer_state.labels(rung, model.name).set(State.CLOSED)
        for counter in (metrics.imputer_failures, metrics.imputer_openings, metrics.imputer_probes):
            counter.labels(rung, model.name)
    for model in catalogue.models:
        metrics.form_without_logarithm.labels(model.name)
        for outcome in ("read", "refused"):
            metrics.form_reads.labels(model.name, outcome)
        for outcome in ("placed", "kept", "failed") if model.learn else ():
            metrics.form_learnings.labels(model.name, outcome)
        if model.name in contracts:
            metrics.model_info.labels(model.name, str(contracts[model.name].version)).set(1)
            for outcome in ("read", "absent", "refused"):
                metrics.contract_reads.labels(model.name, outcome)
            for outcome in ("absent", "refused"):
                metrics.unusable_contracts.labels(model.name, outcome)
        experts = EXPERTS if model.name in networks else EXPERTS[1:]
        if quality:
            _create_quality_series(model.name, experts)
        for outcome in ("scored", "failed", "skipped") if scored else ():
            metrics.shadow_windows.labels(model.name, outcome)
        for place in Place if scored else ():
            _create_score_series(model.name, model.sensor_ids, place.name.lower(), experts)


def _create_score_series(model: str, sensors: Iterable[str], position: str, experts: Sequence[str]) -> None:
    for sensor in sensors:
        for method in (*experts, "blend"):
            metrics.score_questions.labels(model, sensor, method, position)
            metrics.score_error.labels(model, sensor, method, position)
    for method in experts:
        metrics.expert_weight.labels(model, method, position)
    metrics.score_intervals.labels(model, position)
    metrics.score_intervals_holding.labels(model, position)


def _create_quality_series(model: str, experts: Sequence[str]) -> None:
    for age in GAP_AGE_NAMES:
        for method in (*experts, "published"):
            metrics.quality_compared.labels(model, method, age)
            metrics.quality_scaled_error.labels(model, method, age)
        for source, place in product(TruthSource, Place):
            if source is TruthSource.LATE and place >= Place.ROW_EDGE:
                continue
            for counter in (metrics.quality_cells, metrics.quality_intervals, metrics.quality_intervals_holding):
                counter.labels(model, source.value, place.name.lower(), age)


def _program_version() -> str:
    try:
        return version("glaim-stream")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return "unknown"
