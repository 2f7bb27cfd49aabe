"""How far back the rows of a step depend on the topic: the one definition behind rebuilds, warm-ups and sizing."""

from __future__ import annotations

from glaim_stream.core.catalogue import Catalogue

HORIZON = 96  # steps; older errors of an expert have no effect at all, not even on the last bit (blend.recent)
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
