"""The experts' shares of the published values, as counters."""

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.imputers import BlendedRung, WindowImputer
from glaim_stream.output import Method, Rows
from glaim_stream.pipeline.pipeline import Pipeline
from tests.pipeline.form_streams import AWAY, NOW_MS, RULES, Form, Offset, records, rows_of
from tests.support import contract

METHODS = ("model", "baseline", "gaussian")
POSITIONS = ("edge", "interior", "row_edge", "row_interior")


def pipeline_of(imputer: WindowImputer, form: Form | None) -> Pipeline:
    expert = None if form is None else BlendedRung(form)
    return Pipeline(
        RULES, {"m": contract(4, window=12)}, imputer, form_expert=expert, score_share=1.0, upgrades=True,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    metrics.expert_weight.clear()


def weights() -> dict[str, float]:
    """Sum of each expert's weights, over all positions."""
    found = {
        method: [
            REGISTRY.get_sample_value(
                "glaim_expert_weight_total", {"model": "m", "method": method, "position": position}
            )
            for position in POSITIONS
        ]
        for method in METHODS
    }
    return {method: sum(each or 0.0 for each in counted) for method, counted in found.items() if any(counted)}


def filled(rows: Rows) -> int:
    return int((~rows.observed & np.isfinite(rows.value)).sum())


@pytest.mark.parametrize("form", [None, Form(Offset(-60.0))])
async def test_the_weights_of_all_experts_add_up_to_the_values_that_were_filled(form: Form | None) -> None:
    rows = await rows_of(pipeline_of(Offset(20.0), form), records(150))
    assert filled(rows) > 100
    assert sum(weights().values()) == pytest.approx(filled(rows))


async def test_the_expert_with_the_least_error_carries_most_and_the_worst_one_little() -> None:
    await rows_of(pipeline_of(Offset(20.0), Form(Offset(0.0))), records(300))
    found = weights()
    assert found["gaussian"] > 0.5 * sum(found.values())
    assert 0 < found["model"] < 0.2 * sum(found.values())


async def test_a_value_of_one_method_has_weight_in_that_expert_alone() -> None:
    rows = await rows_of(pipeline_of(AWAY, None), records(100))
    assert set(np.unique(rows.method).tolist()) <= {
        Method.OBSERVED,
        Method.INTERPOLATION,
        Method.LAST_VALUE,
        Method.NONE,
    }
    assert weights() == {"baseline": pytest.approx(filled(rows))}


async def test_rows_that_are_made_again_are_not_counted_again() -> None:
    """As after a restart, where the batches since the commit are settled for their errors alone."""
    pipeline = pipeline_of(Offset(20.0), None)
    windows, scores = pipeline.windows(), pipeline.scores()
    applied = pipeline.apply(windows, records(100), now_ms=NOW_MS)
    pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes), again=True)
    assert weights() == {}
