"""GLAIM: Gated Local-Adaptive Imputation Model, the whole network in one file.

A window of C sensors over T steps goes in with the mask of what was observed; the same window comes out with every
missing cell filled. The parts, in the order a window travels (equation names are those of the paper):

    instance normalisation   each row by the mean and deviation of its observed cells ("PriEmb normalizes ...")
    PriEmb                   prior from interpolation and smoothing, fused by a router; embedded with the mask
    GloLoc, L layers of      StaGlo: what is stable between the sensors; SaCoRef: what this window says about it
    GateRecon                gated projection back to values, then the normalisation is undone

Layout: the paper writes hidden states as C x D x T; here they are [B, T, C, D], channels last. A depthwise
convolution on that layout is 30 times faster on a CPU than `conv1d`, and the attention over sensors at each step
finds its tokens side by side. Where the paper leaves a size open, the reading is the one that reproduces its
parameter counts exactly: 479,479 for 7 sensors and 542,647 for 21, at d_model 64 (tested). What a training pass on a
CPU does otherwise for speed alone is in `fused.py`.

Mask convention, as in the paper: True (1) where a value was observed.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody reads
from torch import Tensor, nn

from training.network.fused import DropCells, KeepLayout, SensorAttention, usable


@dataclass(frozen=True)
class GLAIMConfig:
    """Sizes of a GLAIM network; the defaults are the paper's ("GLAIM configuration").

    `num_variables` is C, the sensors of a group; `window` is T, steps. `d_psi` and `d_g` size the relation tokens and
    the two sides of a dependency matrix; `d_recon` the two branches of GateRecon. `norm_eps` is added to the variance
    of a row before its root is taken: it is what a constant row is scaled by. The four `use_*` switches are the
    paper's ablations; all of them on is the model. `residual` is ours and off by default: the network then corrects
    the prior instead of replacing it, which a smooth sensor thanks it for when there is little time to train.
    """

    num_variables: int
    window: int = 96
    d_model: int = 128
    layers: int = 2
    ffn: int = 256
    heads: int = 8
    dropout: float = 0.1
    d_psi: int = 136
    d_g: int = 8
    d_recon: int = 32
    small_kernel: int = 5
    large_kernel: int = 71
    smoothing_windows: tuple[int, ...] = (3, 5, 9, 17, 33)
    router_hidden: int = 16
    router_temperature: float = 1.0
    norm_eps: float = 1e-5
    use_staglo: bool = True
    use_sacoref: bool = True
    use_prior: bool = True
    use_gate: bool = True
    residual: bool = False

    def __post_init__(self) -> None:
        names = "num_variables d_model layers ffn heads d_psi d_g d_recon router_hidden"
        sizes = {name: getattr(self, name) for name in names.split()}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be 1 or more, found {size}")
        if self.window < 2:
            raise ValueError(f"window must be 2 steps or more, found {self.window}")
        if self.d_model % self.heads:
            raise ValueError(f"d_model must be a multiple of heads, found {self.d_model} and {self.heads}")
        even = [k for k in (self.small_kernel, self.large_kernel, *self.smoothing_windows) if k < 1 or k % 2 == 0]
        if even or self.small_kernel > self.large_kernel:
            raise ValueError(
                f"kernels and smoothing windows must be odd, small <= large; found {even or 'small > large'}"
            )
        if not self.smoothing_windows or self.router_temperature <= 0 or self.norm_eps <= 0:
            raise ValueError("smoothing_windows must not be empty; router_temperature and norm_eps must exceed 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), found {self.dropout}")


class Drop(nn.Dropout):
    """Dropout by `DropCells` in training on a CPU, by the library elsewhere."""

    def forward(self, cells: Tensor) -> Tensor:
        """The same shape; unchanged in evaluation."""
        if self.training and self.p > 0.0 and not torch.jit.is_scripting():
            dropped: Tensor = DropCells.apply(cells, self.p) if usable(cells) else F.dropout(cells, self.p)
            return dropped
        return cells


class CellLinear(nn.Linear):
    """A linear map of every cell's features, [B, T, C, in] -> [B, T, C, out].

    On a CPU it runs as a 1x1 convolution over channels-last memory: the same product, but by oneDNN, whose GEMM is
    1.5 to 2 times as fast as the one `F.linear` takes on processors that are not Intel's.
    """

    def forward(self, cells: Tensor) -> Tensor:
        """[B, T, C, in] -> [B, T, C, out]."""
        if cells.is_cuda:
            return F.linear(cells, self.weight, self.bias)
        images = cells.permute(0, 3, 1, 2)  # a view: NCHW over channels-last memory
        return F.conv2d(images, self.weight.unsqueeze(-1).unsqueeze(-1), self.bias).permute(0, 2, 3, 1)


class InstanceNorm(nn.Module):
    """Mean and deviation of each row's observed cells ("normalizes each variable using ... its observed values")."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Values [B, C, T] with 0 where missing, observed 0/1 -> mean and std, each [B, C, 1].

        A row without any observation has mean 0 and std 1, so that it comes out in the scale the data came in.
        """
        count = observed.sum(dim=-1, keepdim=True)
        mean = values.sum(dim=-1, keepdim=True) / count.clamp(min=1.0)
        variance = ((values - mean) * observed).square().sum(dim=-1, keepdim=True) / count.clamp(min=1.0)
        std = torch.where(count > 0, torch.sqrt(variance + self.eps), torch.ones_like(variance))
        return mean, std


class PriEmb(nn.Module):
    """Prior-informed embedding: candidates for the missing cells, a router that fuses them, a 1x1 projection."""

    __constants__ = ("use_prior",)  # lets TorchScript leave out the router where there is none
    band: Tensor
    widths: Tensor

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        self.window = config.window
        self.scales = len(config.smoothing_windows)
        self.w_max = float(max(config.smoothing_windows))
        self.temperature = config.router_temperature
        self.use_prior = config.use_prior
        steps = torch.arange(config.window)
        distance = (steps[:, None] - steps[None, :]).abs()
        # All smoothing windows as one matrix [T, K * T]: sums over every neighbourhood are then a single product.
        band = torch.cat([(distance <= width // 2).float() for width in config.smoothing_windows], dim=1)
        self.register_buffer("band", band, persistent=False)
        widths = torch.tensor([float(width) for width in config.smoothing_windows]).view(1, -1, 1, 1)
        self.register_buffer("widths", widths, persistent=False)
        if config.use_prior:
            channels = self.scales + 4
            self.router_temporal = nn.Conv2d(channels, config.router_hidden, (1, 3), padding=(0, 1))
            self.router_pointwise = nn.Conv2d(config.router_hidden, self.scales + 1, 1)
        self.embedding = CellLinear(2, config.d_model, bias=False)

    def interpolation(self, values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """P^(0), D^L, D^R, each [B, C, T] ("Linear interpolation candidate").

        Where one side has no observation the other side's value is carried and the distance of the empty side is 1;
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
        """P^(k) and S^(k), k = 1..K, each [B, K, C, T] ("Mask-weighted multi-scale smoothing").

        A neighbourhood without observations gives 0, the row's own mean, with support 0.
        """
        batch, variables = values.size(0), values.size(1)
        sums = torch.stack([values, observed]).matmul(self.band)  # (2, B, C, K*T)
        sums = sums.view(2, batch, variables, self.scales, self.window).transpose(2, 3)  # (2, B, K, C, T)
        return sums[0] / sums[1].clamp(min=1.0), sums[1] / self.widths

    def fuse(self, values: Tensor, observed: Tensor) -> Tensor:
        """P-bar [B, C, T]: candidates weighted by the router ("Adaptive candidate fusion")."""
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
        prior = values
        if self.use_prior:
            prior = values + (1.0 - observed) * self.fuse(values, observed)  # values are 0 where missing
        pair = torch.stack([prior, observed], dim=-1).transpose(1, 2).contiguous()  # (B, T, C, 2)
        return self.embedding(pair).contiguous(), prior


class StaGlo(nn.Module):
    """Stable global dependency constructor: time within each sensor first, then mixing by learned matrices."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        d, c = config.d_model, config.num_variables
        self.d_g = config.d_g
        self.num_variables = c
        self.groups = d
        self.pad = config.large_kernel // 2
        self.widen = (config.large_kernel - config.small_kernel) // 2
        self.norm_conv = nn.LayerNorm(d)
        # One kernel a feature, shared by all sensors; no bias, the norm before it has one.
        self.large = nn.Parameter(torch.empty(d, 1, config.large_kernel, 1))
        self.small = nn.Parameter(torch.empty(d, 1, config.small_kernel, 1))
        for kernel in (self.large, self.small):
            nn.init.kaiming_uniform_(kernel, a=math.sqrt(5))
        self.norm_ffn = nn.LayerNorm(d)
        self.ffn_in = CellLinear(d, config.ffn)
        self.ffn_out = CellLinear(config.ffn, d)
        self.dropout = Drop(config.dropout)
        self.generate_hidden = nn.Linear(config.d_psi, config.d_psi)
        self.generate = nn.Linear(config.d_psi, 2 * c * config.d_g)
        # Scores of about unit size from the start: smaller ones make every G the same average over all sensors, which
        # takes long to unlearn (measured on the plant, 800 iterations: newest step 5 % better).
        nn.init.kaiming_normal_(self.generate_hidden.weight)
        nn.init.normal_(self.generate.weight, std=config.d_psi**-0.5)
        self.alpha_logit = nn.Parameter(torch.zeros(d))

    def dependencies(self, tokens: Tensor) -> Tensor:
        """Psi [D, d_psi] -> G [D, C, C], rows summing to 1: A, B = MLP_g(psi), G = Softmax(A B^T / sqrt(d_g))."""
        sides = self.generate(F.gelu(self.generate_hidden(tokens)))
        sides = sides.view(-1, 2, self.num_variables, self.d_g)  # (D, 2, C, d_g)
        scores = torch.bmm(sides[:, 0], sides[:, 1].transpose(1, 2)) / math.sqrt(self.d_g)
        return torch.softmax(scores, dim=-1)

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """H^(l-1) [B, T, C, D], Psi [D, d_psi] -> U^(l) [B, T, C, D]."""
        # Both branches are linear in the same input, so their kernels add: DWConv_L + DWConv_S is one convolution.
        kernel = self.large + F.pad(self.small, [0, 0, self.widen, self.widen])
        images = self.norm_conv(hidden).permute(0, 3, 1, 2)  # (B, D, T, C), channels last in memory
        local = F.conv2d(images, kernel, padding=[self.pad, 0], groups=self.groups)
        z = hidden + local.permute(0, 2, 3, 1)
        z = z + self.dropout(self.ffn_out(self.dropout(F.gelu(self.ffn_in(self.norm_ffn(z))))))
        # (1 - alpha) Z + alpha G Z = ((1 - alpha) I + alpha G) Z: one small matrix a feature.
        alpha = torch.sigmoid(self.alpha_logit).view(-1, 1, 1)
        identity = torch.eye(self.num_variables, device=z.device, dtype=z.dtype)
        mixing = (1.0 - alpha) * identity + alpha * self.dependencies(tokens)  # (D, C, C)
        batch, steps, variables, d = z.size()
        if self.training and not torch.jit.is_scripting():
            z = KeepLayout.apply(z)
        mixed = torch.bmm(mixing, z.permute(3, 2, 0, 1).reshape(d, variables, batch * steps))
        if self.training and not torch.jit.is_scripting():
            mixed = KeepLayout.apply(mixed)  # the gradient of a product in strides is taken matrix by matrix
        return mixed.view(d, variables, batch, steps).permute(2, 3, 1, 0).contiguous()  # (B, T, C, D)


class AttentionPool(nn.Module):
    """AttnPool over time: a learned query looks at one sensor's T steps with several heads.

    The parameters are those of multi-head attention. With a single query the projections fold: the scores are
    Y (W_k^T q), and the value projection is applied to the pooled row instead of to all T of them; the bias of the
    keys adds the same number to every score of a row, and softmax forgets it.
    """

    def __init__(self, d: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.d = d
        self.query = nn.Parameter(torch.randn(1, d) * 0.02)
        self.project = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.dropout = Drop(dropout)
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
    """One post-norm transformer encoder layer over the sensors of a token set, GELU inside."""

    def __init__(self, d: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.few_variables = 16  # measured: above it the library's attention is the faster one
        self.few_in_training = 32
        self.project = CellLinear(d, 3 * d)
        self.out = CellLinear(d, d)
        self.norm_attention = nn.LayerNorm(d)
        self.ffn_in = CellLinear(d, ffn)
        self.ffn_out = CellLinear(ffn, d)
        self.norm_ffn = nn.LayerNorm(d)
        self.dropout = Drop(dropout)
        self.p = dropout
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def attend(self, qkv: Tensor) -> Tensor:
        """Attention of many short sequences: [N, C, 3, H, D/H] -> [N, C, D], N = B * T.

        A dozen sensors make matrices so small that a CPU spends its time between them. With N last every product runs
        over contiguous memory instead: half the time of `scaled_dot_product_attention`, the same numbers.
        """
        count, variables = qkv.size(0), qkv.size(1)
        if not torch.jit.is_scripting() and self.training and variables <= self.few_in_training and usable(qkv):
            attended: Tensor = SensorAttention.apply(qkv, self.p)
            return attended
        if self.training or qkv.is_cuda or variables > self.few_variables:
            query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (N, H, C, D/H)
            dropout = self.p if self.training else 0.0
            mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
            return mixed.transpose(1, 2).reshape(count, variables, -1)
        query, key, value = qkv.permute(2, 1, 3, 4, 0).contiguous().unbind(0)  # each (C, H, D/H, N)
        query = query / math.sqrt(query.size(2))
        scores = [(query * key[other : other + 1]).sum(dim=2) for other in range(variables)]
        weights = torch.softmax(torch.stack(scores), dim=0).unsqueeze(3)  # (C keys, C queries, H, 1, N)
        mixed = weights[0] * value[0:1]
        for other in range(1, variables):
            mixed = torch.addcmul(mixed, weights[other], value[other : other + 1])
        return mixed.permute(3, 0, 1, 2).reshape(count, variables, -1)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, T, C, D] -> the same; every (B, T) is a sequence of C tokens."""
        batch, steps, variables, d = tokens.size()
        qkv = self.project(tokens).reshape(batch * steps, variables, 3, self.heads, d // self.heads)
        mixed = self.attend(qkv).view(batch, steps, variables, d)
        x = self.norm_attention(tokens + self.dropout(self.out(mixed)))
        refined: Tensor = self.norm_ffn(x + self.dropout(self.ffn_out(self.dropout(F.gelu(self.ffn_in(x))))))
        return refined


class SaCoRef(nn.Module):
    """Sample-conditioned dependency refiner: how this window's sensors relate, applied step by step under a gate."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        d = config.d_model
        self.d = d
        self.mask_hidden = nn.Linear(1, d)
        self.mask_out = nn.Linear(d, d)
        self.position = nn.Parameter(torch.randn(config.window, d) * 0.02)
        self.pool = AttentionPool(d, config.heads, config.dropout)
        self.identity = nn.Parameter(torch.randn(config.num_variables, d))  # large: sensors differ from the start
        self.relation_encoder = EncoderLayer(d, config.heads, config.ffn, config.dropout)
        self.modulation_hidden = nn.Linear(d, d)
        self.modulation = nn.Linear(d, 2 * d)
        self.linear_in = CellLinear(d, d, bias=False)
        self.linear_out = CellLinear(d, d, bias=False)
        self.variable_refiner = EncoderLayer(d, config.heads, config.ffn, config.dropout)
        self.gate_hidden = nn.Linear(2 * d, d)
        self.gate_out = CellLinear(d, d)

    def relations(self, u: Tensor, observed: Tensor) -> Tensor:
        """U [B, T, C, D], mask [B, C, T] -> R [B, C, D], the relation context of this sample."""
        # phi_m sees only 0 or 1, so two vectors say all it can say.
        both = self.mask_out(F.gelu(self.mask_hidden(torch.tensor([[0.0], [1.0]], device=u.device, dtype=u.dtype))))
        mask = observed.transpose(1, 2).unsqueeze(-1)  # (B, T, C, 1)
        y = u + torch.lerp(both[0].expand(1, 1, 1, -1), both[1].expand(1, 1, 1, -1), mask.to(both.dtype))
        y = y + self.position.unsqueeze(1)
        tokens = self.pool(y) + self.identity
        relations: Tensor = self.relation_encoder(tokens.unsqueeze(1)).squeeze(1)
        return relations

    def forward(self, u: Tensor, observed: Tensor, emitted: int) -> Tensor:
        """U^(l) [B, T, C, D], mask [B, C, T] -> H^(l) of the last `emitted` steps [B, emitted, C, D].

        The context R is drawn from all T steps; what follows works on each step alone, so that steps nobody asks for
        need not be computed.
        """
        context = self.relations(u, observed)  # (B, C, D)
        scale, shift = self.modulation(F.gelu(self.modulation_hidden(context))).unsqueeze(1).chunk(2, dim=-1)
        if emitted < u.size(1):
            u = u[:, u.size(1) - emitted :].contiguous()
        conditioned = u + self.linear_out(self.linear_in(u) * torch.tanh(scale)) + shift
        increment = self.variable_refiner(conditioned) - conditioned
        # Gate([U || R]): the half of the first layer that meets R is the same at every step.
        weight = self.gate_hidden.weight
        from_u = F.conv2d(u.permute(0, 3, 1, 2), weight[:, : self.d].unsqueeze(-1).unsqueeze(-1)).permute(0, 2, 3, 1)
        from_context = F.linear(context, weight[:, self.d :], self.gate_hidden.bias).unsqueeze(1)
        gate = torch.sigmoid(self.gate_out(F.gelu(from_u + from_context)))
        refined: Tensor = u + gate * increment
        return refined


class GloLoc(nn.Module):
    """One layer of the encoder: StaGlo, then SaCoRef; an ablated half passes its input through."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        self.staglo = StaGlo(config) if config.use_staglo else None
        self.sacoref = SaCoRef(config) if config.use_sacoref else None

    def forward(self, hidden: Tensor, observed: Tensor, tokens: Tensor, emitted: int) -> Tensor:
        """H^(l-1) [B, T, C, D] -> H^(l) of the last `emitted` steps [B, emitted, C, D]."""
        if self.staglo is not None:
            hidden = self.staglo(hidden, tokens)
        if self.sacoref is not None:
            refined: Tensor = self.sacoref(hidden, observed, emitted)
            return refined
        return hidden[:, hidden.size(1) - emitted :]


class GateRecon(nn.Module):
    """Gated feature reconstructor: OutProj(F_val * sigmoid(F_gate)), one number a cell."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        self.gated = config.use_gate
        self.norm = nn.LayerNorm(config.d_model)
        branches = 2 if config.use_gate else 1
        self.features = CellLinear(config.d_model, branches * config.d_recon)
        self.out = nn.Linear(config.d_recon, 1)
        if config.residual:  # begin as the prior itself
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """H^(L) [B, S, C, D] -> normalised reconstruction [B, C, S]."""
        features = self.features(self.norm(hidden))
        if self.gated:
            value, gate = features.chunk(2, dim=-1)
            features = value * torch.sigmoid(gate)
        normalised: Tensor = self.out(features).squeeze(-1).transpose(1, 2)
        return normalised


class GLAIM(nn.Module):
    """The network: a window with holes in, the window filled out; observed cells pass through untouched."""

    def __init__(self, config: GLAIMConfig) -> None:
        super().__init__()
        self.window = config.window
        self.num_variables = config.num_variables
        self.residual = config.residual
        self.normalise = InstanceNorm(config.norm_eps)
        self.priemb = PriEmb(config)
        # Psi, shared by all layers; an empty one keeps the ablation scriptable.
        tokens = torch.randn(config.d_model, config.d_psi) if config.use_staglo else torch.empty(0, config.d_psi)
        self.tokens = nn.Parameter(tokens)
        self.layers = nn.ModuleList([GloLoc(config) for _ in range(config.layers)])
        self.gaterecon = GateRecon(config)

    def forward(self, values: Tensor, observed: Tensor, emitted: int = 0) -> Tensor:
        """Fill the cells nobody observed.

        Args:
            values: float [B, C, T], standardised; ignored, even NaN, where not observed.
            observed: bool [B, C, T], True where a value was observed.
            emitted: answer only for this many newest steps; 0 means all T. The answer is the same either way, and
                cheaper: the last layer's refinement works step by step.

        Returns:
            float [B, C, emitted or T], in the scale of `values`, observed cells unchanged.
        """
        if emitted <= 0:
            emitted = self.window
        first = self.window - emitted
        clean = torch.where(observed, values, torch.zeros_like(values))
        mask = observed.to(values.dtype)
        mean, std = self.normalise(clean, mask)
        normalised = (clean - mean) / std * mask
        hidden, prior = self.priemb(normalised, mask)
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, mask, self.tokens, emitted if index == len(self.layers) - 1 else self.window)
        reconstruction = self.gaterecon(hidden)
        if self.residual:
            reconstruction = reconstruction + prior[:, :, first:]
        filled = reconstruction * std + mean
        return torch.where(observed[:, :, first:], clean[:, :, first:], filled)


def count_parameters(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
