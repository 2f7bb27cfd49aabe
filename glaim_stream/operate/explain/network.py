"""A network's answers for one cell, from its TorchScript in this process. Needs the extra `local`."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import Contract
from glaim_stream.core.settings import Settings
from glaim_stream.imputers import Windows
from glaim_stream.operate.explain.parts import Answers

_AT_A_TIME = 64


def network_answers(settings: Settings, model: Model, contract: Contract, sensor: int, lag: int) -> Answers:
    """Return the answers of the version that the repository's contract names.

    Args:
        settings: repository, and the checks that a version must pass.
        model: the model's entry in the catalogue.
        contract: contract of the model.
        sensor: place of the cell's sensor.
        lag: steps from the cell to the windows' newest one.

    Raises:
        ImputerError: torch is not installed.
        ContractError, ModelError: the version cannot be used.
    """
    from glaim_stream.imputers.local import LocalImputer

    local = LocalImputer(settings.model_repository, {model.name: contract}, trust=settings.trust)

    async def in_parts(values: NDArray[np.float64], observed: NDArray[np.bool_]) -> NDArray[np.float64]:
        out = np.empty(len(values))
        for start in range(0, len(values), _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            windows = Windows(model.name, values[part], observed[part], model.revise_after + 1)
            out[part] = (await local.impute(windows)).values[:, sensor, -1 - lag]
        return out

    return lambda values, observed: asyncio.run(in_parts(values, observed))
