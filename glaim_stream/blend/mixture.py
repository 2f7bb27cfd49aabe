"""The convex combination of a model's and a baseline's values. Arithmetic only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


def blend(model: Floats, baseline: Floats, weight: Floats) -> Doubles:
    """Compute weight * model + (1 - weight) * baseline; the result never lies outside the two.

    Args:
        model: values in any unit; NaN or infinite where there is none.
        baseline: likewise, of a shape that broadcasts with `model`.
        weight: the model's share, in [0, 1].

    Returns:
        float64. Where one value is not finite, the other one; NaN where neither is.
    """
    model, baseline = np.asarray(model, np.float64), np.asarray(baseline, np.float64)
    model = np.where(np.isfinite(model), model, np.nan)
    baseline = np.where(np.isfinite(baseline), baseline, np.nan)
    mixed = weight * model + (1.0 - np.asarray(weight, np.float64)) * baseline
    mixed = np.clip(mixed, np.fmin(model, baseline), np.fmax(model, baseline))  # rounding can exceed a bound by one ulp
    return np.where(np.isnan(mixed), np.where(np.isnan(model), baseline, model), mixed)
