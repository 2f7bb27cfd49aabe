"""A pool of training windows with hidden cells, filled by the closed forms of folds that have not seen them.

Filling costs about as much as a training iteration, so each filled window is used several times. The pool consists of
numbered chunks; every epoch drops the oldest ones and makes new ones. A chunk depends on the seed and its number alone
and is stored once made: a training that was killed makes at most one chunk again.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.closed_form import TimedFill
from training.data import Bools, FittedMasks, Floats, Scale, WindowSet, hide
from training.fit import FoldForms

CHUNK = 128  # windows


@dataclass(frozen=True)
class Chunk:
    """Numbers of windows [n], their hidden cells and their filled values, [n, C, T] each."""

    windows: NDArray[np.int64]
    hidden: Bools
    filled: Floats


class Pool:
    """The filled windows of each epoch.

    Args of the constructor:
        windows: The training part's, standardised.
        times_ms: int64 [R], times of the training part's rows.
        masks: Masks of hidden cells, drawn for each window separately.
        forms: Closed forms of the folds.
        scale: That of the windows.
        folder: Stores the chunks in use.
        seed: Of the run.
        chunks: Chunks in the pool.
        fresh: Chunks that each epoch replaces.
    """

    def __init__(
        self, windows: WindowSet, times_ms: NDArray[np.int64], masks: FittedMasks, forms: FoldForms, scale: Scale,
        folder: Path, *, seed: int, chunks: int, fresh: int,
    ) -> None:  # fmt: skip
        self.windows, self.times_ms, self.masks, self.forms = windows, times_ms, masks, forms
        self.fills: Sequence[TimedFill] = forms.fills(scale)
        self.folder, self.seed, self.chunks, self.fresh = folder, seed, chunks, fresh
        self._kept: dict[int, Chunk] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def epoch(self, number: int) -> Chunk:
        """Return the whole pool of an epoch, counted from 0; remove the chunks that it no longer needs."""
        first = number * self.fresh
        wanted = range(first, first + self.chunks)
        for other in self.folder.glob("*.npz"):
            if other.stem.isdigit() and int(other.stem) < first:
                other.unlink(missing_ok=True)
        self._kept = {each: self._kept[each] if each in self._kept else self._chunk(each) for each in wanted}
        parts = self._kept.values()
        return Chunk(
            np.concatenate([part.windows for part in parts]), np.concatenate([part.hidden for part in parts]),
            np.concatenate([part.filled for part in parts]),
        )  # fmt: skip

    def _chunk(self, number: int) -> Chunk:
        file = self.folder / f"{number:06d}.npz"
        if file.is_file():
            try:
                with np.load(file, allow_pickle=False) as stored:
                    return Chunk(stored["windows"], stored["hidden"], stored["filled"])
            except (OSError, ValueError, KeyError, zipfile.BadZipFile):
                file.unlink()  # damaged: make it again
        made = self.make(number)
        partial = file.with_suffix(".partial")
        with partial.open("wb") as handle:
            np.savez(handle, windows=made.windows, hidden=made.hidden, filled=made.filled)
        partial.replace(file)
        return made

    def make(self, number: int) -> Chunk:
        """Draw and fill a chunk."""
        rng = np.random.default_rng([self.seed, 7, number])
        chosen = rng.choice(len(self.windows), size=CHUNK, replace=len(self.windows) < CHUNK)
        values = self.windows.take(chosen)
        known = np.isfinite(values)
        hidden = np.concatenate([self.masks.sample(rng, known[row : row + 1]) for row in range(CHUNK)]) & known
        batch = hide(values, hidden)
        starts = self.windows.starts[chosen]
        end_ms = self.times_ms[starts + self.windows.window - 1]
        filled = np.empty_like(batch.values)
        fold = self.forms.of(starts)
        for each in np.unique(fold):
            rows = np.flatnonzero(fold == each)
            filled[rows] = self.fills[each](batch.values[rows], batch.observed[rows], end_ms[rows])
        return Chunk(chosen, hidden, filled)
