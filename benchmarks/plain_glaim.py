"""A direct implementation of GLAIM from the paper: torch's own modules and the paper's layout, without optimisation.

`benchmarks.training` compares `training.network.model` with it, and a test shows that both give the same values and
gradients. Hidden states are [B, C, D, T], variables first. Sizes that the paper does not specify are those of
`training.network.model`, so that the parameter counts are equal.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the conventional name
from torch import Tensor, nn

from training.network import GLAIM, GLAIMConfig


class PlainPriEmb(nn.Module):
    """Prior-informed embedding (appendix "Prior-Informed Embedding")."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        self.widths = config.smoothing_windows
        self.temperature = config.router_temperature
        scales, hidden = len(self.widths), config.router_hidden
        self.router = nn.Sequential(
            nn.Conv2d(scales + 4, hidden, (1, 3), padding=(0, 1)), nn.GELU(), nn.Conv2d(hidden, scales + 1, 1)
        )
        self.projection = nn.Conv1d(2, config.d_model, 1, bias=False)

    def interpolate(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """P^(0), D^L and D^R, each [B, C, T]; a side without values gets the other side's value, at distance 1."""
        steps = torch.arange(values.size(-1), device=values.device).expand_as(values)
        end = values.size(-1)
        left = torch.where(observed > 0, steps, -1).cummax(-1).values
        right = torch.where(observed > 0, steps, end).flip(-1).cummin(-1).values.flip(-1)
        before, after = left >= 0, right < end
        at_left = values.gather(-1, left.clamp(min=0))
        at_right = values.gather(-1, right.clamp(max=end - 1))
        span = (right - left).clamp(min=1)
        line = torch.where(right > left, ((right - steps) * at_left + (steps - left) * at_right) / span, at_left)
        prior = torch.where(before & after, line, torch.where(before, at_left, at_right * after))
        widest = max(self.widths)
        to_left = torch.where(before, ((steps - left) / widest).clamp(max=1), 1.0)
        to_right = torch.where(after, ((right - steps) / widest).clamp(max=1), 1.0)
        return prior, to_left, to_right

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        """Normalised values and mask, [B, C, T] -> H^(0) [B, C, D, T]."""
        prior, to_left, to_right = self.interpolate(values, observed)
        candidates, supports = [prior], []
        for width in self.widths:
            mean = F.avg_pool1d(values * observed, width, stride=1, padding=width // 2)
            support = F.avg_pool1d(observed, width, stride=1, padding=width // 2)
            candidates.append(torch.where(support > 0, mean / support.clamp(min=1 / width), 0.0))
            supports.append(support)
        scores = self.router(torch.stack([prior, observed, to_left, to_right, *supports], dim=1))
        weights = torch.softmax(scores / self.temperature, dim=1)
        fused = (weights * torch.stack(candidates, dim=1)).sum(dim=1)
        prior = observed * values + (1 - observed) * fused
        batch, variables, steps = values.shape
        pair = torch.stack([prior, observed], dim=2).view(batch * variables, 2, steps)
        hidden: Tensor = self.projection(pair).view(batch, variables, -1, steps)
        return hidden


class PlainStaGlo(nn.Module):
    """Stable global dependency constructor."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        d, large, small = config.d_model, config.large_kernel, config.small_kernel
        self.d_g = config.d_g
        self.norm_conv = nn.LayerNorm(d)
        self.conv_large = nn.Conv1d(d, d, large, padding=large // 2, groups=d, bias=False)
        self.conv_small = nn.Conv1d(d, d, small, padding=small // 2, groups=d, bias=False)
        self.norm_ffn = nn.LayerNorm(d)
        self.ffn = nn.Sequential(
            nn.Linear(d, config.ffn),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.ffn, d),
            nn.Dropout(config.dropout),
        )
        self.generator = nn.Sequential(
            nn.Linear(config.d_psi, config.d_psi),
            nn.GELU(),
            nn.Linear(config.d_psi, 2 * config.num_variables * config.d_g),
        )
        self.alpha = nn.Parameter(torch.zeros(d))

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """H^(l-1) [B, C, D, T], Psi [D, d_psi] -> U^(l) [B, C, D, T]."""
        batch, variables, d, steps = hidden.shape
        normed = self.norm_conv(hidden.transpose(2, 3)).transpose(2, 3).reshape(batch * variables, d, steps)
        local = self.conv_large(normed) + self.conv_small(normed)
        z = hidden + local.view(batch, variables, d, steps)
        z = z + self.ffn(self.norm_ffn(z.transpose(2, 3))).transpose(2, 3)
        a, b = self.generator(tokens).view(d, 2, variables, self.d_g).unbind(1)
        dependencies = torch.softmax(a @ b.transpose(1, 2) / self.d_g**0.5, dim=-1)  # (D, C, C)
        propagated = torch.einsum("dij,bjdt->bidt", dependencies, z)
        alpha = torch.sigmoid(self.alpha).view(1, 1, d, 1)
        return (1 - alpha) * z + alpha * propagated


class PlainSaCoRef(nn.Module):
    """Sample-conditioned dependency refiner."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        d, heads, ffn, dropout = config.d_model, config.heads, config.ffn, config.dropout
        self.mask_embedding = nn.Sequential(nn.Linear(1, d), nn.GELU(), nn.Linear(d, d))
        self.position = nn.Parameter(torch.randn(config.window, d) * 0.02)
        self.query = nn.Parameter(torch.randn(1, d) * 0.02)
        self.pool = nn.MultiheadAttention(d, heads, dropout, batch_first=True)
        self.identity = nn.Parameter(torch.randn(config.num_variables, d))
        self.relation_encoder = nn.TransformerEncoderLayer(d, heads, ffn, dropout, "gelu", batch_first=True)
        self.modulation = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, 2 * d))
        self.linear_in = nn.Linear(d, d, bias=False)
        self.linear_out = nn.Linear(d, d, bias=False)
        self.variable_refiner = nn.TransformerEncoderLayer(d, heads, ffn, dropout, "gelu", batch_first=True)
        self.gate = nn.Sequential(nn.Linear(2 * d, d), nn.GELU(), nn.Linear(d, d))

    def forward(self, hidden: Tensor, observed: Tensor) -> Tensor:
        """U^(l) [B, C, D, T], mask [B, C, T] -> H^(l) [B, C, D, T]."""
        u = hidden.transpose(2, 3)  # (B, C, T, D)
        batch, variables, steps, d = u.shape
        y = (u + self.mask_embedding(observed.unsqueeze(-1)) + self.position).reshape(batch * variables, steps, d)
        query = self.query.expand(batch * variables, 1, d)
        token = self.pool(query, y, y, need_weights=False)[0].view(batch, variables, d)
        context = self.relation_encoder(token + self.identity)  # (B, C, D)
        scale, shift = self.modulation(context).chunk(2, dim=-1)
        at_steps = u.transpose(1, 2)  # (B, T, C, D)
        scale, shift, context = scale.unsqueeze(1), shift.unsqueeze(1), context.unsqueeze(1)
        conditioned = at_steps + self.linear_out(self.linear_in(at_steps) * torch.tanh(scale)) + shift
        refined = self.variable_refiner(conditioned.reshape(batch * steps, variables, d)).view_as(conditioned)
        gate = torch.sigmoid(self.gate(torch.cat([at_steps, context.expand_as(at_steps)], dim=-1)))
        return (at_steps + gate * (refined - conditioned)).permute(0, 2, 3, 1)


class PlainGLAIM(nn.Module):
    """The full model; [B, C, T] values and bool mask in, [B, C, T] out, observed cells unchanged."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.priemb = PlainPriEmb(config)
        self.tokens = nn.Parameter(torch.randn(config.d_model, config.d_psi))
        self.staglo = nn.ModuleList([PlainStaGlo(config) for _ in range(config.layers)])
        self.sacoref = nn.ModuleList([PlainSaCoRef(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.d_model)
        self.features = nn.Linear(config.d_model, 2 * config.d_recon)
        self.out = nn.Linear(config.d_recon, 1)

    def forward(self, values: Tensor, observed: Tensor) -> Tensor:
        """Fill the window; rows without observations use mean 0 and standard deviation 1."""
        mask = observed.to(values.dtype)
        known = torch.where(observed, values, 0.0)
        count = mask.sum(-1, keepdim=True)
        mean = known.sum(-1, keepdim=True) / count.clamp(min=1)
        variance = (mask * (known - mean) ** 2).sum(-1, keepdim=True) / count.clamp(min=1)
        std = torch.where(count > 0, (variance + self.eps).sqrt(), 1.0)
        hidden = self.priemb(mask * (known - mean) / std, mask)
        for staglo, sacoref in zip(self.staglo, self.sacoref, strict=True):
            hidden = sacoref(staglo(hidden, self.tokens), mask)
        value, gate = self.features(self.norm(hidden.transpose(2, 3))).chunk(2, dim=-1)
        reconstruction = self.out(value * torch.sigmoid(gate)).squeeze(-1)
        return torch.where(observed, values, reconstruction * std + mean)


_NAMES = (  # name in training.network.model -> name in this file, applied in order
    ("gaterecon.", ""),
    ("priemb.embedding", "priemb.projection"),
    ("priemb.router_temporal", "priemb.router.0"),
    ("priemb.router_pointwise", "priemb.router.2"),
    ("staglo.large", "staglo.conv_large.weight"),
    ("staglo.small", "staglo.conv_small.weight"),
    ("staglo.ffn_in", "staglo.ffn.0"),
    ("staglo.ffn_out", "staglo.ffn.3"),
    ("generate_hidden", "generator.0"),
    ("generate.", "generator.2."),
    ("alpha_logit", "alpha"),
    ("mask_hidden", "mask_embedding.0"),
    ("mask_out", "mask_embedding.2"),
    ("modulation_hidden", "modulation.0"),
    ("sacoref.modulation.weight", "sacoref.modulation.2.weight"),
    ("sacoref.modulation.bias", "sacoref.modulation.2.bias"),
    ("gate_hidden", "gate.0"),
    ("gate_out", "gate.2"),
    ("pool.query", "query"),
    ("pool.project.", "pool.in_proj_"),
    ("pool.out.", "pool.out_proj."),
    ("er.project.", "er.self_attn.in_proj_"),
    ("er.out.", "er.self_attn.out_proj."),
    ("er.ffn_in", "er.linear1"),
    ("er.ffn_out", "er.linear2"),
    ("er.norm_attention", "er.norm1"),
    ("er.norm_ffn", "er.norm2"),
)


def plain_name(name: str) -> str:
    """The name in this file of a parameter of `training.network.model.GLAIM`."""
    parts = name.split(".")
    if parts[0] == "layers":  # layers.0.staglo.x: the two halves of a layer are in two lists here
        name = ".".join(parts[2:])
    for ours, plain in _NAMES:
        name = name.replace(ours, plain)
    if parts[0] == "layers":
        half, _, rest = name.partition(".")
        name = f"{half}.{parts[1]}.{rest}"
    return name


def copied(model: GLAIM, config: GLAIMConfig) -> PlainGLAIM:
    """A plain network with the weights of `model`, which must be the full model.

    Raises:
        ValueError: `config` is an ablation or the residual variant, which this file does not implement.
    """
    if config.residual or not (config.use_staglo and config.use_sacoref and config.use_prior and config.use_gate):
        raise ValueError(f"expected the paper's full model, found {config}")
    plain = PlainGLAIM(config)
    shapes = {name: parameter.shape for name, parameter in plain.named_parameters()}
    weights = {}
    for name, parameter in model.named_parameters():
        there = plain_name(name)
        # A view, because the shapes of a 1x1 convolution and a linear layer differ by axes of size 1.
        weights[there] = parameter.detach().view(shapes[there])
    plain.load_state_dict(weights)
    return plain
