"""Judges the readings of successive closing steps, with the windows of several steps in one call.

A reading is judged by its window alone, so any time before the rows are handed over will do. A step of ten groups has
some four windows to judge, and a call of numpy takes longer than its work on these.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.health import Plausibility
from glaim_stream.windows.closed import NO_WINDOW, Closed
from glaim_stream.windows.holes import ROWS_AT_A_TIME, LookBack, in_parts, values_of
from glaim_stream.windows.rings import Rings
from glaim_stream.windows.room import Room
from glaim_stream.windows.screen import Screen

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Suspects:
    """Windows of one step that may hold a doubtful reading.

    closed: the rows of the step.
    first: place in the room of the first window of these rows.
    group: int32 [k], code of each window's group.
    values, observed: [k, C, T], the windows.
    """

    closed: Closed
    first: int
    group: NDArray[np.int32]
    values: NDArray[np.float64]
    observed: Bools

    def places(self, windows: Ints) -> tuple[Ints, Ints]:
        """Select the imputed ones of some windows [m]; return them and their places in the room."""
        holes = np.flatnonzero(self.closed.window != NO_WINDOW)
        window, hole = np.nonzero(self.group[windows][:, None] == self.closed.group[holes])
        imputed, first = np.unique(window, return_index=True)  # the holes of a group have one window
        return windows[imputed], self.first + self.closed.window[holes[hole[first]]].astype(np.int64)


class Judge:
    """Judges the readings of one model's groups in one partition."""

    def __init__(self, rings: Rings, rule: Plausibility, room: Room) -> None:
        """Start without a window.

        Args:
            rings: state of the model's groups.
            rule: decides which readings are doubted.
            room: holds the windows that are imputed.
        """
        self._rings, self._rule, self._room = rings, rule, room
        self.screen = Screen(rings, rule)
        self._suspects: list[_Suspects] = []
        self._doubted: defaultdict[Closed, list[Ints]] = defaultdict(list)  # codes of a step's doubted cells

    def forget(self, rows: Ints) -> None:
        """Note that a reading has changed a closed step of these rows of the rings."""
        self.screen.forget(rows)

    def add(self, lookback: LookBack, closed: Closed, *, by_clock: bool) -> None:
        """Add a step whose windows were the last ones added to the room.

        Args:
            lookback: observations up to the step that closes.
            closed: rows of the step, none of them doubted yet.
            by_clock: the wall clock closes the step. All its windows are then judged, because the screen follows only
                the steps that event time closes.
        """
        suspects = np.ones(len(lookback.observed), np.bool_) if by_clock else self.screen.suspects(lookback)
        if not suspects.any():
            return
        first = self._room.used - len(closed.window_values)
        for _, rows in in_parts(np.flatnonzero(suspects)):
            windows = values_of(self._rings, lookback, rows), lookback.observed[rows]
            if not by_clock:
                self.screen.begin(rows, *windows)
            self._suspects.append(_Suspects(closed, first, self._rings.codes[rows], *windows))
            if sum(len(each.group) for each in self._suspects) >= ROWS_AT_A_TIME:
                self._judge()

    def finish(self) -> None:
        """Mark the rows whose readings are doubted among the steps since the last call.

        Their windows, and those of other steps, no longer hold doubted readings.
        """
        self._judge()
        for closed, codes in self._doubted.items():
            cells = self._codes(closed.group, closed.sensor)
            closed.doubted[:] = closed.observed & np.isin(cells, np.concatenate(codes))
        self._doubted.clear()

    def _judge(self) -> None:
        """Judge the windows that wait."""
        if not self._suspects:
            return
        suspects, self._suspects = self._suspects, []
        apart = self._rule.doubtful(
            np.concatenate([each.values for each in suspects]), np.concatenate([each.observed for each in suspects])
        )
        start = 0
        for each in suspects:
            of_step, start = apart[start : start + len(each.group)], start + len(each.group)
            windows = np.flatnonzero(of_step.any(axis=(1, 2)))
            if not len(windows):
                continue
            imputed, places = each.places(windows)
            self._room.hide(places, of_step[imputed])
            window, sensor = np.nonzero(of_step[:, :, -1])
            if len(window):
                self._doubted[each.closed].append(self._codes(each.group[window], sensor))

    def _codes(self, group: NDArray[np.int32], sensor: NDArray[np.int32] | Ints) -> Ints:
        """A number for each cell of a step."""
        codes: Ints = group.astype(np.int64) * self._rings.sensors + sensor
        return codes
