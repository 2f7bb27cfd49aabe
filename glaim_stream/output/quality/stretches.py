"""Cells by stretches of event time, `STRETCH` steps each, aligned to the epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.output.quality.cells import JudgedCells, joined
from glaim_stream.windows import STRETCH


@dataclass(frozen=True, slots=True)
class Stretch:
    """The cells of the steps `[index * STRETCH, (index + 1) * STRETCH)` of one model."""

    index: int
    cells: JudgedCells


class Stretches:
    """The stretches that are not over yet."""

    def __init__(self) -> None:
        self._open: dict[int, list[JudgedCells]] = {}

    def add(self, cells: JudgedCells) -> None:
        """Add cells, in the order of their steps, to their stretches."""
        if len(cells) == 0:
            return
        first, last = int(cells.step[0]) // STRETCH, int(cells.step[-1]) // STRETCH
        if first == last:
            self._open.setdefault(first, []).append(cells)
            return
        index = cells.step // STRETCH
        for each in np.unique(index).tolist():
            self._open.setdefault(each, []).append(cells.where(index == each))

    def take_until(self, step: int) -> list[Stretch]:
        """Return the stretches that are over before `step`, and forget them."""
        if not self._open:
            return []
        over = sorted(index for index in self._open if (index + 1) * STRETCH <= step)
        return [Stretch(index, joined(self._open.pop(index))) for index in over]

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups in them."""
        return [cells.group for parts in self._open.values() for cells in parts]
