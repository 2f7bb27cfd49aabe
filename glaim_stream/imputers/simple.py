"""Imputers without a model: interpolation and last value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import Method
from glaim_stream.form import interpolation, last_value
from glaim_stream.imputers.protocol import Imputed, Windows


class Interpolation:
    """Linear interpolation between observations; after a sensor's last observation, its last value."""

    name = "interpolation"

    def __init__(self, *_: object) -> None:
        """Settings, contracts and models, which a registered imputer gets, are not used."""

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung."""
        line, how = interpolated(windows.values, windows.observed, windows.directions, newest=windows.steps)
        return Imputed(line, how, [""] * len(windows))

    async def close(self) -> None:
        """Nothing to release."""


class LastValue:
    """The last observation carried forward."""

    name = "last_value"

    def __init__(self, *_: object) -> None:
        """See Interpolation."""

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung."""
        values = last_value(windows.values, windows.observed)
        return _newest(windows, values, np.full(values.shape, Method.LAST_VALUE, np.int8))

    async def close(self) -> None:
        """Nothing to release."""


def interpolated(
    values: NDArray[np.float64],
    observed: NDArray[np.bool_],
    directions: NDArray[np.bool_] | None = None,
    *,
    newest: int | None = None,
) -> tuple[np.ndarray, NDArray[np.int8]]:
    """Interpolated values [..., C, newest] and the method of each: last value where no observation follows.

    Args:
        values: [..., C, T], sensor units.
        observed: bool [..., C, T].
        directions: bool [C], sensors in degrees; None: there are none.
        newest: number of newest steps to fill; None: all T.
    """
    first = 0 if newest is None else observed.shape[-1] - newest
    no_right = ~np.logical_or.accumulate(observed[..., first:][..., ::-1], axis=-1)[..., ::-1]
    method = np.where(no_right, np.int8(Method.LAST_VALUE), np.int8(Method.INTERPOLATION))
    return interpolation(values, observed, directions, newest=newest), method


def _newest(windows: Windows, values: np.ndarray, method: np.ndarray) -> Imputed:
    steps = windows.steps
    return Imputed(values[..., -steps:], method[..., -steps:], [""] * len(windows))
