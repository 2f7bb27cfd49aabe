"""The readings that a worker takes into its windows, and which steps were closed when each of them came.

The worker walks through time with ring buffers. Here everything is known at once, so the clock is a running maximum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glaim_stream.audit.keys import Bools, Ints
from glaim_stream.audit.model_columns import ModelColumns
from glaim_stream.decode.readings import Readings
from glaim_stream.windows.clock import NEVER_MS


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Readings in order of arrival; columns of length n beside them."""

    readings: Readings  # without those that became dead letters
    step: Ints
    open_from: Ints  # steps below it were closed when the reading came
    too_late: Bools  # older than the window
    committed: Bools  # below the commit
    closed_at_commit: Ints  # [models] steps below it are closed by the readings below the commit

    @property
    def on_time(self) -> Bools:
        """Where the reading came before its step closed; bool [n]."""
        return self.step >= self.open_from

    @property
    def usable(self) -> Bools:
        """Where the reading has a value that a window takes; bool [n]."""
        return ~self.too_late & ~np.isnan(self.readings.value)


def arrivals_of(readings: Readings, committed: int, columns: ModelColumns) -> Arrivals:
    """Place readings in time.

    Args:
        readings: of one partition, without those that became dead letters.
        committed: offset of the commit.
        columns: the catalogue.
    """
    step_ms, lateness_ms = columns.step_ms[readings.model], columns.lateness_ms[readings.model]
    step = readings.event_time_ms // step_ms
    # A reading stamped ahead of its record moves the clock no further than the record's own time.
    newest_ms = np.maximum.accumulate(np.minimum(readings.event_time_ms, readings.produced_ms))
    below = readings.offset < committed
    newest_at_commit_ms = int(newest_ms[below][-1]) if below.any() else NEVER_MS
    open_from = (newest_ms - lateness_ms) // step_ms
    return Arrivals(
        readings,
        step,
        open_from,
        step < open_from - columns.window[readings.model],
        below,
        (newest_at_commit_ms - columns.lateness_ms) // columns.step_ms,
    )
