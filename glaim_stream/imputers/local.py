"""The rung that runs the same TorchScript in the worker, where no Triton can be had. Needs the extra `local`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glaim_stream.contract import Contract, verify_weights
from glaim_stream.errors import ImputerError
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.records import Method

WEIGHTS_FILE = "model.pt"


class LocalImputer:
    """TorchScript on the CPU of the worker, in a thread, one call at a time."""

    name = "local"

    def __init__(
        self, model_repository: Path, contracts: Mapping[str, Contract], *, fixed_batch: int | None = None
    ) -> None:
        """Load the newest version of each model.

        Args:
            model_repository: folder with a folder a model.
            contracts: of the models to load, by name.
            fixed_batch: the model sees batches of exactly so many windows (see Windows.padded).

        Raises:
            ImputerError: torch is not installed.
            ContractError: a model's file is not the one its contract names.
        """
        try:
            import torch
        except ImportError as error:
            raise ImputerError("a local model needs torch: install glaim-stream[local]") from error
        torch.set_num_threads(1)
        self._torch = torch
        self._models: dict[str, Any] = {}
        self._contracts = contracts
        for name, contract in contracts.items():
            weights = model_repository / name / str(contract.version) / WEIGHTS_FILE
            verify_weights(contract, weights)
            self._models[name] = torch.jit.load(str(weights), map_location="cpu").eval()
        self._fixed_batch = fixed_batch
        self._lock = asyncio.Lock()

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung."""
        model = self._models.get(windows.model)
        if model is None:
            raise ImputerError(f"no local model {windows.model}, loaded are {sorted(self._models)}")
        async with self._lock:
            values = await asyncio.to_thread(self._run, model, windows.padded(self._fixed_batch))
        values = values[: len(windows)]
        version = str(self._contracts[windows.model].version)
        return Imputed(values, np.full(values.shape, Method.MODEL, np.int8), [version] * len(windows))

    async def close(self) -> None:
        """Nothing to release."""

    def _run(self, model: Any, windows: Windows) -> np.ndarray:
        torch = self._torch
        with torch.inference_mode():
            answer = model(
                torch.from_numpy(np.ascontiguousarray(windows.values)),
                torch.from_numpy(np.ascontiguousarray(windows.observed)),
            )
        values: np.ndarray = answer.numpy()[..., -windows.steps :]
        return values
