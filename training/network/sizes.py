"""The sizes of a network. `training.network.build` is the one place that turns them into modules."""

from __future__ import annotations

from dataclasses import dataclass

from glaim_stream.form import MOST_CELLS


@dataclass(frozen=True)
class GLAIMConfig:
    """Sizes and variant of a GLAIM network; the defaults are the paper's ("GLAIM configuration").

    `num_variables` is C, the sensors of a group; `window` is T, steps. `d_psi` is the size of a relation token, `d_g`
    of the two factors of a dependency matrix, `d_recon` of the two branches of GateRecon. `norm_eps` is added to the
    variance of a row before the root, so it sets the scale of a constant row. The four `use_*` switches are the paper's
    ablations; the full model has all of them on. `residual` is not in the paper and off by default: the network then
    corrects the prior instead of replacing it, which helps on smooth sensors when training is short.
    `cascade` is not in the paper either: windows arrive filled by the closed form, which the network corrects. With
    `own_form` they arrive as usual, and the network fills them itself by the closed form's plain variant, whose inverse
    covariance is a part of it: 50 MB for a window of `MOST_CELLS`, the most that a closed form covers whole.
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
    cascade: bool = False
    own_form: bool = False

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
        if self.cascade and (self.residual or not (self.use_prior and self.use_gate)):
            raise ValueError(
                "cascade has a prior, a gate and its own start: it goes with use_prior, use_gate, no residual"
            )
        if self.own_form and not self.cascade:
            raise ValueError("own_form fills the windows of a network over the closed form: it goes with cascade")
        if self.own_form and self.num_variables * self.window > MOST_CELLS:
            raise ValueError(
                f"own_form needs a window of at most {MOST_CELLS} cells, found {self.num_variables} sensors of "
                f"{self.window} steps"
            )
        even = [k for k in (self.small_kernel, self.large_kernel, *self.smoothing_windows) if k < 1 or k % 2 == 0]
        if even or self.small_kernel > self.large_kernel:
            raise ValueError(
                f"kernels and smoothing windows must be odd, small <= large; found {even or 'small > large'}"
            )
        if not self.smoothing_windows or self.router_temperature <= 0 or self.norm_eps <= 0:
            raise ValueError("smoothing_windows must not be empty; router_temperature and norm_eps must exceed 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), found {self.dropout}")
