"""Memory for the windows of successive closing steps: they lie together, so that joining copies nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Windows = tuple[NDArray[np.float64], NDArray[np.bool_]]  # values and observed cells, [w, C, window] each


class Room:
    """The windows of one model that were made since they were last taken."""

    def __init__(self, sensors: int, window: int) -> None:
        self._shape = (sensors, window)
        self._usual = 0  # number of windows that were taken last; as many are expected
        self._begin()

    def _begin(self) -> None:
        self._used = 0
        self._values = np.empty((0, *self._shape))
        self._observed = np.empty((0, *self._shape), np.bool_)

    def add(self, count: int) -> Windows:
        """Make room for `count` windows after the earlier ones, to be written by the caller."""
        start, self._used = self._used, self._used + count
        if self._used > len(self._values):
            self._grow(start, max(self._used, self._usual, 2 * len(self._values)))
        return self._values[start : self._used], self._observed[start : self._used]

    @property
    def used(self) -> int:
        """Number of windows that were added since they were last taken."""
        return self._used

    def hide(self, places: NDArray[np.int64], cells: NDArray[np.bool_]) -> None:
        """Make cells [k, C, window] of the windows at some places [k] unobserved."""
        self._values[places] = np.where(cells, 0.0, self._values[places])
        self._observed[places] &= ~cells

    def take(self) -> Windows:
        """Return all windows since the last call, in their order."""
        taken = self._values[: self._used], self._observed[: self._used]
        self._usual = self._used
        self._begin()
        return taken

    def _grow(self, used: int, size: int) -> None:
        for name in ("_values", "_observed"):
            held = getattr(self, name)
            grown = np.empty((size, *self._shape), held.dtype)
            grown[:used] = held[:used]
            setattr(self, name, grown)
