"""The observed rows that readings must cause, counted as the readings arrive and apart from the rows themselves."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray


class OwedRows:
    """Rows of the open steps of one model, and those that are due and were not taken yet."""

    def __init__(self) -> None:
        self._open: Counter[int] = Counter()  # number of cells that hold a reading, by step
        self._due = 0

    def add(self, steps: NDArray[np.int64]) -> None:
        """Owe a row for each of these cells, given by their open steps, once their step closes."""
        if not len(steps):
            return
        first = int(steps.min())  # all are steps that the rings hold, so few numbers lie between them
        for step, cells in enumerate(np.bincount(steps - first).tolist(), first):
            if cells:
                self._open[step] += cells

    def close(self, step: int) -> None:
        """Make the rows of a step due, if it is open."""
        self._due += self._open.pop(step, 0)

    def correct(self, rows: int) -> None:
        """Owe rows of published steps; they are due at once."""
        self._due += rows

    def take_due(self) -> int:
        """Return how many rows became due since the last call."""
        due, self._due = self._due, 0
        return due

    def of_steps_through(self, step: int) -> int:
        """Number of rows of open steps up to this one."""
        return sum(cells for each, cells in self._open.items() if each <= step)
