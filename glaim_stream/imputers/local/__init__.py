"""The imputer that runs a model in the worker, without Triton. Needs the extra `local`."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import WEIGHTS, Contract, read_contract, require_weights
from glaim_stream.core.errors import ContractError, ImputerAbsent, ImputerError, ModelError
from glaim_stream.core.settings import Settings
from glaim_stream.core.trust import Trust
from glaim_stream.imputers.centring import Centred
from glaim_stream.imputers.local.kernel import UnfitError, fast, install
from glaim_stream.imputers.protocol import Imputed, Windows, requested_values
from glaim_stream.models import Contracts, DiskFolder, open_sealed, require_known_operators, warn_unsealed

__all__ = ["LocalImputer", "UnfitError", "install"]

log = logging.getLogger(__name__)

VERSION_CHECK_INTERVAL_S = 10.0  # a check reads one small file of the model that is being called
KERNEL_FOLDER = Path("~/.cache/glaim-stream")  # the network in C++, compiled for this machine


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded version of a model."""

    contract: Contract
    fill: Callable[[np.ndarray, np.ndarray], np.ndarray]  # VALUES and OBSERVED to answers


class LocalImputer:
    """An imputer that runs networks on the worker's CPU, in a thread, one call at a time.

    The network in C++ answers where it agrees with the TorchScript file (`kernel.fast`), else TorchScript.

    It runs the version that the repository's contract names and checks for another one while it runs, as a polling
    Triton does: forward when a version is promoted, back when it is withdrawn. If a version cannot be loaded or has
    windows of another shape, it logs the reason and keeps the loaded version.
    """

    name = "local"

    def __init__(
        self,
        model_repository: Path,
        contracts: Mapping[str, Contract],
        *,
        fixed_batch: int | None = None,
        trust: Trust | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Load the version of each contract.

        Args:
            model_repository: folder with one folder per model.
            contracts: contracts of the models to load, by model name; a `Contracts` also records versions loaded later.
            fixed_batch: every call to a model has exactly this many windows (see Windows.padded).
            trust: checks that a version must pass before it is loaded.
            now_s: monotonic clock, seconds.

        Raises:
            ImputerError: torch is not installed.
            ContractError: the digest of a model's weights differs from its contract.
            ModelError: a version does not match its manifest, or uses an operator that is not allowed.
        """
        try:
            import torch
        except ImportError as error:
            raise ImputerError("a local model needs torch: install glaim-stream[local]") from error
        torch.set_num_threads(1)
        self._torch = torch
        self._repository = model_repository
        self._contracts = contracts if isinstance(contracts, Contracts) else Contracts(contracts, model_repository)
        self._trust = trust or Trust()
        self._models = {name: self._load(name, contract) for name, contract in contracts.items()}
        self._withdrawn: set[str] = set()  # models without a version
        self._now_s = now_s
        self._checked_s = dict.fromkeys(self._models, now_s())
        self._problem = dict.fromkeys(self._models, "")  # last problem of each model, so that it is logged once
        self._fixed_batch = fixed_batch
        self._lock = asyncio.Lock()

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung."""
        if windows.model not in self._models:
            raise ImputerAbsent(f"no local model {windows.model}, loaded are {sorted(self._models)}")
        sent = windows.padded(self._fixed_batch)
        async with self._lock:
            await self._follow(windows.model)
            if windows.model in self._withdrawn:
                raise ImputerAbsent(f"all versions of {windows.model} were withdrawn")
            loaded = self._models[windows.model]
            contract = loaded.contract
            centred = Centred.of(sent, contract)
            answer = await asyncio.to_thread(self._run, loaded, centred)
        values = requested_values(
            windows.model,
            answer,
            windows,
            sent=len(sent),
            sensors=len(contract.sensors),
            emitted_steps=contract.emitted_steps,
        )
        return centred.imputed(windows, values, str(contract.version))

    async def close(self) -> None:
        """Nothing to release."""

    async def _follow(self, model: str) -> None:
        now_s, version = self._now_s(), self._models[model].contract.version
        if now_s - self._checked_s[model] < VERSION_CHECK_INTERVAL_S:
            return
        self._checked_s[model] = now_s
        if await asyncio.to_thread(self._contracts.are_withdrawn, model):
            self._withdrawn.add(model)
            return
        self._withdrawn.discard(model)
        try:
            named = await asyncio.to_thread(read_contract, self._repository / model)
            await self._contracts.follow(model, str(named.version))
            if named.version != version:
                self._models[model] = await asyncio.to_thread(self._load, model, named)
                log.info("model %s now runs version %d", model, named.version)
            self._problem[model] = ""
        except (ContractError, ModelError, OSError, RuntimeError) as error:  # RuntimeError: torch cannot load the file
            if str(error) != self._problem[model]:
                log.warning("model %s keeps version %d: %s", model, version, error)
            self._problem[model] = str(error)

    def _load(self, model: str, contract: Contract) -> _Loaded:
        torch, weights = self._torch, self._checked_weights(model, contract)
        network = torch.jit.load(io.BytesIO(weights), map_location="cpu").eval()

        def torchscript(values: np.ndarray, observed: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                answer: np.ndarray = network(torch.from_numpy(values), torch.from_numpy(observed)).numpy()
            return answer

        try:
            return _Loaded(contract, fast(network, torchscript, KERNEL_FOLDER.expanduser()))
        except Exception as error:  # whatever is wrong with the kernel, TorchScript answers
            log.info("model %s version %d is run by TorchScript, not by the kernel: %s", model, contract.version, error)
        return _Loaded(contract, torchscript)

    def _checked_weights(self, model: str, contract: Contract) -> bytes:
        """Read the weights once, so that the checked bytes are the loaded ones."""
        if contract.name != model:
            raise ContractError(f"expected the contract of model {model}, found that of {contract.name}")
        folder, version = DiskFolder(self._repository / model), contract.version
        sealed = open_sealed(folder, model, version, self._trust, str(self._repository))
        if sealed is None:
            weights = (self._repository / model / str(version) / WEIGHTS).read_bytes()
            require_weights(contract, weights)
            require_known_operators(weights, self._trust.operators)
            warn_unsealed(model, version)
            return weights
        if sealed.contract != contract:
            raise ContractError(f"the contract of model {model} differs from that of its version {version}")
        return sealed.contents[f"{version}/{WEIGHTS}"]

    def _run(self, loaded: _Loaded, windows: Centred) -> np.ndarray:
        try:
            return loaded.fill(windows.values, windows.observed)
        except Exception as error:  # TorchScript raises RuntimeError, torch.jit.Error, TypeError and others
            reason = str(error).strip().rpartition("\n")[2]  # the lines above it are TorchScript's traceback
            contract = loaded.contract
            raise ImputerError(f"model {contract.name} version {contract.version} failed: {reason}") from error


def create(settings: Settings, contracts: Mapping[str, Contract], models: Sequence[Model]) -> LocalImputer:
    """Make the imputer that is registered as `local`; models are not used."""
    return LocalImputer(settings.model_repository, contracts, fixed_batch=settings.fixed_batch, trust=settings.trust)
