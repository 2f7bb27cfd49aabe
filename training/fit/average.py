"""The moving average of a network's weights, which is validated and exported."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Average:
    """Exponential moving average of a model's weights, corrected for its start; with a decay of 0 a plain copy."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model: nn.Module, iteration: int) -> None:
        """Include the new weights; at the start the average follows fast."""
        decay = min(self.decay, (1 + iteration) / (10 + iteration)) if self.decay else 0.0
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1.0 - decay)
