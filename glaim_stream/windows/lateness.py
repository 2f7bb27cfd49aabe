"""Finds the readings of a partition that are too late for their window, for tools that have no windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.windows.clock import EventClock, limit_skew


class Lateness:
    """The clock of one partition, which decides which readings are too late, as the worker's windows do."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Start before the first record."""
        models = catalogue.models
        self._clock = EventClock()
        self._max_ahead_ms = np.array([catalogue.max_ahead_ms(model) for model in models], np.int64)
        self._lateness_ms = np.array([model.lateness_ms for model in models], np.int64)
        self._step_ms = np.array([model.step_ms for model in models], np.int64)
        self._window = np.array([model.window for model in models], np.int64)

    def too_late(self, readings: Readings) -> NDArray[np.bool_]:
        """Take the next readings, of all models and in order of offset; return which are too late, bool [n]."""
        event_time_ms, _ = limit_skew(readings.event_time_ms, readings.produced_ms, self._max_ahead_ms[readings.model])
        newest_ms = self._clock.observe(event_time_ms, 0)
        step_ms = self._step_ms[readings.model]
        oldest_step = (newest_ms - self._lateness_ms[readings.model]) // step_ms - self._window[readings.model]
        return readings.event_time_ms // step_ms < oldest_step
