"""The catalogue as arrays by model, in the codes that the input's decoder uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.contract import Contract
from glaim_stream.decode import GroupIndex
from glaim_stream.output import SensorTable


class ModelColumns:
    """The settings of each model that the rules need: arrays of length [models], or [models, width] for its sensors."""

    def __init__(
        self,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        decimals: Mapping[str, NDArray[np.int8] | None] = MappingProxyType({}),
    ) -> None:
        models = catalogue.models
        self.catalogue = catalogue
        self.index = GroupIndex(catalogue)
        self.width = max(len(model.sensors) for model in models)
        self.step_ms = np.array([model.step_ms for model in models], np.int64)
        self.lateness_ms = np.array([model.lateness_ms for model in models], np.int64)
        self.window = np.array([model.window for model in models], np.int64)
        self.max_gap = np.array([model.max_gap for model in models], np.int64)
        self.revise_after = np.array([model.revise_after for model in models], np.int64)
        self.mean = np.array([model.bucket == "mean" for model in models])
        self.direction = np.zeros((len(models), self.width), np.bool_)  # readings are directions in degrees
        self.cadence = np.ones((len(models), self.width), np.int64)  # steps in a sensor's interval
        self.resolution = np.zeros((len(models), self.width))  # 0: values are not rounded
        for row, model in enumerate(models):
            self.cadence[row, : len(model.sensors)] = model.cadences
            table = SensorTable.of(model, contracts.get(model.name), decimals.get(model.name))
            self.direction[row, : len(model.sensors)] = False if table.directions is None else table.directions
            self.resolution[row, : len(model.sensors)] = table.resolution
        self._model_of_group = np.empty(0, np.int64)
        self._sensor_rows = [{sensor: row for row, sensor in enumerate(model.sensor_ids)} for model in models]

    def model_of_group(self) -> NDArray[np.int64]:
        """Model of each group code, int64; grows as groups are met."""
        if len(self._model_of_group) != len(self.index.names):
            self._model_of_group = np.array(self.index.model_of_group, np.int64)
        return self._model_of_group

    def names(self, group: int, sensor: int) -> tuple[str, str]:
        """Names of a group code and of a row of its model."""
        model = self.catalogue.models[self.index.model_of_group[group]]
        return self.index.names[group], model.sensor_ids[sensor]

    def sensor_row(self, model: int, sensor: str) -> int:
        """Row of a sensor in its model, -1 when the model has no sensor of that name."""
        return self._sensor_rows[model].get(sensor, -1)
