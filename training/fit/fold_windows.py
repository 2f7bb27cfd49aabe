"""The training batches of a network with a closed form of its own.

Each window is filled by a form that was fitted without its rows; the network's own one has seen them all, and is used
for other rows alone. A share of the windows lacks the form, so that the network learns to do without it where it
drifts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glaim_stream.form import ClosedForm, with_free_levels, with_ridge
from training.config import TrainSpec
from training.data import (
    Bools,
    Drawn,
    FittedMasks,
    Floats,
    GroupSeries,
    Scale,
    Tensors,
    WindowBatch,
    WindowSet,
    draw,
    windows_on,
)
from training.errors import NetworkTooSlow
from training.fit import folds
from training.fit.folds import FoldForms, Say
from training.network import OwnForm

FOLDS = 4
_LEAST_FOLDS = 2  # one fold would leave no rows to its form
WITHOUT_FORM = 0.15  # share of training windows that lack the closed form


def fit_forms(
    train: GroupSeries, window: int, folder: Path, say: Say, *, until_s: float | None = None, kept: bool = False
) -> FoldForms:
    """Fit the plain form of the training rows and that of each fold, or read them from an earlier call's folder.

    Args:
        train: Training rows.
        window: T, steps.
        folder: Folder of the forms.
        say: Receives a line for each form that was fitted.
        until_s: Moment of `time.monotonic` at which training ends. Half of the time until then may go into the forms of
            folds: there are fewer folds if four do not fit in it. None: four folds.
        kept: Take the number of folds of an earlier call.

    Raises:
        DataError: there are too few rows.
        NetworkTooSlow: not even two folds fit in the time.
    """
    number, chosen = folder / "folds", FOLDS
    if kept and number.is_file():
        chosen = int(number.read_text())
    elif until_s is not None:
        began_s = time.monotonic()
        folds.fit_folds(train, window, folder, say, 0, only_numbers=True, only_plain=True)
        each_s, left_s = time.monotonic() - began_s, until_s - time.monotonic()
        chosen = min(FOLDS, int(left_s / 2 / max(each_s, 1e-3)))
        if chosen < _LEAST_FOLDS:
            raise NetworkTooSlow(
                f"no network: a closed form takes {each_s:.0f} s, so those of {_LEAST_FOLDS} folds and a training do "
                f"not fit in the {max(0, left_s):.0f} s that are left; more --minutes allow one"
            )
        if chosen < FOLDS:
            say(f"a closed form takes {each_s:.0f} s: {chosen} folds instead of {FOLDS} fit in the time")
    folder.mkdir(parents=True, exist_ok=True)
    number.write_text(str(chosen))
    return folds.fit_folds(train, window, folder, say, chosen, only_numbers=True, only_plain=True)


def own_form(form: ClosedForm, scale: Scale) -> OwnForm:
    """Make the network's part from a plain closed form; `scale` is the scale of the standardised values."""
    (variant,) = form.variants
    covariance = with_free_levels(variant.covariance, variant.level_variance)
    unit = variant.transform.scale  # scale of the form's values, in sensor units
    zero = scale.mean / unit  # position at which the standardised values are 0
    levels = variant.levels
    made = OwnForm(len(form.sensors), form.steps)
    state = {
        "precision": np.linalg.inv(covariance), "unit": unit / scale.std,
        "level_covariance": with_ridge(levels.covariance), "level_zero": levels.mean - zero,
        "level_range": np.stack([levels.lowest, levels.highest]) - zero,
    }  # fmt: skip
    made.load_state_dict({name: torch.from_numpy(each.astype(np.float64)) for name, each in state.items()})
    return made


@dataclass(frozen=True)
class FoldDraw(Drawn):
    """A drawn batch, with True for its windows that lack the form, bool [B]."""

    without_form: Bools


class FoldWindows:
    """Batches for `training.fit.loop`."""

    def __init__(
        self, forms: FoldForms, windows: WindowSet, values: Floats, scale: Scale, masks: FittedMasks, spec: TrainSpec,
        device: torch.device, *, iterations: int, validation: Sequence[WindowBatch],
    ) -> None:  # fmt: skip
        """Take the data of a run.

        Args:
            forms: Forms of the folds of the training rows.
            windows: Windows of the training part.
            values: Standardised series [G, C, R] from which they are cut.
            scale: Scale of the series.
            masks: Masks to hide by.
            spec: Batch size and seed.
            device: Device of the batches.
            iterations: Number of iterations of an epoch.
            validation: Validation windows, not filled: the network does that.
        """
        self.iterations, self.validation = iterations, validation
        self._windows, self._masks, self._spec = windows, masks, spec
        self._source = windows_on(device, values, windows)
        self._fold_of = forms.of
        self._forms = [own_form(form, scale).to(device) for form in forms.folds]

    def draw(self, epoch: int, skip: int) -> Iterator[FoldDraw]:
        """Yield an epoch's batches after the first `skip`; they depend on seed and epoch alone."""
        spec = self._spec
        lacking = np.random.default_rng([spec.seed, 11, epoch])
        for number, drawn in enumerate(draw(self._windows, self._masks, spec.batch_size, spec.seed, epoch)):
            without = lacking.random(len(drawn.windows)) < WITHOUT_FORM
            if number >= skip:
                yield FoldDraw(drawn.windows, drawn.values, drawn.hidden, drawn.after, without)

    def tensors(self, drawn: Drawn, rows: slice) -> Tensors:
        """Return the windows `rows` of a batch, filled; NaN at the holes of windows without the form."""
        assert isinstance(drawn, FoldDraw)  # drawn by `draw`
        values, observed, truth, hidden = self._source.tensors(drawn, rows)
        fold = self._fold_of(self._windows.starts[drawn.windows[rows]])
        for each in np.unique(fold):
            chosen = torch.from_numpy(np.flatnonzero(fold == each)).to(values.device)
            with torch.no_grad():
                values[chosen] = self._forms[each](values[chosen], observed[chosen])
        lacking = torch.from_numpy(drawn.without_form[rows]).to(values.device).view(-1, 1, 1)
        return torch.where(lacking & ~observed, torch.full_like(values, float("nan")), values), observed, truth, hidden
