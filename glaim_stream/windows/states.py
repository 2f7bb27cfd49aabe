"""States of a model's groups: whole, with holes, dark or new. Arithmetic only.

The work depends only on the number of groups; callers take `ROWS_AT_A_TIME` groups and do other work in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.model import ModelWindows

NEWEST = 12  # steps whose holes count
ROWS_AT_A_TIME = 5_000  # some 5 ms for 8 sensors and 96 steps


class GroupState(IntEnum):
    """The state of a group."""

    WHOLE = 0  # every sensor was observed at each of the newest steps
    HOLES = 1
    DARK = 2  # nothing has arrived for longer than max_gap
    NEW = 3  # none of its steps has closed yet


@dataclass(frozen=True, slots=True)
class States:
    """The states of n groups of one model.

    state: uint8 [n], GroupState.
    missing: float64 [n], share of the cells of the newest steps without a reading; 0 for new groups.
    silent_steps: int64 [n], from the group's newest observed step to the newest closed one; -1 for new groups.
    """

    state: NDArray[np.uint8]
    missing: NDArray[np.float64]
    silent_steps: NDArray[np.int64]


def states_of(windows: ModelWindows, rows: slice) -> States:
    """Read the states of some rows of a model's rings, which all belong to groups."""
    rings, model = windows.rings, windows.model
    codes = rings.groups[rows]
    if rings.closable is None or not codes:
        new = np.full(len(codes), GroupState.NEW, np.uint8)
        return States(new, np.zeros(len(codes)), np.full(len(codes), -1))
    observed = rings.observed[rows.start : rows.start + len(codes)]
    newest = max(rings.closable - 1, windows.published_through or rings.closable - 1)
    steps = np.arange(newest - model.window + 1, newest + 1)
    held = (steps >= rings.oldest_step) & (steps <= rings.newest_step)
    of_any: NDArray[np.bool_] = np.any(observed, axis=1)
    any_observed = of_any[:, rings.slots(steps)] & held
    spoke = any_observed.any(axis=1)
    missing = _missing(observed, np.array(model.cadences), rings.slots(steps), held)
    dark = np.isin(np.array(codes), np.array(windows.dark_groups(), np.int64))
    state = np.where(missing > 0, np.uint8(GroupState.HOLES), np.uint8(GroupState.WHOLE))
    state[~spoke] = GroupState.NEW
    state[dark] = GroupState.DARK
    missing[state == GroupState.NEW] = 0.0
    return States(state, missing, np.where(spoke, any_observed[:, ::-1].argmax(axis=1), -1))


def holed_groups(windows: ModelWindows) -> Iterator[int]:
    """Yield the number of groups with holes, part by part of ROWS_AT_A_TIME groups."""
    first = 0
    while first < len(windows.rings.groups):
        rows = slice(first, first + ROWS_AT_A_TIME)
        yield int((states_of(windows, rows).state == GroupState.HOLES).sum())
        first += ROWS_AT_A_TIME


def _missing(
    observed: NDArray[np.bool_], cadences: NDArray[np.int64], slots: NDArray[np.int64], held: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The share of readings that are missing at the newest steps, [rows]; a slow sensor has one there or none."""
    newest = slots[-NEWEST:]
    often = cadences == 1
    there = (observed[:, :, newest] & held[-NEWEST:]).sum(axis=2)  # [rows, sensors]
    share = np.where(often, there / len(newest), 0.0)
    for sensor in np.flatnonzero(~often).tolist():
        # Its hole is at the last step of an interval, so it may have been silent for almost two of them.
        since = min(len(slots), 2 * int(cadences[sensor]) - 1)
        share[:, sensor] = (observed[:, sensor][:, slots[-since:]] & held[-since:]).any(axis=1)
    missing: NDArray[np.float64] = 1.0 - share.mean(axis=1)
    return np.maximum(missing, 0.0)
