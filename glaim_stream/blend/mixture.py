"""The convex combination of several experts' values. Arithmetic only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


def blend(values: Floats, weights: Floats) -> Doubles:
    """Compute the mean of the experts' values by their weights; it never lies outside the values.

    Args:
        values: [..., experts] in any unit; NaN or infinite where an expert has none.
        weights: likewise, not negative.

    Returns:
        float64 [...]. Experts without a value do not count; the others count equally where all their weights are 0. NaN
        where no expert has a value.
    """
    values = np.asarray(values, np.float64)
    awake = np.isfinite(values)
    weights = np.where(awake, weights, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.where(total > 0, weights, awake)
    total = np.where(total > 0, total, awake.sum(axis=-1, keepdims=True))
    known = np.where(awake, values, 0.0)
    least, most = np.where(awake, values, np.inf).min(axis=-1), np.where(awake, values, -np.inf).max(axis=-1)
    share = weights / np.where(total > 0, total, 1.0)
    mixed = known[..., 0] * share[..., 0]
    for expert in range(1, values.shape[-1]):  # in the order of the experts, whatever the shape
        mixed = mixed + known[..., expert] * share[..., expert]
    mixed = np.clip(mixed, least, np.maximum(most, least))  # rounding can exceed a bound by one ulp
    return np.where(awake.any(axis=-1), mixed, np.nan)
