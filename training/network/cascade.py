"""GLAIM over the closed form: the window arrives filled, and the network corrects what fills it.

The encoder is the paper's. Three things differ: the difference of the closed form and the network's own prior joins the
embedding, a second head chooses between the two in every cell, and both heads start at zero, so that the untrained
network returns the closed form. Where there is none, the own prior takes its place, which makes the network one that
corrects its prior (`residual`).
"""

import torch
from torch import Tensor, nn

from training.network.kernels import CellLinear
from training.network.model import GLAIM, GateRecon, GloLoc, InstanceNorm, PriEmb

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


class FormEmb(nn.Module):
    """The embedding of PriEmb with one more term, the distance of the closed form from the prior."""

    def __init__(self, priemb: PriEmb, d: int) -> None:
        super().__init__()
        self.priemb = priemb
        self.embedding = CellLinear(1, d, bias=False)

    def forward(self, form: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Embed a normalised window that the closed form has filled.

        Args:
            form: [B, C, T]; NaN where there is neither an observation nor a closed form.
            observed: 0 or 1, [B, C, T].

        Returns:
            H^(0) [B, T, C, D]; the prior P and the closed form, each [B, C, T], the latter without NaN.
        """
        hidden, prior = self.priemb(torch.where(observed > 0, form, torch.zeros_like(form)), observed)
        form = torch.where(torch.isfinite(form), form, prior)
        distance = (form - prior).transpose(1, 2).unsqueeze(-1).contiguous()  # (B, T, C, 1)
        return (hidden + self.embedding(distance)).contiguous(), prior, form


class Arrived(nn.Module):
    """Leaves windows as the closed form has filled them before they came."""

    def forward(self, values: Tensor, observed: Tensor, moved: Tensor | None = None) -> Tensor:
        """[B, C, T] twice -> `values`."""
        return values


class FormRecon(nn.Module):
    """Two heads: the way from the closed form to the prior, as a share in (-1, 1), and a correction beside it."""

    def __init__(self, choice: GateRecon, correction: GateRecon) -> None:
        super().__init__()
        self.choice = choice
        self.correction = correction
        for head in (choice, correction):  # begin as the closed form itself
            nn.init.zeros_(head.out.weight)
            nn.init.zeros_(head.out.bias)

    def forward(self, hidden: Tensor, prior: Tensor, form: Tensor) -> Tensor:
        """H^(L) [B, S, C, D], prior and closed form [B, C, S] -> normalised change of the closed form [B, C, S]."""
        change: Tensor = torch.tanh(self.choice(hidden)) * (prior - form) + self.correction(hidden)
        return change


class Cascade(GLAIM):
    """The network over the closed form; tensors in and out are those of `GLAIM`.

    The buffer `share` [C, 4] is how much of the correction is kept, by sensor and class of reach
    (`training.network.cascade`): 1 in training, afterwards what `training.fit.shares` chooses.
    """

    share: Tensor

    def __init__(
        self, normalise: InstanceNorm, formemb: FormEmb, tokens: Tensor, layers: list[GloLoc], formrecon: FormRecon,
        form: nn.Module, *, num_variables: int, window: int,
    ) -> None:  # fmt: skip
        """Join the blocks.

        Args:
            normalise: Mean and deviation of each row.
            formemb: The window as it is filled, and the mask, to H^(0).
            tokens: Psi [D, d_psi].
            layers: The encoder.
            formrecon: H^(L) to the change of the closed form.
            form: Fills windows when the network is not training: `OwnForm`, or `Arrived` if they come filled.
            num_variables: C.
            window: T.
        """
        super().__init__(
            normalise, formemb, tokens, layers, formrecon, num_variables=num_variables, window=window, residual=False
        )
        self.form = form
        self.reaches = list(REACHES)
        self.register_buffer("share", torch.ones(num_variables, len(REACHES) + 1))

    def forward(self, values: Tensor, observed: Tensor, emitted: int = 0, moved: Tensor | None = None) -> Tensor:
        """Correct the cells that the closed form has filled.

        Args:
            values: float [B, C, T], standardised; where not observed the closed form's value, NaN where it has none. A
                network with a form of its own ignores them there, except in training: then they come from a form of
                other rows.
            observed: bool [B, C, T], True where a value was observed.
            emitted: Number of newest steps to return; 0 means all T.
            moved: bool [B, C], rows from which their level has been taken; None: none (`OwnForm`).

        Returns:
            float [B, C, emitted or T], in the scale of `values`, observed cells unchanged.
        """
        emitted = emitted if emitted > 0 else self.window
        first = self.window - emitted
        if not self.training:
            values = self.form(values, observed, moved)
        clean, mask, mean, std = self.prepare(values, observed)
        hidden, prior, form = self.priemb((values - mean) / std, mask)
        hidden = self.encode(hidden, mask, emitted)
        change = self.gaterecon(hidden, prior[:, :, first:], form[:, :, first:]) * std
        classes = reach_classes(observed, self.reaches)[:, :, first:]
        change = change * self.share.unsqueeze(0).expand(values.size(0), -1, -1).gather(2, classes)
        # The change is added in the scale of the values, so without one the closed form keeps its bits.
        start = torch.where(torch.isfinite(values), values, prior * std + mean)[:, :, first:]
        return torch.where(observed[:, :, first:], clean[:, :, first:], start + change)
