"""Windows for which the network is not called, because it rests for all of their holes. Arithmetic only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.worth import Worth, judged
from glaim_stream.imputers.protocol import Imputed
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.probes import Probes

Bools = NDArray[np.bool_]


def windows_to_call(closed: Closed | None, probes: Probes | None, worth: Worth, step_ms: int) -> Bools:
    """Which windows the network is called for, bool [windows of holes, then of probes].

    A window is saved where the network is known to rest for each of its cells. It is called for every probe of a judged
    step.

    Args:
        closed: rows, some of which are holes.
        probes: known values that are hidden.
        worth: knows which sensors rest.
        step_ms: of the model.
    """
    called = []
    if closed is not None:
        holes, step = closed.hole_steps(step_ms)
        of_holes = np.zeros(len(closed.window_values), np.bool_)
        of_holes[closed.window[holes][~worth.rests(step, closed.sensor[holes].astype(np.int64))]] = True
        called.append(of_holes)
    if probes is not None:
        of_probes = np.zeros(len(probes), np.bool_)
        of_probes[probes.window[judged(probes.step) | ~worth.rests(probes.step, probes.sensor)]] = True
        called.append(of_probes)
    return np.concatenate(called)


def with_form(form: Imputed, by_model: Imputed | None, called: Bools) -> Imputed:
    """The network's answer for the windows that it was called for, and the closed form's for the others."""
    values, method, version = form.values.copy(), form.method.copy(), np.array(form.version, object)
    if by_model is not None:
        values[called], method[called], version[called] = by_model.values, by_model.method, by_model.version
    return Imputed(values, method, version.tolist())
