"""The reach of recent errors, in shares of the intervals: the factors with which 90 % intervals hold 90 %.

A probe's score is its error divided by the half-width that the interval of its value would have had, so an interval
holds the truth if the score is at most 1, and with a factor f on all half-widths if the score is at most f. The factor
is the quantile below which `COVERAGE` of the recent scores lie. Scores are counted for every fixed mixture of the
experts (`leader.mixtures`) and not for the published value: the published mixture depends on older errors, and the
scores would remember twice as many steps.

Scores are kept by mixture, sensor and size. The size is the half-width's power of two, in shares of the sensor's span:
a sensor that became noisy exceeds narrow intervals far, and wide ones hardly. Most probes are drawn differently from
holes, with other ages and with other sensors missing beside them. A half-width follows from both, so among cells of the
same size it matters little. A sensor and size with few scores leans on the size of all sensors, that one on all sizes,
and those on errors of the normal distribution, for which half-widths are made: without scores the factor is 1.

If a stream differs from the training, errors grow faster with the gap's age than half-widths do. Errors of a step at
which the whole group was silent grow differently from errors beside readings of other sensors. So a factor has a second
part for each class of gap ages, with and without such readings, the same for all sensors and sizes: the quantile of the
scores divided by the first part. Cells of one gap are right or wrong together, so the quantile of few long gaps says
less about future gaps than the quantile of as many single cells: the wanted share grows with the age.

**Memory.** Scores are counted in blocks of `BLOCK` steps, and the factors of a block follow from the blocks before it.
A score of block b has the weight MEMORY^(b' - b) in block b' and none after `HORIZON` blocks: nothing older than 95
steps decides, not even the last bit, and the order of the answers within a block does not matter. A miss is not
compensated: after a jump, intervals are wide as long as the jump's scores count.

Source: split conformal prediction with normalised scores (Lei, G'Sell, Rinaldo, Tibshirani and Wasserman 2018,
section 5.2), in groups as in Mondrian conformal prediction (Vovk, Gammerman and Shafer 2005), weighted by age as in
Barber, Candes, Ramdas and Tibshirani (2023), Conformal prediction beyond exchangeability. Ours differs: groups lean on
larger ones, and the wanted share is raised instead of the term for finite samples.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import erf
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.leader import awake_mixtures, mixture_errors, mixtures

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

# Share of the scores; measured by benchmarks.coverage --development, like the other constants: the quantile of few and
# past scores holds about one per cent less of future scores.
COVERAGE = 0.91
BLOCK = 8  # steps with the same factors, whose scores are computed together; each step alone costs seven times more
HORIZON = 11  # blocks: the oldest step lies 11 * 8 + 7 = 95 steps before the newest, within windows.history.HORIZON
MEMORY = 0.8  # factor per block
PRIOR = 60.0  # number of scores for which the normal distribution counts towards all levels
LEVEL_LEAN = 30.0  # number of scores for which all levels count towards a level
SENSOR_LEAN = 15.0  # number of scores for which a level of all sensors counts towards a level of one
AGES = (1, 4, 16)  # steps: upper bounds of the classes of gap ages, without the last
AGE_COVERAGE = np.array([0.91, 0.91, 0.92, 0.93])  # wanted shares of the scores by age, after the first part
AGE_LEAN = 20.0  # number of scores for which all ages count towards one
LEAST, MOST = 0.25, 16.0
SIZES = 8  # classes of half-widths: the lowest holds all below 2^-8 of the span, the highest all from 2^-2 on
_CLASSES = 2 * (len(AGES) + 1)  # classes of gap ages: beside readings of other sensors, and in a silent group
LEVELS = _CLASSES * SIZES  # a level is a class and a size
_PER_OCTAVE, _OCTAVES = 6, 6  # bins of scores from 2^-6 to 2^6; the outer bins hold all scores beyond
_BINS = 2 * _OCTAVES * _PER_OCTAVE
_EDGES = 2.0 ** (np.arange(_BINS + 1) / _PER_OCTAVE - _OCTAVES)


def _normal() -> Doubles:
    """Shares [bins] of the scores of normal errors; `COVERAGE` of these scores lie below 1."""
    deviations = NormalDist().inv_cdf((1.0 + COVERAGE) / 2.0)
    below = np.array([erf(deviations * edge / 2**0.5) for edge in _EDGES])
    below[0], below[-1] = 0.0, 1.0
    return np.diff(below)


_NORMAL = _normal()


@dataclass(frozen=True, slots=True)
class Scored:
    """Errors of n probe cells, and the half-widths of their intervals."""

    sensor: Ints  # [n]
    errors: Doubles  # [n, experts] imputed minus true; not finite where an expert gave no value
    half: Doubles  # [n, 2, 2] for values with a part of the first expert, and for others; below and above the value
    level: Ints  # [n, 2] levels of these half-widths (`levels`)
    slack: Doubles  # [n] deduction from an error: half a resolution, as the bounds are rounded like the values

    def where(self, rows: slice) -> Scored:
        """Some of the cells."""
        return Scored(*(getattr(self, each.name)[rows] for each in fields(self)))

    def scores(self, mixtures: Doubles) -> tuple[Doubles, Ints]:
        """The scores and the levels of the mixtures [mixtures, experts], both [n, mixtures].

        A score is NaN if an expert of the mixture gave no value or the half-width is not known.
        """
        awake = np.isfinite(self.errors)
        errors = mixture_errors(np.where(awake, self.errors, 0.0), mixtures)
        size = np.maximum(np.abs(errors) - self.slack[:, None], 0.0)
        kind = (mixtures[:, 0] == 0).astype(np.int64)
        side = (errors < 0).astype(np.int64)  # 1: the truth lies above the value
        half = self.half[np.arange(len(errors))[:, None], kind, side]
        known = awake_mixtures(mixtures, awake) & np.isfinite(half)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scores = np.where(known, np.where(size > 0, size / half, 0.0), np.nan)
        return scores, self.level[:, kind]


class Reach:
    """Recent scores of one model's probes in one partition."""

    def __init__(self, experts: int, sensors: int) -> None:
        """Start without scores, for this many experts and sensors."""
        self._mixtures = mixtures(experts)
        self._sensors = sensors
        self._block: int | None = None  # block of the newest step seen
        self._waiting: list[Scored] = []  # probes of that block
        # By earlier block: the index of each score in the counts [sensors, levels, bins], [n, mixtures], or -1.
        self._places: dict[int, NDArray[np.int32]] = {}
        self._weights = np.empty(0)  # weights of these scores, in the order of the blocks
        # Factors of the mixtures [mixtures, sensors, levels], and the mixtures with known factors for the block.
        self._points = np.ones((len(self._mixtures), sensors, LEVELS))
        self._known: set[int] = set(range(len(self._mixtures)))

    def factors(self, step: int, weights: Doubles, sensor: Ints, level: Ints) -> Doubles:
        """Return the factors on the half-widths of cells [n], which are filled at `step`, float64 [n].

        Args:
            step: step of the cells; its block must not be earlier than that of the last call.
            weights: [n, experts], weights of the experts in the cells; the most similar mixture gives the scores.
            sensor: [n].
            level: [n], levels of the half-widths (`levels`).

        Raises:
            ValueError: the step's block is earlier than that of the last call: later errors would count.
        """
        self._advance(step)
        return self.latest(weights, sensor, level)

    def latest(self, weights: Doubles, sensor: Ints, level: Ints) -> Doubles:
        """The factors of cells [n] at the newest step seen; the arguments are those of `factors`."""
        mixture = np.abs(weights[:, None] - self._mixtures).sum(axis=2).argmin(axis=1)
        for each in set(mixture.tolist()) - self._known:
            self._points[each] = points(self._counts(each))
            self._known.add(each)
        factors: Doubles = self._points[mixture, sensor, level]
        return factors

    def learn(self, step: int, probes: Scored) -> None:
        """Add the probes of a step, whose block must not be earlier than that of the last call.

        Raises:
            ValueError: the block is earlier.
        """
        self._advance(step)
        self._waiting.append(probes)

    def _advance(self, step: int) -> None:
        """Go on to the block of a step; when a block begins, the scores of the one before start to count."""
        block = step // BLOCK
        if block == self._block:
            return
        if self._block is not None and block < self._block:
            raise ValueError(f"expected a step of block {self._block} or later, found {step}, of block {block}")
        if self._block is not None and self._waiting:
            self._places[self._block] = self._found(self._waiting)
        self._block, self._waiting = block, []
        self._places = {each: places for each, places in self._places.items() if each >= block - HORIZON}
        sizes = [len(each) for each in self._places.values()]
        self._weights = np.repeat([MEMORY ** (block - each) for each in self._places], sizes)
        self._known = set()
        if not self._places:
            self._points[:] = 1.0
            self._known = set(range(len(self._mixtures)))

    def _found(self, probes: list[Scored]) -> NDArray[np.int32]:
        """The index of each score in the counts, [n, mixtures]; -1 if the score is not known."""
        parts = [each.scores(self._mixtures) for each in probes]
        scores, level = (np.concatenate(each) for each in zip(*parts, strict=True))
        sensor = np.concatenate([each.sensor for each in probes])
        with np.errstate(divide="ignore"):
            found = np.clip((np.log2(scores) + _OCTAVES) * _PER_OCTAVE, 0, _BINS - 1)
        known = ~np.isnan(found)
        places = (sensor[:, None] * LEVELS + level) * _BINS + np.where(known, found, 0).astype(np.int64)
        return np.where(known, places, -1).astype(np.int32)

    def _counts(self, mixture: int) -> Doubles:
        """Weighted counts [sensors, levels, bins] of the blocks before this one.

        The scores of a block have one weight, so the sums depend on the order of the blocks only.
        """
        places = np.concatenate([each[:, mixture] for each in self._places.values()])
        known = places >= 0
        counts = np.bincount(places[known], self._weights[known], self._sensors * LEVELS * _BINS).astype(np.float64)
        return counts.reshape(self._sensors, LEVELS, _BINS)


def points(counts: Doubles) -> Doubles:
    """The factors [sensors, levels] of counts [sensors, levels, bins]; none lies below LEAST or above MOST."""
    by_class = counts.reshape(len(counts), _CLASSES, SIZES, _BINS)
    counts = by_class.sum(axis=1)
    every = _shares(counts.sum(axis=(0, 1)) + PRIOR * _NORMAL)
    of_size = _quantiles(counts + SENSOR_LEAN * _shares(counts.sum(axis=0) + LEVEL_LEAN * every), COVERAGE)
    relative = _relative(by_class, of_size)
    leaning = relative + AGE_LEAN * _shares(relative.sum(axis=0) + PRIOR * _NORMAL)
    of_class = _quantiles(leaning, np.tile(AGE_COVERAGE, 2)[:, None])
    found = np.clip(of_size[:, None] * of_class[:, None], LEAST, MOST)
    return found.reshape(len(counts), LEVELS)


def _relative(by_class: Doubles, of_size: Doubles) -> Doubles:
    """Counts [classes, bins] of the scores in shares of the points of their sensor and size, [sensors, sizes].

    A sensor and size that is nearly always right is left out: rain that is 0 says nothing about the others.
    """
    moved = np.rint(np.log2(of_size) * _PER_OCTAVE).astype(np.int64)
    place = np.clip(np.arange(_BINS) - moved[:, None, :, None], 0, _BINS - 1)
    place = place + _BINS * np.arange(_CLASSES)[:, None, None]
    used = by_class * (of_size >= LEAST)[:, None, :, None]
    return np.bincount(place.ravel(), used.ravel(), _CLASSES * _BINS).reshape(_CLASSES, _BINS).astype(np.float64)


def _quantiles(counts: Doubles, wanted: float | Doubles) -> Doubles:
    """The points [...] below which a share of the counts [..., bins] lies."""
    below = counts.cumsum(axis=-1)
    wanted = wanted * below[..., -1:]
    bin_of = np.minimum((below < wanted).sum(axis=-1, keepdims=True), _BINS - 1)
    upto, own = (np.take_along_axis(each, bin_of, axis=-1) for each in (below, counts))
    share = np.clip(1.0 - (upto - wanted) / np.where(own > 0, own, 1.0), 0.0, 1.0)
    found: Doubles = (_EDGES[bin_of] * 2.0 ** (share / _PER_OCTAVE))[..., 0]
    return found


def levels(half_widths: Doubles, span: Doubles, gap_age: NDArray[np.integer], silent: NDArray[np.bool_]) -> Ints:
    """The levels of half-widths, int64 [n, ...].

    Args:
        half_widths: [n, ..., 2], below and above the value.
        span: [n], span of the sensors' readings.
        gap_age: [n], steps.
        silent: [n], True where no sensor of the group was observed at the cell's step.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        size = (half_widths[..., 0] + half_widths[..., 1]) / 2
        level = np.floor(np.log2(size.T / span).T) + SIZES + 1
    found: Ints = np.clip(np.nan_to_num(level, posinf=SIZES - 1, neginf=0.0), 0, SIZES - 1).astype(np.int64)
    of_class: Ints = np.searchsorted(AGES, gap_age) + (len(AGES) + 1) * silent.astype(np.int64)
    return (found.T + SIZES * of_class).T


def _shares(counts: Doubles) -> Doubles:
    shares: Doubles = counts / counts.sum(axis=-1, keepdims=True)
    return shares
