"""How far back the rows of a step depend on the topic: the one definition behind rebuilds, warm-ups and sizing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.readings import Readings
from glaim_stream.windows.clock import EventClock, limit_skew

HORIZON = 96  # steps; older errors of an expert have no effect at all, not even on the last bit (blend.leader)
# Live accuracy is summed over stretches of this many steps (output.quality). A worker that rebuilds within one
# scores its probes from its first step on again, each with the errors that decided its value.
STRETCH = 48


def error_steps(*, scored: bool, quality: bool = False) -> int:
    """Number of steps whose errors the rows of a step, and the live accuracy of its stretch, depend on.

    Events of sensor health depend on 48 steps before the window (windows.sensor_health), on 80 with the shortest
    window in which they are found, and on 88 for drift. Errors depend on more steps, so a pipeline that finds such
    events counts as scored.

    Args:
        scored: whether probes are made and the experts weighted by their errors, or sensor health is judged.
        quality: whether live accuracy is published.
    """
    return 0 if not scored else HORIZON + (STRETCH if quality else 0)


def history_steps(window: int, *, scored: bool, quality: bool = False) -> int:
    """Number of steps that the rows of a closing step depend on, itself included.

    These are the steps of its window and, where experts are scored, the `error_steps` before that: the oldest of those
    probes depends on a window of its own.

    Args:
        window: steps of the model's window.
        scored: whether probes are made and the experts weighted by their errors.
        quality: whether live accuracy is published.
    """
    return window + error_steps(scored=scored, quality=quality)


def history_ms(catalogue: Catalogue, *, scored: bool, quality: bool = False) -> int:
    """Milliseconds before the newest event time that the rows of any model depend on, by the records' own time.

    The watermark lies `lateness_ms` behind the newest event time and anywhere inside its step, hence one more step. A
    reading may be stamped ahead of its record by what the catalogue allows, so records that much older count too.
    """
    return max(
        (history_steps(model.window, scored=scored, quality=quality) + 1) * model.step_ms
        + model.lateness_ms
        + catalogue.max_ahead_ms(model)
        for model in catalogue.models
    )


class Lateness:
    """The clock of one partition, which finds the readings that are too late, for tools that have no windows."""

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
