"""The sliding windows of one input partition: readings in, closed steps out. Pure: numpy only, time is handed in.

A step is a half-open interval `[t * step_ms, (t + 1) * step_ms)` of event time; a window is a group's last 96 steps.
Everything here is a function of the partition's records in their order, whatever the batches they came in, so that a
worker that reads the same records again has the same windows and publishes the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glaim_stream.catalogue import Catalogue
from glaim_stream.decode.readings import Readings, no_readings
from glaim_stream.windows.clock import NEVER_MS, EventClock, counted_ms
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.model import ModelWindows
from glaim_stream.windows.outages import Outage
from glaim_stream.windows.probes import FEWEST_WINDOWS, Probes, Sampling
from glaim_stream.windows.upgrades import Upgrades


@dataclass(slots=True)
class Fed:
    """What a batch of readings, or the wall clock, caused."""

    closed: list[Closed]  # one for each model that closed a step or was corrected
    too_late: Readings  # older than the window: nothing can be said about them any more
    late_by_ms: NDArray[np.int64]  # how far behind the watermark each of them was when it came
    dropouts: int = 0  # readings that hold no value
    superseded: int = 0  # readings for whose sensor and step another one stands
    probes: list[Probes] = field(default_factory=list)  # one for each model and step that was asked about
    outages: list[Outage] = field(default_factory=list)  # in the order of their steps, model by model
    skewed: int = 0  # readings stamped ahead of their record's time


class PartitionWindows:
    """All windows of one partition, for every model of the catalogue."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        score_share: float = 0.0,
        score_least: int = FEWEST_WINDOWS,
        group_names: Sequence[str] = (),
    ) -> None:
        """Begin empty.

        Args:
            catalogue: the models.
            score_share: share of the groups probed at each step (glaim_stream.windows.probes); 0: none.
            score_least: probe windows at each step all the same.
            group_names: by group code; may grow. Needed for probe windows only.
        """
        self.clock = EventClock()
        shared = len(catalogue.models) > 1
        self._lateness_ms = np.array([model.lateness_ms for model in catalogue.models], np.int64)
        self._max_ahead_ms = np.array([catalogue.max_ahead_ms(model) for model in catalogue.models], np.int64)
        sampling = Sampling(score_share, score_least, group_names) if score_share > 0 else None
        self._models = [
            ModelWindows(model, index, catalogue.max_ahead_ms(model), shared_clock=shared, sampling=sampling)
            for index, model in enumerate(catalogue.models)
        ]

    @property
    def rebuilding(self) -> bool:
        """Whether what closes was published before, so that no rows are made of it; off to begin with."""
        return any(windows.rebuilding for windows in self._models)

    @rebuilding.setter
    def rebuilding(self, rebuilding: bool) -> None:
        for windows in self._models:
            windows.rebuilding = rebuilding

    def feed(self, readings: Readings, *, arrival_ms: int) -> Fed:
        """Apply readings in order of arrival and close the steps that the watermark passed.

        Args:
            readings: of this partition only, in order of offset.
            arrival_ms: wall time, epoch milliseconds.
        """
        fed = Fed([], readings, readings.offset, dropouts=int(np.isnan(readings.value).sum()))
        counted, fed.skewed = counted_ms(
            readings.event_time_ms, readings.produced_ms, self._max_ahead_ms[readings.model]
        )
        newest_ms = self.clock.observe(counted, arrival_ms)
        late = np.zeros(len(readings), np.bool_)
        for windows in self._models:
            mine = np.flatnonzero(readings.model == windows.model_index)
            closed, too_late, superseded = windows.feed(
                readings.where(mine) if len(mine) < len(readings) else readings,
                newest_ms[mine],
                newest_ms,
                readings.offset,
            )
            late[mine[too_late]] = True
            fed.superseded += superseded
            if closed is not None:
                fed.closed.append(closed)
            fed.probes += windows.take_probes()
            fed.outages += windows.take_outages()
        fed.too_late = readings.where(late)
        fed.late_by_ms = newest_ms[late] - self._lateness_ms[fed.too_late.model] - fed.too_late.event_time_ms
        return fed

    def close_idle(self, now_ms: int) -> Fed:
        """Close steps provisionally when nothing has arrived for a model's idle timeout.

        Event time is taken to go on at the pace of the wall clock from the last arrival, so that a blackout is
        answered step by step until `max_gap` of them have passed. Finals stay with event time: they are a function of
        the topic, and the wall clock is not in the topic.
        """
        idle_ms = self.clock.idle_ms(now_ms)
        return self._close_open(
            [windows for windows in self._models if idle_ms >= windows.model.idle_timeout_s * 1000], idle_ms
        )

    def close_end(self) -> Fed:
        """Close provisionally what readings have opened, and no more: the input has ended."""
        return self._close_open(self._models, None)

    def _close_open(self, models: Sequence[ModelWindows], idle_ms: int | None) -> Fed:
        fed = Fed([], no_readings(), np.empty(0, np.int64))
        if self.clock.newest_event_ms == NEVER_MS:
            return fed
        for windows in models:
            closed = windows.close_open(self.clock.newest_event_ms, idle_ms)
            if closed is not None:
                fed.closed.append(closed)
            fed.outages += windows.take_outages()
        return fed

    def made_again(self, upgrades: Sequence[Upgrades]) -> list[Closed]:
        """Finals to be made again now, given what waits by model (glaim_stream.windows.upgrades)."""
        due = [waiting.due(model.rings, model.rules) for waiting, model in zip(upgrades, self._models, strict=True)]
        return [closed for closed in due if closed is not None]

    def rebuild_from(self, next_offset: int) -> int:
        """Lowest offset that still feeds a window or an open step; `next_offset` when none does."""
        return min([next_offset, *(windows.rings.lowest_offset() for windows in self._models)])

    @property
    def groups(self) -> int:
        """Groups that this partition has windows for."""
        return sum(len(windows.rings.groups) for windows in self._models)
