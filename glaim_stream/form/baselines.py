"""Last value and linear interpolation: the last rungs of the ladder, and the baselines that a model must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import around, on_circle

Floats = NDArray[Any]  # float32 or float64; the result has the type of the values
Bools = NDArray[np.bool_]


def last_value(values: Floats, observed: Bools) -> Floats:
    """Carry each sensor's last observation forward.

    Args:
        values: floats [..., C, T], sensor units; ignored where not observed.
        observed: bool [..., C, T], True where a reading arrived.

    Returns:
        Floats [..., C, T]; NaN before a sensor's first observation. Observed cells unchanged.
    """
    left = _left_neighbour(observed)
    carried = np.take_along_axis(values, np.maximum(left, 0), axis=-1)
    return np.where(left >= 0, carried, values.dtype.type(np.nan))


def interpolation(
    values: Floats, observed: Bools, directions: Bools | None = None, *, newest: int | None = None
) -> Floats:
    """Interpolate linearly between the two neighbouring observations of each sensor.

    The first observation is carried back to the steps before it, the last one forward to the steps after it.

    Args:
        values: floats [..., C, T], sensor units; ignored where not observed.
        observed: bool [..., C, T], True where a reading arrived.
        directions: bool [C], sensors in degrees, which are filled along the shorter arc; None: there are none.
        newest: number of newest steps to return; None: all T.

    Returns:
        Floats [..., C, newest]; NaN for a sensor without any observation. Observed cells unchanged.

    Source: the interpolation candidate of PriEmb (GLAIM, appendix), with one-sided ends.
    """
    steps = observed.shape[-1]
    first = 0 if newest is None else steps - newest
    left = _left_neighbour(observed)[..., first:]
    right = steps - 1 - _left_neighbour(observed[..., first:][..., ::-1])[..., ::-1]
    return _line(values, left, right, np.arange(first, steps), None if directions is None else directions[:, None])


def interpolation_at(values: Floats, observed: Bools, at: NDArray[np.int64], directions: Bools | None = None) -> Floats:
    """`interpolation` for one cell per row: the same bits at a tenth of the cost of whole rows.

    Args:
        values: floats [n, T], sensor units; ignored where not observed.
        observed: bool [n, T], True where a reading arrived.
        at: int64 [n], step of each row.
        directions: bool [n], rows of sensors in degrees; None: there are none.

    Returns:
        Floats [n].
    """
    steps = observed.shape[1]
    place, here = np.arange(steps, dtype=np.int32), at[:, None]
    left = np.where(observed & (place <= here), place, -1).max(axis=1, keepdims=True)
    right = np.where(observed & (place >= here), place, steps).min(axis=1, keepdims=True)
    return _line(values, left, right, here, None if directions is None else directions[:, None])[:, 0]


def distances(observed: Bools) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps to the nearest reading before and after each cell [..., T]; 0 at readings, infinite where there is none."""
    return _since(observed), _since(observed[..., ::-1])[..., ::-1]


def nearest(observed: Bools) -> NDArray[np.float64]:
    """Steps to the nearest reading of each cell [..., T] on either side."""
    return np.minimum(*distances(observed))


def _since(observed: Bools) -> NDArray[np.float64]:
    left = _left_neighbour(observed)
    return np.where(left >= 0, (np.arange(observed.shape[-1]) - left).astype(np.float64), np.inf)


def _line(
    values: Floats,
    left: NDArray[np.integer],
    right: NDArray[np.integer],
    at: NDArray[np.integer],
    directions: Bools | None,
) -> Floats:
    """Values between the neighbours [..., k] of the steps `at`; `left` is -1 and `right` is T if absent."""
    steps = values.shape[-1]
    has_left, has_right = left >= 0, right < steps
    left = np.where(has_left, left, np.minimum(right, steps - 1))
    right = np.where(has_right, right, left)
    from_left = np.take_along_axis(values, left, axis=-1)
    from_right = np.take_along_axis(values, right, axis=-1)
    kind = values.dtype.type
    share = np.where(right > left, (at - left).astype(kind) / np.maximum(right - left, 1).astype(kind), kind(0))
    with np.errstate(over="ignore", invalid="ignore"):
        apart = from_right - from_left
        if directions is None:
            drawn = from_left + share * apart
        else:
            drawn = from_left + share * np.where(directions, around(apart), apart)
            turned = on_circle(drawn, np.minimum(from_left, from_right) < 0.0)
            drawn = np.where(directions & (drawn != from_left), turned, drawn)
    if not np.isfinite(drawn).all():  # two neighbours may be further apart than the largest float
        drawn = np.where(np.isfinite(drawn), drawn, from_left * (1 - share) + from_right * share)
    drawn = np.where(right > left, drawn, from_left)  # adding 0 would lose the sign of -0.0
    return np.where(has_left | has_right, drawn, kind(np.nan)).astype(kind)


def _left_neighbour(observed: Bools) -> NDArray[np.int64]:
    """Index of the nearest observation at or before each step, int64 [..., T]; -1 where there is none."""
    index = np.where(observed, np.arange(observed.shape[-1]), -1)
    return np.maximum.accumulate(index, axis=-1)
