"""What the model and both baselines say to the questions of one group's windows, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.imputers.baselines import interpolation, last_value
from training.data.masks import Bools
from training.data.series import Floats
from training.data.windows import WindowSet, hide
from training.edge.cases import CASES, LAGS, questions

# (values with 0 where missing, observed), both [B, C, T] -> [B, C, S], filled, the S newest steps; 9 of them or more.
Fill = Callable[[Floats, Bools], Floats]
BATCH = 16  # windows a forward pass: 5.7 ms a window at D = 64 on one core, 8.1 at 32 (AMD EPYC)


@dataclass(frozen=True)
class Answers:
    """One case at one lag: float32 [W, C], standardised, a row a window in the order of time.

    `truth` is NaN where a cell was not asked for or nobody knows its value; a baseline is NaN where it has nothing to
    go by. `steps` [W] are the numbers of the windows' newest steps.
    """

    steps: NDArray[np.int64]
    truth: Floats
    model: Floats
    interpolation: Floats
    last_value: Floats


def stretches(windows: WindowSet, group: int, most: int, count: int = 4) -> NDArray[np.int64]:
    """The windows of a group in the order of time; at most `most`, then in `count` stretches evenly spread over it.

    Within a stretch windows follow step by step, as a stream's do.
    """
    index = np.flatnonzero(windows.groups == group)
    if most <= 0 or most >= index.size:
        return index
    length = max(1, most // count)
    starts = np.linspace(0, index.size - length, count).round().astype(np.int64)
    return index[np.unique(starts[:, None] + np.arange(length))]


def ask(
    windows: WindowSet, index: NDArray[np.int64], fill: Fill, key: str, cases: tuple[str, ...] = CASES
) -> dict[tuple[str, int], Answers]:
    """Put all questions of all cases to the windows of one group.

    Args:
        windows: Standardised.
        index: Which of them, in the order of time.
        fill: The model.
        key: The data set's name; draws the sets of `several`.
        cases: Which ones.

    Returns:
        (case, lag) -> answers.
    """
    shape = (index.size, windows.take(index[:1]).shape[1])
    found = {
        (case, lag): Answers(windows.starts[index] + windows.window - 1, *(_nothing(shape) for _ in range(4)))
        for case in cases
        for lag in LAGS
    }
    for rows, values in _batches(windows, index):
        known = np.isfinite(values)
        for case in cases:
            for question in questions(case, known, windows.starts[index[rows]], key):
                if not question.hidden.any():
                    continue
                batch = hide(values, question.hidden)
                filled = fill(batch.values, batch.observed)
                lines = interpolation(batch.values, batch.observed), last_value(batch.values, batch.observed)
                for lag in question.lags:
                    answers, asked = found[case, lag], batch.hidden[:, :, -1 - lag]
                    said = (batch.truth, filled, *lines)
                    for kept, new in zip(
                        (answers.truth, answers.model, answers.interpolation, answers.last_value), said, strict=True
                    ):
                        kept[rows] = np.where(asked, new[:, :, -1 - lag], kept[rows])
    return found


def _nothing(shape: tuple[int, ...]) -> Floats:
    return np.full(shape, np.nan, np.float32)


def _batches(windows: WindowSet, index: NDArray[np.int64]) -> Iterator[tuple[slice, Floats]]:
    for start in range(0, index.size, BATCH):
        rows = slice(start, min(start + BATCH, index.size))
        yield rows, windows.take(index[rows])
