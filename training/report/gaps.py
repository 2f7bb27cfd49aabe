"""Single gaps of chosen lengths, hidden in test windows: errors by length, position, and number of missing sensors.

A gap is a run of steps at which a sensor was not observed, real gaps included, so a hidden step beside a real gap
counts with the length of both. It lies in the interior when an observation follows it in the window, at the right edge
when it reaches the newest step. Only hidden cells whose truth is known are scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.data import Bools, Floats, WindowSet, hide
from training.evaluate import BATCH, Fill

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]

LENGTHS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128))
WHO = {"one": "one sensor out", "several": "a random number of sensors out", "all": "whole group out"}
PLACES = {"interior": "interior", "edge": "right edge"}


@dataclass(frozen=True)
class GapErrors:
    """The gap around each cell of windows [B, C, T]; meaningful only where nothing was observed."""

    length: Ints  # number of steps of the run
    age: Ints  # steps since the sensor's last observation, counted from the window's start without one
    after_observation: Bools  # True if the sensor was observed before the gap
    before_observation: Bools  # True if the sensor was observed after the gap


def find_gaps(observed: Bools) -> GapErrors:
    """Find the gap around each cell: observed bool [..., T]."""
    steps = observed.shape[-1]
    index = np.arange(steps)
    left = np.maximum.accumulate(np.where(observed, index, -1), axis=-1)
    right = np.minimum.accumulate(np.where(observed, index, steps)[..., ::-1], axis=-1)[..., ::-1]
    return GapErrors(right - left - 1, index - left, left >= 0, right < steps)


def length_bins(window: int) -> list[tuple[int, int]]:
    """Return the lengths of gaps with an observation on both sides in a window: [shortest, longest] of each bin."""
    return [(low, min(high, window - 2)) for low, high in LENGTHS if low <= window - 2]


@dataclass
class GapProbes:
    """Results of the gaps: sums [who, place, bin, sensor] for each method, and the model's single errors."""

    bins: list[tuple[int, int]]
    sensors: int
    windows: int  # number of windows for each length, place and who
    squared: dict[str, Reals] = field(default_factory=dict)
    absolute: dict[str, Reals] = field(default_factory=dict)
    count: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    errors: dict[str, Errors] = field(default_factory=dict)  # errors by who

    def __post_init__(self) -> None:
        self.count = np.zeros((len(WHO), len(PLACES), len(self.bins), self.sensors), np.int64)


@dataclass(frozen=True)
class Errors:
    """Single errors of the model, truth minus imputed, standardised, for the values that a stream would publish.

    At the right edge these are the newest steps; in the interior, all steps of the gap. All arrays [N].
    """

    error: Reals
    newest: Bools
    age: Ints
    sensor: Ints


def probe(windows: WindowSet, fills: Mapping[str, Fill], sensors: int, *, most: int, seed: int) -> GapProbes:
    """Hide gaps of every length, position and number of sensors in test windows and fill them by every method.

    Args:
        windows: Standardised test windows.
        fills: Methods by name; "model" is among them.
        sensors: C.
        most: Windows for each length, place and number of sensors, spread evenly over groups and time.
        seed: Seed of the gaps.
    """
    bins = length_bins(windows.window)
    chosen = windows.spread(most)
    found = GapProbes(bins, sensors, len(chosen))
    for name in fills:
        found.squared[name], found.absolute[name] = np.zeros(found.count.shape), np.zeros(found.count.shape)
    for w, who in enumerate(WHO):
        single: list[Errors] = []
        for p, place in enumerate(PLACES):
            for b, lengths in enumerate(bins):
                for start in range(0, len(chosen), BATCH):
                    values = windows.take(chosen[start : start + BATCH])
                    rng = np.random.default_rng([seed, w, p, b, start])
                    hidden = _gaps(rng, values.shape, who, place, lengths, start)
                    single.append(_score(found, w, values, hidden, fills))
        found.errors[who] = Errors(*(np.concatenate([getattr(each, name) for each in single])
                                     for name in ("error", "newest", "age", "sensor")))  # fmt: skip
    return found


def _gaps(
    rng: np.random.Generator, shape: tuple[int, ...], who: str, place: str, lengths: tuple[int, int], first: int
) -> Bools:
    """Hide one gap in each window, the same for all missing sensors; `first` is the number of the first window."""
    batch, sensors, width = shape
    hidden = np.zeros(shape, np.bool_)
    for index in range(batch):
        length = int(rng.integers(lengths[0], lengths[1] + 1))
        begin = width - length if place == "edge" else int(rng.integers(1, width - length))
        out: Any = slice(None)
        if who == "one":
            out = (first + index) % sensors
        elif who == "several":
            out = rng.permutation(sensors)[: rng.integers(1, sensors + 1)]
        hidden[index, out, begin : begin + length] = True
    return hidden


def _score(found: GapProbes, who: int, values: Floats, hidden: Bools, fills: Mapping[str, Fill]) -> Errors:
    """Add a batch to the sums; position and length of a gap follow from the mask, real gaps included."""
    batch = hide(values, hidden)
    gaps = find_gaps(batch.observed)
    edges = np.array([low for low, _ in found.bins])
    scored = batch.hidden & gaps.after_observation & (gaps.length <= found.bins[-1][1])
    place = np.where(gaps.before_observation, 0, 1)[scored]
    column = np.searchsorted(edges, gaps.length[scored], side="right") - 1
    sensor = np.broadcast_to(np.arange(found.sensors)[:, None], values.shape)[scored]
    target: Any = (who, place, column, sensor)
    np.add.at(found.count, target, 1)
    error: Reals = np.zeros(0)
    for name, fill in fills.items():
        difference = batch.truth[scored].astype(np.float64) - fill(batch.values, batch.observed)[scored]
        np.add.at(found.squared[name], target, np.square(difference))
        np.add.at(found.absolute[name], target, np.abs(difference))
        if name == "model":
            error = difference
    newest = np.broadcast_to(np.arange(values.shape[-1]) == values.shape[-1] - 1, values.shape)[scored]
    published = (place == 0) | newest
    return Errors(error[published], newest[published], gaps.age[scored][published], sensor[published])


def summary(found: GapProbes, sensors: Sequence[str], std: Reals) -> dict[str, Any]:
    """Turn the sums into errors: over all sensors by (who, place, length), and for each sensor by place and by length.

    None means that no cell was scored. The per-sensor numbers come from gaps that the sensor shares with a random
    number of others; `mae_unit` is in the sensor's unit.
    """
    methods = list(found.squared)
    labels = [f"{low}" if low == high else f"{low}–{high}" for low, high in found.bins]
    curves: dict[str, Any] = {}
    for w, who in enumerate(WHO):
        curves[who] = {}
        for p, place in enumerate(PLACES):
            cells = found.count[w, p].sum(axis=-1)
            curves[who][place] = {
                "cells": cells.tolist(),
                "mae": {m: _ratio(found.absolute[m][w, p].sum(axis=-1), cells) for m in methods},
                "mse": {m: _ratio(found.squared[m][w, p].sum(axis=-1), cells) for m in methods},
            }
    several = list(WHO).index("several")
    rows: dict[str, Any] = {}
    for c, name in enumerate(sensors):
        rows[name] = {}
        for p, place in enumerate(PLACES):
            cells = found.count[several, p, :, c]
            absolute = {m: found.absolute[m][several, p, :, c] for m in methods}
            pooled = {m: _ratio(absolute[m].sum(keepdims=True), cells.sum(keepdims=True))[0] for m in methods}
            rows[name][place] = {
                "cells": int(cells.sum()),
                "mae": pooled,
                "mae_unit": {m: None if pooled[m] is None else pooled[m] * std[c] for m in methods},
                "cells_by_length": cells.tolist(),
                "mae_by_length": {m: _ratio(absolute[m], cells) for m in methods},
            }
    return {
        "lengths": labels,
        "windows": found.windows,
        "who": WHO,
        "places": PLACES,
        "curves": curves,
        "sensors": rows,
    }


def _ratio(total: Reals, cells: Ints) -> list[float | None]:
    return [float(one) / int(count) if count else None for one, count in zip(total, cells, strict=True)]
