"""What is done when our own code fails on a batch: take it apart, find what fails alone, and lose nothing else.

A fault has two places. While records are applied, the batch is halved until the records that fail stand alone: these
become dead letters, and a rebuild leaves out the same ones, so that the windows stay a function of the topic. While
holes are filled, the rows are made again without a model, and if that fails too, without values.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import fields

import numpy as np

from glaim_stream.blend.scores import Scores
from glaim_stream.decode.dead_letters import DeadLetterCause, InputRecord, Reject
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.output.messages import Message
from glaim_stream.pipeline.pipeline import Applied, Asked, Pipeline
from glaim_stream.records import Rows
from glaim_stream.vocabulary import Method, Status
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.history import HORIZON
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.probes import Probes, newest_steps


def copied(pipeline: Pipeline, windows: PartitionWindows) -> PartitionWindows:
    """A copy of windows that goes its own way."""
    # What a copy need not copy: the models never change, and the names only grow.
    shared: dict[int, object] = {id(model): model for model in pipeline.catalogue.models}
    shared[id(pipeline.index.names)] = pipeline.index.names
    return copy.deepcopy(windows, shared)


def unpublished(record: InputRecord) -> Reject:
    """The letter for a record whose rows could be made in no way."""
    return Reject(record.offset, DeadLetterCause.PROCESSING, "the rows of its batch could not be made")


class Apart:
    """Applies records of which some cannot be applied, to copies of the windows.

    Halves a batch until each failure is a record of its own, some 2 k log2(n) tries for k of n. Every try works on a
    copy, because one that fails leaves windows behind that are neither before nor after.
    """

    def __init__(self, pipeline: Pipeline, windows: PartitionWindows) -> None:
        self.windows = windows  # after the records that could be applied so far
        self._pipeline = pipeline
        self._done: list[Applied] = []

    def tries(self, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[None]:
        """Apply records in order; gives control back after every try."""
        waiting = [records]
        while waiting:
            part = waiting.pop()
            trial = copied(self._pipeline, self.windows)
            try:
                self._done.append(self._pipeline.apply(trial, part, now_ms=now_ms))
                self.windows = trial
            except Exception as error:
                if len(part) == 1:
                    self._done.append(Applied([], [Reject(part[0].offset, DeadLetterCause.PROCESSING, repr(error))]))
                else:
                    half = len(part) // 2
                    waiting += [part[half:], part[:half]]
            yield

    def forget(self) -> None:
        """Drop what the records caused; the windows stay."""
        self._done.clear()

    @property
    def applied(self) -> Applied:
        """What the records caused, as if they had been one batch; those that failed are rejects."""
        whole = Applied([], [])
        joined = {field.name: getattr(whole, field.name) for field in fields(Applied)}
        for part in self._done:
            joined = {name: so_far + getattr(part, name) for name, so_far in joined.items()}
        return Applied(**joined)


class CannotApply(Exception):
    """Records of a rebuild failed to apply: it has to begin again, with care."""


class Rebuild:
    """Windows in the making; `apply` takes the records that a rebuild reads."""

    def __init__(self, pipeline: Pipeline, now_ms: Callable[[], int], *, careful: bool) -> None:
        """Begin with empty windows.

        Args:
            pipeline: applies the records.
            now_ms: wall time, epoch milliseconds.
            careful: leave out the records that fail, at the price of a copy of the windows for each poll; else
                `apply` raises CannotApply.
        """
        self._pipeline, self._now_ms = pipeline, now_ms
        self._windows = pipeline.windows()
        self._windows.rebuilding = True
        self._apart = Apart(pipeline, self._windows) if careful else None
        self.probes: list[Probes] = []  # of the steps whose errors are not forgotten

    def done(self) -> PartitionWindows:
        """The windows after what was applied; what they close from now on is new."""
        windows = self._windows if self._apart is None else self._apart.windows
        windows.rebuilding = False
        return windows

    async def apply(self, records: Sequence[InputRecord]) -> None:
        """Apply records; nothing is published. Gives control back between them: a rebuild is long."""
        await asyncio.sleep(0)
        if self._apart is not None:
            for _ in self._apart.tries(records, now_ms=self._now_ms()):
                await asyncio.sleep(0)
            self._keep(self._apart.applied)
            self._apart.forget()
            return
        try:
            self._keep(self._pipeline.apply(self._windows, records, now_ms=self._now_ms()))
        except Exception as error:
            raise CannotApply from error

    def _keep(self, applied: Applied) -> None:
        self.probes = newest_steps([*self.probes, *applied.probes], HORIZON)


async def messages_whatever_fails(
    pipeline: Pipeline,
    closed: Sequence[Closed],
    asked: Awaitable[list[Asked]],
    scores: Scores,
    on_fault: Callable[[Exception], None],
) -> list[Message] | None:
    """Messages of closed steps: as they should be, or without a model, or without values; None if nothing worked.

    Args:
        pipeline: makes them.
        closed: the steps.
        asked: the imputers' answer for them, under way.
        scores: of the partition; a fault may have taken in half of these steps' errors, and 96 steps later it is
            forgotten.
        on_fault: told of every way that failed.
    """

    async def as_it_should_be() -> list[tuple[int, Rows]]:
        return pipeline.settle(scores, await asked)

    async def without_model() -> list[tuple[int, Rows]]:
        return pipeline.settle(pipeline.scores(), await _asked_of_no_model(pipeline, closed))

    async def without_values() -> list[tuple[int, Rows]]:
        return [(each.model_index, _bare(each)) for each in closed]

    for way in (as_it_should_be, without_model, without_values):
        try:
            return pipeline.messages(await way())
        except Exception as error:
            on_fault(error)
    return None


async def _asked_of_no_model(pipeline: Pipeline, closed: Sequence[Closed]) -> list[Asked]:
    """The holes of closed steps by interpolation and last value."""
    spare = Interpolation()
    out = []
    for each in closed:
        model = pipeline.catalogue.models[each.model_index]
        windows = Windows(model.name, each.window_values, each.window_observed, model.revise_after + 1)
        answer = await spare.impute(windows) if len(windows) else None
        out.append(Asked(each.model_index, each, answer, None, None))
    return out


def _bare(closed: Closed) -> Rows:
    """What was observed, and null for every hole: nothing in it can go wrong."""
    unknown = np.full(len(closed), np.nan, np.float32)
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
