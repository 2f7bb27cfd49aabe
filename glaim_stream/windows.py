"""The sliding windows of one input partition: readings in, closed steps out. Pure: numpy only, time is handed in.

A step is a half-open interval `[t * step_ms, (t + 1) * step_ms)` of event time; a window is a group's last 96 steps.
Everything here is a function of the partition's records in their order, whatever the batches they came in, so that a
worker that reads the same records again has the same windows and publishes the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import HORIZON
from glaim_stream.catalogue import Catalogue, Model
from glaim_stream.clock import NEVER_MS, EventClock
from glaim_stream.closing import Closed, ClosingRules, close_step, concatenate, correct
from glaim_stream.outages import Outage
from glaim_stream.readings import Readings, no_readings
from glaim_stream.rings import Cells, Rings
from glaim_stream.sides import SideAsker, Sides
from glaim_stream.upgrades import Upgrades


@dataclass(slots=True)
class Fed:
    """What a batch of readings caused."""

    closed: list[Closed]  # one for each model that closed a step or was corrected
    too_late: Readings  # older than the window: nothing can be said about them any more
    late_by_ms: NDArray[np.int64]  # how far behind the watermark each of them was when it came
    dropouts: int = 0  # readings that hold no value
    superseded: int = 0  # readings for whose sensor and step another one stands
    sides: list[Sides] = field(default_factory=list)  # one for each model and step that was asked about
    outages: list[Outage] = field(default_factory=list)  # in the order of their steps, model by model


class PartitionWindows:
    """All windows of one partition, for every model of the catalogue."""

    def __init__(self, catalogue: Catalogue, *, score_share: float = 0.0, group_names: Sequence[str] = ()) -> None:
        """Begin empty.

        Args:
            catalogue: the models.
            score_share: of the groups that side windows are made of at each step (glaim_stream.sides); 0: of none.
            group_names: by group code; may grow. Needed for side windows only.
        """
        self.clock = EventClock()
        self._models = [ModelWindows(model, index) for index, model in enumerate(catalogue.models)]
        if score_share > 0:
            for windows in self._models:
                windows.ask_sides(score_share, group_names)

    def feed(self, readings: Readings, *, arrival_ms: int) -> Fed:
        """Apply readings in order of arrival and close the steps that the watermark passed.

        Args:
            readings: of this partition only, in order of offset.
            arrival_ms: wall time, epoch milliseconds.
        """
        newest_ms = self.clock.observe(readings.event_time_ms, arrival_ms)
        late = np.zeros(len(readings), np.bool_)
        fed = Fed([], readings, newest_ms, dropouts=int(np.isnan(readings.value).sum()))
        for windows in self._models:
            mine = np.flatnonzero(readings.model == windows.model_index)
            closed, too_late, superseded = windows.feed(readings.where(mine), newest_ms[mine], newest_ms)
            late[mine[too_late]] = True
            fed.superseded += superseded
            if closed is not None:
                fed.closed.append(closed)
            fed.sides += windows.take_sides()
        fed.too_late = readings.where(late)
        lateness_ms = np.array([windows.model.lateness_ms for windows in self._models], np.int64)
        fed.late_by_ms = newest_ms[late] - lateness_ms[fed.too_late.model] - fed.too_late.event_time_ms
        return fed

    def close_idle(self, now_ms: int) -> Fed:
        """Close provisionally what is open when nothing has arrived for a model's idle timeout.

        Finals stay with event time: they are a function of the topic, and the wall clock is not in the topic.
        """
        idle_ms = self.clock.idle_ms(now_ms)
        closed = [
            windows.close_open(self.clock.newest_event_ms)
            for windows in self._models
            if idle_ms >= windows.model.idle_timeout_s * 1000
        ]
        return Fed([each for each in closed if each is not None], no_readings(), np.empty(0, np.int64))

    def made_again(self, upgrades: Sequence[Upgrades]) -> list[Closed]:
        """Finals to be made again now, given what waits by model (glaim_stream.upgrades)."""
        due = [waiting.due(model.rings, model.rules) for waiting, model in zip(upgrades, self._models, strict=True)]
        return [closed for closed in due if closed is not None]

    def rebuild_from(self, next_offset: int) -> int:
        """Lowest offset that still feeds a window or an open step; `next_offset` when none does."""
        return min([next_offset, *(windows.rings.lowest_offset() for windows in self._models)])

    @property
    def groups(self) -> int:
        """Groups that this partition has windows for."""
        return sum(len(windows.rings.groups) for windows in self._models)


class ModelWindows:
    """The windows of one model's groups in one partition."""

    def __init__(self, model: Model, model_index: int) -> None:
        self.model = model
        self.model_index = model_index
        # A reading may lie this many steps beyond the newest closed one: lateness, rounded up, and its own step.
        self._ahead = -(-model.lateness_ms // model.step_ms) + 1
        self.rings = self._rings()
        self.rules = ClosingRules(model.window, model.revise_after, model.max_gap, model.step_ms, model_index)
        self._provisional_through: int | None = None  # newest step that the wall clock has published
        self._asker: SideAsker | None = None
        self._sides: list[Sides] = []

    def ask_sides(self, share: float, group_names: Sequence[str]) -> None:
        """Make side windows from now on; before the first reading.

        Their errors count for HORIZON steps, so a rebuild has to make those of as many steps again, each of which
        needs the window before it: offsets are remembered for so much longer.
        """
        model = self.model
        self.rings = self._rings(offsets_back=HORIZON)
        self._asker = SideAsker(
            self.model_index,
            window=model.window,
            revise_after=model.revise_after,
            max_gap=model.max_gap,
            share=share,
            names=group_names,
        )

    def take_sides(self) -> list[Sides]:
        """Side windows made since the last call."""
        sides, self._sides = self._sides, []
        return sides

    def _rings(self, *, offsets_back: int = 0) -> Rings:
        model = self.model
        mean = model.bucket == "mean"
        return Rings(len(model.sensors), model.window, self._ahead, mean=mean, offsets_back=offsets_back)

    def feed(
        self, readings: Readings, newest_ms: NDArray[np.int64], all_newest_ms: NDArray[np.int64]
    ) -> tuple[Closed | None, NDArray[np.bool_], int]:
        """Apply this model's readings.

        Args:
            readings: of this model.
            newest_ms: int64 [n], the partition's newest event time when each of them came.
            all_newest_ms: the same after every reading of the batch, other models' too: they move this one's clock.

        Returns:
            What closed, where readings were too late (bool [n]), and how many were superseded.
        """
        too_late = np.zeros(len(readings), np.bool_)
        if len(readings) == 0 and self.rings.closable is None:
            return None, too_late, 0
        superseded = 0
        parts: list[Closed | None] = []
        step = readings.event_time_ms // self.model.step_ms
        closable = self._closable(newest_ms)
        for start, end in _runs(closable):
            parts += self._close_until(int(closable[start]))
            segment = slice(start, end)
            late = step[segment] < self.rings.oldest_step
            too_late[segment] = late
            corrections, idle = self._insert(readings, step, np.arange(start, end)[~late])
            superseded += idle
            parts += corrections
        if len(all_newest_ms):
            parts += self._close_until(int(self._closable(all_newest_ms[-1:])[0]))
        return concatenate(parts), too_late, superseded

    def close_open(self, newest_ms: int) -> Closed | None:
        """Publish provisionally every step that a reading has opened."""
        if newest_ms == NEVER_MS or self.rings.closable is None:
            return None
        first = self._unpublished(self.rings.closable)
        last = newest_ms // self.model.step_ms
        parts = [
            close_step(self.rings, self.rules, step, provisional=True, final=False)
            for step in range(first, min(last, self.rings.newest_step) + 1)
        ]
        self._provisional_through = max(last, first - 1)
        return concatenate(parts)

    def _unpublished(self, closable: int) -> int:
        """Steps below this one have been published."""
        through = self._provisional_through
        return closable if through is None else max(closable, through + 1)

    def _closable(self, newest_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Steps below this one are closed once the newest event time is `newest_ms`."""
        return (newest_ms - self.model.lateness_ms) // self.model.step_ms

    def _close_until(self, closable: int) -> list[Closed | None]:
        rings = self.rings
        if rings.closable is None:
            rings.start(closable)
            return []
        parts: list[Closed | None] = []
        # Once a whole window lies empty behind the last reading there is nothing left to publish: skip the rest.
        busy_until = min(closable, rings.closable + self._ahead + self.model.window)
        for step in range(rings.closable, busy_until):
            published = self._provisional_through is not None and step <= self._provisional_through
            parts.append(close_step(rings, self.rules, step, provisional=not published, final=True))
            if self._asker is not None and (sides := self._asker.ask(rings, step)) is not None:
                self._sides.append(sides)
            rings.advance(step + 1)
        rings.advance(closable)
        return parts

    def _insert(
        self, readings: Readings, step: NDArray[np.int64], chosen: NDArray[np.int64]
    ) -> tuple[list[Closed | None], int]:
        """Put readings into their steps.

        Returns:
            Corrections, for those that change a step already published, and how many readings another one stands for.
        """
        rings = self.rings
        if len(chosen) == 0 or rings.closable is None:
            return [], 0
        rings.note_offsets(step[chosen], readings.offset[chosen])
        row = rings.rows(readings.group[chosen])  # groups are numbered as they arrive, whatever the batches
        empty = np.isnan(readings.value[chosen])
        if empty.any():
            rings.mark_dropouts(row[empty], readings.sensor[chosen[empty]], step[chosen[empty]])
            chosen = chosen[~empty]
        late = step[chosen] < self._unpublished(rings.closable)
        superseded = len(chosen)
        superseded -= self._put(readings, step, chosen[~late]).taken
        corrections: list[Closed | None] = []
        # A cell that is corrected twice gets two rows, whether or not the broker delivered both readings at once.
        for part in self._without_repeats(readings, step, chosen[late]):
            cells = self._put(readings, step, part)
            superseded -= cells.taken
            # A worker that starts with a mended catalogue rebuilds its windows with readings that were refused before
            # and that no row tells of; sent back, they change nothing and are published all the same.
            corrections.append(correct(rings, self.rules, cells.where(cells.changed | readings.requeued[part])))
        return corrections, superseded

    def _put(self, readings: Readings, step: NDArray[np.int64], chosen: NDArray[np.int64]) -> Cells:
        return self.rings.put(
            self.rings.rows(readings.group[chosen]),
            readings.sensor[chosen],
            step[chosen],
            (readings.event_time_ms[chosen] - step[chosen] * self.model.step_ms).astype(np.int32),
            readings.value[chosen],
            readings.quality[chosen],
        )

    def _without_repeats(
        self, readings: Readings, step: NDArray[np.int64], chosen: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        """The chosen readings in stretches in which each cell occurs once."""
        rows = self.rings.rows(readings.group[chosen])
        codes = self.rings.cell_codes(rows, readings.sensor[chosen], step[chosen])
        seen: set[int] = set()
        start = 0
        for place, code in enumerate(codes.tolist()):
            if code in seen:
                yield chosen[start:place]
                start = place
                seen.clear()
            seen.add(code)
        if len(chosen):
            yield chosen[start:]


def _runs(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(start, end) of each run of equal values."""
    if len(values) == 0:
        return
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True)
