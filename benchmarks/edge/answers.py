"""Estimates of the model and of both baselines for the hidden cells of one group's windows, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.edge.cases import CASES, LAGS, questions
from glaim_stream.form import interpolation, last_value
from glaim_stream.windows import age_class, gap_ages, places
from training.closed_form import TimedFill
from training.data import Bools, Floats, WindowSet, hide

# (values with 0 where missing, observed), both [B, C, T] -> [B, C, S], filled, the S newest steps; 9 of them or more.
Fill = Callable[[Floats, Bools], Floats]
BATCH = 16  # windows a forward pass: 5.7 ms a window at D = 64 on one core, 8.1 at 32 (AMD EPYC)


@dataclass(frozen=True)
class EdgeAnswers:
    """Estimates of one case at one lag, [W, C] each, standardised, one row a window in the order of time.

    `truth` is NaN where a cell was not hidden or its value is unknown; a baseline is NaN where it has no observation to
    use, and the model where there is none. `steps` [W] are the row numbers of the windows' newest steps. `age` and
    `place` are the classes of `glaim_stream.windows.probes` by which a worker chooses the weights of a blend.
    """

    steps: NDArray[np.int64]
    truth: Floats
    model: Floats
    interpolation: Floats
    last_value: Floats
    age: NDArray[np.int64]
    place: NDArray[np.int64]
    gaussian: Floats | None = None  # values of the closed form, if there is one


def stretches(windows: WindowSet, group: int, most: int, count: int = 4) -> NDArray[np.int64]:
    """Return the windows of a group in the order of time; at most `most`, in `count` stretches evenly spread.

    Within a stretch windows follow each other step by step, as in a stream.
    """
    index = np.flatnonzero(windows.groups == group)
    if most <= 0 or most >= index.size:
        return index
    length = max(1, most // count)
    starts = np.linspace(0, index.size - length, count).round().astype(np.int64)
    return index[np.unique(starts[:, None] + np.arange(length))]


def fill_hidden(
    windows: WindowSet,
    index: NDArray[np.int64],
    fill: Fill | None,
    key: str,
    cases: tuple[str, ...] = CASES,
    closed: TimedFill | None = None,
    times_ms: NDArray[np.int64] | None = None,
) -> dict[tuple[str, int], EdgeAnswers]:
    """Hide the cells of every case in the windows of one group and fill them by every method.

    Args:
        windows: Standardised.
        index: Position among them, in the order of time.
        fill: The model; None leaves its estimates NaN.
        key: The data set's name; seeds the sets of `several`.
        cases: Names of `CASES`.
        closed: The closed form.
        times_ms: [R], of the windows' rows; needed with `closed`.

    Returns:
        (case, lag) -> answers.
    """
    shape = (index.size, windows.take(index[:1]).shape[1])
    steps = windows.starts[index] + windows.window - 1
    found = {(case, lag): _empty(steps, shape, closed is not None) for case in cases for lag in LAGS}
    for rows, values in _batches(windows, index):
        known = np.isfinite(values)
        for case in cases:
            for question in questions(case, known, windows.starts[index[rows]], key):
                if not question.hidden.any():
                    continue
                batch = hide(values, question.hidden)
                filled = np.full_like(batch.values, np.nan) if fill is None else fill(batch.values, batch.observed)
                lines = interpolation(batch.values, batch.observed), last_value(batch.values, batch.observed)
                form = None
                if closed is not None and times_ms is not None:
                    form = closed(batch.values, batch.observed, times_ms[steps[rows]])
                for lag in question.lags:
                    answers, hidden = found[case, lag], batch.hidden[:, :, -1 - lag]
                    estimates = (batch.truth, filled, *lines)
                    for kept, new in zip(
                        (answers.truth, answers.model, answers.interpolation, answers.last_value), estimates,
                        strict=True,
                    ):  # fmt: skip
                        kept[rows] = np.where(hidden, new[:, :, -1 - lag], kept[rows])
                    if form is not None and answers.gaussian is not None:
                        kept = answers.gaussian
                        kept[rows] = np.where(hidden, form[:, :, -1 - lag], kept[rows])
                    window, sensor = np.nonzero(hidden)
                    lags = np.full(window.size, lag)
                    answers.age[rows][window, sensor] = age_class(gap_ages(batch.observed[window, sensor], lags))
                    answers.place[rows][window, sensor] = places(batch.observed, window, sensor, lags)
    return found


def _empty(steps: NDArray[np.int64], shape: tuple[int, ...], closed: bool) -> EdgeAnswers:
    nan = np.full((5, *shape), np.nan, np.float32)
    zeros = np.zeros((2, *shape), np.int64)
    return EdgeAnswers(steps, nan[0], nan[1], nan[2], nan[3], zeros[0], zeros[1], nan[4] if closed else None)


def _batches(windows: WindowSet, index: NDArray[np.int64]) -> Iterator[tuple[slice, Floats]]:
    for start in range(0, index.size, BATCH):
        rows = slice(start, min(start + BATCH, index.size))
        yield rows, windows.take(index[rows])
