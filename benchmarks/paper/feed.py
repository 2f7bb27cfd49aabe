"""The batches of the network over the closed form: windows that are filled already, in training and validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.paper.pool import Pool
from training import closed_form
from training.closed_form import TimedFill
from training.config import RunConfig
from training.data import (
    Bools,
    Drawn,
    Floats,
    Scale,
    Split,
    Tensors,
    WindowBatch,
    WindowSet,
    fit_scale,
    fixed_batches,
    hide,
    tensors,
)
from training.fit import WITHOUT_FORM, FoldForms

POOL_CHUNKS = 24
FRESH_CHUNKS = 3  # new chunks in each epoch
VALIDATION_BATCH = 64


@dataclass(frozen=True)
class FilledDraw(Drawn):
    """A drawn batch with the windows as the closed form has filled them; NaN at the holes of windows without it."""

    filled: Floats


def filled_batch(batch: WindowBatch, filled: Floats) -> WindowBatch:
    """Put the closed form's values into the holes of a batch."""
    return dataclasses.replace(batch, values=np.where(batch.observed, batch.values, filled))


class FilledWindows:
    """Filled windows for `training.fit.loop`, in training from the folds' forms, in validation from the whole form's.

    Args of the constructor:
        config: The run.
        parts: The data, cut in time order.
        forms: Closed forms of the training part.
        folder: Stores chunks of filled windows.
    """

    def __init__(self, config: RunConfig, parts: Split, forms: FoldForms, folder: Path) -> None:
        spec, window = config.train, config.model.window
        scale = fit_scale(parts.train)
        values = scale.apply(parts.train.values)
        masks = config.masks.fitted(np.isfinite(values), window)
        windows = WindowSet(values, window, spec.stride, spec.minimum_observed)
        self.pool = Pool(
            windows, parts.train.times_ms, masks, forms, scale, folder, seed=spec.seed, chunks=POOL_CHUNKS,
            fresh=FRESH_CHUNKS,
        )  # fmt: skip
        self.iterations, self.batch_size, self.seed = spec.iterations, spec.batch_size, spec.seed
        self.device = torch.device(spec.device)
        self.validation: Sequence[WindowBatch] = validation_batches(
            config, parts, closed_form.fill_of(forms.whole, scale), scale
        )

    def draw(self, epoch: int, skip: int) -> Iterator[FilledDraw]:
        """Yield an epoch's batches after the first `skip`; order and dropped forms depend on seed and epoch alone."""
        pool = self.pool.epoch(epoch)
        rng = np.random.default_rng([self.seed, 11, epoch])
        count = self.iterations * self.batch_size
        passes = -(-count // len(pool.windows))
        order = np.concatenate([rng.permutation(len(pool.windows)) for _ in range(passes)])[:count]
        dropped = rng.random(count) < WITHOUT_FORM
        after: dict[str, Any] = {}
        for start in range(skip * self.batch_size, count, self.batch_size):
            rows = order[start : start + self.batch_size]
            values, hidden = self.pool.windows.take(pool.windows[rows]), pool.hidden[rows]
            filled = pool.filled[rows].copy()
            filled[dropped[start : start + self.batch_size]] = np.nan
            yield FilledDraw(pool.windows[rows], values, hidden, after, filled)

    def tensors(self, drawn: Drawn, rows: slice) -> Tensors:
        """Return the windows `rows` of a batch."""
        assert isinstance(drawn, FilledDraw)  # drawn by `draw`
        return tensors(filled_batch(hide(drawn.values[rows], drawn.hidden[rows]), drawn.filled[rows]), self.device)


def validation_batches(config: RunConfig, parts: Split, fill: TimedFill, scale: Scale) -> list[WindowBatch]:
    """Return filled validation windows with fixed gaps; only cells of rows that no closed form has seen count.

    The first windows begin in the training part, whose rows the form knows.
    """
    spec = config.train
    series = parts.validation
    windows = WindowSet(scale.apply(series.values), config.model.window, spec.validation_stride, spec.minimum_observed)
    masks = config.masks.fitted(np.isfinite(scale.apply(parts.train.values)), config.model.window)
    unseen = series.times_ms > parts.train.times_ms[-1]
    chosen = windows.spread(spec.validation_windows)
    times = max(1, spec.validation_windows // len(chosen))
    found = []
    for time in range(times):
        key = f"{series.source}|cascade|{config.masks.rate_bounds}|{config.model.window}|{time}"
        batches = fixed_batches(windows, masks, VALIDATION_BATCH, spec.validation_windows, key)
        for start, batch in zip(range(0, len(chosen), VALIDATION_BATCH), batches, strict=True):
            place = windows.starts[chosen[start : start + VALIDATION_BATCH], None] + np.arange(windows.window)
            counted: Bools = batch.hidden & unseen[place][:, None, :]
            filled = fill(batch.values, batch.observed, series.times_ms[place[:, -1]])
            found.append(dataclasses.replace(filled_batch(batch, filled), hidden=counted))
    return found
