"""Isolates the records of a batch that cannot be applied, so that an internal error costs those records alone.

The batch is halved until every failing record stands alone; such a record becomes a dead letter. A rebuild leaves out
the same records, so that the windows remain a function of the topic.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows, joined_applied


def copy_windows(pipeline: Pipeline, windows: PartitionWindows) -> PartitionWindows:
    """Copy windows, so that the copy and the original change independently."""
    # The models never change and the group names are only appended to: the copy shares both.
    shared: dict[int, object] = {id(model): model for model in pipeline.catalogue.models}
    shared[id(pipeline.index.names)] = pipeline.index.names
    return pipeline.codes.hold(copy.deepcopy(windows, shared))


class Isolation:
    """Windows that take only those records which can be applied.

    Finding k failing records among n takes about 2 k log2(n) attempts. Every attempt works on a copy of the windows,
    because a failed one leaves them in an undefined state between before and after.
    """

    def __init__(self, pipeline: Pipeline, windows: PartitionWindows) -> None:
        self.windows = windows  # windows after the records that could be applied so far
        self._pipeline = pipeline
        self._parts: list[Applied] = []

    def attempts(self, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[None]:
        """Apply records in order and yield after each attempt, so that an event loop can run other tasks."""
        waiting = [records]
        while waiting:
            part = waiting.pop()
            trial = copy_windows(self._pipeline, self.windows)
            try:
                self._parts.append(self._pipeline.apply(trial, part, now_ms=now_ms))
                self.windows = trial
            except Exception as error:
                if len(part) == 1:
                    self._parts.append(
                        Applied(rejects=[Reject(part[0].offset, DeadLetterCause.PROCESSING, repr(error))])
                    )
                else:
                    half = len(part) // 2
                    waiting += [part[half:], part[:half]]
            yield

    def take_applied(self) -> Applied:
        """Return the effects of the records since the last call, as one batch; failed records are rejects."""
        applied = self._pipeline.codes.hold(joined_applied(self._parts))
        self._parts.clear()
        return applied
