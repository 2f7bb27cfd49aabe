"""Windows of a series: their starts, and the batches of (values, observed) cut from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from training.data.masks import FittedMasks, MaskSpec
from training.data.outages import Bools
from training.data.series import Floats
from training.errors import DataError


@dataclass(frozen=True)
class WindowBatch:
    """Windows for the model, all [B, C, T]: its input, and the hidden cells with their truth."""

    values: Floats  # standardised, 0 where not `observed`, so without the hidden truth
    observed: Bools  # True where the model gets a value
    truth: Floats  # standardised, 0 where unknown
    hidden: Bools  # True where a known value was withheld


def hide(values: Floats, hidden: Bools) -> WindowBatch:
    """Split windows [B, C, T] with NaN gaps into the model's input and the hidden truth."""
    known = np.isfinite(values)
    hidden = hidden & known
    observed = known & ~hidden
    zero = np.float32(0)
    return WindowBatch(np.where(observed, values, zero), observed, np.where(known, values, zero), hidden)


class WindowSet:
    """All windows of `window` steps in values [G, C, R], their starts `stride` rows apart.

    Windows in which fewer than `minimum_observed` of the cells hold a value are left out.
    """

    def __init__(self, values: Floats, window: int, stride: int = 1, minimum_observed: float = 0.25) -> None:
        if values.shape[-1] < window:
            raise DataError(f"a window of {window} steps is longer than the data: {values.shape[-1]} rows")
        self.window = window
        self._view = sliding_window_view(values, window, axis=-1)  # (G, C, R - T + 1, T), no copy
        known = np.isfinite(values).sum(axis=1)  # (G, R)
        total = np.cumsum(np.pad(known, ((0, 0), (1, 0))), axis=1)
        share = (total[:, window:] - total[:, :-window]) / (values.shape[1] * window)  # (G, R - T + 1)
        kept = share >= max(minimum_observed, 1e-9)
        kept[:, np.arange(kept.shape[1]) % stride != 0] = False
        self.groups, self.starts = np.nonzero(kept)
        if self.groups.size == 0:
            raise DataError(
                f"expected windows with at least {minimum_observed:.0%} of their cells observed, found none in "
                f"{values.shape[-1]} rows of {values.shape[0]} groups"
            )

    def __len__(self) -> int:
        return int(self.groups.size)

    def take(self, index: NDArray[np.int64]) -> Floats:
        """Return the windows at `index`, float32 [B, C, T] with NaN gaps."""
        return np.ascontiguousarray(self._view[self.groups[index], :, self.starts[index]])

    def spread(self, most: int) -> NDArray[np.int64]:
        """Return at most `most` windows, evenly spread over groups and time, always the same ones."""
        if most <= 0 or most >= len(self):
            return np.arange(len(self))
        return np.unique(np.linspace(0, len(self) - 1, most).round().astype(np.int64))


def fixed_batches(
    windows: WindowSet, masks: MaskSpec | FittedMasks, batch_size: int, most: int, key: str
) -> list[WindowBatch]:
    """Return batches whose gaps depend on `key` and the window's number alone: equal at every epoch and resume.

    A window keeps its gaps whatever the batch size and the number of other windows.
    """
    batches = []
    chosen = windows.spread(most)
    for start in range(0, len(chosen), batch_size):
        numbers = chosen[start : start + batch_size]
        values = windows.take(numbers)
        known = np.isfinite(values)
        hidden = [masks.sample(seeded(key, int(n)), known[i : i + 1]) for i, n in enumerate(numbers)]
        batches.append(hide(values, np.concatenate(hidden)))
    return batches


def seeded(key: str, number: int) -> np.random.Generator:
    """Return the generator of the `number`-th window of `key`: equal on every machine and in every process."""
    digest = hashlib.blake2b(f"{key}|{number}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
