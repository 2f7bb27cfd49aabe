"""The optimum of DLinear on hidden cells, in closed form: no training, no noise of an optimiser.

DLinear as the field's imputation framework runs it sees the masked window, zeros where a cell is missing, splits it
into a moving average and the rest, and sends each through one linear map over time, shared by all sensors; the sum is
the whole window again. Both parts are linear in the window. So whatever the two maps are, their sum is one affine map
of the window, T -> T; and every affine map is within reach, by giving both parts the same map. Minimising the squared
error over the hidden cells is therefore one least-squares problem an output step: over the windows and sensors in
which that step is hidden, with the masked window and a constant as regressors.

Gaps are drawn without looking at the data, anew in every epoch. In the long run each window x meets each row of gaps,
and the normal equations of output step t factor: with o_i = 1 where step i is observed, and step t hidden,

    sum over windows and gaps of (o_i x_i) (o_j x_j)  =  (sum over gaps of o_i o_j) * (sum over windows of x_i x_j).

So the data enter with one matrix, and the gaps with one for each output step, which all data sets share.

Source: Zeng et al. (2023), "Are Transformers Effective for Time Series Forecasting?", DLinear with shared maps
(`individual = False`), without any normalisation of the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.data.masks import Bools
from training.data.series import Floats

Doubles = NDArray[np.float64]

# Where step t is hidden its own input is 0, so row and column t of its normal equations are 0: singular by
# construction. So small a share of the mean diagonal sets that weight to 0 and leaves the others alone.
RIDGE = 1e-9


@dataclass(frozen=True)
class AffineMap:
    """The same map of a window for every sensor."""

    weights: Doubles  # [T out, T in + 1]; the last column is the constant

    def fill(self, values: Floats, observed: Bools) -> Floats:
        """Estimates of all cells [B, C, T] from values [B, C, T]; what is not in `observed` counts as 0."""
        seen = np.where(observed, values, np.float32(0)).astype(np.float64)
        return (seen @ self.weights[:, :-1].T + self.weights[:, -1]).astype(np.float32)


def data_moments(windows: Floats) -> Doubles:
    """Sums of products of the steps of complete windows [N, T], and of a constant: [T + 1, T + 1]."""
    known = np.concatenate([windows.astype(np.float64), np.ones((len(windows), 1))], axis=1)
    return known.T @ known


def gap_moments(hidden: Bools) -> Floats:
    """How often steps i and j are both observed while step t is hidden, the constant always observed.

    Args:
        hidden: [N, T], a row for each draw of the gaps; at most 2**24 of them, up to which float32 counts exactly.

    Returns:
        Counts [T, T + 1, T + 1], the hidden step first.
    """
    steps = hidden.shape[1]
    observed = np.concatenate([~hidden, np.ones((len(hidden), 1), np.bool_)], axis=1).astype(np.float32)
    counts = np.empty((steps, steps + 1, steps + 1), np.float32)
    for step in range(steps):
        rows = observed[hidden[:, step]]
        counts[step] = rows.T @ rows
    return counts


def optimum(data: Doubles, gaps: Floats, ridge: float = RIDGE) -> AffineMap:
    """The map with the least squared error over the hidden cells of every window under every row of gaps.

    Args:
        data: `data_moments` of the training windows of all sensors.
        gaps: `gap_moments` of the sampler.
        ridge: Added to each diagonal, as a share of its mean. An output step that is never hidden gets the map to 0,
            the training mean.
    """
    size = len(data)
    systems = gaps * data  # (T, T + 1, T + 1), float64
    targets = gaps[:, :, -1] * data[:-1]  # (T, T + 1): products of what is observed with the hidden step's truth
    mean = np.trace(systems, axis1=1, axis2=2) / size
    systems += (ridge * np.where(mean > 0, mean, 1.0))[:, None, None] * np.eye(size)
    return AffineMap(np.linalg.solve(systems, targets[:, :, None])[:, :, 0])
