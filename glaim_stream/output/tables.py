"""What repairing rows needs of each model's sensors, with the intervals of whichever version answered."""

from __future__ import annotations

from collections.abc import Mapping

from glaim_stream.catalogue import Catalogue
from glaim_stream.models.contract import Contract
from glaim_stream.models.versions import Contracts
from glaim_stream.output.repair import SensorTable


class Tables:
    """By the model's index in the catalogue.

    Limits and resolutions stay those of the start: two rows of a sensor are rounded alike whoever made them. Intervals
    belong to the weights and follow the version.
    """

    def __init__(self, catalogue: Catalogue, contracts: Mapping[str, Contract]) -> None:
        self._names = [model.name for model in catalogue.models]
        self._contracts = contracts if isinstance(contracts, Contracts) else Contracts(contracts)
        self._at_start = [SensorTable.of(model, contracts.get(model.name)) for model in catalogue.models]
        self._of_version: dict[tuple[int, str], SensorTable] = {}

    def __getitem__(self, model_index: int) -> SensorTable:
        return self._at_start[model_index]

    def of(self, model_index: int, version: str) -> SensorTable:
        """With the intervals of a version; without any while its contract is not known."""
        key = (model_index, version)
        if key in self._of_version:
            return self._of_version[key]
        name = self._names[model_index]
        contract = self._contracts.of(name, version)
        if contract is self._contracts.get(name):
            return self._at_start[model_index]
        table = self._at_start[model_index].drawn_from(contract)
        if contract is not None:  # else it may be known at the next answer
            self._of_version[key] = table
        return table
