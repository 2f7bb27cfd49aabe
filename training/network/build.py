"""From sizes to a network: the one place where blocks get their sizes and variants are chosen.

The order in which blocks are made fixes the random numbers of their first weights, so it must not change.
"""

from __future__ import annotations

import torch
from torch import nn

from training.network.ablations import NoGate, NoPrior, NoSaCoRef, NoStaGlo
from training.network.cascade import Arrived, Cascade, FormEmb, FormRecon
from training.network.model import GLAIM, GateRecon, GloLoc, InstanceNorm, PriEmb, SaCoRef, StaGlo
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
