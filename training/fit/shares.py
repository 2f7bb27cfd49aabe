"""The kept share of the network's correction, chosen on validation windows once the training has ended.

One loss covers all sensors and gaps, so a network that gains much on a noisy sensor may cost a little on those that the
closed form fills well, and one that learned silent sensors may cost a little in lone cells. For each sensor and class
of reach the share in [0, 1] has the least squared error of form + share * correction. The errors of each window are
divided by their root mean square, so that one with large errors counts no more than the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glaim_stream.form import convex_weights
from training.data import WindowBatch
from training.network import Cascade, reach_classes

_LEAST_CELLS = 200  # fewest cells with a share of their own


def choose_shares(network: Cascade, validation: Sequence[WindowBatch]) -> Tensor:
    """Return the shares [C, 4] by sensor and class of reach.

    A class of fewer than 200 hidden cells has the share of all cells of its sensor, and a sensor of fewer the share 1.

    Args:
        network: Network in evaluation mode; its own shares are ignored and become 1.
        validation: Windows with hidden cells.
    """
    network.share.fill_(1.0)
    errors, places = [np.zeros((0, 2))], [np.zeros((2, 0), np.int64)]
    for batch in validation:
        values, observed = torch.from_numpy(batch.values), torch.from_numpy(batch.observed)
        with torch.no_grad():
            form, whole = network.form(values, observed), network(values, observed)
        classes = reach_classes(observed, network.reaches)
        away = np.stack([form.numpy() - batch.truth, whole.numpy() - batch.truth], axis=-1).astype(np.float64)
        for found, of_cells, hidden in zip(away, classes.numpy(), batch.hidden, strict=True):
            if hidden.any():
                errors.append(found[hidden] / np.sqrt(np.square(found[hidden]).mean() + 1e-12))
                places.append(np.stack([np.nonzero(hidden)[0], of_cells[hidden]]))
    every, (sensor, reach) = np.concatenate(errors), np.concatenate(places, axis=1)
    shares = torch.ones_like(network.share)
    for row in range(len(shares)):
        shares[row] = _share(every[sensor == row], 1.0)
        for column in range(shares.size(1)):
            shares[row, column] = _share(every[(sensor == row) & (reach == column)], float(shares[row, column]))
    return shares


def _share(errors: NDArray[np.float64], otherwise: float) -> float:
    """Return the share that fits the errors [m, 2] of form and network best, or `otherwise` for too few of them."""
    return float(convex_weights(errors)[1]) if len(errors) >= _LEAST_CELLS else otherwise
