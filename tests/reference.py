"""The window rules once more, plain: what the windows of the product are held against."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from glaim_stream.catalogue import Catalogue
from tests.support import Event, Row


class ReferenceWindows:
    """The window rules of one model once more: one reading at a time, dictionaries, no rings, no arrays.

    It keeps every reading for ever and looks everything up again, so that it is slow and plain to see correct.
    """

    def __init__(self, model: Catalogue, *, sensors: int) -> None:
        self.rules = model.models[0]
        self.sensors = sensors
        self.newest_ms: int | None = None
        self.closable: int | None = None
        self.published_through: int | None = None  # by the wall clock
        self.readings: dict[tuple[int, int, int], list[Event]] = {}  # (group, sensor, step)
        self.dropouts: set[tuple[int, int, int]] = set()
        self.corrections: dict[tuple[int, int, int], int] = {}
        self.feeds: dict[int, list[int]] = {}  # step -> offsets
        self.too_late: list[Event] = []
        self.rows: list[Row] = []

    def feed(self, event: Event, offset: int) -> None:
        rules = self.rules
        self.newest_ms = event.time_ms if self.newest_ms is None else max(self.newest_ms, event.time_ms)
        closable = math.floor((self.newest_ms - rules.lateness_ms) / rules.step_ms)
        self.closable = closable if self.closable is None else self.closable
        while self.closable < closable:
            self._close(self.closable)
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
        before = self.stands(*cell)
        self.readings.setdefault(cell, []).append(event)
        if self._published(step) and before != self.stands(*cell):
            self.corrections[cell] = self.corrections.get(cell, 0) + 1
            revision = 2 + self.corrections[cell]
            self.rows.append(self._row(cell, revision=revision, gap_age=0, final=True))

    def close_idle(self) -> None:
        assert self.newest_ms is not None
        assert self.closable is not None
        last = math.floor(self.newest_ms / self.rules.step_ms)
        for step in range(self.closable, last + 1):
            if not self._published(step):
                self._provisional(step, by_clock=True)
        self.published_through = max(last, self.published_through or last)

    def stands(self, group: int, sensor: int, step: int) -> tuple[float, int, int] | None:
        """(value, milliseconds into the step, quality) of what stands for a cell."""
        readings = self.readings.get((group, sensor, step))
        if not readings:
            return None
        latest = max(event.time_ms for event in readings)
        stamp = latest - step * self.rules.step_ms
        if self.rules.bucket == "mean":
            mean = float(np.float32(sum(event.value for event in readings) / len(readings)))
            return mean, stamp, max(event.quality for event in readings)
        last = [event for event in readings if event.time_ms == latest][-1]
        return float(np.float32(last.value)), stamp, last.quality

    def held(self, group: int, sensor: int, step: int) -> float | None:
        """The value that stands for a cell."""
        stands = self.stands(group, sensor, step)
        return None if stands is None else stands[0]

    def lowest_offset(self) -> int | None:
        """Of all offsets that feed a step inside the window or an open one."""
        assert self.closable is not None
        offsets = [o for step, each in self.feeds.items() if step >= self.closable - self.rules.window for o in each]
        return min(offsets, default=None)

    def _published(self, step: int) -> bool:
        assert self.closable is not None
        return step < self.closable or (self.published_through is not None and step <= self.published_through)

    def _close(self, step: int) -> None:
        if self.published_through is None or step > self.published_through:
            self._provisional(step)
        else:
            self._settled(step)
        if self.rules.revise_after:
            self._final(step)

    def _alive(self, step: int) -> list[int]:
        steps = range(step - self.rules.window + 1, step + 1)
        return sorted({group for group, _, each in self.readings if each in steps})

    def _age(self, group: int, sensor: int, step: int, most: int) -> int:
        return next((age for age in range(most) if self.held(group, sensor, step - age) is not None), most)

    def _settled(self, step: int) -> None:
        """What the clock published without a last word, and no right context will change."""
        before = self.rows
        self.rows = []
        self._provisional(step)
        settled = [replace(row, revision=1) for row in self.rows if row.final and not row.observed]
        self.rows = before + settled

    def _provisional(self, step: int, *, by_clock: bool = False) -> None:
        rules = self.rules
        for group in self._alive(step):
            for sensor in range(self.sensors):
                age = self._age(group, sensor, step, rules.window)
                hole = 0 < age <= rules.max_gap
                final = age == 0 or (not by_clock and (not hole or rules.revise_after == 0))
                window = self._window(group, step) if hole else None
                self.rows.append(self._row((group, sensor, step), revision=0, gap_age=age, final=final, window=window))

    def _final(self, newest: int) -> None:
        rules = self.rules
        step = newest - rules.revise_after
        for group in self._alive(newest):
            for sensor in range(self.sensors):
                age = self._age(group, sensor, step, rules.window - rules.revise_after)
                if 0 < age <= rules.max_gap:
                    window = self._window(group, newest)
                    cell = (group, sensor, step)
                    self.rows.append(
                        self._row(cell, revision=1, gap_age=age, final=True, lag=rules.revise_after, window=window)
                    )

    def _row(self, cell: tuple[int, int, int], *, revision: int, gap_age: int, final: bool, **more: Any) -> Row:
        group, sensor, step = cell
        stands = self.stands(*cell)
        value, stamp, mark = stands if stands is not None else (None, 0, 2 if cell in self.dropouts else 0)
        return Row(
            0, step * self.rules.step_ms, group, sensor, revision, stands is not None, value, gap_age, final,
            stamp=stamp, mark=mark, **more,
        )  # fmt: skip

    def _window(self, group: int, newest: int) -> tuple[bytes, bytes]:
        held = [
            [self.held(group, sensor, step) for step in range(newest - self.rules.window + 1, newest + 1)]
            for sensor in range(self.sensors)
        ]
        values = np.array([[0 if value is None else value for value in row] for row in held], np.float32)
        return values.tobytes(), np.array([[value is not None for value in row] for row in held]).tobytes()
