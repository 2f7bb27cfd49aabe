"""The sliding windows of one input partition: readings in, rows of closed steps out.

A step is a half-open interval `[t * step_ms, (t + 1) * step_ms)` of event time; a window is the last `window` steps of
a group. No I/O happens here and wall time is an argument; apart from numpy and the standard library only the catalogue
(pydantic models) and the readings' columns are imported.

Closing by event time is a function of the partition's records in their order and does not depend on the batches in
which they arrived. So a worker that reads the same records again has the same windows and publishes the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.core.rejects import DeadLetterCause, Reject
from glaim_stream.core.stamps import PartitionStamps, bound_ms
from glaim_stream.health import LiveHabits, Range
from glaim_stream.windows.applied import Applied, joined_applied, rejects_of
from glaim_stream.windows.clock import NEVER_MS, ClockClose, ClockCloses, EventClock, limit_skew
from glaim_stream.windows.closed import Closed
from glaim_stream.windows.history import history_ms
from glaim_stream.windows.model import ModelWindows
from glaim_stream.windows.probes import FEWEST_WINDOWS, Sampling
from glaim_stream.windows.upgrades import Upgrades


class PartitionWindows:
    """All windows of one partition, for every model of the catalogue."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        score_share: float = 0.0,
        score_least: int = FEWEST_WINDOWS,
        quality: bool = False,
        group_names: Sequence[str] = (),
        clock_kept: bool = False,
        trained_ranges: Sequence[Range | None] = (),
        max_groups: int = DEFAULT.groups,
        slice_bytes: int = DEFAULT.slice_bytes,
        habits: Callable[[str], LiveHabits | None] | None = None,
    ) -> None:
        """Start empty.

        Args:
            catalogue: the models.
            score_share: share of the groups that are probed at each step (glaim_stream.windows.probes); 0: none.
            score_least: probe windows per step if the share gives fewer.
            quality: whether live accuracy is published (glaim_stream.output.quality).
            group_names: names by group code; may grow. Needed for probes only.
            clock_kept: whether commits record `clock_closes`, so that a rebuild repeats them.
            trained_ranges: training ranges of the models, by which readings are judged; empty: unknown.
            max_groups: number of groups that may have windows; readings of further groups are refused.
            slice_bytes: size of the windows and rows of closed steps that are made at once.
            habits: gives the habits of a model's sensors, by which their health is judged; None: it is not judged.
        """
        self._max_groups, self._slice_bytes = max_groups, slice_bytes
        self.clock = EventClock()
        shared = len(catalogue.models) > 1
        self._lateness_ms = np.array([model.lateness_ms for model in catalogue.models], np.int64)
        self._max_ahead_ms = np.array([catalogue.max_ahead_ms(model) for model in catalogue.models], np.int64)
        remembers = score_share > 0 or habits is not None
        self.stamps = PartitionStamps(
            bound_ms(
                int(self._max_ahead_ms.max()),
                history_ms(catalogue, scored=remembers, quality=quality),
            )
        )  # judges the records' times before they are fed
        sampling = Sampling(score_share, score_least, group_names, quality) if score_share > 0 else None
        self._models = [
            ModelWindows(
                model,
                index,
                catalogue.max_ahead_ms(model),
                shared_clock=shared,
                sampling=sampling,
                clock_kept=clock_kept,
                trained_range=trained_ranges[index] if trained_ranges else None,
                slice_bytes=slice_bytes,
                habits=habits,
                group_names=group_names,
            )
            for index, model in enumerate(catalogue.models)
        ]
        self._clock_kept = clock_kept
        self._clock_closes = ClockCloses()

    @property
    def models(self) -> Sequence[ModelWindows]:
        """The windows of each model, in the order of the catalogue."""
        return self._models

    @property
    def rebuilding(self) -> bool:
        """Whether the rows of closing steps were published before, so that none are made; initially False."""
        return any(windows.rebuilding for windows in self._models)

    @rebuilding.setter
    def rebuilding(self, rebuilding: bool) -> None:
        for windows in self._models:
            windows.rebuilding = rebuilding

    def feed(self, readings: Readings, *, arrival_ms: int) -> Applied:
        """Apply readings at once; see `feed_slices`."""
        return joined_applied(list(self.feed_slices(readings, arrival_ms=arrival_ms)))

    def feed_slices(self, readings: Readings, *, arrival_ms: int) -> Iterator[Applied]:
        """Apply readings in order of arrival and close the steps that the watermark passes.

        One reading after a long silence closes every step of it. The result is yielded in slices, so that the
        caller can publish one before the next is made, and other work can be done in between.

        Args:
            readings: readings of this partition only, in order of offset.
            arrival_ms: wall time, epoch milliseconds.

        Yields:
            The closed steps. The last slice also has the rejects of the readings that were not applied, and the counts.
        """
        event_time_ms, skewed = limit_skew(
            readings.event_time_ms, readings.produced_ms, self._max_ahead_ms[readings.model]
        )
        newest_ms = self.clock.observe(event_time_ms, arrival_ms)
        late = np.zeros(len(readings), np.bool_)
        refused = self._refused(readings)  # like readings that are too late, these move the clock and nothing else
        all_superseded = 0
        result = Applied(last=False)
        for windows in self._models:
            mine = np.flatnonzero((readings.model == windows.model_index) & ~refused)
            slices = windows.feed(
                readings.where(mine) if len(mine) < len(readings) else readings,
                newest_ms[mine],
                newest_ms,
                readings.offset,
            )
            while True:
                try:
                    early = next(slices)
                except StopIteration as end:
                    closed, too_late, superseded = end.value
                    break
                _take(windows, early, result)
                yield result
                result = Applied(last=False)
            late[mine[too_late]] = True
            all_superseded += superseded
            _take(windows, closed, result)
        result.rejects = [*self._too_late(readings, late, newest_ms), *self._too_many_groups(readings.where(refused))]
        result.readings = len(readings) - int(late.sum()) - int(refused.sum())
        result.dropouts = int(np.isnan(readings.value).sum())
        result.superseded, result.skewed, result.last = all_superseded, skewed, True
        yield result

    def _too_late(self, readings: Readings, late: NDArray[np.bool_], newest_ms: NDArray[np.int64]) -> Iterator[Reject]:
        """Yield rejects of the `late` readings; `newest_ms` is the newest event time at each of all readings."""
        rows = readings.where(late)
        late_by_ms = newest_ms[late] - self._lateness_ms[rows.model] - rows.event_time_ms
        detail = "{} s behind the watermark of its partition, older than the window"
        return rejects_of(rows, DeadLetterCause.TOO_LATE, detail, late_by_ms)

    def _too_many_groups(self, refused: Readings) -> Iterator[Reject]:
        most = self._max_groups
        detail = f"a new group, and the partition has {most}, as many as GLAIM_PARTITION_GROUPS allows"
        return rejects_of(refused, DeadLetterCause.TOO_MANY_GROUPS, detail)

    def _refused(self, readings: Readings) -> NDArray[np.bool_]:
        """Find the readings of groups that have no windows and get none, bool [n]."""
        unknown = self._unknown(readings)
        new = dict.fromkeys(readings.group[unknown].tolist())
        if len(new) > self._max_groups - self.groups:  # first make room as the end of a window does
            for windows in self._models:
                windows.rings.evict()
            unknown = self._unknown(readings)
            new = dict.fromkeys(readings.group[unknown].tolist())
        room = max(0, self._max_groups - self.groups)
        if len(new) <= room:
            return np.zeros(len(readings), np.bool_)
        return unknown & np.isin(readings.group, list(new)[room:])

    def _unknown(self, readings: Readings) -> NDArray[np.bool_]:
        unknown = np.ones(len(readings), np.bool_)
        for windows in self._models:
            unknown &= ~windows.rings.has_rows(readings.group)
        return unknown

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups that have windows, in one array per model."""
        return [windows.rings.codes for windows in self._models]

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing has arrived for a model's idle timeout."""
        idle_ms = self.clock.idle_ms(now_ms)
        return any(idle_ms >= windows.model.idle_timeout_s * 1000 for windows in self._models)

    def owed_rows(self, now_ms: int) -> int:
        """Count observed rows of open steps that `close_idle` should have closed by then."""
        if self.clock.newest_event_ms == NEVER_MS:
            return 0
        idle_ms = self.clock.idle_ms(now_ms)
        return sum(windows.owed_rows(self.clock.newest_event_ms, idle_ms) for windows in self._models)

    def close_idle(self, now_ms: int, next_offset: int = 0) -> Applied:
        """Close steps provisionally when nothing has arrived for a model's idle timeout.

        Event time is assumed to advance with the wall clock from the last arrival, so a blackout yields rows step by
        step until `max_gap` steps have passed. Final rows remain with event time: they are a function of the topic, and
        the topic does not contain the wall clock. A call makes at most a slice: call again until there are no rows.

        Args:
            now_ms: wall time, on the same clock as the arrivals.
            next_offset: the offset after the last record that was applied.
        """
        idle_ms = self.clock.idle_ms(now_ms)
        idle = [windows for windows in self._models if idle_ms >= windows.model.idle_timeout_s * 1000]
        result = self._close_open(idle, idle_ms)
        for windows in idle:
            if windows.ahead_of_event_time:
                self._clock_closes.add(next_offset, windows.model.name, windows.published_through)
        return result

    def clock_closes(self, rebuild_from: int) -> tuple[ClockClose, ...]:
        """Closes by the wall clock that a rebuild from this offset must repeat."""
        if not self._clock_kept:
            return ()
        ahead = {windows.model.name for windows in self._models if windows.ahead_of_event_time}
        return self._clock_closes.needed(rebuild_from, ahead)

    def repeat_clock_close(self, close: ClockClose) -> None:
        """Repeat, in a rebuild, a close by the wall clock."""
        if not self._clock_kept:
            return
        for windows in self._models:
            if windows.model.name == close.model and windows.rings.closable is not None:
                while windows.published_through is None or windows.published_through < close.through:
                    windows.publish_through(close.through)  # a slice, whose rows were published before
                windows.take_outages()
                windows.take_due_rows()
                self._clock_closes.add(close.offset, close.model, close.through)

    def close_end(self) -> Applied:
        """Close provisionally the open steps up to the newest reading, and no later ones: the input has ended."""
        return self._close_open(self._models, None)

    def _close_open(self, models: Sequence[ModelWindows], idle_ms: int | None) -> Applied:
        result = Applied()
        if self.clock.newest_event_ms == NEVER_MS:
            return result
        for windows in models:
            _take(windows, windows.close_open(self.clock.newest_event_ms, idle_ms), result)
        return result

    def due_upgrades(self, upgrades: Sequence[Upgrades]) -> list[Closed]:
        """Final rows to make again now, given those that wait by model (glaim_stream.windows.upgrades)."""
        due = [waiting.due(model.rings, model.rules) for waiting, model in zip(upgrades, self._models, strict=True)]
        return [closed for closed in due if closed is not None]

    def rebuild_from(self, next_offset: int) -> int:
        """Lowest offset of the readings that the rows to come depend on; `next_offset` when there is none."""
        return min([next_offset, *(windows.rings.lowest_offset() for windows in self._models)])

    def dark_groups(self) -> list[tuple[int, int]]:
        """Index of the model and code of each group that has windows and is dark."""
        return [(index, code) for index, windows in enumerate(self._models) for code in windows.dark_groups()]

    def faulty_sensors(self) -> Counter[str]:
        """Number of sensors that are faulty by each detector."""
        return sum((each.health.faulty() for each in self._models if each.health is not None), Counter())

    @property
    def groups(self) -> int:
        """Number of groups that this partition has windows for."""
        return sum(len(windows.rings.groups) for windows in self._models)


def _take(windows: ModelWindows, closed: Closed | None, result: Applied) -> None:
    """Add a model's closed steps, and its findings since the last call."""
    if closed is not None:
        result.closed.append(closed)
    result.probes += windows.take_probes()
    result.outages += windows.take_outages()
    result.health += windows.take_health()
    result.due_rows += windows.take_due_rows()
