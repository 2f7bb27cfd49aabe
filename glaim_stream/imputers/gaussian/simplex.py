"""Least squares with weights that are not negative and have the sum 1."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def convex_weights(errors: Doubles) -> Doubles:
    """Return the weights [k] for which the weighted sum of the errors [m, k] has the least square.

    All subsets of columns are tried, of which there are few: exact, and without a step size.
    """
    gram = errors.T @ errors
    columns = len(gram)
    gram = gram + np.eye(columns) * (1e-9 * np.trace(gram) / columns + 1e-300)  # equal columns share their weight
    best, least = np.zeros(columns), np.inf
    for size in range(1, columns + 1):
        for subset in combinations(range(columns), size):
            part = gram[np.ix_(subset, subset)]
            raw = np.linalg.solve(part, np.ones(size))
            weights = raw / raw.sum()
            value = float(weights @ part @ weights)
            if (weights >= 0).all() and value < least:
                best, least = np.zeros(columns), value
                best[list(subset)] = weights
    return best
