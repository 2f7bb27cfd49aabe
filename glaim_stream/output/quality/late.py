"""Published estimates of the newest steps, and the readings that came for them later.

The estimate of a hole is remembered for as long as a reading may still come for it: a window. A worker that
rebuilds its windows does not know what its predecessor published. So it scores no stretch of which it may have missed
an estimate, and a record that is there is whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.angles import differences
from glaim_stream.core.vocabulary import FIRST_CORRECTION, PROVISIONAL, Status
from glaim_stream.form import Kind, are
from glaim_stream.output.quality.cells import Column, JudgedCells, age_of
from glaim_stream.output.quality.stretches import Stretch, Stretches
from glaim_stream.output.records import Rows
from glaim_stream.windows import STRETCH, Place

Ints = NDArray[np.int64]

MOST_ESTIMATES = 1_000_000  # estimates per partition and model; 46 bytes each


@dataclass(frozen=True, slots=True)
class _Estimates:
    """Filled rows in the order in which they were published."""

    step: Ints
    group: NDArray[np.int32]
    sensor: NDArray[np.int32]
    age: NDArray[np.int32]
    first: NDArray[np.bool_]  # made when its step closed, without a reading after it
    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    direction: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.step)

    def where(self, chosen: NDArray[np.bool_]) -> _Estimates:
        return _Estimates(*(getattr(self, each.name)[chosen] for each in fields(self)))


class LateReadings:
    """The errors that late readings show in the estimates of one model in one partition."""

    def __init__(self, window: int, step_ms: int, sensors: int, most: int = MOST_ESTIMATES) -> None:
        """Start without estimates.

        Args:
            window: length in steps; older readings are not applied.
            step_ms: length of the model's steps.
            sensors: number of sensors of the model.
            most: greatest number of estimates to remember.
        """
        self._window, self._step_ms, self._sensors, self._most = window, step_ms, sensors, most
        self._blocks: deque[_Estimates] = deque()
        self._last: deque[int] = deque()  # newest step of each block
        self._count = 0
        self._whole_from: int | None = None  # first step of which all estimates are remembered
        self._newest: int | None = None
        self._stretches = Stretches()

    def add(self, rows: Rows, kinds: Sequence[Kind] | None = None) -> None:
        """Take published rows, in the order in which they are published.

        Args:
            rows: rows of the model.
            kinds: kinds of the sensors, as the closed form recognised them; None: all are numbers.
        """
        if len(rows) == 0:
            return
        step = rows.ts_ms // self._step_ms
        if self._whole_from is None:  # a predecessor has published estimates of earlier steps
            first = step[rows.revision == PROVISIONAL]
            self._whole_from = int(first.min()) if len(first) else None
        newest = int(step.max())
        self._newest = newest if self._newest is None else max(newest, self._newest)
        filled = ~rows.observed & np.isfinite(rows.value)
        if filled.any():
            found = rows.where(filled)
            self._remember(
                _Estimates(
                    step[filled],
                    found.group,
                    found.sensor,
                    found.gap_age,
                    found.revision == PROVISIONAL,
                    found.value,
                    found.lower,
                    found.upper,
                    np.zeros(len(found), np.bool_) if kinds is None else are(kinds, Kind.ANGLE)[found.sensor],
                )
            )
        late = rows.observed & (rows.revision == FIRST_CORRECTION)
        late &= rows.status != Status.UNCERTAIN_SENSOR_NOT_ACCURATE  # a doubted reading is no truth
        if late.any():
            self._score(step[late], rows.group[late], rows.sensor[late], rows.value[late])
        oldest = self._newest - 2 * self._window  # a row of an open step may be published ahead of event time
        while self._blocks and self._last[0] < oldest:
            self._forget()

    def take_until(self, step: int) -> list[Stretch]:
        """Return the stretches for which no reading can come any more once `step` closes, and forget them."""
        over = self._stretches.take_until(step - self._window)
        whole = self._whole_from
        return [each for each in over if whole is not None and each.index * STRETCH >= whole]

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups that are remembered."""
        return [*(block.group for block in self._blocks), *self._stretches.group_codes()]

    def _remember(self, estimates: _Estimates) -> None:
        self._blocks.append(estimates)
        self._last.append(int(estimates.step.max()))
        self._count += len(estimates)
        while self._count > self._most:
            self._whole_from = max(self._whole_from or 0, self._last[0] + 1)
            self._forget()

    def _forget(self) -> None:
        self._last.popleft()
        self._count -= len(self._blocks.popleft())

    def _score(
        self, step: Ints, group: NDArray[np.int32], sensor: NDArray[np.int32], truth: NDArray[np.float64]
    ) -> None:
        first, last = int(step.min()), int(step.max())
        near = [block for block in self._blocks if block.step.min() <= last and block.step.max() >= first]
        if not near:
            return
        found = [block.where((block.step >= first) & (block.step <= last)) for block in near]
        known = _Estimates(
            *(np.concatenate([getattr(each, name.name) for each in found]) for name in fields(_Estimates))
        )
        if not len(known):
            return
        code = self._code(known.step, known.group, known.sensor)
        order = np.argsort(code, kind="stable")
        wanted = self._code(step, group, sensor)
        at = np.searchsorted(code[order], wanted, side="right") - 1  # the newest estimate of the cell
        there = (at >= 0) & (code[order][np.maximum(at, 0)] == wanted)
        at, truth = order[at[there]], truth[there]
        order = np.argsort(known.step[at], kind="stable")
        at, truth = at[order], truth[order]
        errors = np.full((len(at), len(Column)), np.nan)
        errors[:, Column.PUBLISHED] = np.abs(differences(known.value[at], truth, known.direction[at]))
        lower, upper = known.lower[at], known.upper[at]
        self._stretches.add(
            JudgedCells(
                known.step[at],
                known.group[at],
                known.sensor[at].astype(np.int64),
                age_of(known.age[at]),
                np.where(known.first[at], Place.EDGE, Place.INTERIOR).astype(np.int64),
                errors,
                upper - lower,
                (lower <= truth) & (truth <= upper),
            )
        )

    def _code(self, step: Ints, group: NDArray[np.int32], sensor: NDArray[np.int32]) -> Ints:
        """One number for each cell: steps lie within a few windows of each other."""
        assert self._newest is not None
        code: Ints = ((step - self._newest) * 2**31 + group) * self._sensors + sensor
        return code
