"""Which cells of a step get a row as it closes, and which of them are imputed. Pure.

A sensor is due once in each interval of its cadence, which for most is the step itself. An interval without a reading
is a hole at its last step; the other steps of a slow sensor that hold no reading yield nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.vocabulary import FINAL, PROVISIONAL
from glaim_stream.windows.cadence import SlowSensors
from glaim_stream.windows.rings import Rings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rules:
    """The window rules of one model that decide what a closed step yields."""

    window: int
    revise_after: int
    max_gap: int
    step_ms: int
    model_index: int


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen back from a step: R rows of the rings, C sensors."""

    step: int
    past: Bools  # [R, C, window] where something was observed, oldest step first
    age: Ints  # [R, C] steps since the last observation, `window` where there is none
    group_age: Ints  # [R] the same of all sensors of a group together

    @property
    def recent(self) -> Bools:
        """Where something was observed, bool [R, C, window], newest step first."""
        return self.past[:, :, ::-1]


@dataclass(frozen=True, slots=True)
class Part:
    """Cells of one step that get a row: provisional ones or final ones."""

    row: Ints  # [n] of the rings
    sensor: Ints  # [n]
    observed: Bools  # [n]
    gap_age: Ints  # [n]
    fill: Bools  # [n] imputed from the window
    final: Bools  # [n]
    lag: int  # steps before the one that closes
    revision: int

    def where(self, keep: Bools, revision: int) -> Part:
        """The chosen cells, under another revision."""
        return Part(
            self.row[keep],
            self.sensor[keep],
            self.observed[keep],
            self.gap_age[keep],
            self.fill[keep],
            self.final[keep],
            self.lag,
            revision,
        )


def look_back(rings: Rings, rules: Rules, step: int) -> Look:
    """What the groups hold as `step` closes. Steps that the rings have no room for yet are not observed."""
    past = rings.past(rings.observed, slice(len(rings.groups)), step)
    if step > rings.newest_step:
        past[:, :, rules.window - (step - rings.newest_step) :] = False
    age = np.zeros(past.shape[:2], np.int64)
    hole = np.nonzero(~past[:, :, -1])  # a few of the cells: only they are looked back from
    age[hole] = _gap_age(past[hole][:, ::-1])
    return Look(step, past, age, age.min(axis=1, initial=rules.window))


def provisional(look: Look, rules: Rules, slow: SlowSensors | None, *, last_word: bool) -> Part:
    """Every cell of the step, but of dark groups and of sensors that are not due."""
    awake = np.flatnonzero(look.group_age <= rules.max_gap)
    age = look.age[awake] if len(awake) < len(look.age) else look.age
    observed = age == 0
    fill = ~observed & (age <= rules.max_gap)
    sensors = age.shape[1]
    part = Part(
        np.repeat(awake, sensors),
        np.tile(np.arange(sensors), len(awake)),
        observed.ravel(),
        age.ravel(),
        fill.ravel(),
        (observed | (last_word & (~fill | (rules.revise_after == 0)))).ravel(),
        0,
        PROVISIONAL,
    )
    if slow is not None:
        shown = part.observed | slow.missing(look.step, part.row, part.sensor, part.gap_age)
        part = part.where(shown, PROVISIONAL)
    return part


def settled(look: Look, rules: Rules, slow: SlowSensors | None) -> Part:
    """The last word on those holes of a step, published by the clock, that no right context will change.

    As the first row that it is: the same one comes from a worker that knows nothing of the clock.
    """
    part = provisional(look, rules, slow, last_word=True)
    return part.where(part.final & ~part.observed, PROVISIONAL)


def final(look: Look, rules: Rules, slow: SlowSensors | None) -> Part:
    """The last word on the holes `revise_after` steps earlier."""
    until = look.recent[:, :, rules.revise_after :]  # the step itself and what came before it
    row, sensor = np.nonzero(~until[:, :, 0])
    age = _gap_age(until[row, sensor])
    due = age <= rules.max_gap
    if slow is not None:
        due &= slow.missing(look.step - rules.revise_after, row, sensor, age)
    row, sensor, age = row[due], sensor[due], age[due]
    every = np.ones(len(row), np.bool_)
    return Part(row, sensor, ~every, age, every, every, rules.revise_after, FINAL)


def _gap_age(recent: Bools) -> Ints:
    """Steps since the last observation, int64 [...], of steps newest first; their number where there is none."""
    age: Ints = recent.argmax(axis=-1)  # stops at the first True, and says 0 where there is none
    age[(age == 0) & ~recent[..., 0]] = recent.shape[-1]
    return age
