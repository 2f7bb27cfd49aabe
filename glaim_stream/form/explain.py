"""Explains a value of the closed form: a base and one contribution per reading, in the sensor's unit.

    value = base + sum of the contributions + bounded

*Base.* The answer to the same window with every reading at its sensor's level in that window: the mean of the sensor's
observed cells, plus its profile of the day. For a sensor with observed cells the base is about that sensor's own level;
for a silent one it is the level expected from the other sensors' levels. Levels and scales come from the window and are
part of the base: a contribution states how much a reading's distance from its sensor's level adds.

*Contributions.* The derivative of the answer by a reading, times the reading's distance from its sensor's level. In a
variant without logarithms this is exact, as the answer is linear while the window's scales stay as they are. With
logarithms, the answer is exp(l), l being linear in the logarithms. Along the straight line between the two windows in
logarithms every derivative grows with the answer, so its mean is the logarithmic mean L(a, b) = (a - b) / ln(a / b) of
answer and base; contributions by it add up to the difference exactly. A weighted mean of variants has the weighted mean
of their contributions.

A cell that follows from a relation counts as observed, and its contribution goes to the readings from which it
follows. A cell that is filled by a relation has the relation's constant as its base and whole readings as
contributions. A cell that carries the last value, or lies on the line between two, has the base 0 and that reading or
those two as its only contributions.

*Bounded.* The amount that the form's bounds added to the answer or took from it; usually 0.

*Residual.* Rounding errors, below 1e-9 of the largest part; up to 1e-6 where sensors are copies or sums of one another.

Source: integrated gradients (Sundararajan et al., 2017), along a line in transformed units; for logarithms this is the
logarithmic mean Divisia index (Ang, 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import ModelError, WindowShapeError
from glaim_stream.form.form import LARGEST, ClosedForm
from glaim_stream.form.kinds import Kind, carries, simple_value
from glaim_stream.form.relations import Origins
from glaim_stream.form.tiles import tiles_of
from glaim_stream.form.variant import Variant

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

# Error of the sum, relative to its largest part. Weights are solved for apart from the value; usually both agree to
# 1e-12, and to 1e-7 where sensors are copies or sums of one another.
_TOLERANCE = 1e-6
LEVEL, EXPECTED, RELATION, CARRIED, LINE = "level", "expected level", "relation", "last value", "interpolation"


@dataclass(frozen=True)
class Explanation:
    """The parts of one filled value, in the unit of its sensor.

    value: result of `ClosedForm.fill`.
    base: the part that no single reading carries.
    basis: origin of the base: LEVEL, EXPECTED, RELATION, CARRIED or LINE.
    contributions: float64 [C, T], 0 where not observed.
    bounded: change made by the bounds.
    deviation: calibrated deviation, as `fill` returns it.
    """

    value: float
    base: float
    basis: str
    contributions: Doubles
    bounded: float
    deviation: float

    @property
    def residual(self) -> float:
        """The value less the sum of its parts: rounding errors."""
        return self.value - self.base - self.bounded - float(self.contributions.sum())


def explain(
    form: ClosedForm,
    values: Doubles,
    observed: Bools,
    end_ms: int,
    sensor: int,
    step: int,
    newest: int | None = None,
) -> Explanation | None:
    """Explain the value of a cell; None if the form declines to fill it.

    Args:
        form: the closed form.
        values: float64 [C, T], sensor units; ignored where not observed.
        observed: bool [C, T].
        end_ms: start of the window's newest step.
        sensor: index of the cell's sensor.
        step: index of the cell's step, 0..T - 1.
        newest: number of newest steps that are filled together, including the cell's; all by default.

    Raises:
        WindowShapeError: the window has another shape than the form's, or the cell is observed or not in the newest
            steps.
        ModelError: the parts differ from the value by more than rounding errors.
    """
    expected = (len(form.sensors), form.steps)
    if values.shape != expected or observed.shape != expected:
        raise WindowShapeError(f"expected a window {expected}, found {values.shape} and {observed.shape}")
    newest = form.steps if newest is None else newest
    if not (0 <= sensor < expected[0] and 0 <= form.steps - 1 - step < newest) or observed[sensor, step]:
        raise WindowShapeError(
            f"expected a cell without a reading in the newest {newest} steps of a window {expected}, "
            f"found {sensor}, {step}"
        )
    filled = form.fill(values[None], observed[None], np.array([end_ms], np.int64), newest=newest)
    value, deviation = (float(each[0, sensor, step - form.steps]) for each in (filled.mean, filled.deviation))
    if not np.isfinite(value):
        return None
    observed = observed & (np.abs(np.where(observed, values, 0.0)) < LARGEST)
    window = _Window.of(form, np.where(observed, values, 0.0), observed)
    found = _exact(form, window, sensor, step, newest) or _mixed(form, window, end_ms, sensor, step, newest)
    explanation = Explanation(value, found.base, found.basis, found.contributions, found.bounded, deviation)
    size = max(abs(value), abs(found.base), abs(found.bounded), float(np.abs(found.contributions).sum()))
    if not abs(explanation.residual) <= _TOLERANCE * size:
        raise ModelError(f"expected parts with the sum {value!r}, found {value - explanation.residual!r}")
    return explanation


@dataclass(frozen=True)
class _Window:
    """A window [C, T] before and after the relations.

    unconfirmed: bool [C, T], cells that follow from relations without a confirming step; `likely` has their origins.
    """

    values: Doubles
    observed: Bools
    completed: Doubles
    complete: Bools
    origins: Origins
    unconfirmed: Bools
    likely: Origins

    @classmethod
    def of(cls, form: ClosedForm, values: Doubles, observed: Bools) -> _Window:
        found = form.relations.complete(values[None], observed[None])
        complete, unconfirmed = found.observed[0], np.zeros(observed.shape, np.bool_)
        origins = likely = form.relations.origins(observed, found.confirmed[0])
        if found.unconfirmed is not None:
            unconfirmed = found.unconfirmed[0]
            likely = form.relations.origins(complete, found.possible[0], origins)
        return cls(values, observed, found.values[0], complete, origins, unconfirmed, likely)


@dataclass(frozen=True)
class _Parts:
    base: float
    basis: str
    contributions: Doubles
    bounded: float = 0.0


def _exact(form: ClosedForm, window: _Window, sensor: int, step: int, newest: int) -> _Parts | None:
    """The parts of a cell that follows from a relation or is filled from its sensor's neighbours; None for others."""
    if window.unconfirmed[sensor, step]:
        constant, weights = window.likely[sensor, step]
        contributions = np.zeros(window.values.shape)
        contributions[:, step] = weights * window.values[:, step]
        return _Parts(constant, RELATION, contributions)
    if not window.complete[sensor, step]:
        carried = bool(carries(form.kinds, window.completed[None], window.complete[None])[0, sensor])
        if not (carried or _has_simple_value(form, window, sensor, step, newest)):
            return None
        return _from_neighbours(form, window, sensor, step)
    return _of_readings(window, sensor, [step], np.ones(1), RELATION)


def _from_neighbours(form: ClosedForm, window: _Window, sensor: int, step: int) -> _Parts:
    """The parts of a cell that carries its sensor's last value or lies on the line between two."""
    row, seen = window.completed[sensor], np.flatnonzero(window.complete[sensor])
    before, after = seen[seen < step], seen[seen > step]
    kind, between = form.kinds[sensor], len(before) > 0 and len(after) > 0
    reset = kind is Kind.METER and between and row[after[0]] < row[before[-1]]
    if not between or kind is Kind.STATE or reset:
        place = int(before[-1] if len(before) else seen[0])
        return _of_readings(window, sensor, [place], np.ones(1), CARRIED)
    places = [int(before[-1]), int(after[0])]
    way = (step - places[0]) / (places[1] - places[0])
    shares = np.array([1.0 - way, way])
    base = 0.0
    if kind is Kind.ANGLE:  # add whole turns, so that the parts sum to the angle
        angle = simple_value([Kind.ANGLE], row[None], window.complete[[sensor]])[0, step]
        base = float(angle - shares @ row[places])
    return _of_readings(window, sensor, places, shares, LINE, base)


def _has_simple_value(form: ClosedForm, window: _Window, sensor: int, step: int, newest: int) -> bool:
    """Whether a cell is at a dark step that gets the last value or the line."""
    if form.dark_steps is None or not window.complete[sensor].any():
        return False
    return bool(form.dark_steps.simple(window.observed[None], newest)[0, step - form.steps])


def _of_readings(
    window: _Window, sensor: int, places: list[int], shares: Doubles, basis: str, base: float = 0.0
) -> _Parts:
    """The parts of a mean of a sensor's known cells, which may follow from other sensors' readings."""
    contributions = np.zeros(window.values.shape)
    for place, share in zip(places, shares, strict=True):
        if window.observed[sensor, place]:
            contributions[sensor, place] += share * window.values[sensor, place]
        else:
            constant, weights = window.origins[sensor, place]
            base += share * constant
            contributions[:, place] += share * weights * window.values[:, place]
    return _Parts(base, basis, contributions)


def _mixed(form: ClosedForm, window: _Window, end_ms: int, sensor: int, step: int, newest: int) -> _Parts:
    """The weighted parts of the variants."""
    values, complete = window.completed[None], window.complete[None]
    tile = next(each for each in tiles_of(form.steps, form.span, newest) if each.first <= step < each.last)
    cut = slice(tile.start, tile.start + form.span)
    part, seen = form.part(values, complete, form.neighbours(values, complete), cut)
    bins = None
    if form.phase is not None:
        bins = form.phase.of_windows(np.array([end_ms], np.int64), form.steps, form.step_ms)[:, cut]
    at = step - tile.start
    origins = {(c, t - tile.start): each for (c, t), each in window.origins.items() if cut.start <= t < cut.stop}
    observed = window.observed[:, cut]
    base, bounded = 0.0, 0.0
    contributions = np.zeros(window.values.shape)
    plain = _of_variant(form.variants[0], part, seen, observed, origins, bins, sensor, at, tile.newest)
    for variant, weight in zip(form.variants, form.weights, strict=True):
        parts = plain
        limited = 0.0
        if variant is not form.variants[0] and variant.transform.suits(part, seen)[0]:
            parts = _of_variant(variant, part, seen, observed, origins, bins, sensor, at, tile.newest)
            if variant.transform.logarithm.any():
                value = parts.base + float(parts.contributions.sum())
                first = form.variants[0].fill(part, seen, bins, tile.newest)
                answer, nothing = np.full(first[0].shape, value), np.zeros(first[0].shape)
                bounded_value, _ = form.log_room(part, seen, tile.newest).bounded(answer, nothing, *first)
                limited = float(bounded_value[0, sensor, at - part.shape[2]]) - value
        base += weight * parts.base
        bounded += weight * limited
        contributions[:, cut] += weight * parts.contributions
    total = base + bounded + float(contributions.sum())
    low, high = form.bounds(values, complete)
    bounded += float(np.clip(total, low[0, sensor, 0], high[0, sensor, 0])) - total
    return _Parts(base, LEVEL if seen[0, sensor].any() else EXPECTED, contributions, bounded)


def _of_variant(
    variant: Variant,
    values: Doubles,
    seen: Bools,
    observed: Bools,
    origins: Origins,
    bins: Ints | None,
    sensor: int,
    step: int,
    newest: int,
) -> _Parts:
    """The parts [C, L] of a variant's answer.

    Args:
        variant: variant of the form.
        values: float64 [1, C, L], including cells that follow from relations or from a neighbour.
        seen: bool [1, C, L], known cells: readings, and cells that follow from relations or from a neighbour.
        observed: bool [C, L], readings only.
        origins: origins of the cells that follow from relations.
        bins: int64 [1, L], phases of the steps; None without a profile.
        sensor: index of the cell's sensor.
        step: index of the cell's step.
        newest: number of newest steps that the variant fills.
    """
    moved, scales = variant.transform.forward(values, seen, bins)
    u, known_cells, scale = moved[0], seen[0], scales[0]
    count = known_cells.sum(axis=1)
    known = count > 0
    own = u.sum(axis=1) / np.maximum(count, 1)
    level = variant.levels.complete(own[None], known[None])[0][0]
    weights = variant.weights(known_cells, sensor, step, newest)
    # The derivative by a cell: its weight, less the share of its sensor's level, plus the answer's own level.
    by_level = -weights.sum(axis=1)
    if known[sensor]:
        by_level[sensor] += 1.0
    else:
        by_level += variant.levels.slopes(own, known, sensor)
    slope = np.where(known_cells, weights + (by_level / np.maximum(count, 1))[:, None], 0.0)

    def back(transformed: Doubles) -> Doubles:
        """Transformed values [C, L] in sensor units."""
        steps = slice(0, u.shape[1])
        out: Doubles = variant.transform.back(transformed[None], np.zeros((1, *u.shape)), scales, bins, steps)[0][0]
        return out

    reference = np.where(known_cells, own[:, None], 0.0)
    usual = back(np.broadcast_to(own[:, None], u.shape).copy())  # each sensor's level, in its unit
    contributions = np.where(known_cells & observed, slope * (u - reference), 0.0)
    for (c, t), (constant, shares) in origins.items():
        if not known_cells[c, t]:
            continue
        differences = shares * (values[0, :, t] - usual[:, t])
        before = constant + float(shares @ usual[:, t])
        moved_by = float(differences.sum())
        if variant.transform.logarithm[c]:
            if before > 0:
                distance = np.log(values[0, c, t] / before) / scale[c]
                per_unit = distance / moved_by if moved_by else 1.0 / (before * scale[c])
            else:  # no window has this value: the cell keeps its own level, and its sources share the distance
                differences, per_unit = np.abs(shares) / np.abs(shares).sum(), u[c, t] - own[c]
        else:
            per_unit = 1.0 / scale[c]
        contributions[:, t] += slope[c, t] * per_unit * differences
    answer = level[sensor] + float((weights * np.where(known_cells, u - own[:, None], 0.0)).sum())
    distance = float(contributions.sum())
    ends = []
    for each in (answer, answer - distance):
        cell = np.zeros(u.shape)
        cell[sensor, step] = each
        ends.append(float(back(cell)[sensor, step]))
    unit = float(scale[sensor])
    if variant.transform.logarithm[sensor]:
        grown = ends[1] * np.expm1(unit * distance)
        if abs(ends[1] + grown - ends[0]) > 1e-12 * ends[0]:  # the trained range bounds the logarithm
            grown = ends[0] - ends[1]
        unit = float(grown / distance) if distance else ends[1] * unit  # the logarithmic mean, times the scale
    return _Parts(ends[1], LEVEL, contributions * unit)
