"""Exact linear relations between sensors: a copy, or a sum such as total = inlet + outlet.

The ridge that keeps a covariance positive also keeps a copy from being filled exactly. So relations that hold at every
training step are kept apart: if all but one of a relation's sensors are observed, the last one follows from it.

A relation can end: a device is recalibrated, or a counter starts again. So each window tests its relations at the steps
where all of their sensors are observed. A relation that a step contradicts is not used in that window. A relation that
no step tests fills only sensors that are silent for the whole window; such cells do not count as observed, and their
deviations are not 0. `relation_search` finds the relations of a training part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Origins = dict[tuple[int, int], tuple[float, Doubles]]

EXACT = 1e-8  # residual, in deviations of the sensor, up to which a relation holds
# Residuals of a later window may be ten times as large as any in training: coefficients are estimates, and readings
# leave the trained range. That is still a tenth of the millionth to which a copy is filled.
_MARGIN = 10.0
_ROUNDING = 1e-12  # share of the sum of a relation's terms: doubles hold 16 digits, and least squares lose some


@dataclass(frozen=True, slots=True)
class Completed:
    """Windows with the cells that follow from relations.

    values, observed: [n, C, T]; cells that follow from confirmed relations are filled and count as observed.
    confirmed: bool [n, r], relations that steps of the window confirm.
    possible: bool [n, r], relations that no step contradicts.
    likely: float64 [n, C, T], values of the cells that follow from possible relations; None: there are none.
    unconfirmed: bool [n, C, T], `likely` cells that do not follow from confirmed relations; None: there are none.
    moved: float64 [n, C], sensor units, change of the residuals of contradicted relations within the window; NaN for
        sensors without such a relation. None: there are none.
    """

    values: Doubles
    observed: Bools
    confirmed: Bools
    possible: Bools
    likely: Doubles | None = None
    unconfirmed: Bools | None = None
    moved: Doubles | None = None

    @property
    def apart(self) -> Bools:
        """The cells, bool [n, C, T], whose deviations do not follow from the covariances."""
        out = np.zeros(self.observed.shape, np.bool_) if self.unconfirmed is None else self.unconfirmed.copy()
        if self.moved is not None:
            out |= ~np.isnan(self.moved)[:, :, None]
        return out

    def widen(self, deviation: Doubles, trained: Doubles, carried: Doubles) -> None:
        """Raise deviations of sensors whose relation of the training is contradicted, in place.

        The covariances were learned while the relation held, so they are far too certain of its sensors now. The
        deviation counts the error of a carried value instead, and the change of the relation's residual within the
        window, up to the training's range (a lasting change is a part of the sensors' levels, which are free).

        Args:
            deviation: float64 [n, C, k], sensor units.
            trained: float64 [C], widths of the sensors' ranges in the training.
            carried: float64 [C], deviations of carried values.
        """
        if self.moved is None:
            return
        least = np.maximum(np.minimum(self.moved, trained), carried)
        np.maximum(deviation, np.where(np.isnan(self.moved), 0.0, least)[:, :, None], out=deviation)

    def take_unconfirmed(self, mean: Doubles, deviation: Doubles, trained: Doubles) -> None:
        """Take values by relations that no step of the window confirms, in place.

        A cell then has two answers, and nothing tells which one is right. So its deviation is that of the form's own
        answer, and at least the distance of both. If the form declines, the deviation is the training's range.

        Args:
            mean: float64 [n, C, k], the form's own answers to the newest steps.
            deviation: float64 [n, C, k].
            trained: float64 [C], widths of the sensors' ranges in the training.
        """
        if self.unconfirmed is None or self.likely is None:
            return
        newest = slice(self.observed.shape[2] - mean.shape[2], None)
        cells, likely = self.unconfirmed[:, :, newest], self.likely[:, :, newest]
        with np.errstate(over="ignore", invalid="ignore"):  # steps that were not asked for have arbitrary values
            spread = np.fmax(deviation, np.abs(likely - mean))
            spread = np.where(spread > 0.0, spread, trained[:, None])
        np.copyto(mean, likely, where=cells)
        np.copyto(deviation, spread, where=cells)


@dataclass(frozen=True)
class Relations:
    """Relations: coefficients [r, C] times the sensors' values are the constants [r].

    1e-8 of a row's unit is at most 1e-8 of the deviation of one of its sensors, and 1e-4 of all others'.
    """

    coefficients: Doubles
    constants: Doubles

    def complete(self, values: Doubles, observed: Bools) -> Completed:
        """Return windows with the cells that follow from relations.

        Args:
            values: float64 [n, C, T], sensor units; ignored where not observed.
            observed: bool [n, C, T].
        """
        if not len(self.constants) or observed.all():
            none = np.zeros((len(values), len(self.constants)), np.bool_)
            return Completed(values, observed, none, none)
        values = np.where(observed, values, 0.0)
        confirmed, contradicted = self.tested(values, observed)
        possible = ~contradicted
        moved = self._moved(values, observed, contradicted) if contradicted.any() else None
        completed, complete = self._applied(values, observed, confirmed)
        found = Completed(completed, complete, confirmed, possible, moved=moved)
        if (possible == confirmed).all():
            return found
        likely, known = self._applied(completed, complete, possible)
        silent = ~np.any(observed, axis=2)
        unconfirmed = known & ~complete & silent[:, :, None]
        return replace(found, likely=likely, unconfirmed=unconfirmed) if unconfirmed.any() else found

    def tested(self, values: Doubles, observed: Bools) -> tuple[Bools, Bools]:
        """Return the relations that steps of windows confirm, and those that a step contradicts, both bool [n, r].

        Args:
            values: float64 [n, C, T], sensor units; finite where not observed.
            observed: bool [n, C, T].
        """
        confirmed, contradicted = np.zeros((2, len(values), len(self.constants)), np.bool_)
        for place, (row, constant) in enumerate(zip(self.coefficients, self.constants, strict=True)):
            members = np.flatnonzero(row)
            together: Bools = observed[:, members].sum(axis=1) == len(members)
            terms = values[:, members] * row[members, None]
            tolerance = _MARGIN * EXACT + _ROUNDING * (np.abs(terms).sum(axis=1) + abs(constant))
            holds = np.abs(terms.sum(axis=1) - constant) <= tolerance
            contradicted[:, place] = (together & ~holds).any(axis=1)
            confirmed[:, place] = together.any(axis=1) & ~contradicted[:, place]
        return confirmed, contradicted

    def _moved(self, values: Doubles, observed: Bools, contradicted: Bools) -> Doubles:
        """Return the change of residuals of contradicted relations [n, r] within a window; `moved` in `Completed`."""
        out = np.full(values.shape[:2], np.nan)
        for row, some in zip(self.coefficients, contradicted.T, strict=True):
            members, windows = np.flatnonzero(row), np.flatnonzero(some)
            if not len(windows):
                continue
            part = np.ix_(windows, members)
            together = observed[part].all(axis=1)
            total = (values[part] * row[members, None]).sum(axis=1)
            change = np.where(together, total, -np.inf).max(axis=1) - np.where(together, total, np.inf).min(axis=1)
            out[part] = np.fmax(out[part], change[:, None] / np.abs(row[members]))
        return out

    def _applied(self, values: Doubles, observed: Bools, usable: Bools) -> tuple[Doubles, Bools]:
        """Return windows in which cells that follow from the usable relations [n, r] count as observed."""
        values, observed = values.copy(), observed.copy()
        for _ in range(2):  # a cell that one relation fills may complete another
            for row, constant, used in zip(self.coefficients, self.constants, usable.T, strict=True):
                members = np.flatnonzero(row)
                missing = ~observed[:, members]
                window, step = np.nonzero((missing.sum(axis=1) == 1) & used[:, None])
                if not len(window):
                    continue
                place = missing[window, :, step].argmax(axis=1)
                total = values[window[:, None], members, step[:, None]] @ row[members]
                sensor = members[place]
                values[window, sensor, step] = (constant - total) / row[sensor]
                observed[window, sensor, step] = True
        return values, observed

    def origins(self, observed: Bools, usable: Bools | None = None, known: Origins | None = None) -> Origins:
        """Return the origins of the cells that relations fill: observed cells of the same step.

        Args:
            observed: bool [C, T].
            usable: bool [r], relations that fill; all by default.
            known: origins of cells that count as observed; they are part of the result.

        Returns:
            By sensor and step: a constant, and weights [C] of the observed values of that step.
        """
        found = {} if known is None else dict(known)
        some = slice(None) if usable is None else usable
        if not len(self.constants[some]):
            return found
        observed = observed.copy()
        for _ in range(2):
            for row, constant in zip(self.coefficients[some], self.constants[some], strict=True):
                members = np.flatnonzero(row)
                for step in np.flatnonzero((~observed[members]).sum(axis=0) == 1).tolist():
                    sensor = int(members[(~observed[members, step]).argmax()])
                    base, weights = constant / row[sensor], np.zeros(len(row))
                    for member in members[members != sensor].tolist():
                        share = -row[member] / row[sensor]
                        inner, of_inner = found.get((member, step), (0.0, None))
                        base += share * inner
                        if of_inner is None:
                            weights[member] += share
                        else:
                            weights += share * of_inner
                    found[sensor, step] = base, weights
                    observed[sensor, step] = True
        return found
