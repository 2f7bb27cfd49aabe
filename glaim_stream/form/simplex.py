"""Least squares with weights that are not negative and have the sum 1."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def convex_weights(errors: Doubles, penalty: float = 0.0) -> Doubles:
    """Return the weights [k] for which the weighted sum of the errors [m, k] has the least square.

    All subsets of columns are tried, as there are few: exact, and without a step size.

    Args:
        errors: float64 [m, k].
        penalty: penalty on the weights' squares, in the square of the best column. It draws the weights together, as
            few independent errors cannot tell them apart.
    """
    gram = with_penalty(errors.T @ errors, penalty)
    columns = len(gram)
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


def with_penalty(gram: Doubles, penalty: float) -> Doubles:
    """Return the matrix [k, k] of the columns' products with the penalty, large enough for equal columns to share.

    The penalty is in units of the best column: in units of a column that fails, it would make all weights equal.
    """
    own = np.diagonal(gram)
    added: Doubles = np.diag(penalty * own.min() + 1e-9 * own + 1e-300)
    return gram + added
