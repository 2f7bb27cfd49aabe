"""Clusters of correlated sensors. A form for hundreds of sensors at once would take minutes and gigabytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

MOST_TOGETHER = 40  # sensors that share a form
_CLUSTER = 40  # most sensors of a cluster; a fit takes about as long for 16 as for 40
_MOST_STEPS = 20_000  # newest steps of a group that correlations are computed from


def clusters_of(series: Sequence[Doubles]) -> list[list[int]]:
    """Divide sensors into clusters of about equal size, each around the sensor most correlated with the rest.

    Args:
        series: readings of each group, float64 [C, N]; NaN where missing.
    """
    count = len(series[0])
    if count <= MOST_TOGETHER:
        return [list(range(count))]
    strength = _correlations(series)
    most = -(-count // -(-count // _CLUSTER))
    free, found = list(range(count)), []
    while free:
        rest = np.array(free)
        first = rest[strength[np.ix_(rest, rest)].sum(axis=1).argmax()]
        nearest = rest[np.argsort(-strength[first, rest], kind="stable")][:most]
        found.append(sorted(nearest.tolist()))
        free = [place for place in free if place not in found[-1]]
    return found


def _correlations(series: Sequence[Doubles]) -> Doubles:
    """Absolute correlations [C, C] of standardised readings, over steps with readings of both sensors."""
    count = len(series[0])
    products, pairs = np.zeros((count, count)), np.zeros((count, count))
    for values in series:
        recent = values[:, -_MOST_STEPS:]
        seen = ~np.isnan(recent)
        number = np.maximum(seen.sum(axis=1, keepdims=True), 1)
        centred = np.where(seen, recent, 0.0)
        centred = np.where(seen, centred - centred.sum(axis=1, keepdims=True) / number, 0.0)
        scale = np.sqrt(np.square(centred).sum(axis=1, keepdims=True) / number)
        standard = np.where(scale > 0, centred / np.where(scale > 0, scale, 1.0), 0.0)
        products += standard @ standard.T
        pairs += seen.astype(np.float64) @ seen.T.astype(np.float64)
    strength: Doubles = np.abs(products) / np.maximum(pairs, 1.0) + 2.0 * np.eye(count)  # each is its own nearest
    return strength
