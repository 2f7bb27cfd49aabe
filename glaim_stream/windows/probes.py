"""Probe windows: questions whose answers are known, asked beside the holes. Pure: numpy only.

At each step that event time closes a share of the groups is chosen, some of what they observed is hidden in a copy of
their windows, and the imputer is asked for it. Its answer is never published; it shows how far the imputer is off now.
The questions are those that a stream asks: the newest step of a sensor that has been silent for a while (edge), the
step that finals speak of, amid a gap that ends after it (interior), and both with the whole group silent at that step.

Who is asked what follows from the group's name and the step alone, so that a worker that reads the topic again asks
the same questions in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.holes import Rules
from glaim_stream.windows.rings import Rings

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Hashes = NDArray[np.uint64]

AGES = (1, 2, 4, 8, 16)  # steps hidden; also the classes in which errors are kept
MOST_WINDOWS = 32  # of one model and step: pooled over groups, more questions add cost and no knowledge
FEWEST_WINDOWS = 4  # fewer show too little of what drifts
_HIDDEN_SHARE = 4  # one sensor in so many is hidden: more, and the window would be another case
_MODES = np.uint64(8)  # of so many probe windows one hides the whole newest row, one a whole row inside
# The finaliser of SplitMix64. Source: Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators.
_WEYL, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Place(IntEnum):
    """Where in its window an asked cell lies; `row_*`: no sensor of the group was observed at its step."""

    EDGE = 0  # nothing of its sensor was observed after it
    INTERIOR = 1
    ROW_EDGE = 2
    ROW_INTERIOR = 3


@dataclass(frozen=True, slots=True)
class Probes:
    """Probe windows of one model: w windows of C sensors and T steps, q questions in the order of their steps."""

    model_index: int
    values: NDArray[np.float32]  # [w, C, T] sensor units, 0 where not observed or hidden
    observed: Bools  # [w, C, T] False where hidden
    step: Ints  # [q] that closed as the question was asked, ascending
    window: Ints  # [q] index into the windows
    sensor: Ints  # [q]
    lag: Ints  # [q] steps before the window's newest one
    gap_age: Ints  # [q] steps since the sensor's last visible observation
    truth: NDArray[np.float32]  # [q] what was hidden

    def __len__(self) -> int:
        return len(self.values)


def joined(parts: Sequence[Probes]) -> Probes:
    """Probe windows of one model as one, in their order; of one part at least."""
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
    """Of probe windows, each of one step, those of each model's newest `count` steps."""
    newest = {each.model_index: int(each.step[-1]) for each in probes}  # the last one of a model is its newest
    return [each for each in probes if each.step[0] > newest[each.model_index] - count]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which groups are probed at each step."""

    share: float  # of the groups that were observed at the step
    fewest: int  # windows probed at a step all the same; at most MOST_WINDOWS are
    group_names: Sequence[str]  # by group code; may grow


class Prober:
    """Asks for one model's groups."""

    def __init__(self, rings: Rings, rules: Rules, sampling: Sampling) -> None:
        """Build it.

        Args:
            rings: state of the model's groups.
            rules: the model's window rules. Interior questions are asked at the lag `revise_after` of the finals; 0:
                none are. No question has a gap older than `max_gap`, as no hole that is filled has.
            sampling: which groups are probed.
        """
        self._rings, self._rules, self._sampling = rings, rules, sampling
        window, revise_after, max_gap = rules.window, rules.revise_after, rules.max_gap
        self._keys = rings.attach((), np.uint64)  # hash of the group's name; 0 until it is first needed
        self._ages = np.array([age for age in AGES if age <= max_gap and age + revise_after < window] or [1])
        self._behind = np.arange(window - 1, -1, -1)  # steps before the newest one, by place in the window

    def ask(self, step: int) -> Probes | None:
        """Questions of a step as it closes; None when nobody speaks at it."""
        rings, rules = self._rings, self._rules
        speaking = np.flatnonzero(rings.observed[: len(rings.groups), :, step % rings.length].any(axis=1))
        if len(speaking) == 0:
            return None
        key, chosen = self._choose(self._row_keys()[speaking], speaking, step)
        seen = rings.past(rings.observed, chosen, step)
        lag, asked, age, ahead = self._questions(key, seen)
        behind = self._behind
        hide = (asked & (behind >= (lag - ahead)[:, :, None])) & (behind < (lag + age)[:, :, None])
        visible = seen & ~hide
        at = rules.window - 1 - lag
        window, sensor = np.nonzero(asked[:, :, 0] & seen[*np.ogrid[: len(at), : at.shape[1]], at])
        lag = lag[window, sensor]
        gap_age = _gap_age(visible[window, sensor], lag)
        fair = (gap_age <= rules.max_gap) & (gap_age < rules.window - lag)
        fair &= (lag == 0) | (visible[window, sensor] & (behind < lag[:, None])).any(axis=1)
        window, sensor, lag, gap_age = window[fair], sensor[fair], lag[fair], gap_age[fair]
        if len(window) == 0:
            return None
        used = np.zeros(len(chosen), np.bool_)
        used[window] = True
        window = (np.cumsum(used) - 1)[window]
        values = rings.past(rings.values, chosen[used], step)
        visible = visible[used]
        return Probes(
            rules.model_index,
            np.where(visible, values, np.float32(0)),
            visible,
            np.full(len(window), step, np.int64),
            window,
            sensor,
            lag,
            gap_age,
            values[window, sensor, rules.window - 1 - lag],
        )

    def _row_keys(self) -> Hashes:
        keys: Hashes = self._keys.array[: len(self._rings.groups)]
        for row in np.flatnonzero(keys == 0).tolist():
            keys[row] = _name_key(self._sampling.group_names[self._rings.groups[row]])
        return keys

    def _choose(self, keys: Hashes, rows: Ints, step: int) -> tuple[Hashes, Ints]:
        """The groups with the lowest hashes of name and step, lowest first: the same ones in the same order always.

        Few groups are asked several times, each time something else.
        """
        times = -(-self._sampling.fewest // len(rows))
        keys = (keys ^ _numbers(0, times)[:, None]).ravel()
        rows = np.tile(rows, times)
        hashes = _mixed(keys ^ _mixed(np.array([step], np.int64).astype(np.uint64)))
        count = min(len(rows), MOST_WINDOWS, max(self._sampling.fewest, round(self._sampling.share * len(rows))))
        lowest = np.argpartition(hashes, count - 1)[:count]
        lowest = lowest[np.argsort(hashes[lowest], kind="stable")]
        return hashes[lowest], rows[lowest]

    def _questions(self, key: Hashes, seen: Bools) -> tuple[Ints, Bools, Ints, Ints]:
        """For each window and sensor the lag of the asked step, whether it is, how many steps go up to it, and after.

        A final's gap goes on after its step, mostly: interpolation, which sees the other side, is worse then.
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
    """Where asked cells lie, int64 [q] of Place.

    Args:
        observed: bool [w, C, T].
        window: [q] which window.
        sensor: [q] of it.
        lag: [q] steps before the newest one; the cells themselves are not observed.
    """
    steps = observed.shape[2]
    behind = np.arange(steps - 1, -1, -1)
    inside = (observed[window, sensor] & (behind < lag[:, None])).any(axis=1)
    row = ~observed[window, :, steps - 1 - lag].any(axis=1)
    return np.where(row, Place.ROW_EDGE, Place.EDGE) + np.where(inside, Place.INTERIOR, Place.EDGE)


def age_class(gap_age: NDArray[np.int32] | Ints) -> Ints:
    """Which of AGES speaks for a gap age: the first at or above it, the last one for all that are older."""
    return np.minimum(np.searchsorted(AGES, gap_age), len(AGES) - 1).astype(np.int64)


def _gap_age(visible: Bools, lag: Ints) -> Ints:
    """Steps from the last observation of each row [q, T] to the step at `lag`; T where there is none."""
    steps = visible.shape[1]
    at = steps - 1 - lag
    place = np.arange(steps)
    before = np.where(visible & (place < at[:, None]), place, -1).max(axis=1)
    age: Ints = np.where(before < 0, steps, at - before)
    return age


def _lowest(draw: Hashes, eligible: Bools, count: Ints) -> Bools:
    """Of each row the `count` eligible ones with the lowest draws."""
    order = np.argsort(np.where(eligible, draw, np.iinfo(np.uint64).max), axis=1, kind="stable")
    rank = np.argsort(order, axis=1)  # the inverse of a permutation
    return eligible & (rank < count[:, None])


def _name_key(name: str) -> int:
    """64 bits of a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@lru_cache(maxsize=64)
def _numbers(first: int, count: int) -> Hashes:
    """`_mixed` of so many numbers in a row."""
    return _mixed(np.arange(first, first + count).astype(np.uint64))


def _mixed(value: Hashes) -> Hashes:
    """64 bits of which each depends on every bit of the input."""
    value = value + _WEYL
    value ^= value >> _SHIFTS[0]
    value *= _FIRST
    value ^= value >> _SHIFTS[1]
    value *= _SECOND
    value ^= value >> _SHIFTS[2]
    return value
