"""Integer codes for the names of groups and sensors, so that later stages are arithmetic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.vocabulary import MAX_NAME_CHARS

UNKNOWN_GROUP = -1
NO_GROUP = -2  # the record names none
UNKNOWN_SENSOR = -1

Codes = NDArray[np.int64]
Int32s = NDArray[np.int32]


class GroupIndex:
    """Codes of the catalogue's sensor names and of the groups seen so far.

    Codes are dense and start at 0. They are valid within one process and never leave it. A code whose group is in use
    no more goes to another group later (`release`), so that groups which come and go do not fill the memory.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.names: list[str] = []  # names by group code, empty for a code without a group
        self._free: deque[int] = deque()  # codes without a group, the longest free one first
        self.model_of_group: list[int] = []  # model index by group code
        self._models = np.zeros(1, np.int32)  # model_of_group as an array, with a last entry for groups without a code
        self._group_code = _Codes(self._new_group)
        names = dict.fromkeys(id_ for model in catalogue.models for id_ in model.sensor_ids)
        self._sensor_code = _Codes(lambda name: UNKNOWN_SENSOR)
        self._sensor_code.update({name: code for code, name in enumerate(names)})
        self._sensor_rows = np.full((len(catalogue.models), len(names) + 1), UNKNOWN_SENSOR, np.int32)
        for index, model in enumerate(catalogue.models):
            self._sensor_rows[index, self.sensors(model.sensor_ids)] = range(len(model.sensors))
        self.limits_low, self.limits_high = _limits(catalogue)

    def __len__(self) -> int:
        """Number of groups that have a code."""
        return len(self.names) - len(self._free)

    def release(self, in_use: Iterable[NDArray[np.int32]]) -> None:
        """Take their codes from the groups that are not in use.

        Args:
            in_use: every code that is held anywhere.
        """
        kept = np.zeros(len(self.names), np.bool_)
        kept[list(self._free)] = True
        for codes in in_use:
            kept[codes] = True
        for code in np.flatnonzero(~kept).tolist():
            del self._group_code[self.names[code]]
            self.names[code] = ""
            self._free.append(code)

    def group(self, name: str) -> int:
        """Code of a group, or UNKNOWN_GROUP when the catalogue does not name it.

        Unknown names are looked up each time and never stored, because a broken producer could send new names without
        end and fill the memory.
        """
        return self._group_code[name]

    def known(self, name: str) -> int | None:
        """Code of a group; None if it has none, and it gets none."""
        return self._group_code.get(name)

    def groups(self, names: Sequence[str | None]) -> Codes:
        """`group` of each name, int64 [n]; NO_GROUP for None. Known names are looked up without Python code."""
        return np.fromiter(map(self._group_code.__getitem__, names), np.int64, len(names))

    def sensors(self, names: Sequence[str | None]) -> Codes:
        """Code of each sensor name, int64 [n]; UNKNOWN_SENSOR for a name that no model has."""
        return np.fromiter(map(self._sensor_code.__getitem__, names), np.int64, len(names))

    def models(self, groups: Codes) -> Int32s:
        """Index of the model of each group, int32 [n]; 0 where the group is unknown."""
        if len(self._models) <= len(self.names):
            self._models = np.array([*self.model_of_group, 0], np.int32)
        return self._models[np.maximum(groups, -1)]

    def rows(self, models: Int32s, sensors: Codes) -> Int32s:
        """Row of each sensor code in its model, int32 [n], or UNKNOWN_SENSOR."""
        return self._sensor_rows[models, sensors]  # UNKNOWN_SENSOR, -1, selects the last column

    def _new_group(self, name: str | None) -> int:
        if name is None:
            return NO_GROUP
        model = self.catalogue.model_of(name) if len(name) <= MAX_NAME_CHARS else None
        if model is None:
            return UNKNOWN_GROUP
        if self._free:
            code = self._free.popleft()
            self.names[code], self.model_of_group[code] = name, model
            self._models = np.zeros(1, np.int32)
        else:
            code = len(self.names)
            self.names.append(name)
            self.model_of_group.append(model)
        self._group_code[name] = code
        return code


class _Codes(dict[str | None, int]):
    """A dictionary of codes that computes the code of an absent name without storing it."""

    def __init__(self, absent: Callable[[str | None], int]) -> None:
        super().__init__()
        self._absent = absent

    def __missing__(self, name: str | None) -> int:
        return self._absent(name)


def _limits(catalogue: Catalogue) -> tuple[np.ndarray, np.ndarray]:
    """Low and high limit of every sensor, each float64 [models, sensors of the largest model]."""
    width = max(len(model.sensors) for model in catalogue.models)
    low = np.full((len(catalogue.models), width), -np.inf)
    high = np.full_like(low, np.inf)
    for index, model in enumerate(catalogue.models):
        for row, sensor in enumerate(model.sensors):
            low[index, row], high[index, row] = sensor.limits
    return low, high
