"""Names to numbers: every (group, sensor) that arrives gets a cell, so that the rest of the way is arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.catalogue import Catalogue

UNKNOWN_GROUP = -1
UNKNOWN_SENSOR = -2
MAX_NAME_CHARS = 249  # as Kafka's own names: a pattern must not let in a name that fills a message


class GroupIndex:
    """Codes for the groups and cells that were seen, growing as new ones of the catalogue arrive.

    A cell is one sensor of one group. Codes are dense and start at 0; they live as long as the process and are no
    part of any record.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.names: list[str] = []  # by group code
        self.model_of_group: list[int] = []  # by group code
        self._group_code: dict[str, int] = {}
        self._cell_code = _Cells(self._new_cell)
        self._sensor_row = [{id_: row for row, id_ in enumerate(model.sensor_ids)} for model in catalogue.models]
        self._cells = np.empty((3, 1024), np.int32)  # model, group, sensor by cell code
        self._cell_count = 0
        self.limits_low, self.limits_high = _limits(catalogue)

    def group(self, name: str) -> int:
        """Code of a group, or UNKNOWN_GROUP when the catalogue does not name it.

        An unknown name is looked up again each time and never stored: names come from outside, and storing every
        one that ever arrived would let a broken producer grow the worker without bound.
        """
        code = self._group_code.get(name)
        if code is None:
            model = self.catalogue.model_of(name) if len(name) <= MAX_NAME_CHARS else None
            if model is None:
                return UNKNOWN_GROUP
            code = self._group_code[name] = len(self.names)
            self.names.append(name)
            self.model_of_group.append(model)
        return code

    def cell(self, key: tuple[str, str]) -> int:
        """Code of a (group, sensor), or UNKNOWN_GROUP or UNKNOWN_SENSOR."""
        return self._cell_code[key]

    def cells(self, keys: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
        """`cell` of each key, int64 [n]; the known ones without a step of Python."""
        return np.fromiter(map(self._cell_code.__getitem__, keys), np.int64, len(keys))

    def cell_columns(self, cells: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray:
        """int32 [3, n]: model, group and sensor of each cell code."""
        return self._cells[:, cells]

    def _new_cell(self, key: tuple[str, str]) -> int:
        group = self.group(key[0])
        if group == UNKNOWN_GROUP:
            return UNKNOWN_GROUP
        model = self.model_of_group[group]
        row = self._sensor_row[model].get(key[1])
        if row is None:
            return UNKNOWN_SENSOR
        if self._cell_count == self._cells.shape[1]:
            self._cells = np.concatenate([self._cells, np.empty_like(self._cells)], axis=1)
        code = self._cell_code[key] = self._cell_count
        self._cells[:, code] = model, group, row
        self._cell_count += 1
        return code


class _Cells(dict[tuple[str, str], int]):
    """Codes by key, which asks for those that are absent and keeps none that it is told."""

    def __init__(self, absent: Callable[[tuple[str, str]], int]) -> None:
        super().__init__()
        self._absent = absent

    def __missing__(self, key: tuple[str, str]) -> int:
        return self._absent(key)


def _limits(catalogue: Catalogue) -> tuple[np.ndarray, np.ndarray]:
    """Low and high limit of every sensor, float64 [models, most sensors of a model] each."""
    width = max(len(model.sensors) for model in catalogue.models)
    low = np.full((len(catalogue.models), width), -np.inf)
    high = np.full_like(low, np.inf)
    for index, model in enumerate(catalogue.models):
        for row, sensor in enumerate(model.sensors):
            low[index, row], high[index, row] = sensor.limits
    return low, high
