"""The module that Triton runs: a trained network with sensor units in and out, scripted."""

# No postponed annotations: TorchScript reads them.
import copy
import warnings

import torch
from torch import Tensor, nn

from training.data import Scale
from training.errors import ExportError
from training.network import GLAIM, Cascade, LoadedForm, OwnForm


class ServedModel(nn.Module):
    """GLAIM for serving: sensor units in and out, only the newest steps returned.

    A separate module, because serving needs what training must not have: fixed statistics, tolerance for any content of
    missing cells, and argument names that Triton's libtorch backend uses as tensor names.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: GLAIM, mean: Tensor, std: Tensor, emitted_steps: int) -> None:
        super().__init__()
        self.model = model
        self.first = model.window - emitted_steps
        self.emitted_steps = emitted_steps
        self.register_buffer("mean", mean.float().view(1, -1, 1))
        self.register_buffer("std", std.float().view(1, -1, 1))

    def forward(self, VALUES: Tensor, OBSERVED: Tensor) -> Tensor:  # noqa: N803 - Triton matches these names
        """float32 [B, C, T] in sensor units and bool [B, C, T] -> float32 [B, C, S], the S newest steps.

        VALUES are ignored, NaN too, where OBSERVED is False; a value that is not finite counts as not observed.

        Subtracts the mean of each row's observed values, or the training mean if there are none: a training mean of 1e8
        would take the digits of a row that the worker has centred. GLAIM subtracts the row's mean anyway.
        """
        observed = OBSERVED & torch.isfinite(VALUES)
        clean = torch.where(observed, VALUES, torch.zeros_like(VALUES))
        count = observed.sum(dim=-1, keepdim=True)
        moved = self.moved(clean, observed)
        level = torch.where(moved, (clean / count.clamp(min=1)).sum(dim=-1, keepdim=True), self.mean)
        values = torch.where(observed, VALUES, level)
        filled = self.fill((values - level) / self.std, observed, moved)
        newest = observed[:, :, self.first :]
        return torch.where(newest, VALUES[:, :, self.first :], filled * self.std + level)

    def moved(self, clean: Tensor, observed: Tensor) -> Tensor:
        """Rows from which their mean is subtracted, bool [B, C, 1]; `clean` is 0 where not observed."""
        return observed.sum(dim=-1, keepdim=True) > 0

    def fill(self, values: Tensor, observed: Tensor, moved: Tensor) -> Tensor:
        """The network's answer to standardised values."""
        filled: Tensor = self.model(values, observed, self.emitted_steps)
        return filled


class ServedCascade(ServedModel):
    """A network that fills windows by its own closed form, for serving.

    The form tells a silent sensor's level from those of the others, so rows keep theirs. Where float32 would round a
    row, the worker subtracts its newest observation (`glaim_stream.imputers.centring`), which then is 0 exactly. The
    level of such a row is not known; a row that really ends in 0 is treated like it.
    """

    def moved(self, clean: Tensor, observed: Tensor) -> Tensor:
        """Rows that end in 0."""
        steps = torch.arange(clean.size(2), device=clean.device)
        newest = torch.where(observed, steps, torch.zeros_like(steps)).max(dim=2, keepdim=True)[0]
        return (observed.sum(dim=-1, keepdim=True) > 0) & (clean.gather(2, newest) == 0)

    def fill(self, values: Tensor, observed: Tensor, moved: Tensor) -> Tensor:
        """The network's answer; the form must not learn levels from rows without one."""
        filled: Tensor = self.model(values, observed, self.emitted_steps, moved.squeeze(2))
        return filled


def served_model(model: GLAIM, scale: Scale, emitted_steps: int) -> ServedModel:
    """Wrap a trained network for serving.

    Raises:
        ExportError: `emitted_steps` exceeds the window.
    """
    if not 1 <= emitted_steps <= model.window:
        raise ExportError(f"emitted_steps must lie in 1..{model.window}, found {emitted_steps}")
    kind = ServedModel
    if isinstance(model, Cascade) and isinstance(model.form, OwnForm):
        kind, model = ServedCascade, copy.deepcopy(model)
        model.form = LoadedForm(model.form)
    served = kind(model, torch.from_numpy(scale.mean), torch.from_numpy(scale.std), emitted_steps)
    served.eval()
    return served


def script(served: ServedModel) -> torch.jit.ScriptModule:
    """Compile to TorchScript by scripting; a trace would fix the batch size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # since torch 2.9; the versions are pinned knowingly
        scripted: torch.jit.ScriptModule = torch.jit.script(served)
    return scripted
