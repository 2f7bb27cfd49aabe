"""Finals that a lower rung made are made again when a better one is back. Pure: numpy only.

The final of step t was made from the window that ends `revise_after` steps later, at e. By the time the better rung is
back the rings have moved on: they hold the steps from `closable - window` on, so of the `window` steps up to e the
oldest `closable - 1 - e` are gone and count as not observed. A final is made again while half of its window is held:
for an outage of up to 48 steps of a window of 96. What is older stays as the lower rung made it.

What waits is kept in memory only and forgotten in a crash or a rebuild: an upgrade is best effort, and the row that
it would have replaced stands. When the better rung came back is not in the topic either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.vocabulary import UPGRADED
from glaim_stream.windows.closing import Closed
from glaim_stream.windows.holes import Rules
from glaim_stream.windows.rings import Rings

MOST_ROWS = 512  # of one batch, so that catching up delays nothing
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Upgrades:
    """Of one model's groups in one partition."""

    def __init__(self) -> None:
        self._back = False
        self._waiting: Ints = np.empty((4, 0), np.int64)  # group code, sensor, start of the step in ms, gap age

    def __len__(self) -> int:
        return int(self._waiting.shape[1])

    def heard(self, *, back: bool) -> None:
        """Whether the best rung answered last time."""
        self._back = back

    def wait_for(self, closed: Closed, rows: Ints) -> None:
        """Remember finals among `rows` of closed steps, which a lower rung has made."""
        rows = rows[closed.final[rows]]
        if len(rows):
            noted = np.array([closed.group[rows], closed.sensor[rows], closed.ts_ms[rows], closed.gap_age[rows]])
            self._waiting = np.concatenate([self._waiting, noted.astype(np.int64)], axis=1)

    def due(self, rings: Rings, rules: Rules) -> Closed | None:
        """Finals to be made again now, the oldest first; None while the better rung is away."""
        if len(self) == 0 or rings.closable is None:
            return None
        gone = rings.closable - 1 - (self._waiting[2] // rules.step_ms + rules.revise_after)
        most = min(rules.window // 2, rules.window - rules.revise_after - 2)
        self._waiting = self._waiting[:, gone <= most]
        if not self._back or len(self) == 0:
            return None
        now, self._waiting = self._waiting[:, :MOST_ROWS], self._waiting[:, MOST_ROWS:]
        row, step = rings.rows(now[0].astype(np.int32)), now[2] // rules.step_ms
        read_since = rings.observed[row, now[1], rings.slots(step)]  # a late reading has corrected it
        return _made_again(now[:, ~read_since], row[~read_since], step[~read_since], rings, rules)


def _made_again(cells: Ints, row: Ints, step: Ints, rings: Rings, rules: Rules) -> Closed | None:
    count = cells.shape[1]
    if count == 0:
        return None
    assert rings.closable is not None
    (ends, rows), window = _unique(step + rules.revise_after, row)
    steps = ends[:, None] + np.arange(1 - rules.window, 1)
    held = steps >= rings.closable - rules.window
    slots = rings.slots(steps)
    observed = (rings.observed[rows[:, None], :, slots] & held[:, :, None]).transpose(0, 2, 1)
    values = rings.values[rows[:, None], :, slots].transpose(0, 2, 1)
    return Closed(
        rules.model_index,
        cells[0].astype(np.int32),
        cells[1].astype(np.int32),
        cells[2],
        cells[2],
        np.full(count, np.nan, np.float32),
        np.zeros(count, np.bool_),
        rings.mark[row, cells[1], rings.slots(step)],
        cells[3].astype(np.int32),
        np.full(count, UPGRADED, np.int16),
        np.ones(count, np.bool_),
        window.astype(np.int32),
        np.full(count, rules.revise_after, np.int32),
        np.where(observed, values, np.float32(0)),
        np.ascontiguousarray(observed),
    )


def _unique(ends: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The different pairs [2, w], and which of them each cell is."""
    pairs, place = np.unique(np.stack([ends, rows]), axis=1, return_inverse=True)
    return pairs, place.reshape(-1)
