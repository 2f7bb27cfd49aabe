"""How far back the rows of a step depend on the topic: the one definition behind rebuilds, warm-ups and sizing."""

from __future__ import annotations

from glaim_stream.catalogue import Catalogue

HORIZON = 96  # steps; no error of an expert older than this counts, to the bit (glaim_stream.blend.recent)


def history_steps(window: int, *, scored: bool) -> int:
    """Steps that the rows of a closing step depend on, itself included.

    Its window, and before it, where experts are scored, the HORIZON steps whose errors decide the weights: the first of
    these probes looks back over a window of its own.

    Args:
        window: steps of the model's window.
        scored: whether probes are asked and the experts' errors remembered.
    """
    return window + (HORIZON if scored else 0)


def history_ms(catalogue: Catalogue, *, scored: bool) -> int:
    """Record time of the input that the windows of every model depend on, milliseconds.

    The watermark lies `lateness_ms` behind the newest event time and anywhere inside its step, hence one step more. A
    reading may be stamped ahead of its record by what the catalogue allows, so records that much older count too.
    """
    return max(
        (history_steps(model.window, scored=scored) + 1) * model.step_ms
        + model.lateness_ms
        + catalogue.max_ahead_ms(model)
        for model in catalogue.models
    )
