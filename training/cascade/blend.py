"""The blend of three answers to a window: the closed form, the network over it, and the network without it.

Without the closed form the network corrects its own prior, as a share of its training windows lacks the form. Where
levels drift that answer holds when the closed form does not. One set of convex weights, chosen on validation windows,
serves all patterns and rates of a data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glaim_stream.imputers.gaussian.simplex import convex_weights
from training.data.outages import Bools
from training.data.series import Floats
from training.data.windows import Batch
from training.evaluate import model_fill
from training.network.model import GLAIM

ANSWERS = ("form", "network", "without_form")


@dataclass(frozen=True)
class Blend:
    """Weights of the answers; not negative, with the sum 1."""

    weights: dict[str, float]

    def answers(self, network: GLAIM, values: Floats, observed: Bools) -> dict[str, Floats]:
        """Return each answer to filled windows, and the blend; [B, C, T] each."""
        found = answers(network, values, observed)
        mixed = sum((np.float32(self.weights[name]) * found[name] for name in ANSWERS), np.zeros_like(values))
        return {"blend": np.where(observed, values, mixed), **found}

    def __str__(self) -> str:
        return ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights.items())


def answers(network: GLAIM, values: Floats, observed: Bools) -> dict[str, Floats]:
    """Return the answers to windows that the closed form has filled, [B, C, T] each."""
    fill = model_fill(network)
    bare = np.where(observed, values, np.float32(np.nan))
    return {"form": values, "network": fill(values, observed), "without_form": fill(bare, observed)}


def fit_blend(network: GLAIM, validation: Sequence[Batch]) -> Blend:
    """Choose the weights; every window counts alike, as its errors are divided by their mean over the answers."""
    errors = []
    for batch in validation:
        found = answers(network, batch.values, batch.observed)
        for row in range(len(batch.values)):
            hidden = batch.hidden[row]
            if hidden.any():
                each = np.stack([(found[name][row] - batch.truth[row])[hidden] for name in ANSWERS], axis=1)
                each = each.astype(np.float64)
                errors.append(each / np.sqrt(np.square(each).sum() + 1e-12))
    weights = convex_weights(np.concatenate(errors)) if errors else np.array([0.0, 1.0, 0.0])
    return Blend(dict(zip(ANSWERS, map(float, weights), strict=True)))
