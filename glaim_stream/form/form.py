"""The closed form: fitted variants, their weights, and the bounds of their answers.

A window goes through these steps: cells that follow exactly from other sensors; the weighted variants; bounds; carried
sensors; steps without any reading; silent sensors that probably follow from others. If C * T is large (see `tiles`), a
window is cut into shorter ones that overlap.

Bounds: a filled value leaves the range of its sensor's observed cells by at most the trained range of a window, and a
silent sensor's value leaves the range of the training by at most that range. A sensor that the training never saw is
declined. An answer by logarithms leaves the plain one by at most four deviations of the plain one, unless it is in the
range of the sensor's observed cells (`log_room`).

A window with q missing cells costs O(q C T) for the right-hand side and O(q^3) to solve. With one variant and T = 96,
one core of an Intel Xeon (2026-11-28) fills 28,000 windows/s at C = 8 with 2 % missing, 16,000 with 5 % and 1,300 with
30 %; at C = 21 it fills 7,700, 3,800 and 155. A fit on 12,000 windows takes 5 s at C = 8 (`benchmarks/gaussian.py`).
Each further variant costs the same again. A first variant without weight costs less: it is computed only if a window
does not suit the logarithm, or its answer leaves its room. If few steps are asked for, a window needs one factor of
Cholesky instead of a solution, and the newest ones mostly follow from the recent half of the window (`recency`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.blas import one_thread
from glaim_stream.core.errors import WindowShapeError
from glaim_stream.form import artefact, packing
from glaim_stream.form.dark_steps import DarkSteps
from glaim_stream.form.kinds import (
    Kind,
    are,
    carried_value,
    carries,
    continuous,
    simple_value,
    unmixable,
    with_directions,
)
from glaim_stream.form.log_room import LogRoom
from glaim_stream.form.phase import Phase
from glaim_stream.form.relations import Relations
from glaim_stream.form.tiles import tiles_of
from glaim_stream.form.variant import Variant

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_ROWS_AT_A_TIME = 128  # windows; more of them leave the processor's cache, fewer share less work
LARGEST = 1e100  # bound of values that count; squares of larger ones are infinite


@dataclass(frozen=True, slots=True)
class Filled:
    """Filled windows, or their newest k steps.

    mean: float64 [n, C, k], sensor units; observed cells keep their bits; NaN where the form declines.
    deviation: float64 [n, C, k], sensor units, calibrated; 0 where observed, NaN where the form declines.
    Both are NaN in all cells of steps that were not asked for.
    without_logarithm: bool [n], windows with values for which the trained logarithms do not hold.
    """

    mean: Doubles
    deviation: Doubles
    without_logarithm: Bools


@dataclass(frozen=True, slots=True)
class _Part:
    """Windows as the variants get them, and the steps to fill.

    values, observed: [n, C, L].
    bins: int64 [n, L], phases of the steps; None without a profile.
    newest: number of newest steps to fill.
    asked: bool [newest], newest steps that are needed; None: all.
    with_deviation: True if deviations are needed.
    """

    values: Doubles
    observed: Bools
    bins: Ints | None
    newest: int
    asked: Bools | None
    with_deviation: bool

    def by(self, variant: Variant, rows: Bools | None = None) -> tuple[Doubles, Doubles]:
        """The variant's answers to all windows, or to the chosen ones with 0 for others."""
        if rows is None or rows.all():
            return variant.fill(
                self.values, self.observed, self.bins, self.newest,
                asked=self.asked, with_deviation=self.with_deviation,
            )  # fmt: skip
        mean, deviation = np.zeros((2, *self.values.shape[:2], self.newest))
        if rows.any():
            bins = None if self.bins is None else self.bins[rows]
            chosen = replace(self, values=self.values[rows], observed=self.observed[rows], bins=bins)
            mean[rows], deviation[rows] = chosen.by(variant)
        return mean, deviation


@dataclass(frozen=True)
class ClosedForm:
    """A fitted closed form for the windows of one model.

    sensors: ids, in the order of the windows.
    steps: T, steps of a window.
    span: L <= T, steps of the windows that the variants cover.
    weights: weights of the variants; not negative, with the sum 1.
    calibration: factor of the deviations.
    lowest, highest: float64 [C], range of the training values.
    swing: float64 [C], the widest range of a training window.
    carried_deviation: float64 [C], deviation of a carried value.
    until_ms: end of the newest row of the fit; None if it is unknown.
    carried_levels: True if a sensor that is silent in a part of a window takes its last value before that part as its
        level there; False: the level follows from the levels of the others.
    dark_steps: steps without any reading that get the last value or the line if few newest steps are filled; None:
        there are none.
    declines_unseen: True declines sensors without a reading in the training: their scale is a placeholder, so their
        bands would mean nothing. Not stored. A fit asks for their answers, to choose their kinds.
    """

    sensors: tuple[str, ...]
    steps: int
    step_ms: int
    span: int
    variants: tuple[Variant, ...]
    weights: tuple[float, ...]
    kinds: tuple[Kind, ...]
    relations: Relations
    phase: Phase | None
    calibration: float
    lowest: Doubles
    highest: Doubles
    swing: Doubles
    carried_deviation: Doubles
    until_ms: int | None = None
    carried_levels: bool = True
    dark_steps: DarkSteps | None = None
    declines_unseen: bool = True

    @cached_property
    def unseen(self) -> Bools:
        """The sensors [C] without a reading in the training windows."""
        never = np.all([each.levels.own < 0 for each in self.variants], axis=0)
        # A sensor whose line broke in all of these windows (wind from the north) has no level either, but was read.
        broken = are(self.kinds, Kind.METER, Kind.ANGLE) & (self.highest > self.lowest)
        return np.asarray(never & ~broken, np.bool_)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return artefact.digest_of(packing.pack(self))

    def with_directions(self, directions: Bools | None) -> ClosedForm:
        """Return a form that fills these sensors as directions in degrees; its digest stays that of its file.

        Args:
            directions: bool [C], sensors that a catalogue declares as directions; None: there are none.
        """
        kinds = with_directions(self.kinds, directions)
        if kinds is None or tuple(kinds) == self.kinds:
            return self
        found = replace(self, kinds=tuple(kinds))
        found.__dict__["digest"] = self.digest
        return found

    def save(self, folder: Path) -> None:
        """Write `gaussian.npz` to a folder, atomically."""
        artefact.write(folder, packing.pack(self))

    def to_bytes(self) -> bytes:
        """Return the content of `gaussian.npz`."""
        return artefact.to_bytes(packing.pack(self))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `gaussian.npz` from a folder.

        Raises:
            ModelError: the file is absent, damaged, or of another kind.
        """
        return cls(**packing.unpack(artefact.read(folder)))

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Self:
        """Make a closed form from the content of `gaussian.npz`.

        Args:
            content: bytes of the file.
            name: file name, for messages.

        Raises:
            ModelError: the file is damaged, or of another kind.
        """
        return cls.from_arrays(artefact.from_bytes(content, name))

    @classmethod
    def from_arrays(cls, arrays: artefact.Arrays) -> Self:
        """Make a closed form from the arrays of `gaussian.npz`; other arrays are ignored.

        Raises:
            ModelError: arrays are missing, or do not fit one another.
        """
        return cls(**packing.unpack(arrays))

    @one_thread()
    def fill(
        self,
        values: Doubles,
        observed: Bools,
        end_ms: Ints,
        *,
        newest: int | None = None,
        asked: Bools | None = None,
        with_deviation: bool = True,
    ) -> Filled:
        """Fill the holes of windows.

        Args:
            values: float64 [n, C, T], sensor units; ignored where not observed.
            observed: bool [n, C, T].
            end_ms: int64 [n], start of each window's newest step.
            newest: number of newest steps that are needed, all by default. Windows without a hole there cost nothing.
            asked: bool [newest], newest steps whose answers are needed, all by default. Fewer cost less.
            with_deviation: False returns NaN as deviations of holes, which costs less if no variant has logarithms.

        Raises:
            WindowShapeError: the windows have other sensors or steps than the form, `newest` is out of range, or
                `asked` has another length.
        """
        expected = (len(values), len(self.sensors), self.steps)
        if values.shape != expected or observed.shape != expected or end_ms.shape != expected[:1]:
            raise WindowShapeError(
                f"expected windows [n, {expected[1]}, {expected[2]}] with their observed cells and end times, found "
                f"{values.shape}, {observed.shape} and {end_ms.shape}"
            )
        wanted = self.steps if newest is None else newest
        if not 1 <= wanted <= self.steps:
            raise WindowShapeError(f"newest must lie in 1..{self.steps}, found {newest}")
        if asked is not None and asked.shape != (wanted,):
            raise WindowShapeError(f"asked must have {wanted} steps, found the shape {asked.shape}")
        kept = slice(self.steps - wanted, self.steps)
        mean = values[:, :, kept].astype(np.float64)
        deviation = np.zeros_like(mean)
        without = np.zeros(len(values), np.bool_)
        complete = observed[:, :, kept] if asked is None else observed[:, :, kept][:, :, asked]
        open_windows = np.flatnonzero(~complete.all(axis=(1, 2)))
        # Windows with about as many holes are solved together.
        open_windows = open_windows[observed[open_windows].sum(axis=(1, 2)).argsort(kind="stable")]
        for start in range(0, len(open_windows), _ROWS_AT_A_TIME):
            rows = open_windows[start : start + _ROWS_AT_A_TIME]
            seen = observed[rows]
            found, spread, without[rows] = self._fill(
                values[rows], seen, end_ms[rows], wanted, asked, with_deviation=with_deviation
            )
            if not with_deviation:
                spread[:] = np.nan
            window, *cell = np.unravel_index(np.flatnonzero(~seen[:, :, kept]), found.shape)
            mean[rows[window], *cell], deviation[rows[window], *cell] = found[window, *cell], spread[window, *cell]
        if asked is not None:
            mean[:, :, ~asked] = deviation[:, :, ~asked] = np.nan
        return Filled(mean, deviation, without)

    def _fill(
        self,
        values: Doubles,
        observed: Bools,
        end_ms: Ints,
        newest: int,
        asked: Bools | None,
        *,
        with_deviation: bool,
    ) -> tuple[Doubles, Doubles, Bools]:
        kept = slice(self.steps - newest, self.steps)
        values = np.where(observed, values, 0.0)
        if not (values.max() < LARGEST and values.min() > -LARGEST):  # or NaN
            observed = observed & (np.abs(values) < LARGEST)
            values = np.where(observed, values, 0.0)
        related = self.relations.complete(values, observed)
        values, complete = related.values, related.observed
        bins = self.phase.of_windows(end_ms, self.steps, self.step_ms) if self.phase else None
        mean, deviation = np.empty((*values.shape[:2], newest)), np.empty((*values.shape[:2], newest))
        without = np.zeros(len(values), np.bool_)
        level = self.neighbours(values, complete)
        for tile in tiles_of(self.steps, self.span, newest):
            cut = slice(tile.start, tile.start + self.span)
            part, seen = self.part(values, complete, level, cut)
            of_tile = None if asked is None else tile.asked(asked, self.steps)
            if of_tile is not None and not of_tile.any():
                continue
            of_part = None if bins is None else bins[:, cut]
            found = self._mixed(_Part(part, seen, of_part, tile.newest, of_tile, with_deviation))
            if level is not None and tile.first == tile.start:  # a neighbour's step is as uncertain as the next one
                added = seen[:, :, 0] & ~complete[:, :, tile.start]
                found[1][:, :, 0] = np.where(added, found[1][:, :, 1], found[1][:, :, 0])
            out = slice(tile.first - kept.start, tile.last - kept.start)
            mean[:, :, out], deviation[:, :, out] = (each[:, :, : tile.last - tile.first] for each in found[:2])
            without |= found[2]
        unbounded, mean = mean, np.clip(mean, *self.bounds(values, complete))
        deviation *= self.calibration
        moved = unbounded - mean
        if moved.any():  # an answer is at least as uncertain as it was moved
            deviation = np.hypot(deviation, moved)
        trained = self.highest - self.lowest
        related.widen(deviation, trained, self.carried_deviation)
        exact = complete[:, :, kept]
        if len(self.relations.constants):  # `fill` keeps observed cells, so only cells that relations fill matter here
            np.copyto(mean, values[:, :, kept], where=exact)
            np.copyto(deviation, 0.0, where=exact)
        carried = carries(self.kinds, values, complete)
        if carried.any():
            some = np.flatnonzero(carried.any(axis=0))
            simple = simple_value([self.kinds[sensor] for sensor in some], values[:, some], complete[:, some])
            hole = carried[:, :, None] & ~exact
            mean[:, some] = np.where(hole[:, some], simple[:, :, kept], mean[:, some])
            deviation = np.where(hole, self.carried_deviation[:, None], deviation)
        if self.dark_steps is not None:
            self.dark_steps.apply(mean, self.kinds, values, complete, observed)
        if self.declines_unseen and self.unseen.any():
            mean[:, self.unseen] = np.nan
        np.copyto(deviation, np.nan, where=np.isnan(mean))
        related.take_unconfirmed(mean, deviation, trained)
        return mean, deviation, without

    def unmixable(self, values: Doubles, observed: Bools) -> Bools | None:
        """Return the sensors of windows, bool [n, C], between whose values a mean means nothing; None: none."""
        if all(kind in (Kind.NUMBER, Kind.CARRIED) for kind in self.kinds):
            return None
        return unmixable(self.kinds, values, observed)

    @property
    def directions(self) -> Bools | None:
        """The sensors [C] whose values are directions in degrees; None: there are none."""
        found = are(self.kinds, Kind.ANGLE)
        return found if found.any() else None

    def neighbours(self, values: Doubles, complete: Bools) -> Doubles | None:
        """Return values [n, C, T] for sensors that are silent in a part of a window; None if they need none."""
        if self.span == self.steps or not self.carried_levels:
            return None
        return carried_value(values, complete)

    def part(self, values: Doubles, complete: Bools, neighbours: Doubles | None, cut: slice) -> tuple[Doubles, Bools]:
        """Return the values and the observed cells of windows at the steps `cut`, as the variants get them."""
        part, seen = values[:, :, cut], complete[:, :, cut]
        if neighbours is not None:
            part, seen = _with_neighbour(part, seen, neighbours[:, :, cut])
        return part, continuous(self.kinds, part, seen)

    def _mixed(self, part: _Part) -> tuple[Doubles, Doubles, Bools]:
        """The weighted mean of the variants; the first variant takes the place of those that do not suit a window.

        If it has no weight, it is computed only for the windows that need it.
        """
        first, *others = self.variants
        if any(each.transform.logarithm.any() for each in others):  # the bounds need deviations
            part = replace(part, with_deviation=True)
        if not others:  # the weight of the first is 1
            return *part.by(first), np.zeros(len(part.values), np.bool_)
        hole = ~part.observed[:, :, self.span - part.newest :]
        if part.asked is not None:
            hole &= part.asked
        room = self.log_room(part.values, part.observed, part.newest)
        by_first = np.full(len(part.values), self.weights[0] > 0)
        suited, answers = [], []
        for variant in others:
            suits = variant.transform.suits(part.values, part.observed)
            answer = part.by(variant, suits)
            by_first |= ~suits
            if variant.transform.logarithm.any():
                by_first |= suits & (room.left_by(*answer) & hole).any(axis=(1, 2))
            suited.append(suits)
            answers.append(answer)
        plain = part.by(first, by_first)
        mean, variance = self.weights[0] * plain[0], self.weights[0] * plain[1] ** 2
        for variant, weight, suits, (found, spread) in zip(others, self.weights[1:], suited, answers, strict=True):
            found[~suits], spread[~suits] = plain[0][~suits], plain[1][~suits]
            if variant.transform.logarithm.any():
                found[by_first], spread[by_first] = room.taken(by_first).bounded(
                    found[by_first], spread[by_first], plain[0][by_first], plain[1][by_first]
                )
            mean += weight * found
            variance += weight * spread**2
        return mean, np.sqrt(variance), ~np.logical_and.reduce(suited)

    def log_room(self, values: Doubles, observed: Bools, newest: int) -> LogRoom:
        """Return the room of answers by logarithms to the newest steps of windows [n, C, L]."""
        return LogRoom.of(values, observed, self.variants[0].least_deviation(values, observed, newest))

    def bounds(self, values: Doubles, observed: Bools) -> tuple[Doubles, Doubles]:
        """Return bounds [n, C, 1] around each sensor's observed cells, or around the training's if it has none."""
        unknown = np.flatnonzero(~observed)  # random masks cost five times as much
        known = values.copy()
        known.ravel()[unknown] = np.inf
        least = known.min(axis=2)
        known.ravel()[unknown] = -np.inf
        most = known.max(axis=2)
        silent = least > most
        with np.errstate(over="ignore", invalid="ignore"):
            swing = np.maximum(self.swing, most - least)
            trained = self.highest - self.lowest
            low = np.where(silent, self.lowest - trained, least - swing)[:, :, None]
            high = np.where(silent, self.highest + trained, most + swing)[:, :, None]
        return low, high


def _with_neighbour(values: Doubles, observed: Bools, carried: Doubles) -> tuple[Doubles, Bools]:
    """Give a sensor that is silent in a part of a window its last value before it, at the part's first step."""
    silent = ~observed.any(axis=2) & ~np.isnan(carried[:, :, 0])
    if not silent.any():
        return values, observed
    values, observed = values.copy(), observed.copy()
    values[silent, 0], observed[silent, 0] = carried[silent, 0], True
    return values, observed
