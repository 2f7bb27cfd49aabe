"""A simple second implementation of the window rules, with which the tests compare the real one."""

import math
from typing import Any

import numpy as np

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.windows import UNKNOWN_MS, Outage
from tests.support import Event, Row

Cell = tuple[int, int, int]  # group, sensor, step


class ReferenceWindows:
    """The window rules of one model: one reading at a time, with dictionaries instead of rings and arrays.

    It keeps every reading forever and searches all of them each time, which makes it slow but easy to verify.
    """

    def __init__(self, model: Catalogue, *, sensors: int) -> None:
        self.rules = model.models[0]
        self.max_ahead_ms = model.max_ahead_ms(self.rules)
        self.sensors = sensors
        self.newest_ms: int | None = None
        self.closable: int | None = None
        self.published_through: int | None = None  # by the wall clock
        self.readings: dict[Cell, list[Event]] = {}
        self.dropouts: set[Cell] = set()
        self.awaiting_final: set[Cell] = set()  # holes that were published provisionally
        self.corrections: dict[Cell, int] = {}
        self.feeds: dict[int, list[int]] = {}  # step -> offsets
        self.too_late: list[Event] = []
        self.skewed = 0
        self.rows: list[Row] = []
        self.outages: list[Outage] = []
        self.active: set[int] = set()  # groups, by event time
        self.reported_active: set[int] = set()  # groups, by the last event
        self.last_observed: dict[int, int] = {}  # group -> newest observed step when the wall clock reported it dark

    def feed(self, event: Event, offset: int) -> None:
        rules = self.rules
        produced_ms = event.time_ms if event.produced_ms is None else event.produced_ms
        self.skewed += event.time_ms > produced_ms
        event_time_ms = min(event.time_ms, max(produced_ms, event.time_ms - self.max_ahead_ms))
        self.newest_ms = event_time_ms if self.newest_ms is None else max(self.newest_ms, event_time_ms)
        closable = math.floor((self.newest_ms - rules.lateness_ms) / rules.step_ms)
        self.closable = closable if self.closable is None else self.closable
        while self.closable < closable:
            published = self.published_through is not None and self.closable <= self.published_through
            self._close(self.closable, published=published, by_clock=False)
            self.closable += 1
        step = math.floor(event.time_ms / rules.step_ms)
        if step < self.closable - rules.window:
            self.too_late.append(event)
            return
        self.feeds.setdefault(step, []).append(offset)
        cell = (event.group, event.sensor, step)
        if math.isnan(event.value):
            self.dropouts.add(cell)
            return
        before = self.current(*cell)
        self.readings.setdefault(cell, []).append(event)
        if before == self.current(*cell):
            return
        if step < self.closable:
            self.corrections[cell] = self.corrections.get(cell, 0) + 1
            self.rows.append(self._row(cell, revision=2 + self.corrections[cell], gap_age=0, final=True))
        elif self.published_through is not None and step <= self.published_through:
            self.rows.append(self._row(cell, revision=0, gap_age=0, final=True))

    def close_idle(self, idle_ms: int) -> None:
        rules = self.rules
        if self.newest_ms is None or self.closable is None or not self.readings:
            return
        opened = math.floor(self.newest_ms / rules.step_ms)
        step = self.closable if self.published_through is None else max(self.closable, self.published_through + 1)
        while True:
            end_ms = (step + 1) * rules.step_ms
            passed = end_ms + rules.lateness_ms + rules.idle_timeout_s * 1000 <= self.newest_ms + idle_ms
            newest = max(step for _, _, step in self.readings)
            if not (step <= opened or passed) or step > newest + rules.max_gap + 1:
                return
            self._close(step, published=False, by_clock=True)
            self.published_through = step
            step += 1

    def current(self, group: int, sensor: int, step: int) -> tuple[float, int, int] | None:
        """(value, milliseconds into the step, quality) of a cell; None if it is not observed."""
        readings = self.readings.get((group, sensor, step))
        if not readings:
            return None
        latest = max(event.time_ms for event in readings)
        stamp = latest - step * self.rules.step_ms
        if self.rules.bucket == "mean":
            mean = sum(event.value for event in readings) / len(readings)
            return mean, stamp, max(event.quality for event in readings)
        last = [event for event in readings if event.time_ms == latest][-1]
        return last.value, stamp, last.quality

    def held(self, group: int, sensor: int, step: int) -> float | None:
        """The value of a cell; None if it is not observed."""
        current = self.current(group, sensor, step)
        return None if current is None else current[0]

    def lowest_offset(self) -> int | None:
        """Lowest offset among the readings of the window's steps and of the open steps."""
        assert self.closable is not None
        offsets = [o for step, each in self.feeds.items() if step >= self.closable - self.rules.window for o in each]
        return min(offsets, default=None)

    def _close(self, step: int, *, published: bool, by_clock: bool) -> None:
        self._find_outages(step, by_clock=by_clock)
        if not published:
            self._provisional(step, by_clock=by_clock)
        elif not by_clock:
            self._settled(step)
        if self.rules.revise_after and not by_clock:
            self._final(step)

    def _groups(self) -> list[int]:
        return sorted({group for group, _, _ in self.readings})

    def _age(self, group: int, sensor: int, step: int, most: int) -> int:
        return next((age for age in range(most) if self.held(group, sensor, step - age) is not None), most)

    def _group_age(self, group: int, step: int) -> int:
        return min(self._age(group, sensor, step, self.rules.window) for sensor in range(self.sensors))

    def _is_hole(self, group: int, sensor: int, step: int, age: int) -> bool:
        """Whether the sensor's interval that ends here has no reading, or the cell was published as a hole."""
        cadence = self.rules.cadences[sensor]
        due = (step + 1) % cadence == 0 and age >= cadence
        return age > 0 and (due or (group, sensor, step) in self.awaiting_final)

    def _find_outages(self, step: int, *, by_clock: bool) -> None:
        max_gap = self.rules.max_gap
        for group in self._groups():
            age = self._group_age(group, step)
            known = self.reported_active if by_clock else self.active
            if (group in known) != (age <= max_gap):
                kind = "speaks" if age <= max_gap else "dark"
                if kind == "dark" and by_clock:
                    self.last_observed[group] = step - age
                self._outage(group, kind, step, step - max_gap - 1, by_clock=by_clock)
                for names in {id(each): each for each in (known, self.reported_active)}.values():
                    names.add(group) if kind == "speaks" else names.discard(group)
            elif (
                not by_clock
                and age <= max_gap
                and group not in self.reported_active
                and step - age > self.last_observed[group]
            ):
                self._outage(group, "speaks", step, self.last_observed[group] + 1, by_clock=True)
                self.reported_active.add(group)

    def _outage(self, group: int, kind: Any, step: int, since: int, *, by_clock: bool) -> None:
        observed = sorted({s for g, _, s in self.readings if g == group and step - self.rules.window < s <= step})
        at = next(s for s in observed if s >= since) if kind == "speaks" else step
        last = max((s for s in observed if s < at), default=None)
        step_ms = self.rules.step_ms
        last_ms = UNKNOWN_MS if last is None else last * step_ms
        self.outages.append(Outage(0, group, kind, at * step_ms, last_ms, by_clock))

    def _settled(self, step: int) -> None:
        """Publish holes again that the wall clock published provisionally and that are final without a revision."""
        before = self.rows
        self.rows = []
        self._provisional(step)
        self.rows = before + [row for row in self.rows if row.final and not row.observed]

    def _provisional(self, step: int, *, by_clock: bool = False) -> None:
        rules = self.rules
        for group in self._groups():
            if self._group_age(group, step) > rules.max_gap:
                continue
            for sensor in range(self.sensors):
                cell = (group, sensor, step)
                age = self._age(group, sensor, step, rules.window)
                if age and not self._is_hole(*cell, age):
                    continue
                fill = 0 < age <= rules.max_gap
                final = age == 0 or (not by_clock and (not fill or rules.revise_after == 0))
                window = self._window(group, step) if fill else None
                self.rows.append(self._row(cell, revision=0, gap_age=age, final=final, window=window))
                if not final:
                    self.awaiting_final.add(cell)

    def _final(self, newest: int) -> None:
        rules = self.rules
        step = newest - rules.revise_after
        for group in self._groups():
            for sensor in range(self.sensors):
                cell = (group, sensor, step)
                age = self._age(group, sensor, step, rules.window - rules.revise_after)
                if 0 < age <= rules.max_gap and self._is_hole(*cell, age):
                    window = self._window(group, newest)
                    self.rows.append(
                        self._row(cell, revision=1, gap_age=age, final=True, lag=rules.revise_after, window=window)
                    )

    def _row(self, cell: Cell, *, revision: int, gap_age: int, final: bool, **more: Any) -> Row:
        group, sensor, step = cell
        current = self.current(*cell)
        value, stamp, quality = current if current is not None else (None, 0, 2 if cell in self.dropouts else 0)
        return Row(
            0, step * self.rules.step_ms, group, sensor, revision, current is not None, value, gap_age, final,
            stamp=stamp, quality=quality, **more,
        )  # fmt: skip

    def _window(self, group: int, newest: int) -> tuple[bytes, bytes]:
        held = [
            [self.held(group, sensor, step) for step in range(newest - self.rules.window + 1, newest + 1)]
            for sensor in range(self.sensors)
        ]
        values = np.array([[0 if value is None else value for value in row] for row in held], np.float64)
        return values.tobytes(), np.array([[value is not None for value in row] for row in held]).tobytes()
