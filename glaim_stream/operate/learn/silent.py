"""Sensors of the form in use about which the new rows tell too little for a new form to replace it.

A trial averages over the cells that have readings, so it says nothing about a sensor that has none. Two cases:

- lost: the training rows have no reading, so the new form would decline the sensor.
- untried: the training rows have readings, but those of the trial have none. A sensor that was silent for as long
  before does not count: it reports rarely, and few trials would meet one of its readings. Nor does a sensor that has
  been silent since the end of the rows that the form in use has seen: it was not tried on that form either, which was
  forced or was the first one, and the new form learns no reading of it that the form in use has not seen.

So a sensor that is gone for good stops the learning until one form without it is forced, and not again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import listed
from glaim_stream.form import ClosedForm, FormSeries

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Silent:
    """Names of sensors that keep a new form from its place."""

    lost: tuple[str, ...]
    untried: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.lost or self.untried)

    def __str__(self) -> str:
        """The sensors that lack readings, by case."""
        parts = [("the training rows", self.lost), ("the rows of the trial", self.untried)]
        told = " and in ".join(f"{where} ({listed(names)})" for where, names in parts if names)
        return f"the form in use knows sensors that have no reading in {told}"


def silent_sensors(new: ClosedForm, old: ClosedForm, series: FormSeries, held: int) -> Silent:
    """Find the sensors that keep a new form from its place.

    Args:
        new: closed form fitted to the rows before the trial.
        old: the form in use.
        series: all rows.
        held: number of the newest rows, which the trial uses.
    """
    observed: Bools = np.asarray(series.observed.any(axis=0), np.bool_)
    known = ~old.unseen
    lost = known & new.unseen
    silent = ~observed[:, series.steps - held :].any(axis=1) & ~_silent_since(old.until_ms, series, observed)
    untried = known & ~lost & silent & np.array([_pauses_longer_than_ever(each) for each in observed])
    return Silent(_names(new, lost), _names(new, untried))


def _silent_since(until_ms: int | None, series: FormSeries, observed: Bools) -> Bools:
    """True for sensors [C] without a reading in the rows from a moment on; False for all if it is unknown."""
    if until_ms is None:
        return np.zeros(len(observed), np.bool_)
    return np.asarray(~observed[:, series.times_ms >= until_ms].any(axis=1), np.bool_)


def _pauses_longer_than_ever(observed: Bools) -> bool:
    """Whether a sensor [N] has been silent at the end for longer than ever between two of its readings."""
    places = np.flatnonzero(observed)
    pause = len(observed) - 1 - places[-1] if len(places) else len(observed)
    return bool(pause >= np.diff(places).max(initial=1))


def _names(form: ClosedForm, chosen: Bools) -> tuple[str, ...]:
    return tuple(name for name, each in zip(form.sensors, chosen.tolist(), strict=True) if each)
