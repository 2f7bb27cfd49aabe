"""What the ladder reports of its rungs, as metrics."""

from prometheus_client import REGISTRY

from glaim_stream.imputers import State
from glaim_stream.worker.app import count_failure, count_state

LABELS = {"imputer": "triton", "model": "m"}


def value(name: str) -> float:
    return REGISTRY.get_sample_value(name, LABELS) or 0.0


def test_a_breaker_shows_its_state_and_its_openings_and_probes_are_counted() -> None:
    before = value("glaim_imputer_openings_total"), value("glaim_imputer_probes_total")
    shown = []
    for state in (State.OPEN, State.HALF_OPEN, State.OPEN, State.HALF_OPEN, State.CLOSED, State.OPEN):
        count_state("triton", "m", state)
        shown.append(value("glaim_imputer_state"))
    assert shown == [2, 1, 2, 1, 0, 2]
    after = value("glaim_imputer_openings_total"), value("glaim_imputer_probes_total")
    assert (after[0] - before[0], after[1] - before[1]) == (3, 2)


def test_batches_that_a_rung_could_not_answer_are_counted() -> None:
    before = value("glaim_imputer_failures_total")
    count_failure("triton", "m")
    count_failure("triton", "another")
    assert value("glaim_imputer_failures_total") == before + 1
