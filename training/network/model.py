"""GLAIM: Gated Local-Adaptive Imputation Model, its blocks in the paper's order and the network that joins them.

The input is a window of C sensors over T steps with the mask of its observed cells; the output is the same window with
every missing cell filled. The blocks (the quoted names are those of the paper's equations):

    InstanceNorm             normalises each row by its observed cells ("PriEmb normalizes ...")
    PriEmb                   prior from interpolation and smoothing, fused by a router; embedded with the mask
    GloLoc, L layers of      StaGlo: stable dependencies between the sensors; SaCoRef: their refinement by this window
    GateRecon                gated projection back to values, in the scale of the row

Layout: the paper writes hidden states as C x D x T; here they are [B, T, C, D], channels last. A depthwise
convolution on that layout is 30 times faster on a CPU than `conv1d`, and the attention over sensors at each step
finds its tokens side by side. Where the paper leaves a size open, ours is the one that reproduces its parameter counts
exactly: 479,479 for 7 sensors and 542,647 for 21, at d_model 64 (tested). `build.py` makes the blocks from the sizes
and holds the variants; `kernels.py` chooses the fastest form of an operation on the machine at hand.

Mask convention, as in the paper: True (1) where a value was observed.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

from training.network.kernels import CellLinear, Dropout, cell_linear, contiguous_gradient, sensor_attention


class InstanceNorm(nn.Module):
    """Instance normalisation over observed cells ("normalizes each variable using ... its observed values")."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Values [B, C, T] with 0 where missing, observed 0/1 -> mean and std of each row, each [B, C, 1].

        A row without any observation has mean 0 and std 1, so its output stays in the scale of the input.
        """
        count = observed.sum(dim=-1, keepdim=True)
        mean = values.sum(dim=-1, keepdim=True) / count.clamp(min=1.0)
        variance = ((values - mean) * observed).square().sum(dim=-1, keepdim=True) / count.clamp(min=1.0)
        std = torch.where(count > 0, torch.sqrt(variance + self.eps), torch.ones_like(variance))
        return mean, std


class PriEmb(nn.Module):
    """Prior-informed embedding: candidates for the missing cells, a router that fuses them, a 1x1 projection."""

    band: Tensor
    widths: Tensor

    def __init__(
        self, window: int, d: int, smoothing_windows: tuple[int, ...], hidden: int, temperature: float
    ) -> None:
        super().__init__()
        self.window = window
        self.scales = len(smoothing_windows)
        self.w_max = float(max(smoothing_windows))
        self.temperature = temperature
        steps = torch.arange(window)
        distance = (steps[:, None] - steps[None, :]).abs()
        # All smoothing windows as one matrix [T, K * T]: sums over every neighbourhood are then a single product.
        band = torch.cat([(distance <= width // 2).float() for width in smoothing_windows], dim=1)
        self.register_buffer("band", band, persistent=False)
        widths = torch.tensor([float(width) for width in smoothing_windows]).view(1, -1, 1, 1)
        self.register_buffer("widths", widths, persistent=False)
        self.router_temporal = nn.Conv2d(self.scales + 4, hidden, (1, 3), padding=(0, 1))
        self.router_pointwise = nn.Conv2d(hidden, self.scales + 1, 1)
        self.embedding = CellLinear(2, d, bias=False)

    def interpolation(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return P^(0), D^L and D^R, each [B, C, T] ("Linear interpolation candidate").

        Where one side has no observation, the value of the other side is used and the distance of the empty side is 1;
        a row without observations is 0 with both distances 1.
        """
        last = self.window - 1
        steps = torch.arange(self.window, device=values.device).expand(values.size(0), values.size(1), self.window)
        seen = observed > 0
        left = torch.cummax(torch.where(seen, steps, torch.full_like(steps, -1)), dim=-1)[0]
        right = torch.where(seen, steps, torch.full_like(steps, last + 1))
        right = torch.cummin(right.flip(-1), dim=-1)[0].flip(-1)
        has_left = left >= 0
        has_right = right <= last
        left_value = torch.gather(values, -1, left.clamp(min=0))
        right_value = torch.gather(values, -1, right.clamp(max=last))
        to_left = (steps - left).to(values.dtype)
        to_right = (right - steps).to(values.dtype)
        weight = to_left / (to_left + to_right).clamp(min=1.0)  # 0 at an observed cell, where both distances are 0
        weight = torch.where(
            has_left, torch.where(has_right, weight, torch.zeros_like(weight)), torch.ones_like(weight)
        )
        prior = left_value * (1.0 - weight) + right_value * weight
        prior = torch.where(has_left | has_right, prior, torch.zeros_like(prior))
        ones = torch.ones_like(weight)
        distance_left = torch.where(has_left, (to_left / self.w_max).clamp(max=1.0), ones)
        distance_right = torch.where(has_right, (to_right / self.w_max).clamp(max=1.0), ones)
        return prior, distance_left, distance_right

    def smoothing(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return P^(k) and S^(k), k = 1..K, each [B, K, C, T] ("Mask-weighted multi-scale smoothing").

        A neighbourhood without observations gives 0, the row's own mean, with support 0.
        """
        batch, variables = values.size(0), values.size(1)
        sums = torch.stack([values, observed]).matmul(self.band)  # (2, B, C, K*T)
        sums = sums.view(2, batch, variables, self.scales, self.window).transpose(2, 3)  # (2, B, K, C, T)
        return sums[0] / sums[1].clamp(min=1.0), sums[1] / self.widths

    def fuse(self, values: Tensor, observed: Tensor) -> Tensor:
        """Return P-bar [B, C, T]: the candidates weighted by the router ("Adaptive candidate fusion")."""
        linear, distance_left, distance_right = self.interpolation(values, observed)
        smooth, support = self.smoothing(values, observed)
        evidence = torch.stack([linear, observed, distance_left, distance_right], dim=1)  # (B, 4, C, T)
        routed = self.router_temporal(torch.cat([evidence, support], dim=1))  # (B, hidden, C, T)
        scores = self.router_pointwise(F.gelu(routed))  # (B, K+1, C, T)
        weights = torch.softmax(scores / self.temperature, dim=1)
        candidates = torch.cat([linear.unsqueeze(1), smooth], dim=1)  # (B, K+1, C, T)
        return (weights * candidates).sum(dim=1)

    def forward(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised values (0 where missing) and mask, each [B, C, T] -> H^(0) [B, T, C, D] and P [B, C, T]."""
        prior = values + (1.0 - observed) * self.fuse(values, observed)  # values are 0 where missing
        return self.embedding(with_mask(prior, observed)).contiguous(), prior


def with_mask(prior: Tensor, observed: Tensor) -> Tensor:
    """Put each cell's prior beside its mask, both [B, C, T] -> [B, T, C, 2]."""
    return torch.stack([prior, observed], dim=-1).transpose(1, 2).contiguous()


class StaGlo(nn.Module):
    """Stable global dependency constructor: time within each sensor first, then mixing by learned matrices."""

    def __init__(
        self, variables: int, d: int, ffn: int, dropout: float, d_psi: int, d_g: int, small_kernel: int,
        large_kernel: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.d_g = d_g
        self.num_variables = variables
        self.groups = d
        self.pad = large_kernel // 2
        self.widen = (large_kernel - small_kernel) // 2
        self.norm_conv = nn.LayerNorm(d)
        # One kernel for each feature, shared by all sensors; no bias, because the norm before it has one.
        self.large = nn.Parameter(torch.empty(d, 1, large_kernel, 1))
        self.small = nn.Parameter(torch.empty(d, 1, small_kernel, 1))
        for kernel in (self.large, self.small):
            nn.init.kaiming_uniform_(kernel, a=math.sqrt(5))
        self.norm_ffn = nn.LayerNorm(d)
        self.ffn_in = CellLinear(d, ffn)
        self.ffn_out = CellLinear(ffn, d)
        self.dropout = Dropout(dropout)
        self.generate_hidden = nn.Linear(d_psi, d_psi)
        self.generate = nn.Linear(d_psi, 2 * variables * d_g)
        # Scores of about unit size from the start: with smaller ones every G begins as the same average over all
        # sensors, which takes long to unlearn (measured on the plant, 800 iterations: newest step 5 % better).
        nn.init.kaiming_normal_(self.generate_hidden.weight)
        nn.init.normal_(self.generate.weight, std=d_psi**-0.5)
        self.alpha_logit = nn.Parameter(torch.zeros(d))

    def dependencies(self, tokens: Tensor) -> Tensor:
        """Psi [D, d_psi] -> G [D, C, C], rows summing to 1: A, B = MLP_g(psi), G = Softmax(A B^T / sqrt(d_g))."""
        factors = self.generate(F.gelu(self.generate_hidden(tokens)))
        factors = factors.view(-1, 2, self.num_variables, self.d_g)  # (D, 2, C, d_g)
        scores = torch.bmm(factors[:, 0], factors[:, 1].transpose(1, 2)) / math.sqrt(self.d_g)
        return torch.softmax(scores, dim=-1)

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """H^(l-1) [B, T, C, D], Psi [D, d_psi] -> U^(l) [B, T, C, D]."""
        # Both branches are linear in the same input, so their kernels add: DWConv_L + DWConv_S is one convolution.
        kernel = self.large + F.pad(self.small, [0, 0, self.widen, self.widen])
        images = self.norm_conv(hidden).permute(0, 3, 1, 2)  # (B, D, T, C), channels last in memory
        local = F.conv2d(images, kernel, padding=[self.pad, 0], groups=self.groups)
        z = hidden + local.permute(0, 2, 3, 1)
        z = z + self.dropout(self.ffn_out(self.dropout(F.gelu(self.ffn_in(self.norm_ffn(z))))))
        # (1 - alpha) Z + alpha G Z = ((1 - alpha) I + alpha G) Z: one small matrix for each feature.
        alpha = torch.sigmoid(self.alpha_logit).view(-1, 1, 1)
        identity = torch.eye(self.num_variables, device=z.device, dtype=z.dtype)
        mixing = (1.0 - alpha) * identity + alpha * self.dependencies(tokens)  # (D, C, C)
        batch, steps, variables, d = z.size()
        z = contiguous_gradient(z, self.training)
        mixed = torch.bmm(mixing, z.permute(3, 2, 0, 1).reshape(d, variables, batch * steps))
        mixed = contiguous_gradient(mixed, self.training)  # a strided gradient is multiplied matrix by matrix
        return mixed.view(d, variables, batch, steps).permute(2, 3, 1, 0).contiguous()  # (B, T, C, D)


class AttentionPool(nn.Module):
    """AttnPool over time: a learned query looks at one sensor's T steps with several heads.

    The parameters are those of multi-head attention. With a single query the projections fold: the scores are
    Y (W_k^T q), and the value projection is applied to the pooled row instead of to all T of them. The bias of the
    keys adds the same number to every score of a row, which softmax cancels.
    """

    def __init__(self, d: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.d = d
        self.query = nn.Parameter(torch.randn(1, d) * 0.02)
        self.project = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.dropout = Dropout(dropout)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, y: Tensor) -> Tensor:
        """Y [B, T, C, D] -> V [B, C, D]."""
        d, heads = self.d, self.heads
        size = d // heads
        weight, bias = self.project.weight, self.project.bias
        query = F.linear(self.query, weight[:d], bias[:d]).view(heads, 1, size)
        keys = weight[d : 2 * d].view(heads, size, d)
        folded = torch.bmm(query, keys).squeeze(1) / math.sqrt(size)  # (H, D)
        rows = y.transpose(1, 2).contiguous()  # (B, C, T, D)
        scores = F.linear(rows, folded).transpose(2, 3)  # (B, C, H, T)
        attention = self.dropout(torch.softmax(scores, dim=-1))
        pooled = torch.matmul(attention, rows)  # (B, C, H, D)
        values = weight[2 * d :].view(heads, size, d)
        heads_out = torch.einsum("bchd,hed->bche", pooled, values).flatten(2) + bias[2 * d :]
        token: Tensor = self.out(heads_out)
        return token


class EncoderLayer(nn.Module):
    """One post-norm transformer encoder layer over the sensors of a token set, with GELU."""

    def __init__(self, d: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.project = CellLinear(d, 3 * d)
        self.out = CellLinear(d, d)
        self.norm_attention = nn.LayerNorm(d)
        self.ffn_in = CellLinear(d, ffn)
        self.ffn_out = CellLinear(ffn, d)
        self.norm_ffn = nn.LayerNorm(d)
        self.dropout = Dropout(dropout)
        self.p = dropout
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T, C, D] -> the same; every (B, T) is a sequence of C tokens."""
        batch, steps, variables, d = tokens.size()
        qkv = self.project(tokens).reshape(batch * steps, variables, 3, self.heads, d // self.heads)
        mixed = sensor_attention(qkv, self.p, self.training).view(batch, steps, variables, d)
        x = self.norm_attention(tokens + self.dropout(self.out(mixed)))
        refined: Tensor = self.norm_ffn(x + self.dropout(self.ffn_out(self.dropout(F.gelu(self.ffn_in(x))))))
        return refined


class SaCoRef(nn.Module):
    """Sample-conditioned dependency refiner: relations between the sensors of this window, applied under a gate."""

    def __init__(self, variables: int, window: int, d: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.d = d
        self.mask_hidden = nn.Linear(1, d)
        self.mask_out = nn.Linear(d, d)
        self.position = nn.Parameter(torch.randn(window, d) * 0.02)
        self.pool = AttentionPool(d, heads, dropout)
        self.identity = nn.Parameter(torch.randn(variables, d))  # large: sensors differ from the start
        self.relation_encoder = EncoderLayer(d, heads, ffn, dropout)
        self.modulation_hidden = nn.Linear(d, d)
        self.modulation = nn.Linear(d, 2 * d)
        self.linear_in = CellLinear(d, d, bias=False)
        self.linear_out = CellLinear(d, d, bias=False)
        self.variable_refiner = EncoderLayer(d, heads, ffn, dropout)
        self.gate_hidden = nn.Linear(2 * d, d)
        self.gate_out = CellLinear(d, d)

    def relations(self, u: Tensor, observed: Tensor) -> Tensor:
        """U [B, T, C, D], mask [B, C, T] -> R [B, C, D], the relation context of this sample."""
        # phi_m maps only 0 or 1, so two vectors hold all of its values.
        both = self.mask_out(F.gelu(self.mask_hidden(torch.tensor([[0.0], [1.0]], device=u.device, dtype=u.dtype))))
        mask = observed.transpose(1, 2).unsqueeze(-1)  # (B, T, C, 1)
        y = u + torch.lerp(both[0].expand(1, 1, 1, -1), both[1].expand(1, 1, 1, -1), mask.to(both.dtype))
        y = y + self.position.unsqueeze(1)
        tokens = self.pool(y) + self.identity
        relations: Tensor = self.relation_encoder(tokens.unsqueeze(1)).squeeze(1)
        return relations

    def forward(self, u: Tensor, observed: Tensor, emitted: int) -> Tensor:
        """U^(l) [B, T, C, D], mask [B, C, T] -> H^(l) of the last `emitted` steps [B, emitted, C, D].

        The context R depends on all T steps. The refinement works on each step alone, so only the emitted steps are
        computed.
        """
        context = self.relations(u, observed)  # (B, C, D)
        scale, shift = self.modulation(F.gelu(self.modulation_hidden(context))).unsqueeze(1).chunk(2, dim=-1)
        if emitted < u.size(1):
            u = u[:, u.size(1) - emitted :].contiguous()
        conditioned = u + self.linear_out(self.linear_in(u) * torch.tanh(scale)) + shift
        increment = self.variable_refiner(conditioned) - conditioned
        # Gate([U || R]): the half of the first layer that multiplies R is the same at every step.
        weight = self.gate_hidden.weight
        from_u = cell_linear(u, weight[:, : self.d], None)
        from_context = F.linear(context, weight[:, self.d :], self.gate_hidden.bias).unsqueeze(1)
        gate = torch.sigmoid(self.gate_out(F.gelu(from_u + from_context)))
        refined: Tensor = u + gate * increment
        return refined


class GloLoc(nn.Module):
    """One layer of the encoder: StaGlo, then SaCoRef."""

    def __init__(self, staglo: nn.Module, sacoref: nn.Module) -> None:
        super().__init__()
        self.staglo = staglo
        self.sacoref = sacoref

    def forward(self, hidden: Tensor, observed: Tensor, tokens: Tensor, emitted: int) -> Tensor:
        """H^(l-1) [B, T, C, D] -> H^(l) of the last `emitted` steps [B, emitted, C, D]."""
        refined: Tensor = self.sacoref(self.staglo(hidden, tokens), observed, emitted)
        return refined


class GateRecon(nn.Module):
    """Gated feature reconstructor: OutProj(F_val * sigmoid(F_gate)), one number for each cell."""

    def __init__(self, d: int, d_recon: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.features = CellLinear(d, 2 * d_recon)
        self.out = nn.Linear(d_recon, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """H^(L) [B, S, C, D] -> normalised reconstruction [B, C, S]."""
        value, gate = self.features(self.norm(hidden)).chunk(2, dim=-1)
        normalised: Tensor = self.out(value * torch.sigmoid(gate)).squeeze(-1).transpose(1, 2)
        return normalised


class GLAIM(nn.Module):
    """The network: fills the missing cells of a window; observed cells pass through unchanged."""

    def __init__(
        self, normalise: InstanceNorm, priemb: nn.Module, tokens: Tensor, layers: list[GloLoc], gaterecon: nn.Module,
        *, num_variables: int, window: int, residual: bool,
    ) -> None:  # fmt: skip
        """Join the blocks.

        Args:
            normalise: Mean and deviation of each row.
            priemb: Values and mask -> H^(0) and the prior.
            tokens: Psi [D, d_psi], the relation tokens that all layers share; trained.
            layers: The encoder.
            gaterecon: H^(L) -> normalised values.
            num_variables: C.
            window: T.
            residual: Add the prior to the reconstruction.
        """
        super().__init__()
        self.window = window
        self.num_variables = num_variables
        self.residual = residual
        self.normalise = normalise
        self.priemb = priemb
        self.tokens = nn.Parameter(tokens)
        self.layers = nn.ModuleList(layers)
        self.gaterecon = gaterecon

    def forward(self, values: Tensor, observed: Tensor, emitted: int = 0) -> Tensor:
        """Fill the cells that were not observed.

        Args:
            values: float [B, C, T], standardised; ignored, even NaN, where not observed.
            observed: bool [B, C, T], True where a value was observed.
            emitted: Number of newest steps to return; 0 means all T. Fewer steps cost less and have the same values,
                because the last layer refines each step alone.

        Returns:
            float [B, C, emitted or T], in the scale of `values`, observed cells unchanged.
        """
        emitted = emitted if emitted > 0 else self.window
        first = self.window - emitted
        clean, mask, mean, std = self.prepare(values, observed)
        normalised = (clean - mean) / std * mask
        hidden, prior = self.priemb(normalised, mask)
        reconstruction = self.gaterecon(self.encode(hidden, mask, emitted))
        if self.residual:
            reconstruction = reconstruction + prior[:, :, first:]
        filled = reconstruction * std + mean
        return torch.where(observed[:, :, first:], clean[:, :, first:], filled)

    def prepare(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return values without what was not observed, the mask in their type, and mean and deviation of each row."""
        clean = torch.where(observed, values, torch.zeros_like(values))
        mask = observed.to(values.dtype)
        mean, std = self.normalise(clean, mask)
        return clean, mask, mean, std

    def encode(self, hidden: Tensor, mask: Tensor, emitted: int) -> Tensor:
        """H^(0) [B, T, C, D], mask [B, C, T] -> H^(L) of the last `emitted` steps [B, emitted, C, D]."""
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, mask, self.tokens, emitted if index == len(self.layers) - 1 else self.window)
        return hidden


def count_parameters(model: nn.Module) -> int:
    """Return the number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
