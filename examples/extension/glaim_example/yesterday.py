"""An expert of the blend: the value of a day before."""

from collections.abc import Sequence

import numpy as np

from glaim_stream.core.catalogue import Model
from glaim_stream.core.errors import ImputerAbsent
from glaim_stream.core.settings import Settings
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers import Imputed, Windows

DAY_S = 86_400


class Yesterday:
    """The reading of the same time on the day before, for models whose window is longer than a day."""

    name = "yesterday"
    number = 100  # its own among all experts that are installed together

    def __init__(self, settings: Settings, models: Sequence[Model]) -> None:
        """Find the steps of a day of each model."""
        self._steps = {model.name: round(DAY_S / model.step_s) for model in models}

    async def impute(self, windows: Windows) -> Imputed:
        """Give values for the newest `windows.steps` steps; NaN where nothing was observed a day before."""
        end, day = windows.values.shape[2], self._steps[windows.model]
        begin = end - windows.steps - day
        if begin < 0:
            raise ImputerAbsent(f"the window of {windows.model} is shorter than a day")
        before = slice(begin, begin + windows.steps)
        values = np.where(windows.observed[:, :, before], windows.values[:, :, before], np.nan)
        return Imputed(values, np.full(values.shape, Method.MODEL, np.int8), [""] * len(windows))

    async def close(self) -> None:
        """Nothing to release."""
