"""Output messages for closed steps, also when the model's answer or the code that turns it into rows fails.

The holes are filled as intended, else without a model, else left without values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from glaim_stream.core.vocabulary import Method, Status
from glaim_stream.form import with_directions
from glaim_stream.imputers import Interpolation, Windows
from glaim_stream.output import Message, Rows
from glaim_stream.pipeline.partition_scores import PartitionScores
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.pipeline.querying import Answer
from glaim_stream.windows import Closed


async def messages_with_fallbacks(
    pipeline: Pipeline,
    closed: Sequence[Closed],
    answers: Awaitable[list[Answer]],
    scores: PartitionScores,
    on_fault: Callable[[Exception], None],
) -> list[Message] | None:
    """Make the messages of closed steps; None when every way to make them failed.

    Args:
        pipeline: makes the messages.
        closed: the closed steps.
        answers: the imputer's answers for these steps, pending or complete.
        scores: scores of the partition. A failure may leave them with half of these steps' errors, which are forgotten
            96 steps later.
        on_fault: callback for the error of every way that failed.
    """

    async def as_intended() -> list[tuple[int, Rows]]:
        return pipeline.settle(scores, await answers)

    async def without_model() -> list[tuple[int, Rows]]:
        return pipeline.settle(pipeline.scores(), await _interpolated(pipeline, closed))

    async def without_values() -> list[tuple[int, Rows]]:
        return [(each.model_index, _observed_only(each)) for each in closed]

    for fill in (as_intended, without_model, without_values):
        try:
            return pipeline.messages(await fill())
        except Exception as error:
            on_fault(error)
    return None


async def _interpolated(pipeline: Pipeline, closed: Sequence[Closed]) -> list[Answer]:
    """Answers for the holes of closed steps by interpolation and last value."""
    interpolation = Interpolation()
    answers = []
    for each in closed:
        model = pipeline.catalogue.models[each.model_index]
        directions = pipeline.tables[each.model_index].directions
        windows = Windows(
            model.name, each.window_values, each.window_observed, model.revise_after + 1, directions=directions
        )
        imputed = await interpolation.impute(windows) if len(windows) else None
        answers.append(Answer(each.model_index, each, imputed, None, None, kinds=with_directions(None, directions)))
    return answers


def _observed_only(closed: Closed) -> Rows:
    """Rows with the observed values and null for every hole. No arithmetic is left that could fail."""
    unknown = np.full(len(closed), np.nan)
    observed = closed.observed
    return Rows(
        group=closed.group,
        sensor=closed.sensor,
        ts_ms=closed.ts_ms,
        event_time_ms=closed.stamp_ms,
        value=np.where(observed, closed.value, unknown),
        observed=observed,
        method=np.where(observed, np.int8(Method.OBSERVED), np.int8(Method.NONE)),
        status=np.where(observed, np.uint32(Status.GOOD), np.uint32(Status.BAD_DATA_UNAVAILABLE)),
        lower=unknown,
        upper=unknown.copy(),
        gap_age=closed.gap_age,
        revision=closed.revision,
        final=closed.final,
        version=np.zeros(len(closed), np.int32),
    )
