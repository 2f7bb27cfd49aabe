"""A trained network as one of the forms that fill long series. It runs in this process and needs torch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import Contract, read_contract
from glaim_stream.core.errors import ModelError
from glaim_stream.form import Kind
from glaim_stream.imputers import Windows
from glaim_stream.imputers.local import LocalImputer

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]

_NINETY = 1.6449  # half of a normal distribution's 90 % band, in deviations
_UNMEASURED = 0.5  # share of a sensor's deviation, where training had too few rows to measure errors


class NetworkAnswer(NamedTuple):
    """Means and deviations [n, C, T]."""

    mean: Doubles
    deviation: Doubles


@dataclass(frozen=True)
class NetworkForm:
    """A network that emits all steps of its windows.

    sensors: sensors of the table, in the order of the network's rows.
    centre: float64 [C], values that were subtracted from the readings before training.
    """

    sensors: tuple[str, ...]
    steps: int
    step_ms: int
    centre: Doubles
    _contract: Contract
    _imputer: LocalImputer

    @classmethod
    def load(cls, folder: Path, sensors: Sequence[str], step_ms: int, centre: Doubles) -> NetworkForm:
        """Load the newest version of a model.

        Args:
            folder: folder of the model in its repository.
            sensors: names that the table has for the model's sensors.
            step_ms: step of the series.
            centre: float64 [C], values that were subtracted from the readings before training.

        Raises:
            ImputerError: torch is not installed.
            ContractError: contract and weights differ.
            ModelError: the model emits fewer steps than its windows have, or has other sensors.
        """
        contract = read_contract(folder)
        if contract.emitted_steps != contract.window or len(contract.sensors) != len(sensors):
            raise ModelError(
                f"expected a network of {len(sensors)} sensors that emits whole windows, found {len(contract.sensors)} "
                f"sensors and {contract.emitted_steps} of {contract.window} steps"
            )
        imputer = LocalImputer(folder.parent, {contract.name: contract})
        return cls(tuple(sensors), contract.window, step_ms, centre, contract, imputer)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the sensors: a network fills only plain numbers."""
        return (Kind.NUMBER,) * len(self.sensors)

    def fill(self, values: Doubles, observed: Bools, end_ms: Ints) -> NetworkAnswer:
        """Fill windows.

        Args:
            values: float64 [n, C, T], readings in sensor units.
            observed: bool [n, C, T], cells with a reading.
            end_ms: int64 [n], time of each window's newest step.
        """
        centred = np.where(observed, values - self.centre[:, None], 0.0)
        windows = Windows(self._contract.name, centred, observed, steps=self.steps, end_ms=end_ms)
        mean = asyncio.run(self._imputer.impute(windows)).values + self.centre[:, None]
        return NetworkAnswer(mean, self._deviations(observed))

    def _deviations(self, observed: Bools) -> Doubles:
        """Errors on validation rows, by the steps since the sensor's last reading, [n, C, T]."""
        quantiles = self._contract.residual_quantiles
        if quantiles is None:
            flat = np.array([sensor.std for sensor in self._contract.sensors]) * _UNMEASURED
            return np.broadcast_to(flat[:, None], observed.shape).copy()
        lower, upper = quantiles.table(newest=False)
        half = (upper - lower).astype(np.float64) / 2 / _NINETY
        step = np.arange(observed.shape[2])
        last = np.maximum.accumulate(np.where(observed, step, -1), axis=2)
        age = np.searchsorted(quantiles.gap_ages, np.maximum(step - last, 1))
        age = np.minimum(age, half.shape[1] - 1)
        return np.asarray(half[np.arange(len(self.sensors))[None, :, None], age])
