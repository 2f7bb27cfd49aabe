"""The contracts of all versions that answer: which one a row's interval is drawn from.

A worker lives longer than a version of a model. Triton takes up a new one while it runs, and for a while some replicas
answer with the new version and others with the one before. So a contract is read when its version first answers, from
`<model>/<version>/contract.json`, which lies beside the weights, or from `<model>/contract.json` where that is of this
version (a ConfigMap holds only the newest one).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from glaim_stream import metrics
from glaim_stream.errors import ContractError
from glaim_stream.models.contract import Contract, read_contract

log = logging.getLogger(__name__)

# A version whose contract is not there yet is looked for again after so long: a ConfigMap reaches a pod within a minute
# or two, and a file that is looked for at every call would be a read of a network disk at every call.
_AGAIN_S = 10.0


class Contracts(Mapping[str, Contract]):
    """Model name -> the contract that was read at the start; `of` knows those of other versions."""

    def __init__(
        self,
        at_start: Mapping[str, Contract],
        repository: Path | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep what was read.

        Args:
            at_start: by name of the model.
            repository: where further versions are looked for; None: whatever version answers, the contract is this.
            now_s: a clock that only goes on, seconds.
        """
        self._at_start = dict(at_start)
        self._repository = repository
        self._now_s = now_s
        self._known = {(name, str(contract.version)): contract for name, contract in at_start.items()}
        self._refused: dict[tuple[str, str], str] = {}
        self._looked_s: dict[tuple[str, str], float] = {}
        self._reading = asyncio.Lock()

    def __getitem__(self, model: str) -> Contract:
        return self._at_start[model]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at_start)

    def __len__(self) -> int:
        return len(self._at_start)

    def of(self, model: str, version: str) -> Contract | None:
        """The contract of a version that answered; None while it cannot be read, or where the model has none."""
        if self._repository is None or not version:
            return self._at_start.get(model)
        return self._known.get((model, version))

    async def follow(self, model: str, version: str) -> None:
        """Get to know a version that answered: its contract is read, once, if it is not known.

        A contract that is not there is said once and looked for again later; its answers are used without intervals.

        Raises:
            ContractError: the version takes or gives other windows than the one of the start: it must not be used.
        """
        key = (model, version)
        if self._repository is None or key in self._known or model not in self._at_start:
            return
        async with self._reading:
            if key not in self._known and key not in self._refused and self._due(key):
                await self._read(self._repository, key)
        if key in self._refused:
            raise ContractError(self._refused[key])

    def _due(self, key: tuple[str, str]) -> bool:
        return self._now_s() - self._looked_s.get(key, -_AGAIN_S) >= _AGAIN_S

    async def _read(self, repository: Path, key: tuple[str, str]) -> None:
        model, version = key
        first = key not in self._looked_s
        try:
            found = await asyncio.to_thread(_contract_of, repository / model, version)
        except ContractError as error:
            metrics.contract_reads.labels(model, "absent").inc()
            if first:
                log.warning(
                    "%s answers with version %s, whose contract cannot be read: its values have no intervals until it "
                    "can be: %s", model, version, error,
                )  # fmt: skip
            return
        finally:
            self._looked_s[key] = self._now_s()
        differing = _differing(self._at_start[model], found)
        if differing:
            metrics.contract_reads.labels(model, "refused").inc()
            self._refused[key] = (
                f"{model} version {version} is refused, for it is not the model that this worker was started with: "
                f"expected {'; '.join(differing)}. Restart the workers with a catalogue that fits, or roll it back"
            )
            log.error("%s", self._refused[key])
            return
        metrics.contract_reads.labels(model, "read").inc()
        metrics.model_info.labels(model, version).set(1)
        log.info("%s answers with version %s now, trained on %s", model, version, found.data.source)
        self._known[key] = found


def _contract_of(directory: Path, version: str) -> Contract:
    beside = directory / version
    found = read_contract(beside if beside.is_dir() else directory)
    if str(found.version) != version:
        raise ContractError(f"expected the contract of version {version} in {directory}, found version {found.version}")
    return found


def _differing(start: Contract, found: Contract) -> list[str]:
    """What must be alike in all versions of a model: the windows are cut by it and the answers read by it."""
    pairs = {
        name: (getattr(start, name), getattr(found, name))
        for name in ("name", "sensor_ids", "window", "emitted_steps", "step_s")
    }
    return [f"{name} {before}, found {now}" for name, (before, now) in pairs.items() if before != now]
