"""Which observed cells to withhold: the gap patterns a model is trained and scored on, all seeded.

Every sampler takes a numpy generator and the bool array of what was observed, [B, C, T], and returns `hidden`, a bool
array of the same shape, True where an observed cell is to be withheld. Real gaps stay what they are: they are never
hidden, because nobody knows what to compare with there.

    random      each cell by itself (the paper's point pattern)
    block       per sensor, an exact number of steps in separate segments (the paper's block pattern)
    tail        the newest steps are out: of one sensor, of several, of the whole group
    silent      one or more sensors are out for the whole window
    deployment  a mixture of all of these, each window its own: what a stream meets

The block sampler is the calibrated one: the number of segments uniform in 2..16, lengths a uniformly random
composition, positions uniform over all arrangements that keep an observed step between segments. It is the reading of
the paper's text that reproduces the paper's own linear baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

SEGMENTS = (2, 16)
TAIL_STEPS = (1, 48)
PATTERNS = ("random", "block", "tail_one", "tail_several", "tail_all", "silent", "deployment")

# The mixture: how often a window meets each shape. Half of it is the paper's, so that the interior stays good; the
# right edge has the other half, because the newest step is what a stream asks for at every step.
DEPLOYMENT_WEIGHTS: Mapping[str, float] = {
    "random": 0.22,
    "block": 0.25,
    "tail_one": 0.17,
    "tail_several": 0.13,
    "tail_all": 0.15,
    "silent": 0.08,
}


def random_cells(rng: np.random.Generator, observed: Bools, rate: float) -> Bools:
    """Each cell hidden with probability `rate`, independently ("random missingness")."""
    return (rng.random(observed.shape, dtype=np.float32) < rate) & observed


def block_cells(rng: np.random.Generator, observed: Bools, rate: float, segments: tuple[int, int] = SEGMENTS) -> Bools:
    """Per sensor, round(rate * T) steps in separate segments ("block missingness"), before `observed` is applied.

    With k hidden and f free steps, n segments (n uniform in `segments`, at most k and at most f + 1) go into n
    distinct ones of the f + 1 places before, between and after the free steps: every arrangement that leaves at least
    one free step between two segments is equally likely. Their lengths are a uniformly random composition of k.
    """
    steps = observed.shape[-1]
    hidden_steps = round(rate * steps)
    if hidden_steps <= 0:
        return np.zeros_like(observed)
    if hidden_steps >= steps:
        return observed.copy()
    rows = int(np.prod(observed.shape[:-1]))
    free = steps - hidden_steps
    most = min(segments[1], hidden_steps, free + 1)
    counts = rng.integers(min(segments[0], most), most + 1, size=rows)

    # Lengths: choose n - 1 of the k - 1 cuts between hidden steps; equal choices are equal compositions.
    cut_rank = np.argsort(np.argsort(rng.random((rows, hidden_steps - 1)), axis=1), axis=1)
    cuts = cut_rank < (counts - 1)[:, None]
    segment_of = np.concatenate([np.zeros((rows, 1), np.int64), np.cumsum(cuts, axis=1)], axis=1)
    lengths = np.zeros((rows, most), np.int64)
    np.add.at(lengths, (np.arange(rows)[:, None], segment_of), 1)

    # Places: the n lowest of f + 1 random numbers; the j-th chosen place takes the j-th segment.
    chosen = np.argsort(np.argsort(rng.random((rows, free + 1)), axis=1), axis=1) < counts[:, None]
    order = np.cumsum(chosen, axis=1) - 1
    before = np.where(chosen, np.take_along_axis(lengths, np.clip(order, 0, most - 1), axis=1), 0)
    free_at = np.arange(free) + np.cumsum(before, axis=1)[:, :free]
    hidden = np.ones((rows, steps), np.bool_)
    np.put_along_axis(hidden, free_at, False, axis=1)
    return hidden.reshape(observed.shape) & observed


def tail_cells(rng: np.random.Generator, observed: Bools, sensors: str, steps: tuple[int, int] = TAIL_STEPS) -> Bools:
    """The newest steps hidden, their number log-uniform in `steps`: one step is as likely as ten to twenty are.

    Args:
        rng: Seeded by the caller.
        observed: bool [B, C, T].
        sensors: "one", "several" (2 or more, up to all but one, with one common length) or "all".
        steps: shortest and longest tail, both inclusive.
    """
    batch, variables, width = observed.shape
    low, high = steps[0], min(steps[1], width - 1)
    lengths = np.exp(rng.uniform(np.log(low), np.log(high + 1), size=batch)).astype(np.int64).clip(low, high)
    if sensors == "all":
        count = np.full(batch, variables)
    elif sensors == "one":
        count = np.ones(batch, np.int64)
    elif sensors == "several":
        count = rng.integers(min(2, variables), max(2, variables - 1) + 1, size=batch).clip(1, variables)
    else:
        raise ValueError(f"sensors must be one, several or all, found {sensors!r}")
    newest: Bools = np.arange(width) >= width - lengths[:, None, None]  # (B, 1, T)
    return _some_sensors(rng, batch, variables, count)[:, :, None] & newest & observed


def silent_sensors(rng: np.random.Generator, observed: Bools, most: int = 3) -> Bools:
    """One to `most` sensors hidden for the whole window, never all of them."""
    batch, variables, _ = observed.shape
    count = rng.integers(1, min(most, max(variables - 1, 1)) + 1, size=batch)
    return _some_sensors(rng, batch, variables, count)[:, :, None] & observed


def _some_sensors(rng: np.random.Generator, batch: int, variables: int, count: NDArray[np.int64]) -> Bools:
    """[B, C], True for `count[b]` sensors chosen at random in each window."""
    rank = np.argsort(np.argsort(rng.random((batch, variables)), axis=1), axis=1)
    return rank < count[:, None]


@dataclass(frozen=True)
class MaskSpec:
    """A pattern with its numbers: what a run's configuration says under [masks].

    `rates` bounds the rate of random and block masks, drawn anew for every batch; equal bounds fix it. `weights` is
    the deployment mixture. `background` is the share of tail and silent windows that also lose single cells
    elsewhere, at a rate up to `background_rate`: a real stream seldom has just one fault.
    """

    pattern: str = "block"
    rates: tuple[float, float] = (0.3, 0.3)
    segments: tuple[int, int] = SEGMENTS
    tail_steps: tuple[int, int] = TAIL_STEPS
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEPLOYMENT_WEIGHTS))
    background: float = 0.5
    background_rate: float = 0.25

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}; found {self.pattern!r}")
        unknown = sorted(set(self.weights) - set(PATTERNS[:-1]))
        if unknown or not self.weights or min(self.weights.values()) < 0 or sum(self.weights.values()) <= 0:
            raise ValueError(
                f"weights must be numbers of 0 or more for {', '.join(PATTERNS[:-1])}; found {dict(self.weights)}"
            )
        if not 0 < self.rates[0] <= self.rates[1] < 1:
            raise ValueError(f"rates must be two numbers with 0 < low <= high < 1, found {self.rates}")
        for name, (low, high) in (("segments", self.segments), ("tail_steps", self.tail_steps)):
            if not 1 <= low <= high:
                raise ValueError(f"{name} must be two counts with 1 <= low <= high, found {(low, high)}")

    @property
    def names(self) -> list[str]:
        """The patterns in use, for the model's contract."""
        if self.pattern != "deployment":
            return [self.pattern]
        return [name for name, weight in self.weights.items() if weight > 0]

    def sample(self, rng: np.random.Generator, observed: Bools) -> Bools:
        """Hidden cells for a batch of windows: observed [B, C, T] -> hidden [B, C, T]."""
        if self.pattern != "deployment":
            return self._one(rng, observed, self.pattern)
        names = list(self.weights)
        share = np.array([self.weights[name] for name in names])
        drawn = rng.choice(len(names), size=observed.shape[0], p=share / share.sum())
        hidden = np.zeros_like(observed)
        for index, name in enumerate(names):
            windows = np.flatnonzero(drawn == index)
            if windows.size:
                hidden[windows] = self._one(rng, observed[windows], name)
                if name not in ("random", "block"):
                    hidden[windows] |= self._background(rng, observed[windows])
        return hidden

    def _one(self, rng: np.random.Generator, observed: Bools, pattern: str) -> Bools:
        if pattern == "random":
            return random_cells(rng, observed, rng.uniform(*self.rates))
        if pattern == "block":
            return block_cells(rng, observed, rng.uniform(*self.rates), self.segments)
        if pattern == "silent":
            return silent_sensors(rng, observed)
        return tail_cells(rng, observed, pattern.removeprefix("tail_"), self.tail_steps)

    def _background(self, rng: np.random.Generator, observed: Bools) -> Bools:
        rates = rng.uniform(0, self.background_rate, size=(observed.shape[0], 1, 1))
        rates[rng.random(observed.shape[0]) >= self.background] = 0.0
        return (rng.random(observed.shape, dtype=np.float32) < rates) & observed


def edge_cells(observed: Bools, sensor: int | None, lag: int = 0) -> Bools:
    """One single step hidden, `lag` steps before the newest: of one sensor, or of all when `sensor` is None."""
    hidden = np.zeros_like(observed)
    row = slice(None) if sensor is None else sensor
    hidden[:, row, observed.shape[-1] - 1 - lag] = True
    return hidden & observed
