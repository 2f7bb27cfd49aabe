"""The contracts of all model versions that impute while a worker runs.

A worker outlives a model version. Triton loads new versions while it runs, and for a while some replicas serve the
new version and others the old one. A version's contract is read when the version first imputes: from
`<model>/<version>/contract.json` beside its weights, or from `<model>/contract.json` if that is of the same version (a
ConfigMap contains only the newest one). The intervals of a row come from the contract of its version.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from glaim_stream.core import metrics
from glaim_stream.core.contract import CONTRACT_FILE, Contract
from glaim_stream.core.errors import ContractError, ModelError
from glaim_stream.core.trust import Trust
from glaim_stream.models.folders import DiskFolder
from glaim_stream.models.local import all_withdrawn, version_numbers
from glaim_stream.models.sealed import lacking, read_sealed_contract

log = logging.getLogger(__name__)

# Pause between attempts to read a missing contract. A ConfigMap reaches a pod within a minute or two; an attempt at
# every call would read a network disk at every call.
_RETRY_INTERVAL_S = 10.0

# A version whose contract is unusable is out of service when others have answered for so long without it: for a while
# old and new replicas of Triton answer in turn.
_OUT_OF_SERVICE_S = 300.0


class Contracts(Mapping[str, Contract]):
    """The contracts read at the start, by model name; `of` returns those of other versions."""

    def __init__(
        self,
        at_start: Mapping[str, Contract],
        repository: Path | None = None,
        *,
        trust: Trust | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with the contracts of one version per model.

        Args:
            at_start: contracts by model name.
            repository: folder with the contracts of further versions; None: all versions share the first one.
            trust: checks that a version must pass.
            now_s: monotonic clock, seconds.
        """
        self._trust = trust or Trust()
        self._at_start = dict(at_start)
        self._repository = repository
        self._now_s = now_s
        self._known = {(name, str(contract.version)): contract for name, contract in at_start.items()}
        self._rejected: dict[tuple[str, str], str] = {}
        self._attempted_s: dict[tuple[str, str], float] = {}
        self._reading = {name: asyncio.Lock() for name in self._at_start}
        self._unusable: dict[tuple[str, str], tuple[str, float]] = {}  # outcome, and time of the version's last answer

    def __getitem__(self, model: str) -> Contract:
        return self._at_start[model]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at_start)

    def __len__(self) -> int:
        return len(self._at_start)

    def of(self, model: str, version: str) -> Contract | None:
        """The contract of a version; None if it has not been read or the model has none."""
        if self._repository is None or not version:
            return self._at_start.get(model)
        return self._known.get((model, version))

    def newest_offered(self, model: str) -> str:
        """The newest version in the repository that a server should serve; empty if that is not known.

        A version without its contract is incomplete, and one that lacks its manifest or signature waits for it.
        """
        if self._repository is None or model not in self._at_start:
            return ""
        directory = self._repository / model
        try:
            folder = DiskFolder(directory)
            complete = [
                version
                for version in version_numbers(directory)
                if (directory / str(version) / CONTRACT_FILE).is_file() and not lacking(folder, version, self._trust)
            ]
        except (OSError, ModelError) as error:
            log.debug("the versions of %s in %s cannot be listed: %s", model, self._repository, error)
            return ""
        return str(max(complete)) if complete else ""

    def are_withdrawn(self, model: str) -> bool:
        """Whether the repository has no version of a model because each was withdrawn."""
        return self._repository is not None and all_withdrawn(self._repository / model)

    async def follow(self, model: str, version: str) -> None:
        """Read the contract of a version that imputed, unless it is known.

        A missing contract is logged once and read again later; until then the version's values have no intervals.

        Raises:
            ContractError: the version's windows differ from those of the start, so its values must not be used.
        """
        key = (model, version)
        if self._repository is None or model not in self._at_start:
            return
        if key not in self._known:
            async with self._reading[model]:
                if key not in self._known and key not in self._rejected and self._due(key):
                    await self._read(self._repository, key)
        self._show_unusable(key)
        if key in self._rejected:
            raise ContractError(self._rejected[key])

    async def consult(self, model: str, version: str) -> bool:
        """Whether a version that fills nothing has a contract that fits; it is read unless it is known.

        One that is missing or does not fit is no fault, because no row needs it, and is shown nowhere.
        """
        key = (model, version)
        if self._repository is None or key in self._known:
            return model in self._at_start
        if model not in self._at_start or key in self._rejected:
            return False
        try:
            found = await asyncio.to_thread(_contract_of, self._repository / model, version, self._trust)
        except ContractError as error:
            log.debug("%s version %s is not compared: %s", model, version, error)
            return False
        if _differing(self._at_start[model], found):
            return False
        metrics.model_info.labels(model, version).set(1)
        self._known[key] = found
        return True

    def _show_unusable(self, answered: tuple[str, str]) -> None:
        """Bring the gauge of a model up to date after one of its versions has answered.

        Without an answer nothing changes: a version that was refused stays unusable while nothing replaces it.
        """
        model, _ = answered
        if answered not in self._known:
            self._unusable[answered] = ("refused" if answered in self._rejected else "absent", self._now_s())
        elif not any(name == model for name, _ in self._unusable):
            return
        oldest_s = self._now_s() - _OUT_OF_SERVICE_S
        for key in [key for key, (_, seen_s) in self._unusable.items() if key[0] == model]:
            if key in self._known or self._unusable[key][1] < oldest_s:
                del self._unusable[key]
        for outcome in ("absent", "refused"):
            count = sum(key[0] == model and found == outcome for key, (found, _) in self._unusable.items())
            metrics.unusable_contracts.labels(model, outcome).set(count)

    def _due(self, key: tuple[str, str]) -> bool:
        return self._now_s() - self._attempted_s.get(key, -_RETRY_INTERVAL_S) >= _RETRY_INTERVAL_S

    async def _read(self, repository: Path, key: tuple[str, str]) -> None:
        model, version = key
        first = key not in self._attempted_s
        try:
            found = await asyncio.to_thread(_contract_of, repository / model, version, self._trust)
        except ContractError as error:
            metrics.contract_reads.labels(model, "absent").inc()
            if first:
                log.warning(
                    "%s imputes with version %s, whose contract cannot be read: its values have no intervals until it "
                    "can be: %s", model, version, error,
                )  # fmt: skip
            return
        finally:
            self._attempted_s[key] = self._now_s()
        differing = _differing(self._at_start[model], found)
        if differing:
            metrics.contract_reads.labels(model, "refused").inc()
            self._rejected[key] = (
                f"{model} version {version} is rejected because its windows differ from those at the worker's start: "
                f"expected {'; '.join(differing)}. Restart the workers with a matching catalogue or roll it back"
            )
            log.error("%s", self._rejected[key])
            return
        metrics.contract_reads.labels(model, "read").inc()
        metrics.model_info.labels(model, version).set(1)
        log.info("%s now imputes with version %s, trained on %s", model, version, found.data.source)
        self._known[key] = found


def _contract_of(directory: Path, version: str, trust: Trust) -> Contract:
    found = read_sealed_contract(directory, version if (directory / version).is_dir() else "", trust)
    if str(found.version) != version:
        raise ContractError(f"expected the contract of version {version} in {directory}, found version {found.version}")
    return found


def _differing(start: Contract, found: Contract) -> list[str]:
    """Differences in the fields that determine the shape of windows and must be equal in all versions."""
    pairs = {
        name: (getattr(start, name), getattr(found, name))
        for name in ("name", "sensor_ids", "window", "emitted_steps", "step_s")
    }
    return [f"{name} {before}, found {now}" for name, (before, now) in pairs.items() if before != now]
