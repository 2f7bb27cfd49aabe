"""From sizes to a network: the one place where blocks get their sizes and variants are chosen.

The order in which blocks are made fixes the random numbers of their first weights, so it must not change.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from training.network.cascade import Arrived, Cascade, FormEmb, FormRecon
from training.network.kernels import CellLinear
from training.network.model import GLAIM, GateRecon, GloLoc, InstanceNorm, PriEmb, SaCoRef, StaGlo, with_mask
from training.network.own_form import OwnForm
from training.network.sizes import GLAIMConfig


def build_network(sizes: GLAIMConfig) -> GLAIM:
    """Make a network with random weights, from torch's global generator."""
    normalise = InstanceNorm(sizes.norm_eps)
    priemb = build_priemb(sizes) if sizes.use_prior else NoPrior(sizes.d_model)
    # Empty tokens keep the ablation scriptable: the layers' forward takes a tensor.
    tokens = torch.randn(sizes.d_model, sizes.d_psi) if sizes.use_staglo else torch.empty(0, sizes.d_psi)
    layers = []
    for _ in range(sizes.layers):
        staglo = build_staglo(sizes) if sizes.use_staglo else NoStaGlo()
        layers.append(GloLoc(staglo, _sacoref(sizes) if sizes.use_sacoref else NoSaCoRef()))
    if sizes.cascade:
        formemb = FormEmb(build_priemb(sizes), sizes.d_model)
        formrecon = FormRecon(*(GateRecon(sizes.d_model, sizes.d_recon) for _ in range(2)))
        form = OwnForm(sizes.num_variables, sizes.window) if sizes.own_form else Arrived()
        return Cascade(
            normalise, formemb, tokens, layers, formrecon, form, num_variables=sizes.num_variables, window=sizes.window
        )
    gaterecon: GateRecon | NoGate = (GateRecon if sizes.use_gate else NoGate)(sizes.d_model, sizes.d_recon)
    if sizes.residual:  # begin as the prior itself
        nn.init.zeros_(gaterecon.out.weight)
        nn.init.zeros_(gaterecon.out.bias)
    return GLAIM(
        normalise, priemb, tokens, layers, gaterecon, num_variables=sizes.num_variables, window=sizes.window,
        residual=sizes.residual,
    )  # fmt: skip


def build_priemb(sizes: GLAIMConfig) -> PriEmb:
    """Make the prior-informed embedding."""
    return PriEmb(
        sizes.window, sizes.d_model, sizes.smoothing_windows, sizes.router_hidden, sizes.router_temperature
    )  # fmt: skip


def build_staglo(sizes: GLAIMConfig) -> StaGlo:
    """Make the stable global dependency constructor of one layer."""
    return StaGlo(
        sizes.num_variables, sizes.d_model, sizes.ffn, sizes.dropout, sizes.d_psi, sizes.d_g, sizes.small_kernel,
        sizes.large_kernel,
    )  # fmt: skip


def _sacoref(sizes: GLAIMConfig) -> SaCoRef:
    return SaCoRef(sizes.num_variables, sizes.window, sizes.d_model, sizes.heads, sizes.ffn, sizes.dropout)


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
