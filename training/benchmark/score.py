"""Score a trained cell on every test window, stride 1, beside the two baselines on the same hidden cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from glaim_stream.imputers.baselines import interpolation, last_value
from training.benchmark.cells import Cell
from training.benchmark.datasets import DATASETS, read
from training.benchmark.masks import hidden_cells
from training.checkpoint import Checkpoint
from training.config import RunConfig, changes
from training.data.masks import SEGMENTS
from training.data.series import Series, Split, fit_scale, split
from training.data.windows import WindowSet, hide
from training.errors import ConfigError
from training.evaluate import BATCH, Fill, Tally, model_fill, restore, with_fallback


@dataclass(frozen=True)
class Score:
    """Errors over all hidden cells of the test windows, standardised, and how many windows there were."""

    windows: int
    mse: float
    mae: float


@lru_cache(maxsize=2)
def parts(dataset: str, window: int) -> Split:
    """Return training, validation and test rows of a data set."""
    return split(read(DATASETS[dataset]), DATASETS[dataset].spec, window)


def rows_of_form(dataset: str, window: int) -> Series:
    """Return the training rows for the fit of a closed form, in which the data set's sentinels are missing."""
    train = parts(dataset, window).train
    sentinels = np.isin(train.values, np.asarray(DATASETS[dataset].sentinels, train.values.dtype))
    return dataclasses.replace(train, values=np.where(sentinels, np.nan, train.values)) if sentinels.any() else train


@lru_cache(maxsize=2)
def windows_of(dataset: str, window: int) -> WindowSet:
    """Return all its test windows, standardised by the training part; the first one ends at the first test row."""
    found = parts(dataset, window)
    return WindowSet(fit_scale(found.train).apply(found.test.values), window)


def score(
    fill: Fill, dataset: str, pattern: str, rate: float, window: int, segments: tuple[int, int], draw: int = 0
) -> Score:
    """Score one method on the hidden cells of one pattern and rate.

    Args:
        fill: Values with 0 where missing, and the observed mask, both [B, C, T] -> filled [B, C, T].
        dataset: The data set's name.
        pattern: `random` or `block`.
        rate: Missing rate of the test.
        window: T, steps.
        segments: Fewest and most segments of the block sampler.
        draw: Draw of the hidden cells; 0 in the tables.
    """
    windows = windows_of(dataset, window)
    sensors = DATASETS[dataset].sensors
    masks = hidden_cells(dataset, pattern, rate, window, len(windows), sensors, segments, draw)
    tally = Tally(sensors)
    for start in range(0, len(windows), BATCH):
        index = np.arange(start, min(start + BATCH, len(windows)))
        batch = hide(windows.take(index), masks[index])
        tally.add(fill(batch.values, batch.observed), batch.truth, batch.hidden)
    cells = int(tally.count.sum())
    return Score(len(windows), float(tally.squared.sum() / cells), float(tally.absolute.sum() / cells))


@lru_cache(maxsize=256)
def baselines(
    dataset: str, pattern: str, rate: float, window: int, segments: tuple[int, int], draw: int = 0
) -> dict[str, Score]:
    """Score interpolation and last value on the same cells; without an observation they are 0, the training mean."""
    fills = {"interpolation": with_fallback(interpolation), "last_value": with_fallback(last_value)}
    return {name: score(fill, dataset, pattern, rate, window, segments, draw) for name, fill in fills.items()}


def check(stored: RunConfig, cell: Cell, expected: RunConfig) -> None:
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
) -> Mapping[float, tuple[Score, dict[str, Score]]]:
    """Return the scores of the model and the baselines by test rate."""
    _, model, _ = restore(state)
    fill = model_fill(model.to(device))
    return {
        rate: (
            score(fill, dataset, pattern, rate, model.window, segments),
            baselines(dataset, pattern, rate, model.window, segments),
        )
        for rate in rates
    }
