"""Metrics of the ladder, counted in its callbacks."""

from __future__ import annotations

from glaim_stream.core import metrics
from glaim_stream.imputers import State


def count_failure(rung: str, model: str) -> None:
    """Count a batch that a rung could not answer."""
    metrics.imputer_failures.labels(rung, model).inc()


def count_state(rung: str, model: str, state: State) -> None:
    """Show a breaker's new state, and count its openings and probes."""
    metrics.imputer_state.labels(rung, model).set(state)
    if state is State.OPEN:
        metrics.imputer_openings.labels(rung, model).inc()
    elif state is State.HALF_OPEN:
        metrics.imputer_probes.labels(rung, model).inc()
