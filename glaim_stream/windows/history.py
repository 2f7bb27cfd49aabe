"""How far back the rows of a step depend on the topic: the one definition behind rebuilds, warm-ups and sizing."""

from __future__ import annotations

from glaim_stream.catalogue import Catalogue

HORIZON = 96  # steps; older errors of an expert have no effect at all, not even on the last bit (blend.recent)


def history_steps(window: int, *, scored: bool) -> int:
    """Number of steps that the rows of a closing step depend on, itself included.

    These are the steps of its window and, where experts are scored, the HORIZON steps before that: the weights depend
    on the errors of HORIZON steps, and the oldest of those probes depends on a window of its own.

    Args:
        window: steps of the model's window.
        scored: whether probes are made and the experts weighted by their errors.
    """
    return window + (HORIZON if scored else 0)


def history_ms(catalogue: Catalogue, *, scored: bool) -> int:
    """Milliseconds before the newest event time that the rows of any model depend on, by the records' own time.

    The watermark lies `lateness_ms` behind the newest event time and anywhere inside its step, hence one more step. A
    reading may be stamped ahead of its record by what the catalogue allows, so records that much older count too.
    """
    return max(
        (history_steps(model.window, scored=scored) + 1) * model.step_ms
        + model.lateness_ms
        + catalogue.max_ahead_ms(model)
        for model in catalogue.models
    )
