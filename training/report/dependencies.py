"""The learned dependencies of the sensors: the first StaGlo layer's matrices, averaged to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from training.network.model import GLAIM, StaGlo

STRONGEST = 8


@torch.inference_mode()
def dependencies(model: GLAIM, sensors: Sequence[str]) -> dict[str, Any] | None:
    """Return the mean over the D features of G [D, C, C] of the first layer; None for a model without StaGlo.

    Row i holds the weights with which sensor i mixes in the sensors j; rows sum to 1. `alpha` is the share of the
    mixture in each feature, the rest being the sensor itself (U = (1 - alpha) Z + alpha G Z); its mean, minimum and
    maximum over the features are given. The mean is not weighted by alpha.
    """
    staglo = model.layers[0].staglo
    if not isinstance(staglo, StaGlo):
        return None
    matrix = staglo.dependencies(model.tokens).mean(dim=0).double().numpy()  # (C, C)
    alpha = torch.sigmoid(staglo.alpha_logit).double()
    pairs = [(float(matrix[i, j]), i, j) for i in range(len(sensors)) for j in range(len(sensors)) if i != j]
    strongest = sorted(pairs, reverse=True)[:STRONGEST]
    return {
        "matrix": matrix.tolist(),
        "uniform": 1 / len(sensors),
        "features": int(alpha.numel()),
        "alpha": {"mean": float(alpha.mean()), "smallest": float(alpha.min()), "largest": float(alpha.max())},
        "strongest": [{"to": sensors[i], "from": sensors[j], "weight": weight} for weight, i, j in strongest],
    }
