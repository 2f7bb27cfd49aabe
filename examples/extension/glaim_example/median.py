"""An imputer that fills each hole with the median of its sensor's window."""

from collections.abc import Mapping, Sequence

import numpy as np

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import Contract
from glaim_stream.core.settings import Settings
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers import Imputed, Windows


class Median:
    """The median of what was observed; without any observation the next rung fills."""

    name = "median"

    def __init__(self, settings: Settings, contracts: Mapping[str, Contract], models: Sequence[Model]) -> None:
        """Prepare; a median needs neither settings nor contracts."""

    async def impute(self, windows: Windows) -> Imputed:
        """Fill the newest `windows.steps` steps of windows [n, sensors, steps]."""
        values = np.where(windows.observed, windows.values, np.nan)
        known = windows.observed.any(axis=2)
        median = np.full(known.shape, np.nan)
        median[known] = np.nanmedian(values[known], axis=1)
        filled = np.repeat(median[:, :, None], windows.steps, axis=2)
        method = np.where(np.isfinite(filled), np.int8(Method.MODEL), np.int8(Method.NONE))
        return Imputed(filled, method, ["median-1"] * len(windows))

    async def close(self) -> None:
        """Nothing to release."""
