"""The rows of one cell with their windows, made again from the input. No Kafka.

Windows follow from the records alone, whatever the batches, so these are the windows that a worker had. Only a step
that the wall clock closed is an exception: the topic does not tell which readings had come by then. Its window is made
from all records up to the one that the row's message names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.readings import InputRecord
from glaim_stream.core.vocabulary import FINAL, UPGRADED
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import NO_WINDOW, Closed

_FAR_MS = 1 << 53  # wall clock beyond every idle timeout


@dataclass(frozen=True)
class Estimate:
    """A row of a cell, and the window from which it is filled.

    revision: revision of the row.
    value: the reading; NaN for a hole.
    gap_age: steps since the sensor's last observation.
    step: place of the cell in the window.
    newest: number of newest steps of the window that are filled together.
    end_ms: start of the window's newest step.
    values, observed: float64 and bool [C, T]; None if a reading came, or if the gap is too old to be filled.
    """

    revision: int
    value: float
    gap_age: int
    step: int
    newest: int
    end_ms: int
    values: NDArray[np.float64] | None
    observed: NDArray[np.bool_] | None


class CellEstimates:
    """The rows of one cell, collected while one partition's records are applied to windows."""

    def __init__(self, pipeline: Pipeline, group: str, sensor: int, ts_ms: int) -> None:
        """Start with empty windows.

        Args:
            pipeline: decodes and windows the records; its imputer is not used.
            group: name of the cell's group.
            sensor: place of the sensor in the group's model.
            ts_ms: start of the cell's step.
        """
        self._pipeline, self._windows = pipeline, pipeline.windows()
        self._group, self._sensor, self._ts_ms = group, sensor, ts_ms
        self._made: list[Estimate] = []

    def add(self, records: Sequence[InputRecord], *, now_ms: int) -> None:
        """Apply records, in the order of the topic."""
        for applied in self._pipeline.slices(self._windows, records, now_ms=now_ms):
            self._collect(applied.closed)

    def close(self, *, silence: bool = False) -> None:
        """Close the steps that are still open, up to the newest reading; with `silence` also those after it.

        The wall clock does the same if nothing more comes.
        """
        while (fed := self._windows.close_idle(_FAR_MS) if silence else self._windows.close_end()).closed:
            self._collect(fed.closed)

    def newest(self) -> Estimate | None:
        """The row with the highest revision; None without any."""
        return max(self._made, key=lambda each: each.revision, default=None)

    def of_revision(self, revision: int) -> Estimate | None:
        """The last row of a revision; for an upgrade, the final row that it replaced."""
        wanted = FINAL if revision == UPGRADED else revision
        return next((each for each in reversed(self._made) if each.revision == wanted), None)

    def _collect(self, closed: Iterable[Closed]) -> None:
        code = self._pipeline.index.group(self._group)
        for each in closed:
            model = self._pipeline.catalogue.models[each.model_index]
            own = (each.group == code) & (each.sensor == self._sensor) & (each.ts_ms == self._ts_ms)
            for row in np.flatnonzero(own).tolist():
                window, lag = int(each.window[row]), int(each.lag[row])
                filled = window != NO_WINDOW
                self._made.append(
                    Estimate(
                        int(each.revision[row]),
                        float(each.value[row]),
                        int(each.gap_age[row]),
                        each.window_values.shape[2] - 1 - lag,
                        model.revise_after + 1,
                        self._ts_ms + lag * model.step_ms,
                        each.window_values[window].copy() if filled else None,
                        each.window_observed[window].copy() if filled else None,
                    )
                )
