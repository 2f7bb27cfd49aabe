"""How far a cell is from the nearest observed one of its sensor, in four classes."""

import torch
from torch import Tensor

REACHES = (1, 3, 8)  # steps: upper bounds of all classes but the last


def reach_classes(observed: Tensor, reaches: list[int]) -> Tensor:
    """Return the class of each cell, int64 [B, C, T]; 0 where observed.

    Args:
        observed: bool [B, C, T].
        reaches: `REACHES`, which TorchScript does not find by its name.
    """
    steps = observed.size(2)
    at = torch.arange(steps, device=observed.device)
    before = torch.where(observed, at, -steps).cummax(dim=2)[0]
    after = torch.where(observed, at, 2 * steps).flip([2]).cummin(dim=2)[0].flip([2])
    reach = torch.minimum(at - before, after - at)
    found = torch.zeros_like(reach)
    for bound in reaches:
        found = found + torch.gt(reach, bound).to(found.dtype)
    return found
