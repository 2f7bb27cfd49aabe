"""The numpy ring of 96 steps that the other engines keep for each group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

WINDOW = 96


class StepRings:
    """Last values by group, sensor and step."""

    def __init__(self, step_ms: int) -> None:
        self._step_ms = step_ms
        self._rings: dict[str, NDArray[np.float32]] = {}
        self._rows: dict[str, int] = {}

    def put(self, group: str, time_ms: int, values: Mapping[str, float]) -> None:
        """Store one step of a group."""
        ring = self._rings.get(group)
        if ring is None:
            ring = self._rings[group] = np.full((64, WINDOW), np.nan, np.float32)
        slot = time_ms // self._step_ms % WINDOW
        ring[:, slot] = np.nan
        for sensor, value in values.items():
            ring[self._rows.setdefault(sensor, len(self._rows)), slot] = value
