"""The rung that runs the same TorchScript in the worker, where no Triton can be had. Needs the extra `local`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glaim_stream.errors import ContractError, ImputerError
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.models.contract import Contract, read_contract, verify_weights
from glaim_stream.models.versions import Contracts
from glaim_stream.vocabulary import Method

log = logging.getLogger(__name__)

WEIGHTS_FILE = "model.pt"
LOOK_EVERY_S = 10.0  # for a new version: one small file read of each model that is asked


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A version of a model and its network."""

    version: int
    network: Any  # torch.jit.ScriptModule


class LocalImputer:
    """TorchScript on the CPU of the worker, in a thread, one call at a time.

    It answers with the version that the repository's contract names, and follows it while it runs, as a Triton that
    polls does: forward when a version is promoted, back when it is withdrawn. A version that cannot be loaded, or whose
    windows are others, is said in the log, and the one before goes on.
    """

    name = "local"

    def __init__(
        self,
        model_repository: Path,
        contracts: Mapping[str, Contract],
        *,
        fixed_batch: int | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the version of each contract.

        Args:
            model_repository: folder with a folder a model.
            contracts: of the models to load, by name; `Contracts` get to know the versions that are taken up.
            fixed_batch: the model sees batches of exactly so many windows (see Windows.padded).
            now_s: a clock that only goes on, seconds.

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
        self._repository = model_repository
        self._contracts = contracts if isinstance(contracts, Contracts) else Contracts(contracts, model_repository)
        self._models = {name: self._load(contract) for name, contract in contracts.items()}
        self._now_s = now_s
        self._looked_s = dict.fromkeys(self._models, now_s())
        self._problem = dict.fromkeys(self._models, "")  # with the version that the repository names, said once
        self._fixed_batch = fixed_batch
        self._lock = asyncio.Lock()

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung."""
        if windows.model not in self._models:
            raise ImputerError(f"no local model {windows.model}, loaded are {sorted(self._models)}")
        async with self._lock:
            await self._follow(windows.model)
            loaded = self._models[windows.model]
            values = await asyncio.to_thread(self._run, loaded.network, windows.padded(self._fixed_batch))
        values = values[: len(windows)]
        return Imputed(values, np.full(values.shape, Method.MODEL, np.int8), [str(loaded.version)] * len(windows))

    async def close(self) -> None:
        """Nothing to release."""

    async def _follow(self, model: str) -> None:
        now_s, loaded = self._now_s(), self._models[model]
        if now_s - self._looked_s[model] < LOOK_EVERY_S:
            return
        self._looked_s[model] = now_s
        try:
            named = await asyncio.to_thread(read_contract, self._repository / model)
            if named.version != loaded.version:
                await self._contracts.follow(model, str(named.version))
                self._models[model] = await asyncio.to_thread(self._load, named)
                log.info("%s answers with version %d now", model, named.version)
            self._problem[model] = ""
        except (
            ContractError,
            OSError,
            RuntimeError,
        ) as error:  # RuntimeError: what torch says of a file it cannot load
            if str(error) != self._problem[model]:
                log.warning("%s goes on with version %d: %s", model, loaded.version, error)
            self._problem[model] = str(error)

    def _load(self, contract: Contract) -> _Loaded:
        weights = self._repository / contract.name / str(contract.version) / WEIGHTS_FILE
        verify_weights(contract, weights)
        return _Loaded(contract.version, self._torch.jit.load(str(weights), map_location="cpu").eval())

    def _run(self, model: Any, windows: Windows) -> np.ndarray:
        torch = self._torch
        with torch.inference_mode():
            answer = model(
                torch.from_numpy(np.ascontiguousarray(windows.values)),
                torch.from_numpy(np.ascontiguousarray(windows.observed)),
            )
        values: np.ndarray = answer.numpy()[..., -windows.steps :]
        return values
