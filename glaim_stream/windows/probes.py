"""Probes: known values that are hidden from the imputer, to measure its current error.

At each step that event time closes, a share of the groups is sampled and some of their observations are hidden in a
copy of their windows, which the imputer fills along with the holes. Its values are never published. The probe cells
resemble the holes of a stream: the newest step of a sensor that has been silent for a while (edge), the step of the
final rows within a gap that ends after it (interior), and both with all sensors of the group silent at that step.
Further windows have recent gaps of some group (`hole_patterns`). Intervals learn from
both kinds of windows, the experts' weights only from the first kind.

Sampling is deterministic: it depends only on the group name and the step, so a worker that reads the topic again makes
the same probes in the same order. Code that hides cells of a whole series (`form`, `tables`, training) draws them from
one generator, which a stream that begins elsewhere could not repeat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.hole_patterns import LOOKED_AT, TIMES, When, candidates, patterns
from glaim_stream.windows.holes import Rules
from glaim_stream.windows.rings import Rings

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Hashes = NDArray[np.uint64]

AGES = (1, 2, 4, 8, 16)  # steps hidden; also the upper bounds of the classes by which errors are kept
MOST_WINDOWS = 32  # windows per model and step: errors are pooled over groups, and more windows add cost, not accuracy
FEWEST_WINDOWS = 4  # windows per model and step: with fewer, a drift shows too late
_HIDDEN_SHARE = 4  # one sensor in four is hidden: with more, the window would be a harder case than a real one
MOST_COPIES = 8  # further windows whose gaps are copied
_COPIES = np.uint64(0xC0B1E5)  # salt: copies sample other groups and times than drawn gaps do
_MODES = np.uint64(8)  # one probe window in eight hides the whole newest row, another one a whole interior row
# The finaliser of SplitMix64. Source: Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators.
_WEYL, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Place(IntEnum):
    """Position of a cell in its window; `ROW_*`: no sensor of the group was observed at its step."""

    EDGE = 0  # nothing of its sensor was observed after it
    INTERIOR = 1
    ROW_EDGE = 2
    ROW_INTERIOR = 3


@dataclass(frozen=True, slots=True)
class Probes:
    """Probe windows of one model: w windows of C sensors and T steps, and q probe cells in the order of their steps."""

    model_index: int
    values: NDArray[np.float64]  # [w, C, T] sensor units, 0 where not observed or hidden
    observed: Bools  # [w, C, T] False where hidden
    step: Ints  # [q] step that closed when the probe was made, ascending
    window: Ints  # [q] index into the windows
    sensor: Ints  # [q]
    lag: Ints  # [q] steps before the window's newest one
    gap_age: Ints  # [q] steps since the sensor's last visible observation
    truth: NDArray[np.float64]  # [q] the hidden value
    group: NDArray[np.int32]  # [w] group codes
    copied: Bools  # [q] whether the gap is a copy of a recent hole, not drawn by `Prober._hidden_gaps`

    def __len__(self) -> int:
        return len(self.values)

    def window_ends_ms(self, step_ms: int) -> Ints:
        """Start of the newest step of each window, int64 [w]."""
        ends_ms = np.zeros(len(self), np.int64)
        ends_ms[self.window] = self.step * step_ms
        return ends_ms


def joined(parts: Sequence[Probes]) -> Probes:
    """Join probe windows of one model in their order; `parts` must not be empty."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    columns = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts])
        for column in fields(Probes)
        if column.name not in ("model_index", "window")
    }
    window = np.concatenate([part.window + start for part, start in zip(parts, starts, strict=True)])
    return Probes(model_index=parts[0].model_index, window=window, **columns)


def newest_steps(probes: Sequence[Probes], count: int) -> list[Probes]:
    """Select the probe windows, each of one step, of each model's newest `count` steps."""
    newest = {each.model_index: int(each.step[-1]) for each in probes}  # the last of each model is its newest
    return [each for each in probes if each.step[0] > newest[each.model_index] - count]


@dataclass(frozen=True, slots=True)
class Sampling:
    """The number of groups that are probed at each step, and their names."""

    share: float  # share of the groups that were observed at the step
    fewest: int  # probe windows per step if the share gives fewer; at most MOST_WINDOWS
    group_names: Sequence[str]  # names by group code; may grow
    quality: bool = False  # see history.error_steps


class Prober:
    """Maker of the probes of one model's groups."""

    def __init__(self, rings: Rings, rules: Rules, sampling: Sampling) -> None:
        """Start without knowing any group.

        Args:
            rings: state of the model's groups.
            rules: the model's window rules. Interior cells are probed at the lag `revise_after` of the final rows, and
                none are if that is 0. No probe has a gap older than `max_gap`, as no filled hole has.
            sampling: number of groups to probe, and their names.
        """
        self._rings, self._rules, self._sampling = rings, rules, sampling
        window, revise_after, max_gap = rules.window, rules.revise_after, rules.max_gap
        self._keys = rings.attach((), np.uint64)  # hash of the group's name; 0 until it is first computed
        self._ages = np.array([age for age in AGES if age <= max_gap and age + revise_after < window] or [1])
        self._behind = np.arange(window - 1, -1, -1)  # steps before the newest one, by index in the window

    def probe(self, step: int) -> Probes | None:
        """Make the probes of a step as it closes; None when no group was observed at it."""
        rings = self._rings
        active = np.flatnonzero(rings.observed[: len(rings.groups), :, step % rings.length].any(axis=1))
        if len(active) == 0:
            return None
        made = [self._drawn(active, step), self._copied(active, step)]
        found = [each for each in made if each is not None]
        return joined(found) if found else None

    def _drawn(self, active: Ints, step: int) -> Probes | None:
        """Make probes with drawn gaps, for some of the active rows."""
        key, chosen = self._sample(self._row_keys()[active], active, step)
        values, seen = self._windows(chosen, step)
        gaps = self._hidden_gaps(key, seen)
        return self._made(step, chosen, values, seen, gaps, copied=False)

    def _copied(self, active: Ints, step: int) -> Probes | None:
        """Make probes with the gaps of recent holes, for some of the active rows."""
        rings, rules = self._rings, self._rules
        draw = _mixed(_mixed(np.array([step], np.int64).astype(np.uint64)) ^ _COPIES)
        when = When.of(step, int(draw[0] >> np.uint64(8)) % TIMES, rules)
        donors = candidates(rings, active, step, when)
        if len(donors) == 0:
            return None
        keys = self._row_keys()
        count = min(self._count(len(active)), MOST_COPIES)
        donors = donors[np.argsort(_mixed(keys[donors] ^ draw), kind="stable")[: count * LOOKED_AT]]
        found = patterns(rings, rules, donors, step, when, count)
        if len(found) == 0:
            return None
        _, chosen = self._sample(keys[active] ^ _COPIES, active, step)
        chosen = chosen[: len(found)]
        values, seen = self._windows(chosen, step)
        first = slice(len(chosen))
        lag = np.full(found.hole[first].shape, found.lag, np.int64)
        gaps = (lag, found.hole[first, :, None], found.age[first], found.ahead[first])
        return self._made(step, chosen, values, seen, gaps, copied=True)

    def _windows(self, rows: Ints, step: int) -> tuple[NDArray[np.float64], Bools]:
        """Values and observed cells of some rows' windows, without doubted readings, each [k, C, T]."""
        rings, plausibility = self._rings, self._rules.plausibility
        values, seen = rings.past(rings.values, rows, step), rings.past(rings.observed, rows, step)
        return (values, seen) if plausibility is None else plausibility.sound(values, seen)

    def _made(
        self,
        step: int,
        chosen: Ints,
        values: NDArray[np.float64],
        seen: Bools,
        gaps: tuple[Ints, Bools, Ints, Ints],
        *,
        copied: bool,
    ) -> Probes | None:
        """Hide gaps, as `_hidden_gaps` returns them, in the windows of chosen rows; None when no cell can be probed."""
        rings, rules = self._rings, self._rules
        lag, probed, age, ahead = gaps
        behind = self._behind
        hide = (probed & (behind >= (lag - ahead)[:, :, None])) & (behind < (lag + age)[:, :, None])
        visible = seen & ~hide
        at = rules.window - 1 - lag
        window, sensor = np.nonzero(probed[:, :, 0] & seen[*np.ogrid[: len(at), : at.shape[1]], at])
        lag = lag[window, sensor]
        gap_age = gap_ages(visible[window, sensor], lag)
        fair = (gap_age <= rules.max_gap) & (gap_age < rules.window - lag)
        fair &= (lag == 0) | (visible[window, sensor] & (behind < lag[:, None])).any(axis=1)
        window, sensor, lag, gap_age = window[fair], sensor[fair], lag[fair], gap_age[fair]
        if len(window) == 0:
            return None
        used = np.zeros(len(chosen), np.bool_)
        used[window] = True
        window = (np.cumsum(used) - 1)[window]
        values, visible = values[used], visible[used]
        return Probes(
            rules.model_index,
            np.where(visible, values, 0.0),
            visible,
            np.full(len(window), step, np.int64),
            window,
            sensor,
            lag,
            gap_age,
            values[window, sensor, rules.window - 1 - lag],
            np.array([rings.groups[row] for row in chosen[used].tolist()], np.int32),
            np.full(len(window), copied),
        )

    def _row_keys(self) -> Hashes:
        keys: Hashes = self._keys.array[: len(self._rings.groups)]
        for row in np.flatnonzero(keys == 0).tolist():
            keys[row] = _name_key(self._sampling.group_names[self._rings.groups[row]])
        return keys

    def _sample(self, keys: Hashes, rows: Ints, step: int) -> tuple[Hashes, Ints]:
        """Choose the rows with the lowest hashes of group name and step; returns hashes [k] and rows [k], lowest first.

        Where there are fewer groups than windows to probe, each is chosen several times with different hashes.
        """
        times = -(-self._sampling.fewest // len(rows))
        keys = (keys ^ _numbers(0, times)[:, None]).ravel()
        rows = np.tile(rows, times)
        hashes = _mixed(keys ^ _mixed(np.array([step], np.int64).astype(np.uint64)))
        count = min(len(rows), self._count(len(rows)))
        lowest = np.argpartition(hashes, count - 1)[:count]
        lowest = lowest[np.argsort(hashes[lowest], kind="stable")]
        return hashes[lowest], rows[lowest]

    def _count(self, rows: int) -> int:
        """Number of windows to probe, with this many rows to choose from."""
        return min(MOST_WINDOWS, max(self._sampling.fewest, round(self._sampling.share * rows)))

    def _hidden_gaps(self, key: Hashes, seen: Bools) -> tuple[Ints, Bools, Ints, Ints]:
        """Choose the hidden gap of each sensor in each window.

        The gap around an interior cell mostly continues after it, as real ones do. A gap that always ended there would
        flatter interpolation, which would always see a reading right beside the cell.

        Args:
            key: uint64 [k], a hash per window.
            seen: bool [k, C, T], observed cells.

        Returns:
            For each window and sensor: the lag of its probe cell [k, C], whether it has one [k, C, 1], the number of
            hidden steps that end with that cell [k, C], and the number that follow it [k, C].
        """
        window, revise_after = self._rules.window, self._rules.revise_after
        mode = key % _MODES
        draw = _mixed(key[:, None] ^ _numbers(1, seen.shape[1]))
        row_edge, row_interior = mode == 0, (mode == 1) & (revise_after > 0)
        age = self._ages[(_mixed(draw) % np.uint64(len(self._ages))).astype(np.int64)]
        age = np.where((row_edge | row_interior)[:, None], age[:, :1], age)
        edge = seen[:, :, -1]
        total = np.maximum(1, edge.sum(axis=1) // _HIDDEN_SHARE)
        odd = ((key >> np.uint64(8)) % np.uint64(2)).astype(np.int64)
        edges = (total + odd) // 2 if revise_after else total
        edge = _lowest(draw, edge, edges)
        inside = np.zeros_like(edge)
        if revise_after:
            newest = window - 1 - revise_after
            inside = _lowest(draw, seen[:, :, newest] & seen[:, :, newest + 1 :].any(axis=2) & ~edge, total - edges)
        edge = np.where(row_edge[:, None], True, edge & ~row_interior[:, None])
        inside = np.where(row_interior[:, None], True, inside & ~row_edge[:, None])
        lag = np.where(inside, revise_after, 0)
        ahead = (_mixed(_mixed(draw)) % np.uint64(max(1, revise_after))).astype(np.int64)
        ahead = np.where(inside, np.where(row_interior[:, None], ahead[:, :1], ahead), 0)
        return lag, (edge | inside)[:, :, None], age, ahead


def places(observed: Bools, window: Ints, sensor: Ints, lag: Ints) -> Ints:
    """Positions of cells that are not observed, int64 [q] of Place.

    Args:
        observed: bool [w, C, T].
        window: [q] index into the windows.
        sensor: [q].
        lag: [q] steps before the newest one.
    """
    steps = observed.shape[2]
    behind = np.arange(steps - 1, -1, -1)
    inside = (observed[window, sensor] & (behind < lag[:, None])).any(axis=1)
    row = ~observed[window, :, steps - 1 - lag].any(axis=1)
    return np.where(row, Place.ROW_EDGE, Place.EDGE) + np.where(inside, Place.INTERIOR, Place.EDGE)


def age_class(gap_age: NDArray[np.int32] | Ints) -> Ints:
    """Class of a gap age: index of the first of AGES at or above it, and of the last for all that are older."""
    return np.minimum(np.searchsorted(AGES, gap_age), len(AGES) - 1).astype(np.int64)


def gap_ages(visible: Bools, lag: Ints) -> Ints:
    """Steps from the last observation before the step at `lag` to that step, for each row [q, T]; T if none."""
    steps = visible.shape[1]
    at = steps - 1 - lag
    place = np.arange(steps)
    before = np.where(visible & (place < at[:, None]), place, -1).max(axis=1)
    age: Ints = np.where(before < 0, steps, at - before)
    return age


def _lowest(draw: Hashes, eligible: Bools, count: Ints) -> Bools:
    """Choose the `count` eligible entries of each row with the lowest draws."""
    order = np.argsort(np.where(eligible, draw, np.iinfo(np.uint64).max), axis=1, kind="stable")
    rank = np.argsort(order, axis=1)  # the inverse of a permutation
    return eligible & (rank < count[:, None])


def _name_key(name: str) -> int:
    """Hash of a name, 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@lru_cache(maxsize=64)
def _numbers(first: int, count: int) -> Hashes:
    """`_mixed` of `count` consecutive numbers."""
    return _mixed(np.arange(first, first + count).astype(np.uint64))


def _mixed(value: Hashes) -> Hashes:
    """Hash of each number; each of its 64 bits depends on every bit of the input."""
    value = value + _WEYL
    value ^= value >> _SHIFTS[0]
    value *= _FIRST
    value ^= value >> _SHIFTS[1]
    value *= _SECOND
    value ^= value >> _SHIFTS[2]
    return value
