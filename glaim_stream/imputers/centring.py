"""Windows in float32, as models take them, without losing the digits of large values.

Neighbouring float32 numbers are 8 apart at 123,456,789, more than a meter moves in a window. If rounding would show in
the output, a sensor's values are sent less a centre, their newest observation, which is added to the answer again. Both
sums are in float64. GLAIM subtracts the mean of each row itself, so its answer moves with the centre.

If rounding does not show, the values are sent as they are: ordinary windows reach a model in its sensors' units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.contract import Contract
from glaim_stream.core.errors import ImputerError
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.imputers.simple import interpolated

_ROUNDING = 2.0**-24  # largest error of float32, relative to the value
_SHOWN = 0.25  # share of the resolution: a larger input error can change the published value
_MOST_DEVIATIONS = 1e15  # a model squares and sums its standardised input, which is infinite from 1e19 on
_MOST = 1e30


@dataclass(frozen=True, slots=True)
class Centred:
    """Windows as they are sent to a model: n windows of C sensors and T steps."""

    values: NDArray[np.float32]  # [n, C, T] 0 where not observed
    observed: NDArray[np.bool_]  # [n, C, T]
    centre: NDArray[np.float64]  # [n, C] subtracted values
    beyond: NDArray[np.bool_]  # [n, C] rows that float32 cannot hold; they are sent as not observed

    @classmethod
    def of(cls, windows: Windows, contract: Contract) -> Self:
        """Centre the rows of windows that need it.

        Raises:
            ImputerError: the model has another number of sensors.
        """
        found, expected = windows.values.shape[1], len(contract.sensors)
        if found != expected:
            raise ImputerError(f"model {contract.name} has {expected} sensors, found windows of {found}")
        resolution = np.array([sensor.resolution for sensor in contract.sensors])
        if windows.resolution is not None:
            resolution = np.where(windows.resolution > 0, windows.resolution, resolution)
        most = np.minimum(_MOST_DEVIATIONS * np.array([sensor.std for sensor in contract.sensors]), _MOST)
        observed = windows.observed
        values = np.where(observed, windows.values.astype(np.float64, copy=False), 0.0)
        centre = np.zeros(values.shape[:2])
        reach = np.abs(values).max(axis=2)
        coarse = reach * _ROUNDING > _SHOWN * resolution
        if coarse.any():
            newest = values.shape[2] - 1 - observed[coarse][:, ::-1].argmax(axis=1)
            centre[coarse] = values[coarse][np.arange(len(newest)), newest]
            with np.errstate(over="ignore"):
                values[coarse] = np.where(observed[coarse], values[coarse] - centre[coarse][:, None], 0.0)
            reach = np.abs(values).max(axis=2)
        beyond = reach > most
        if beyond.any():
            observed = observed & ~beyond[:, :, None]
            values[beyond] = 0.0
        return cls(np.ascontiguousarray(values, np.float32), np.ascontiguousarray(observed), centre, beyond)

    def imputed(self, windows: Windows, answer: NDArray[np.float32], version: str) -> Imputed:
        """The model's answer in the sensors' units; rows that float32 cannot hold are interpolated.

        Args:
            windows: windows without the copies that fill a fixed batch.
            answer: float32 [len(windows), C, windows.steps], for the values that were sent.
            version: version of the model.
        """
        values = answer + self.centre[: len(windows), :, None]
        method = np.full(values.shape, Method.MODEL, np.int8)
        beyond = self.beyond[: len(windows)]
        if beyond.any():
            turning = None if windows.directions is None else np.broadcast_to(windows.directions, beyond.shape)[beyond]
            values[beyond], method[beyond] = interpolated(
                windows.values[beyond], windows.observed[beyond], turning, newest=windows.steps
            )
        return Imputed(values, method, [version] * len(windows))
