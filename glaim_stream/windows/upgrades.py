"""Upgrades: final rows that a fallback imputer made are made again once the best imputer of the model is available.

That is its network; for a model without one it is the closed form, which is away until the first one has been learned.
Where answers are blended, the errors of a form that has just come are not known yet, and neither are the weights and
intervals that follow from them. So rows wait until it has answered the probes of `PROBED_STEPS` steps.

The final row of step t was made from the window that ends at e = t + `revise_after`. By the time it is back, the
rings hold only the steps from `closable - window` on, so of the `window` steps up to e the oldest `closable - 1 - e`
are gone and count as not observed. A final row is made again while half of its window is held: after an outage of up to
48 steps for a window of 96. Older rows stay as the fallback made them.

Waiting upgrades are kept in memory only and lost in a crash or a rebuild: an upgrade is best effort, and the row that
it would have replaced stays valid. The topic does not record when a model came back or a form came, either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import UPGRADED
from glaim_stream.windows.closed import Closed
from glaim_stream.windows.holes import Rules
from glaim_stream.windows.rings import Rings

PROBED_STEPS = 8  # after them, the factors of intervals follow from the errors of a whole block (blend.reach)
MOST_ROWS = 512  # rows per batch, so that catching up delays no other row
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Upgrades:
    """Final rows of one model's groups in one partition that wait for its best imputer."""

    def __init__(self) -> None:
        self.available = False  # whether they are to be made again now
        self._probed_from: int | None = None  # first step of the probes that the present closed form has answered
        self._waiting: Ints = np.empty((4, 0), np.int64)  # group code, sensor, start of the step in ms, gap age

    def __len__(self) -> int:
        return int(self._waiting.shape[1])

    def add(self, closed: Closed, rows: Ints) -> None:
        """Add the final rows among `rows` of closed steps, all of which a fallback made."""
        rows = rows[closed.final[rows]]
        if len(rows):
            added = np.array([closed.group[rows], closed.sensor[rows], closed.ts_ms[rows], closed.gap_age[rows]])
            self._waiting = np.concatenate([self._waiting, added.astype(np.int64)], axis=1)

    def note_form(self, *, here: bool, probed: Ints | None) -> None:
        """Note whether the closed form of a model without a network has answered.

        Args:
            here: whether it has.
            probed: steps of the probes that were asked, int64 ascending, maybe none; None: it is not blended.
        """
        if not here or probed is None:
            self.available, self._probed_from = here, None
        elif len(probed):
            self._probed_from = int(probed[0]) if self._probed_from is None else self._probed_from
            self.available = int(probed[-1]) - self._probed_from >= PROBED_STEPS

    def group_codes(self) -> NDArray[np.int32]:
        """Codes of the groups that wait."""
        codes: NDArray[np.int32] = self._waiting[0].astype(np.int32)
        return codes

    def due(self, rings: Rings, rules: Rules) -> Closed | None:
        """Final rows to make again now, the oldest first; None while the imputer is unavailable or nothing waits.

        The rows returned no longer wait. A cell that a late reading has filled since needs no upgrade.
        """
        if len(self) == 0 or rings.closable is None:
            return None
        gone = rings.closable - 1 - (self._waiting[2] // rules.step_ms + rules.revise_after)
        most_gone = min(rules.window // 2, rules.window - rules.revise_after - 2)
        self._waiting = self._waiting[:, gone <= most_gone]
        if not self.available or len(self) == 0:
            return None
        cells, self._waiting = self._waiting[:, :MOST_ROWS], self._waiting[:, MOST_ROWS:]
        row, step = rings.rows(cells[0].astype(np.int32)), cells[2] // rules.step_ms
        observed_since = rings.observed[row, cells[1], rings.slots(step)]
        return _upgraded(cells[:, ~observed_since], row[~observed_since], step[~observed_since], rings, rules)


def _upgraded(cells: Ints, row: Ints, step: Ints, rings: Rings, rules: Rules) -> Closed | None:
    """Rows and windows of cells [4, n] to fill again; row and step are int64 [n]."""
    count = cells.shape[1]
    if count == 0:
        return None
    (ends, rows), window = _unique(step + rules.revise_after, row)
    values, observed = past_windows(rings, rules, ends, rows)
    return Closed(
        rules.model_index,
        cells[0].astype(np.int32),
        cells[1].astype(np.int32),
        cells[2],
        cells[2],
        np.full(count, np.nan),
        np.zeros(count, np.bool_),
        rings.quality[row, cells[1], rings.slots(step)],
        np.zeros(count, np.bool_),
        cells[3].astype(np.int32),
        np.full(count, UPGRADED, np.int16),
        np.ones(count, np.bool_),
        window.astype(np.int32),
        np.full(count, rules.revise_after, np.int32),
        values,
        observed,
    )


def past_windows(rings: Rings, rules: Rules, ends: Ints, rows: Ints) -> tuple[NDArray[np.float64], Bools]:
    """The windows of rows [w] that ended at closed steps [w], as far as they are held, without doubted readings.

    Returns:
        Values, 0 where not observed, and observed cells, each [w, C, window]. Steps that have gone count as not
        observed.
    """
    assert rings.closable is not None
    steps = ends[:, None] + np.arange(1 - rules.window, 1)
    held = steps >= rings.closable - rules.window
    slots = rings.slots(steps)
    observed = (rings.observed[rows[:, None], :, slots] & held[:, :, None]).transpose(0, 2, 1)
    values = rings.values[rows[:, None], :, slots].transpose(0, 2, 1)
    values, observed = np.where(observed, values, 0.0), np.ascontiguousarray(observed)
    if rules.plausibility is not None:
        values, observed = rules.plausibility.sound(values, observed)
    return values, observed


def _unique(ends: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The distinct pairs of end and row, int64 [2, w], and the index of each cell's pair, int64 [n]."""
    pairs, place = np.unique(np.stack([ends, rows]), axis=1, return_inverse=True)
    return pairs, place.reshape(-1)
