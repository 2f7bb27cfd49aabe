"""The windows of one model's groups in one partition: which step a reading goes into, and when steps close."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import are_circles
from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.catalogue import Model
from glaim_stream.core.readings import Readings
from glaim_stream.health import FEWEST_JUDGED_STEPS, LiveHabits, Plausibility, Range
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.clock import ClosingOffsets
from glaim_stream.windows.closing import Closed, close_step, concatenate, correct
from glaim_stream.windows.history import error_steps
from glaim_stream.windows.holes import Rules, look_back
from glaim_stream.windows.judging import Judge
from glaim_stream.windows.outages import Outage, OutageTracker
from glaim_stream.windows.owed import OwedRows
from glaim_stream.windows.probes import Prober, Probes, Sampling
from glaim_stream.windows.rings import Cells, Rings
from glaim_stream.windows.room import Room
from glaim_stream.windows.sensor_health import HealthTracker, SensorEvent

Ints = NDArray[np.int64]


class ModelWindows:
    """The windows of one model's groups in one partition."""

    def __init__(
        self,
        model: Model,
        model_index: int,
        max_ahead_ms: int,
        *,
        shared_clock: bool,
        sampling: Sampling | None,
        clock_kept: bool = False,
        plausible: bool = False,
        trained_range: Range | None = None,
        slice_bytes: int = DEFAULT.slice_bytes,
        habits: Callable[[str], LiveHabits | None] | None = None,
        group_names: Sequence[str] = (),
    ) -> None:
        """Start empty.

        Args:
            model: the window rules.
            model_index: in the catalogue.
            max_ahead_ms: how far beyond the partition's newest event time a reading may be stamped.
            shared_clock: other models' readings move the clock too.
            sampling: which groups are probed; None: none. A rebuild has to repeat the probes of the last
                `error_steps`, so with probes offsets are remembered for longer.
            clock_kept: see Rules.
            plausible: whether readings are judged (glaim_stream.health.plausibility).
            trained_range: least and largest reading of each sensor in training, by which they are judged, or None.
            slice_bytes: of the steps that are closed before their rows are handed over.
            habits: of the sensors of a model, by which their health is judged; None: it is not judged.
            group_names: by group code; may grow. Needed for sensor health only.
        """
        self._slice_bytes = slice_bytes
        self._weight_bytes = 0  # of the steps closed since rows were last handed over
        self.model = model
        self.model_index = model_index
        self.rebuilding = False  # the rows of closing steps were published before and are not needed
        # A reading may lie this many steps beyond the newest closed one: lateness and skew rounded up, and one more.
        self._ahead = -(-(model.lateness_ms + max_ahead_ms) // model.step_ms) + 1
        judges_health = habits is not None and model.window >= FEWEST_JUDGED_STEPS
        self.rings = Rings(
            len(model.sensors),
            model.window,
            self._ahead,
            mean=model.bucket == "mean",
            directions=model.directions,
            offsets_back=error_steps(
                scored=sampling is not None or judges_health,
                quality=sampling is not None and sampling.quality,
            ),
        )
        judged = np.array([sensor.plausibility for sensor in model.sensors])
        self.rules = Rules(
            model.window,
            model.revise_after,
            model.max_gap,
            model.step_ms,
            model_index,
            Plausibility(judged, trained_range, _directions(model, trained_range)) if plausible else None,
            clock_kept,
        )
        self._room = Room(len(model.sensors), model.window)
        self._judge = None
        if self.rules.plausibility is not None:
            self._judge = Judge(self.rings, self.rules.plausibility, self._room)
        self._outage_tracker = OutageTracker(self.rings, self.rules)
        cadences = np.array(model.cadences, np.int64)
        self._slow = None
        if (cadences > 1).any():
            self._slow = SlowSensors(
                self.rings, cadences, revise_after=model.revise_after, ahead=self._ahead, max_gap=model.max_gap
            )
        self._closing_offsets = None
        if shared_clock:
            self._closing_offsets = ClosingOffsets(model.window, model.step_ms, model.lateness_ms)
        self.published_through: int | None = None  # newest step that was published before event time closed it
        self._prober = None if sampling is None else Prober(self.rings, self.rules, sampling)
        self._probes: list[Probes] = []
        self._outages: list[Outage] = []
        self._owed = OwedRows()
        self.health = None
        if habits is not None and judges_health:
            self.health = HealthTracker(self.rings, self.rules, partial(habits, model.name), group_names)
        self._health_events: list[SensorEvent] = []

    def take_probes(self) -> list[Probes]:
        """Return the probe windows made since the last call."""
        probes, self._probes = self._probes, []
        return probes

    def take_outages(self) -> list[Outage]:
        """Return the outages found since the last call."""
        outages, self._outages = self._outages, []
        return outages

    def take_health(self) -> list[SensorEvent]:
        """Return the events of sensor health found since the last call."""
        events, self._health_events = self._health_events, []
        return events

    def take_due_rows(self) -> int:
        """Return how many observed rows were due since the last call: their step closed, or they are corrections."""
        return self._owed.take_due()

    def owed_rows(self, newest_ms: int, idle_ms: int) -> int:
        """Observed rows of open steps that the wall clock should have closed; arguments as of `close_open`."""
        return self._owed.of_steps_through(self._passed_by_clock(newest_ms, idle_ms))

    def dark_groups(self) -> list[int]:
        """Codes of the groups that have windows and are dark."""
        return self._outage_tracker.dark()

    def feed(
        self, readings: Readings, newest_ms: Ints, all_newest_ms: Ints, all_offsets: Ints
    ) -> Generator[Closed | None, None, tuple[Closed | None, NDArray[np.bool_], int]]:
        """Apply a batch. When many steps close, their rows are yielded in slices of whole steps, possibly without rows.

        Args:
            readings: those of this model, n of the batch's m.
            newest_ms: int64 [n], the partition's newest event time after each of them.
            all_newest_ms: int64 [m], the same after every reading of the batch: other models' readings move the clock.
            all_offsets: int64 [m], offset of every reading of the batch.

        Returns:
            The rows of the last slice, which readings were too late (bool [n]), and how many were superseded.
        """
        too_late = np.zeros(len(readings), np.bool_)
        if len(all_newest_ms) == 0:
            return None, too_late, 0
        first, last = self._closable(all_newest_ms[[0, -1]]).tolist()
        if self.rings.closable is None:
            self.rings.start(first)
        if self._closing_offsets is not None:
            self._closing_offsets.record(self.rings.closable or 0, last, all_newest_ms, all_offsets)
        superseded = 0
        parts: list[Closed | None] = []
        step = readings.event_time_ms // self.model.step_ms
        closable = self._closable(newest_ms)
        for start, end in _runs(closable):
            yield from self._close_until(int(closable[start]), parts)
            segment = slice(start, end)
            late = step[segment] < self.rings.oldest_step
            too_late[segment] = late
            corrections, unused = self._insert(readings, step, np.arange(start, end)[~late])
            superseded += unused
            parts += corrections
        yield from self._close_until(last, parts)
        return self._slice(parts), too_late, superseded

    def close_open(self, newest_ms: int, idle_ms: int | None) -> Closed | None:
        """Make provisional rows of the open steps that a reading or the wall clock has reached, up to one slice.

        Call again until there are no rows.

        Args:
            newest_ms: the partition's newest event time.
            idle_ms: time since the last arrival by the wall clock; None at the end of the input, when it reaches
                no step and those up to the newest reading are published.
        """
        rings, model = self.rings, self.model
        if rings.closable is None or not rings.groups:
            return None
        first, last = self._unpublished(rings.closable), newest_ms // model.step_ms
        if idle_ms is not None:
            last = max(last, self._passed_by_clock(newest_ms, idle_ms))
            if last < first:
                return None
        observed = rings.newest_observed()
        if observed is None:
            return None
        if idle_ms is None:
            last = max(last, observed)
        return self.publish_through(min(last, observed + model.max_gap + 1))  # every group is dark from there on

    def publish_through(self, last: int) -> Closed | None:
        """Make provisional rows of the open steps up to `last`, without waiting for event time; up to one slice.

        `published_through` tells how far.
        """
        assert self.rings.closable is not None
        first = self._unpublished(self.rings.closable)
        parts: list[Closed | None] = []
        for step in range(first, last + 1):
            parts.append(self._close(step, published=False, by_clock=True))
            self.published_through = step
            if self._is_slice(parts):
                break
        else:
            self.published_through = max(last, first - 1)
        return self._slice(parts)

    def _passed_by_clock(self, newest_ms: int, idle_ms: int) -> int:
        """Newest step that is over by the wall clock."""
        passed_ms = newest_ms + idle_ms - self.model.lateness_ms - round(self.model.idle_timeout_s * 1000)
        return passed_ms // self.model.step_ms - 1

    @property
    def ahead_of_event_time(self) -> bool:
        """Whether a step is published that event time has not closed yet."""
        return self.rings.closable is not None and self._unpublished(self.rings.closable) > self.rings.closable

    def _unpublished(self, closable: int) -> int:
        """Lowest step that is not published yet."""
        through = self.published_through
        return closable if through is None else max(closable, through + 1)

    def _closable(self, newest_ms: Ints) -> Ints:
        """Lowest open step once the newest event time is `newest_ms`, int64 alike."""
        return (newest_ms - self.model.lateness_ms) // self.model.step_ms

    def _close_until(self, closable: int, parts: list[Closed | None]) -> Iterator[Closed | None]:
        """Close steps and add their rows to the parts; yield the parts when they make a slice."""
        rings, window = self.rings, self.model.window
        assert rings.closable is not None
        # Once a whole window behind the last reading is empty there is nothing left to publish: skip the rest.
        busy_until = min(closable, rings.closable + self._ahead + window) if rings.groups else rings.closable
        for step in range(rings.closable, busy_until):
            published = self.published_through is not None and step <= self.published_through
            parts.append(self._close(step, published=published, by_clock=False))
            if self._prober is not None and (probes := self._prober.probe(step)) is not None:
                self._probes.append(probes)
            self._advance(step + 1)
            if self._is_slice(parts):
                yield self._slice(parts)
        self._advance(closable)

    def _is_slice(self, parts: Sequence[Closed | None]) -> bool:
        """Add the step that was closed last, and see whether there are rows and enough bytes for a slice."""
        rings = self.rings
        looked_at = len(rings.groups) * rings.sensors * self.model.window  # one byte per cell, also without any row
        self._weight_bytes += looked_at + (parts[-1].size_bytes if parts and parts[-1] is not None else 0)
        return self._weight_bytes >= self._slice_bytes and any(part is not None for part in parts)

    def _slice(self, parts: list[Closed | None]) -> Closed | None:
        """Take the parts together, once their readings are judged."""
        if self._judge is not None:
            self._judge.finish()
        closed = concatenate(parts, self._room.take())
        parts.clear()
        self._weight_bytes = 0
        return closed

    def _close(self, step: int, *, published: bool, by_clock: bool) -> Closed | None:
        rings = self.rings
        self._owed.close(step)
        lookback = look_back(rings, self.rules, step)
        tracker = self._outage_tracker
        self._outages += tracker.close_by_clock(lookback) if by_clock else tracker.close(lookback)
        if self.health is not None and not by_clock:
            self._health_events += self.health.close(lookback)
        if self.rebuilding and self._slow is None:  # slow sensors' holes are remembered as their rows are made
            return None
        closed = close_step(rings, self.rules, lookback, self._slow, self._room, published=published, by_clock=by_clock)
        if closed is not None and self._judge is not None:
            self._judge.add(lookback, closed, by_clock=by_clock)
        return closed

    def _advance(self, closable: int) -> None:
        """Move the rings on; once per window, evict the groups that were silent for a whole one."""
        rings = self.rings
        assert rings.closable is not None
        window_over = closable // self.model.window > rings.closable // self.model.window
        rings.advance(closable)
        if window_over and rings.groups:
            rings.evict()

    def _insert(self, readings: Readings, step: Ints, chosen: Ints) -> tuple[list[Closed | None], int]:
        """Put readings into their steps.

        Returns:
            Rows for the cells of published steps that changed, and how many readings changed nothing.
        """
        rings = self.rings
        if len(chosen) == 0 or rings.closable is None:
            return [], 0
        rings.note_offsets(step[chosen], readings.offset[chosen])
        if self._closing_offsets is not None:
            closed = step[chosen][step[chosen] < rings.closable]
            rings.note_offsets(closed, self._closing_offsets.of(closed))
        row = rings.rows(readings.group[chosen])  # before all else: rows are numbered in order of arrival
        empty = np.isnan(readings.value[chosen])
        if empty.any():
            rings.put_dropouts(row[empty], readings.sensor[chosen[empty]], step[chosen[empty]])
            chosen = chosen[~empty]
        late = step[chosen] < self._unpublished(rings.closable)
        superseded = len(chosen)
        open_cells = self._put(readings, step, chosen[~late])
        superseded -= open_cells.taken
        self._owed.add(open_cells.filled)
        corrections: list[Closed | None] = []
        # A cell that is corrected twice gets two rows, whether or not both readings arrived in one batch.
        for part in self._without_repeats(readings, step, chosen[late]):
            cells = self._put(readings, step, part)
            if self._judge is not None:
                self._judge.forget(cells.row)
            superseded -= cells.taken
            # A worker that starts with a corrected catalogue rebuilds its windows with readings that were rejected
            # before and appear in no row. When these are requeued they change nothing but have to be published.
            corrected = cells.where(cells.changed | readings.requeued[part])
            self._owed.correct(len(corrected.row))
            corrections.append(correct(rings, self.rules, corrected))
        return corrections, superseded

    def _put(self, readings: Readings, step: Ints, chosen: Ints) -> Cells:
        return self.rings.put(
            self.rings.rows(readings.group[chosen]),
            readings.sensor[chosen],
            step[chosen],
            (readings.event_time_ms[chosen] - step[chosen] * self.model.step_ms).astype(np.int32),
            readings.value[chosen],
            readings.quality[chosen],
        )

    def _without_repeats(self, readings: Readings, step: Ints, chosen: Ints) -> Iterator[Ints]:
        """Cut the chosen readings into stretches in which each cell occurs once."""
        if len(chosen) == 0:
            return
        rows = self.rings.rows(readings.group[chosen])
        codes = self.rings.cell_codes(rows, readings.sensor[chosen], step[chosen])
        order = np.argsort(codes, kind="stable")
        again = codes[order[1:]] == codes[order[:-1]]
        before = np.full(len(codes), -1)
        before[order[1:][again]] = order[:-1][again]  # index of the previous reading of the same cell
        newest = np.maximum.accumulate(before)
        start = 0
        while start < len(chosen):
            end = int(np.searchsorted(newest, start))  # the first reading whose cell occurs in this stretch already
            yield chosen[start:end]
            start = end


def _directions(model: Model, trained_range: Range | None) -> NDArray[np.bool_] | None:
    """The sensors [C] that are directions in degrees, by their limits or by their training's range; None: none is."""
    if trained_range is None:
        return model.directions
    found = are_circles(*trained_range)
    found = found if model.directions is None else found | model.directions
    return found if found.any() else None


def _runs(values: Ints) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each run of equal values."""
    if len(values) == 0:
        return
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True)
