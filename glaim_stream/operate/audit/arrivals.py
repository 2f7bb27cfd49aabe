"""The readings that a worker takes into its windows, with the steps that were closed when each of them came.

The worker walks through time with ring buffers. Here the clock is a running maximum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glaim_stream.core.readings import Readings
from glaim_stream.operate.audit.keys import Bools, Ints
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.windows import NEVER_MS


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Readings in order of arrival; columns of length n beside them."""

    readings: Readings  # readings without those that became dead letters
    step: Ints
    open_from: Ints  # steps below it were closed when the reading came
    too_late: Bools  # older than the window
    committed: Bools  # below the commit
    closed_at_commit: Ints  # [models] steps below it are closed by the readings below the commit

    def where(self, keep: Bools) -> Arrivals:
        """The readings at `keep`, bool [n]."""
        return Arrivals(
            self.readings.where(keep),
            self.step[keep],
            self.open_from[keep],
            self.too_late[keep],
            self.committed[keep],
            self.closed_at_commit,
        )

    @property
    def on_time(self) -> Bools:
        """True for readings that came before their step closed; bool [n]."""
        return self.step >= self.open_from

    @property
    def usable(self) -> Bools:
        """True for readings with a value that a window takes; bool [n]."""
        return ~self.too_late & ~np.isnan(self.readings.value)


class ArrivalClock:
    """The clock of a partition, which every reading in order of arrival moves on."""

    def __init__(self, columns: ModelColumns, committed: int) -> None:
        self._columns, self._committed = columns, committed
        self._newest_ms = self._newest_at_commit_ms = NEVER_MS

    def open_from(self, readings: Readings) -> Ints:
        """The next readings in order of arrival: for each, the first step that was open when it came."""
        if not len(readings):
            return np.empty(0, np.int64)
        # A reading stamped ahead of its record moves the clock no further than the record's own time.
        newest_ms = np.maximum.accumulate(np.minimum(readings.event_time_ms, readings.produced_ms))
        newest_ms = np.maximum(newest_ms, self._newest_ms)
        self._newest_ms = int(newest_ms[-1])
        below = readings.offset < self._committed
        if below.any():
            self._newest_at_commit_ms = int(newest_ms[below][-1])
        columns, model = self._columns, readings.model
        return (newest_ms - columns.lateness_ms[model]) // columns.step_ms[model]

    @property
    def closed_at_commit(self) -> Ints:
        """Steps below it are closed by the readings below the commit that have been given; int64 [models]."""
        return (self._newest_at_commit_ms - self._columns.lateness_ms) // self._columns.step_ms


def arrivals_of(
    readings: Readings, open_from: Ints, closed_at_commit: Ints, committed: int, columns: ModelColumns
) -> Arrivals:
    """Place readings in time.

    Args:
        readings: readings of one partition, without those that became dead letters.
        open_from: first open step when each of them came, int64 [n].
        closed_at_commit: steps below it are closed at the commit, int64 [models].
        committed: offset of the commit.
        columns: the catalogue.
    """
    step = readings.event_time_ms // columns.step_ms[readings.model]
    too_late = step < open_from - columns.window[readings.model]
    return Arrivals(readings, step, open_from, too_late, readings.offset < committed, closed_at_commit)
