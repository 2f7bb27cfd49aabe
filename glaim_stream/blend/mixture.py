"""The convex combination of several experts' values. Arithmetic only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import TURN, are_signed, around, on_circle, start_of

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


def blend(values: Floats, weights: Floats, direction: Bools | None = None) -> Doubles:
    """Compute the mean of the experts' values by their weights; it never lies outside the values.

    Args:
        values: [..., experts] in any unit; NaN or infinite where an expert has none.
        weights: [..., experts], not negative.
        direction: [...], True where the values are directions in degrees: the others are turned to the first one by
            the shorter way, so the mean of 350 and 10 is 0. None: there are none.

    Returns:
        float64 [...]. Experts without a value do not count; the others count equally if all their weights are 0. NaN
        if no expert has a value.
    """
    given, shares = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if direction is None or not direction.any():
        return _mean(given, shares)
    awake = np.isfinite(given)
    first = np.take_along_axis(given, awake.argmax(axis=-1)[..., None], axis=-1)
    with np.errstate(invalid="ignore"):
        mixed = _mean(np.where(direction[..., None], first + around(given - first), given), shares)
        # A network may answer a little below 0 for directions from 0 to 360.
        known = np.where(awake, given, 0.0)
        signed = are_signed(known.min(axis=-1), known.max(axis=-1))
        start = start_of(signed)
        outside = (mixed < start) | (mixed > start + TURN)
        return np.where(direction & outside, on_circle(mixed, signed), mixed)


def _mean(values: Doubles, weights: Doubles) -> Doubles:
    """The mean of numbers; see `blend`."""
    awake = np.isfinite(values)
    weights = np.where(awake, weights, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.where(total > 0, weights, awake)
    total = np.where(total > 0, total, awake.sum(axis=-1, keepdims=True))
    known = np.where(awake, values, 0.0)
    least, most = np.where(awake, values, np.inf).min(axis=-1), np.where(awake, values, -np.inf).max(axis=-1)
    share = weights / np.where(total > 0, total, 1.0)
    mixed = known[..., 0] * share[..., 0]
    for expert in range(1, values.shape[-1]):  # in the order of the experts, for any shape
        mixed = mixed + known[..., expert] * share[..., expert]
    mixed = np.clip(mixed, least, np.maximum(most, least))  # rounding can exceed a bound by one ulp
    return np.where(awake.any(axis=-1), mixed, np.nan)
