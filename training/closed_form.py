"""The closed form of a run: the fit from its training rows, and the answers for standardised windows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import around
from glaim_stream.core.errors import ModelError
from glaim_stream.form import ClosedForm, Fitted, interpolation
from glaim_stream.form import fit as fit_series
from glaim_stream.health import GridSeries
from training.data import Bools, Floats, GroupSeries, Scale
from training.errors import DataError

Ints = NDArray[np.int64]

_VALIDATION_SHARE = 0.2  # share of the training rows on which a fit chooses its constants
_LEAST_WINDOWS = 2  # windows without overlap; fewer cannot tell dozens of alternatives apart

# (values with 0 where missing, observed, times of the newest steps), [B, C, T] twice and [B] -> filled [B, C, T]
TimedFill = Callable[[Floats, Bools, Ints], Floats]


def fit(
    train: GroupSeries,
    window: int,
    validation: GroupSeries | None = None,
    *,
    only_numbers: bool = False,
    only_plain: bool = False,
    directions: Collection[str] = (),
) -> Fitted:
    """Fit a closed form to the training part only.

    Args:
        train: Training rows.
        window: T, steps.
        validation: Rows on which the constants are chosen if a fifth of the training rows is fewer than two windows;
            otherwise the newest fifth serves. They may begin with rows of the training part.
        only_numbers: Fill every sensor by the Gaussian, whatever its values look like.
        only_plain: Try no variant but the plain one.
        directions: Sensors that are known as directions in degrees.

    Raises:
        DataError: there are too few rows.
    """
    step_ms = round(train.step_s * 1000)
    values = train.values
    if validation is not None and len(train.groups) * train.rows * _VALIDATION_SHARE >= _LEAST_WINDOWS * window:
        validation = None
    if validation is not None:
        later = validation.times_ms > train.times_ms[-1]
        gap = round((int(validation.times_ms[later][0]) - int(train.times_ms[-1])) / step_ms) - 1 if later.any() else 0
        between = np.full((*values.shape[:2], gap), np.nan, values.dtype)
        values = np.concatenate([values, between, validation.values[:, :, later]], axis=2)
    try:
        return fit_series(
            values.astype(np.float64), np.isfinite(values), start_ms=int(train.times_ms[0]), step_ms=step_ms,
            sensors=train.sensors, steps=window,
            training_rows=None if validation is None else train.values.shape[2], only_numbers=only_numbers,
            only_plain=only_plain, directions=np.isin(train.sensors, list(directions)) if directions else None,
        )  # fmt: skip
    except ModelError as error:
        raise DataError(f"no closed form for the training part of {train.source}: {error}") from error


def health_series(train: GroupSeries) -> list[GridSeries]:
    """The readings of each group, from which the habits of the sensors are learned."""
    step_ms = round(train.step_s * 1000)
    first = int(train.times_ms[0]) // step_ms
    return [
        GridSeries(name, first, step_ms, values.astype(np.float64), np.isfinite(values))
        for name, values in zip(train.groups, train.values, strict=True)
    ]


def lossy(groups: Sequence[GridSeries], share: float, *, seed: int) -> list[GridSeries]:
    """Return series that lack a share of their readings, chosen one at a time; the same seed chooses the same ones."""
    rng = np.random.default_rng(seed)
    return [replace(each, observed=each.observed & (rng.random(each.observed.shape) >= share)) for each in groups]


def filled_alone(form: ClosedForm, scale: Scale, values: Floats, observed: Bools) -> Bools | None:
    """Return the sensors [n, C] of standardised windows for which a stream publishes no network's value; None: none.

    They are states, directions, and meters that are reset in the window (`ClosedForm.unmixable`).
    """
    return form.unmixable(values.astype(np.float64) * scale.std[:, None] + scale.mean[:, None], observed)


def nearest(form: ClosedForm | None, scale: Scale, filled: Floats, truth: Floats) -> Floats:
    """Return standardised filled values [B, C, T], those of directions as near to the truth as full turns allow."""
    directions = None if form is None else form.directions
    if directions is None:
        return filled
    std = scale.std[directions, None]
    found, true = filled.astype(np.float64), truth[:, directions].astype(np.float64)
    found[:, directions] = true + around((found[:, directions] - true) * std) / std
    return found.astype(np.float32)


def fill_of(form: ClosedForm, scale: Scale, newest: int | None = None) -> TimedFill:
    """Wrap a closed form as a function of standardised windows; cells on which it declines are interpolated.

    Args:
        form: The closed form.
        scale: Scale of the windows.
        newest: Number of newest steps to return; all by default.
    """
    mean, std = scale.mean[:, None], scale.std[:, None]

    def fill(values: Floats, observed: Bools, end_ms: Ints) -> Floats:
        kept = slice(None) if newest is None else slice(-newest, None)
        given = values.astype(np.float64) * std + mean
        units = form.fill(given, observed, end_ms, newest=newest, with_deviation=False).mean
        found = ((units - mean) / std).astype(np.float32)
        known = np.isfinite(found)
        if not known.all():
            found = np.where(known, found, np.nan_to_num(interpolation(values, observed)[:, :, kept], nan=0.0))
        filled: Floats = np.where(observed[:, :, kept], values[:, :, kept], found)
        return filled

    return fill
