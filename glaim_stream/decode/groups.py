"""Names to numbers: groups and sensors that arrive get codes, so that the rest of the way is arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.catalogue import Catalogue

UNKNOWN_GROUP = -1
NO_GROUP = -2  # none was named
UNKNOWN_SENSOR = -1
MAX_NAME_CHARS = 249  # as Kafka's own names: a pattern must not let in a name that fills a message

Codes = NDArray[np.int64]
Int32s = NDArray[np.int32]


class GroupIndex:
    """Codes for the groups that were seen, growing as new ones of the catalogue arrive, and for all its sensor names.

    Codes are dense and start at 0; they live as long as the process and are no part of any record.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.names: list[str] = []  # by group code
        self.model_of_group: list[int] = []  # by group code
        self._models = np.zeros(1, np.int32)  # the same, and a last one that answers for groups without code
        self._group_code = _Codes(self._new_group)
        names = dict.fromkeys(id_ for model in catalogue.models for id_ in model.sensor_ids)
        self._sensor_code = _Codes(lambda name: UNKNOWN_SENSOR)
        self._sensor_code.update({name: code for code, name in enumerate(names)})
        self._sensor_rows = np.full((len(catalogue.models), len(names) + 1), UNKNOWN_SENSOR, np.int32)
        for index, model in enumerate(catalogue.models):
            self._sensor_rows[index, self.sensors(model.sensor_ids)] = range(len(model.sensors))
        self.limits_low, self.limits_high = _limits(catalogue)

    def group(self, name: str) -> int:
        """Code of a group, or UNKNOWN_GROUP when the catalogue does not name it.

        An unknown name is looked up again each time and never stored: names come from outside, and storing every
        one that ever arrived would let a broken producer grow the worker without bound.
        """
        return self._group_code[name]

    def groups(self, names: Sequence[str | None]) -> Codes:
        """`group` of each, int64 [n], or NO_GROUP for None; the known ones without a step of Python."""
        return np.fromiter(map(self._group_code.__getitem__, names), np.int64, len(names))

    def sensors(self, names: Sequence[str | None]) -> Codes:
        """A code for each name that any model has a sensor of, int64 [n], else UNKNOWN_SENSOR."""
        return np.fromiter(map(self._sensor_code.__getitem__, names), np.int64, len(names))

    def models(self, groups: Codes) -> Int32s:
        """Index of the model of each group, int32 [n]; 0 where the group is unknown."""
        if len(self._models) <= len(self.names):
            self._models = np.array([*self.model_of_group, 0], np.int32)
        return self._models[np.maximum(groups, -1)]

    def rows(self, models: Int32s, sensors: Codes) -> Int32s:
        """Row of each sensor code in its model, int32 [n], or UNKNOWN_SENSOR."""
        return self._sensor_rows[models, sensors]  # the last column answers for UNKNOWN_SENSOR

    def _new_group(self, name: str | None) -> int:
        if name is None:
            return NO_GROUP
        model = self.catalogue.model_of(name) if len(name) <= MAX_NAME_CHARS else None
        if model is None:
            return UNKNOWN_GROUP
        code = self._group_code[name] = len(self.names)
        self.names.append(name)
        self.model_of_group.append(model)
        return code


class _Codes(dict[str | None, int]):
    """Codes by name, which asks for those that are absent and keeps none that it is told."""

    def __init__(self, absent: Callable[[str | None], int]) -> None:
        super().__init__()
        self._absent = absent

    def __missing__(self, name: str | None) -> int:
        return self._absent(name)


def _limits(catalogue: Catalogue) -> tuple[np.ndarray, np.ndarray]:
    """Low and high limit of every sensor, float64 [models, most sensors of a model] each."""
    width = max(len(model.sensors) for model in catalogue.models)
    low = np.full((len(catalogue.models), width), -np.inf)
    high = np.full_like(low, np.inf)
    for index, model in enumerate(catalogue.models):
        for row, sensor in enumerate(model.sensors):
            low[index, row], high[index, row] = sensor.limits
    return low, high
