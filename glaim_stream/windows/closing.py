"""When a step closes (by event time, by the wall clock or at the end of the input), and what happens then.

A step is closed by event time once the newest event time of its partition is `lateness_ms` beyond its end. The wall
clock closes it provisionally once as much time has passed by it and nothing has arrived for the idle timeout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.closed import Closed, close_step, concatenate
from glaim_stream.windows.holes import Rules, look_back
from glaim_stream.windows.judging import Judge
from glaim_stream.windows.outages import Outage, OutageTracker
from glaim_stream.windows.probes import Prober, Probes
from glaim_stream.windows.rings import Rings
from glaim_stream.windows.room import Room
from glaim_stream.windows.sensor_health import HealthTracker, SensorEvent

Ints = NDArray[np.int64]


class OpenSteps:
    """The open steps of one model's groups in one partition, until they close."""

    def __init__(
        self,
        rings: Rings,
        rules: Rules,
        *,
        lateness_ms: int,
        idle_timeout_ms: int,
        ahead: int,
        slow: SlowSensors | None,
        prober: Prober | None,
        health: HealthTracker | None,
        slice_bytes: int,
    ) -> None:
        """Start without a step.

        Args:
            rings: state of the model's groups.
            rules: the model's window rules.
            lateness_ms: time for which a step remains open after its end, by event time.
            idle_timeout_ms: time without an arrival after which the wall clock closes steps.
            ahead: number of steps beyond the newest closed one that a reading may lie.
            slow: the model's cadences; None: all sensors are due at each step.
            prober: makes the probes; None: nothing is probed.
            health: judges the sensors; None: they are not judged.
            slice_bytes: size of the closed steps at which their rows are handed over.
        """
        self.rings, self.rules = rings, rules
        self._lateness_ms, self._idle_timeout_ms, self._ahead = lateness_ms, idle_timeout_ms, ahead
        self._slow, self._prober, self.health = slow, prober, health
        self.rebuilding = False  # the rows of closing steps were published before and are not needed
        self.published_through: int | None = None  # newest step that was published before event time closed it
        self._room = Room(rings.sensors, rules.window)
        self._judge = None if rules.plausibility is None else Judge(rings, rules.plausibility, self._room)
        self._outage_tracker = OutageTracker(rings, rules)
        self._owed = OwedRows()
        self._probes: list[Probes] = []
        self._outages: list[Outage] = []
        self._health_events: list[SensorEvent] = []
        self._slice_bytes = slice_bytes
        self._weight_bytes = 0  # size of the steps closed since rows were last handed over

    def _closable(self, newest_ms: Ints) -> Ints:
        """Lowest open step once the newest event time is `newest_ms`, int64 of the same shape."""
        return (newest_ms - self._lateness_ms) // self.rules.step_ms

    def _passed_by_clock(self, newest_ms: int, idle_ms: int) -> int:
        """Newest step that is over by the wall clock."""
        passed_ms = newest_ms + idle_ms - self._lateness_ms - self._idle_timeout_ms
        return passed_ms // self.rules.step_ms - 1

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
        """Count observed rows of open steps that the wall clock should have closed; arguments as for `close_open`."""
        return self._owed.of_steps_through(self._passed_by_clock(newest_ms, idle_ms))

    def dark_groups(self) -> list[int]:
        """Codes of the groups that have windows and are dark."""
        return self._outage_tracker.dark()

    def _close_until(self, closable: int, parts: list[Closed | None]) -> Iterator[Closed | None]:
        """Close steps and add their rows to the parts; yield the parts when they make a slice."""
        rings, window = self.rings, self.rules.window
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

    def close_open(self, newest_ms: int, idle_ms: int | None) -> Closed | None:
        """Make provisional rows of the open steps that a reading or the wall clock has reached, up to one slice.

        Call again until there are no rows.

        Args:
            newest_ms: the partition's newest event time.
            idle_ms: time since the last arrival by the wall clock. None at the end of the input: the wall clock then
                reaches no step, and the steps up to the newest reading are published.
        """
        rings = self.rings
        if rings.closable is None or not rings.groups:
            return None
        first, last = self._unpublished(rings.closable), newest_ms // self.rules.step_ms
        if idle_ms is not None:
            last = max(last, self._passed_by_clock(newest_ms, idle_ms))
            if last < first:
                return None
        observed = rings.newest_observed()
        if observed is None:
            return None
        if idle_ms is None:
            last = max(last, observed)
        return self.publish_through(min(last, observed + self.rules.max_gap + 1))  # every group is dark from there on

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

    @property
    def ahead_of_event_time(self) -> bool:
        """Whether a step is published that event time has not closed yet."""
        return self.rings.closable is not None and self._unpublished(self.rings.closable) > self.rings.closable

    def _unpublished(self, closable: int) -> int:
        """Lowest step that is not published yet."""
        through = self.published_through
        return closable if through is None else max(closable, through + 1)

    def _is_slice(self, parts: Sequence[Closed | None]) -> bool:
        """Add the step that was closed last, and see whether there are rows and enough bytes for a slice."""
        rings = self.rings
        looked_at = len(rings.groups) * rings.sensors * self.rules.window  # one byte per cell, also without any row
        self._weight_bytes += looked_at + (parts[-1].size_bytes if parts and parts[-1] is not None else 0)
        return self._weight_bytes >= self._slice_bytes and any(part is not None for part in parts)

    def _slice(self, parts: list[Closed | None]) -> Closed | None:
        """Judge the readings of the parts, and join them."""
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
        window_over = closable // self.rules.window > rings.closable // self.rules.window
        rings.advance(closable)
        if window_over and rings.groups:
            rings.evict()


class OwedRows:
    """Rows of the open steps of one model, and those that are due and were not taken yet."""

    def __init__(self) -> None:
        self._open: Counter[int] = Counter()  # number of cells that hold a reading, by step
        self._due = 0

    def add(self, steps: NDArray[np.int64]) -> None:
        """Owe a row for each of these cells, given by their open steps, once their step closes."""
        if not len(steps):
            return
        first = int(steps.min())  # all are steps that the rings hold, so few numbers lie between them
        for step, cells in enumerate(np.bincount(steps - first).tolist(), first):
            if cells:
                self._open[step] += cells

    def close(self, step: int) -> None:
        """Make the rows of a step due, if it is open."""
        self._due += self._open.pop(step, 0)

    def correct(self, rows: int) -> None:
        """Owe rows of published steps; they are due at once."""
        self._due += rows

    def take_due(self) -> int:
        """Return how many rows became due since the last call."""
        due, self._due = self._due, 0
        return due

    def of_steps_through(self, step: int) -> int:
        """Number of rows of open steps up to this one."""
        return sum(cells for each, cells in self._open.items() if each <= step)
