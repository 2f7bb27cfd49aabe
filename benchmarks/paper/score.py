"""Score a trained cell on every test window, stride 1, beside the two baselines on the same hidden cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.cells import PaperCell
from benchmarks.paper.datasets import DATASETS, WINDOW, read, without_sentinels
from benchmarks.paper.masks import window_masks
from glaim_stream.form import interpolation, last_value
from training.checkpoint import Checkpoint
from training.config import RunConfig, changes
from training.data import SEGMENTS, GroupSeries, Split, WindowBatch, WindowSet, fit_scale, hide, split
from training.errors import ConfigError
from training.evaluate import BATCH, ErrorTally, Fill, model_fill, restore, with_fallback

_BATCH_CELLS = 200_000  # cells of a batch of windows, small enough that progress shows


@dataclass(frozen=True)
class CellScore:
    """Errors over all hidden cells of the test windows, standardised, and the number of windows."""

    windows: int
    mse: float
    mae: float


@lru_cache(maxsize=2)
def parts(dataset: str, window: int) -> Split:
    """Return training, validation and test rows of a data set."""
    return split(read(DATASETS[dataset]), DATASETS[dataset].spec, window)


def rows_of_form(dataset: str, window: int) -> GroupSeries:
    """Return the training rows for the fit of a closed form, in which the data set's sentinels are missing."""
    return without_sentinels(DATASETS[dataset], parts(dataset, window).train)


@lru_cache(maxsize=2)
def windows_of(dataset: str, window: int) -> WindowSet:
    """Return all its test windows, standardised by the training part; the first one ends at the first test row."""
    found = parts(dataset, window)
    return WindowSet(fit_scale(found.train).apply(found.test.values), window)


@dataclass(frozen=True)
class HiddenCells:
    """A choice of hidden cells in the test windows of a data set.

    pattern: `random` or `block`.
    rate: missing rate.
    draw: number of the draw of hidden cells; 0 in the tables.
    every: interval between the test windows that are used.
    window: T, steps.
    segments: fewest and most segments of the block sampler.
    """

    dataset: str
    pattern: str
    rate: float
    draw: int = 0
    every: int = 1
    window: int = WINDOW
    segments: tuple[int, int] = SEGMENTS

    @property
    def sensors(self) -> int:
        """Number of sensors."""
        return DATASETS[self.dataset].sensors

    @property
    def name(self) -> str:
        """Name in the progress line."""
        return f"{self.dataset}/{self.pattern}/{self.rate:g}, draw {self.draw}"

    def __len__(self) -> int:
        """Number of windows that are scored."""
        return len(range(0, len(windows_of(self.dataset, self.window)), self.every))

    def batches(self, size: int = BATCH) -> Iterator[tuple[WindowBatch, NDArray[np.int64]]]:
        """Yield the windows in their order, and the time of each one's last step, epoch ms [B].

        size: B at most; fewer of many sensors.
        """
        windows, test = windows_of(self.dataset, self.window), parts(self.dataset, self.window).test
        masks = window_masks(
            self.dataset, self.pattern, self.rate, self.window, len(windows), self.sensors, self.segments, self.draw
        )
        chosen = np.arange(0, len(windows), self.every)
        size = min(size, max(1, _BATCH_CELLS // (self.sensors * self.window)))
        for start in range(0, len(chosen), size):
            index = chosen[start : start + size]
            yield hide(windows.take(index), masks[index]), test.times_ms[windows.starts[index] + self.window - 1]


def score(fill: Fill, cells: HiddenCells) -> CellScore:
    """Score one method.

    Args:
        fill: Values with 0 where missing, and the observed mask, both [B, C, T] -> filled [B, C, T].
        cells: Cells to fill.
    """
    tally, windows = ErrorTally(cells.sensors), 0
    for batch, _ in cells.batches():
        tally.add(fill(batch.values, batch.observed), batch.truth, batch.hidden)
        windows += len(batch.values)
    return CellScore(windows, tally.mse, tally.mae)


@lru_cache(maxsize=256)
def baselines(cells: HiddenCells) -> dict[str, CellScore]:
    """Score interpolation and last value on the same cells; without an observation they are 0, the training mean."""
    fills = {"interpolation": with_fallback(interpolation), "last_value": with_fallback(last_value)}
    return {name: score(fill, cells) for name, fill in fills.items()}


def check(stored: RunConfig, cell: PaperCell, expected: RunConfig) -> None:
    """Refuse the checkpoint of another cell: other rows, network, gaps, seed or recipe.

    The number of epochs may differ, because the line states it.

    Raises:
        ConfigError: some settings differ; they are named.
    """
    sized = dataclasses.replace(expected.model, num_variables=stored.model.num_variables)
    free = ("train.epochs", "train.iterations", "train.warmup", "data.grid", "data.time")
    wrong = [text for text in changes(stored, dataclasses.replace(expected, model=sized)) if not text.startswith(free)]
    if wrong:
        raise ConfigError(f"the checkpoint in {cell.name} was trained otherwise: {'; '.join(wrong)}")


def model_scores(
    state: Checkpoint,
    dataset: str,
    pattern: str,
    rates: tuple[float, ...],
    segments: tuple[int, int] = SEGMENTS,
    device: str = "cpu",
) -> Mapping[float, tuple[CellScore, dict[str, CellScore]]]:
    """Return the scores of the model and the baselines by test rate."""
    _, model, _ = restore(state)
    fill = model_fill(model.to(device))
    places = {rate: HiddenCells(dataset, pattern, rate, window=model.window, segments=segments) for rate in rates}
    return {rate: (score(fill, cells), baselines(cells)) for rate, cells in places.items()}
