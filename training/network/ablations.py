"""Replacements for the blocks that the paper's ablations leave out; `build.py` chooses them."""

from torch import Tensor, nn

from training.network.kernels import CellLinear
from training.network.model import with_mask


class NoPrior(nn.Module):
    """PriEmb without a prior: missing cells are 0, the mean of their row."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.embedding = CellLinear(2, d, bias=False)

    def forward(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised values and mask, each [B, C, T] -> H^(0) [B, T, C, D] and the values."""
        return self.embedding(with_mask(values, observed)).contiguous(), values


class NoStaGlo(nn.Module):
    """No stable dependencies: the hidden state passes through."""

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """H^(l-1) [B, T, C, D], unused tokens -> H^(l-1)."""
        return hidden


class NoSaCoRef(nn.Module):
    """No refinement: the last `emitted` steps pass through."""

    def forward(self, u: Tensor, observed: Tensor, emitted: int) -> Tensor:
        """U^(l) [B, T, C, D], unused mask -> [B, emitted, C, D]."""
        return u[:, u.size(1) - emitted :]


class NoGate(nn.Module):
    """GateRecon without its gate: a plain projection."""

    def __init__(self, d: int, d_recon: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.features = CellLinear(d, d_recon)
        self.out = nn.Linear(d_recon, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """H^(L) [B, S, C, D] -> normalised reconstruction [B, C, S]."""
        normalised: Tensor = self.out(self.features(self.norm(hidden))).squeeze(-1).transpose(1, 2)
        return normalised
