"""The state of every group in a few bytes each, read from the windows of a partition. Runs in the event loop.

What is read depends on the number of groups alone, and is made in parts of `ROWS_AT_A_TIME` groups between which other
work is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.model import ModelWindows

NEWEST = 12  # steps whose holes count
ROWS_AT_A_TIME = 5_000  # some 5 ms for 8 sensors and 96 steps
UNKNOWN_S = 2**32 - 1


class GroupState(IntEnum):
    """How a group is doing."""

    WHOLE = 0  # every sensor was observed at each of the newest steps
    HOLES = 1
    DARK = 2  # nothing has arrived for longer than max_gap
    NEW = 3  # no step of it has closed yet


@dataclass(frozen=True, slots=True)
class GroupStates:
    """n groups of one model in one partition.

    missing: percent of the cells of the newest steps without a reading.
    behind_s: seconds from the group's newest observed step to the partition's newest closed one.
    faulty: number of sensors that are faulty, up to 255; 0 where their health is not judged.
    """

    model: int
    partition: int
    names: list[str]
    state: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    behind_s: NDArray[np.uint32]
    faulty: NDArray[np.uint8]


def group_states(windows: ModelWindows, partition: int, names: Sequence[str], first: int) -> GroupStates:
    """Read up to ROWS_AT_A_TIME groups.

    Args:
        windows: of a model in a partition.
        partition: its number.
        names: by group code.
        first: row of the first group.
    """
    rings, model = windows.rings, windows.model
    codes = rings.groups[first : first + ROWS_AT_A_TIME]
    rows = slice(first, first + len(codes))
    own = [names[code] for code in codes]
    if rings.closable is None or not codes:
        new = np.full(len(codes), GroupState.NEW, np.uint8)
        none = np.zeros_like(new)
        return GroupStates(
            windows.model_index, partition, own, new, none, np.full(len(codes), UNKNOWN_S, np.uint32), none
        )
    observed = rings.observed[rows]
    newest = max(rings.closable - 1, windows.published_through or rings.closable - 1)
    steps = np.arange(newest - model.window + 1, newest + 1)
    held = (steps >= rings.oldest_step) & (steps <= rings.newest_step)
    of_any: NDArray[np.bool_] = np.any(observed, axis=1)
    any_observed = of_any[:, rings.slots(steps)] & held
    spoke = any_observed.any(axis=1)
    silent_steps = np.where(spoke, any_observed[:, ::-1].argmax(axis=1), 0)
    missing = _missing(observed, np.array(model.cadences), rings.slots(steps), held)
    dark = np.isin(np.array(codes), np.array(windows.dark_groups(), np.int64))
    state = np.where(missing > 0, np.uint8(GroupState.HOLES), np.uint8(GroupState.WHOLE))
    state[~spoke] = GroupState.NEW
    state[dark] = GroupState.DARK
    behind_s = np.where(spoke, silent_steps * model.step_ms // 1000, UNKNOWN_S).astype(np.uint32)
    percent = np.ceil(100 * missing).astype(np.uint8)
    return GroupStates(
        windows.model_index, partition, own, state, percent, behind_s, _faulty(windows, rows, len(codes))
    )


def _faulty(windows: ModelWindows, rows: slice, count: int) -> NDArray[np.uint8]:
    """The number of faulty sensors of each group, [rows]."""
    health = windows.health
    if health is None or not health.judges:
        return np.zeros(count, np.uint8)
    faulty: NDArray[np.uint8] = np.minimum(health.faulty_rows(rows).sum(axis=1), 255).astype(np.uint8)
    return faulty


def _missing(
    observed: NDArray[np.bool_], cadences: NDArray[np.int64], slots: NDArray[np.int64], held: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The share of readings that are missing at the newest steps, [rows]; of a slow sensor there is one or none."""
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
