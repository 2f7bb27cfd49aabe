"""The choice of observed cells to hide: the gap patterns of training and scoring, all seeded.

Every sampler takes a numpy generator and the bool array of observed cells, [B, C, T], and returns `hidden`, a bool
array of the same shape, True where an observed cell is to be withheld. Real gaps are never hidden, because their true
values are unknown.

    random      each cell by itself (the paper's point pattern)
    block       per sensor, an exact number of steps in separate segments (the paper's block pattern)
    single      a few single steps with observations on both sides, or the newest: of one sensor, several, all
    tail        the newest steps are missing: of one sensor, of several, of the whole group
    silent      one or more sensors are missing for the whole window
    blackout    the whole group is missing for a while and returns
    correlated  sensors that fail together are missing at the same time, up to the newest step or in the middle
    replay      real gaps of the data, applied to other windows
    deployment  a mixture of all of these, drawn for each window: the gaps of a stream

The block sampler is calibrated: the number of segments is uniform in 2..16, lengths are a uniformly random composition,
positions uniform over all arrangements that keep an observed step between segments. Of the interpretations of the
paper's text that were tried, this one is closest to the linear baseline of the paper (benchmarks/paper).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from training.data.outages import Bools, Outages

SEGMENTS = (2, 16)
TAIL_STEPS = (1, 48)
PATTERNS = (
    "random", "block", "single", "tail_one", "tail_several", "tail_all", "silent", "blackout", "correlated", "replay",
    "deployment",
)  # fmt: skip

# Shares of the deployment mixture. A third are the paper's patterns, so that the interior stays good; most of the rest
# is at the right edge, because a stream needs the newest step at every step. Single steps have a share of their own:
# neither blocks nor tails teach them (measured on Illness: 0.08 to 0.12 against 0.057 for interpolation, one step
# missing 8 steps before the newest).
DEPLOYMENT_WEIGHTS: Mapping[str, float] = {
    "random": 0.15,
    "block": 0.20,
    "single": 0.14,
    "tail_one": 0.13,
    "tail_several": 0.09,
    "tail_all": 0.11,
    "silent": 0.06,
    "blackout": 0.04,
    "correlated": 0.04,
    "replay": 0.04,
}

FIXED_RATES = (0.3, 0.3)
DEPLOYMENT_RATES = (0.05, 0.6)
SINGLES = (1, 8)  # single steps in a window
APART = 3  # steps from one single step to the next: two observations lie between


def random_cells(rng: np.random.Generator, observed: Bools, rate: float) -> Bools:
    """Hide each cell independently with probability `rate` ("random missingness")."""
    return (rng.random(observed.shape, dtype=np.float32) < rate) & observed


def block_cells(rng: np.random.Generator, observed: Bools, rate: float, segments: tuple[int, int] = SEGMENTS) -> Bools:
    """Hide round(rate * T) steps of each sensor in separate segments ("block missingness").

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
    """Hide the newest steps, their number log-uniform in `steps`: one step is as likely as ten to twenty.

    Args:
        rng: Seeded by the caller.
        observed: bool [B, C, T].
        sensors: "one", "several" (2 or more, up to all but one, with one common length) or "all".
        steps: shortest and longest tail, both inclusive.
    """
    batch, variables, width = observed.shape
    lengths = _lengths(rng, batch, steps, width - 1)
    newest: Bools = np.arange(width) >= width - lengths[:, None, None]  # (B, 1, T)
    return _named_sensors(rng, batch, variables, sensors)[:, :, None] & newest & observed


def single_cells(rng: np.random.Generator, observed: Bools, count: tuple[int, int] = SINGLES) -> Bools:
    """Hide single steps, `count` per window (both inclusive), never two within `APART` - 1 steps of each other.

    In half of the windows the newest step is one of them. The steps of a window are missing for one sensor, for several
    or for all, a third each, and for the same sensors at each of its steps.
    """
    batch, variables, width = observed.shape
    slots = max(1, width // APART)
    with_newest = rng.random((batch,)) < 0.5
    offset = np.where(with_newest, 0, rng.integers(0, min(APART, width), size=(batch,)))
    order = rng.random((batch, slots))
    order[with_newest, 0] = -1.0  # slot 0 of such a window is its newest step
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    chosen = rank < rng.integers(count[0], count[1] + 1, size=(batch,))[:, None]
    steps = np.zeros((batch, width), np.bool_)
    windows, slot = np.nonzero(chosen)
    steps[windows, np.maximum(width - 1 - APART * slot - offset[windows], 0)] = True
    rows = np.zeros((batch, variables), np.bool_)
    kind = rng.integers(0, 3, size=batch)
    for index, sensors in enumerate(("one", "several", "all")):
        of_kind = kind == index
        rows[of_kind] = _named_sensors(rng, int(of_kind.sum()), variables, sensors)
    return rows[:, :, None] & steps[:, None, :] & observed


def blackout_cells(rng: np.random.Generator, observed: Bools, steps: tuple[int, int] = TAIL_STEPS) -> Bools:
    """Hide the whole group for a while, log-uniform in `steps`, with observations before and after where they fit."""
    batch, _, width = observed.shape
    lengths = _lengths(rng, batch, steps, max(1, width - 2))
    first = 1 + (rng.random(batch) * (width - 1 - lengths)).astype(np.int64).clip(0)
    return _span(first, lengths, width)[:, None, :] & observed


def correlated_cells(
    rng: np.random.Generator, observed: Bools, sets: Bools, steps: tuple[int, int] = TAIL_STEPS
) -> Bools:
    """Hide sensors that fail together for the same steps; in half of the windows up to the newest step.

    Args:
        rng: Seeded by the caller.
        observed: bool [B, C, T].
        sets: bool [M, C] to draw from, as often as they occurred. Without any (M is 0), neighbours in the list of
            sensors are taken, because sensors listed side by side are often wired together.
        steps: shortest and longest outage, both inclusive, log-uniform.
    """
    batch, variables, width = observed.shape
    lengths = _lengths(rng, batch, steps, width - 1)
    free = width - lengths
    first = np.where(rng.random(batch) < 0.5, free, (rng.random(batch) * (free + 1)).astype(np.int64))
    if len(sets):
        rows: Bools = sets[rng.integers(0, len(sets), size=batch)]
    else:
        count = rng.integers(min(2, variables), max(2, variables - 1) + 1, size=batch).clip(1, variables)
        start = (rng.random(batch) * (variables - count + 1)).astype(np.int64)
        rows = _span(start, count, variables)
    hidden: Bools = rows[:, :, None] & _span(first, lengths, width)[:, None, :] & observed
    return hidden


def replay_cells(rng: np.random.Generator, observed: Bools, templates: Bools) -> Bools:
    """Apply real gap patterns, templates [N, C, T], to other windows; hide nothing without a template."""
    if not len(templates):
        return np.zeros_like(observed)
    hidden: Bools = templates[rng.integers(0, len(templates), size=observed.shape[0])] & observed
    return hidden


def silent_sensors(rng: np.random.Generator, observed: Bools, most: int = 3) -> Bools:
    """Hide one to `most` sensors for the whole window, never all of them."""
    batch, variables, _ = observed.shape
    count = rng.integers(1, min(most, max(variables - 1, 1)) + 1, size=batch)
    return _some_sensors(rng, batch, variables, count)[:, :, None] & observed


def _lengths(rng: np.random.Generator, batch: int, steps: tuple[int, int], most: int) -> NDArray[np.int64]:
    """Draw log-uniform lengths in `steps`, at most `most`: [B]."""
    high = max(1, min(steps[1], most))
    low = min(steps[0], high)
    return np.exp(rng.uniform(np.log(low), np.log(high + 1), size=batch)).astype(np.int64).clip(low, high)


def _span(first: NDArray[np.int64], length: NDArray[np.int64], width: int) -> Bools:
    """Return [B, width], True for `length` places from `first` on."""
    place = np.arange(width)
    span: Bools = (place >= first[:, None]) & (place < (first + length)[:, None])
    return span


def _named_sensors(rng: np.random.Generator, batch: int, variables: int, sensors: str) -> Bools:
    """Draw [B, C]: "one" sensor, "several" (2 or more, up to all but one) or "all", in each window."""
    if sensors == "all":
        count = np.full(batch, variables)
    elif sensors == "one":
        count = np.ones(batch, np.int64)
    elif sensors == "several":
        count = rng.integers(min(2, variables), max(2, variables - 1) + 1, size=batch).clip(1, variables)
    else:
        raise ValueError(f"sensors must be one, several or all, found {sensors!r}")
    return _some_sensors(rng, batch, variables, count)


def _some_sensors(rng: np.random.Generator, batch: int, variables: int, count: NDArray[np.int64]) -> Bools:
    """Draw [B, C], True for `count[b]` random sensors in each window."""
    rank = np.argsort(np.argsort(rng.random((batch, variables)), axis=1), axis=1)
    return rank < count[:, None]


@dataclass(frozen=True)
class MaskSpec:
    """A mask pattern with its parameters: a run's [masks] section.

    `rates` bounds the rate of random and block masks, drawn for every batch; equal bounds fix it, and none given
    means 0.3, or 0.05 to 0.6 in the deployment mixture. `weights` are the shares of that mixture. `background` is the
    share of its windows, other than random and block ones, that also lose single cells elsewhere, at a rate up to
    `background_rate`: a real stream seldom has a single fault.
    """

    pattern: str = "block"
    rates: tuple[float, ...] = ()
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
        if self.rates and not (len(self.rates) == 2 and 0 < self.rates[0] <= self.rates[1] < 1):
            raise ValueError(f"rates must be two numbers with 0 < low <= high < 1, found {self.rates}")
        for name, (least, most) in (("segments", self.segments), ("tail_steps", self.tail_steps)):
            if not 1 <= least <= most:
                raise ValueError(f"{name} must be two counts with 1 <= low <= high, found {(least, most)}")

    @property
    def rate_bounds(self) -> tuple[float, float]:
        """The rates in use."""
        if self.rates:
            return self.rates[0], self.rates[1]
        return DEPLOYMENT_RATES if self.pattern == "deployment" else FIXED_RATES

    @property
    def names(self) -> list[str]:
        """The patterns in use, for the model's contract."""
        if self.pattern != "deployment":
            return [self.pattern]
        return [name for name, weight in self.weights.items() if weight > 0]

    def sample(self, rng: np.random.Generator, observed: Bools, outages: Outages | None = None) -> Bools:
        """Draw the hidden cells of a batch of windows: observed [B, C, T] -> hidden [B, C, T].

        `outages` are the outages of the training part (`fitted`). Without them the batch's own real gaps are replayed,
        each on the other windows.
        """
        if self.pattern != "deployment":
            return self._one(rng, observed, self.pattern, outages or _own_outages(observed, [self.pattern]))
        names = list(self.weights)
        share = np.array([self.weights[name] for name in names])
        drawn = np.asarray(rng.choice(len(names), size=observed.shape[0], p=share / share.sum()))
        outages = outages or _own_outages(observed, [names[index] for index in np.unique(drawn)])
        hidden = np.zeros_like(observed)
        for index, name in enumerate(names):
            windows = np.flatnonzero(drawn == index)
            if windows.size:
                hidden[windows] = self._one(rng, observed[windows], name, outages)
                if name not in ("random", "block"):
                    hidden[windows] |= self._background(rng, observed[windows])
        return hidden

    def fitted(self, known: Bools, window: int) -> FittedMasks:
        """Combine the masks with the outages of a training part, known [G, C, R], to replay."""
        return FittedMasks(self, Outages.harvest(known, window))

    def _one(self, rng: np.random.Generator, observed: Bools, pattern: str, outages: Outages) -> Bools:
        if pattern == "random":
            return random_cells(rng, observed, rng.uniform(*self.rate_bounds))
        if pattern == "block":
            return block_cells(rng, observed, rng.uniform(*self.rate_bounds), self.segments)
        if pattern == "single":
            return single_cells(rng, observed)
        if pattern == "silent":
            return silent_sensors(rng, observed)
        if pattern == "blackout":
            return blackout_cells(rng, observed, self.tail_steps)
        if pattern == "correlated":
            return correlated_cells(rng, observed, outages.sets, self.tail_steps)
        if pattern == "replay":
            hidden = replay_cells(rng, observed, outages.templates)
            # Data without gaps, or a template that hides nothing here: hide sensors that fail together instead.
            idle = ~hidden.any(axis=(1, 2))
            if idle.any():
                hidden[idle] = correlated_cells(rng, observed[idle], outages.sets, self.tail_steps)
            return hidden
        return tail_cells(rng, observed, pattern.removeprefix("tail_"), self.tail_steps)

    def _background(self, rng: np.random.Generator, observed: Bools) -> Bools:
        rates = rng.uniform(0, self.background_rate, size=(observed.shape[0], 1, 1))
        rates[rng.random(observed.shape[0]) >= self.background] = 0.0
        return (rng.random(observed.shape, dtype=np.float32) < rates) & observed


@dataclass(frozen=True)
class FittedMasks:
    """A mask specification with the outages of the data on which it is used."""

    spec: MaskSpec
    outages: Outages

    def sample(self, rng: np.random.Generator, observed: Bools) -> Bools:
        """Draw the hidden cells of a batch of windows: observed [B, C, T] -> hidden [B, C, T]."""
        return self.spec.sample(rng, observed, self.outages)


def _own_outages(observed: Bools, patterns: Collection[str]) -> Outages:
    """Find the real gaps of a batch [B, C, T], if a pattern in use needs them."""
    if {"replay", "correlated"}.isdisjoint(patterns):
        _, variables, width = observed.shape
        return Outages(np.zeros((0, variables, width), np.bool_), np.zeros((0, variables), np.bool_))
    return Outages.harvest(observed, observed.shape[-1])


def edge_cells(observed: Bools, sensor: int | None, lag: int = 0) -> Bools:
    """Hide the step `lag` steps before the newest, of one sensor, or of all if `sensor` is None."""
    hidden = np.zeros_like(observed)
    row = slice(None) if sensor is None else sensor
    hidden[:, row, observed.shape[-1] - 1 - lag] = True
    return hidden & observed
