"""The state of every group in a few bytes each, read from the windows of a partition. Runs in the event loop.

The amount read depends only on the number of groups. It is read in parts of `ROWS_AT_A_TIME` groups, and other work
runs between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows import ROWS_AT_A_TIME, ModelWindows, states_of

UNKNOWN_S = 2**32 - 1


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
        windows: windows of a model in a partition.
        partition: number of the partition.
        names: names of groups by code.
        first: row of the first group to read.
    """
    codes = windows.rings.groups[first : first + ROWS_AT_A_TIME]
    rows = slice(first, first + len(codes))
    own = [names[code] for code in codes]
    found = states_of(windows, rows)
    passed_s = found.silent_steps * windows.model.step_ms // 1000
    behind_s = np.where(found.silent_steps >= 0, passed_s, UNKNOWN_S).astype(np.uint32)
    percent = np.ceil(100 * found.missing).astype(np.uint8)
    closed_any = windows.rings.closable is not None
    faulty = _faulty(windows, rows, len(codes)) if closed_any else np.zeros(len(codes), np.uint8)
    return GroupStates(windows.model_index, partition, own, found.state, percent, behind_s, faulty)


def _faulty(windows: ModelWindows, rows: slice, count: int) -> NDArray[np.uint8]:
    """The number of faulty sensors of each group, [rows]."""
    health = windows.health
    if health is None or not health.judges:
        return np.zeros(count, np.uint8)
    faulty: NDArray[np.uint8] = np.minimum(health.faulty_rows(rows).sum(axis=1), 255).astype(np.uint8)
    return faulty
