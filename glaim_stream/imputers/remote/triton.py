"""The imputer that calls NVIDIA Triton by asynchronous gRPC, with retries until a deadline."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from tritonclient.grpc import InferInput, InferRequestedOutput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from glaim_stream.core.catalogue import Model
from glaim_stream.core.contract import IMPUTED, OBSERVED, VALUES, Contract
from glaim_stream.core.errors import ContractError, ImputerAbsent, ImputerError, ImputerUnavailable, WrongAnswer
from glaim_stream.core.retry import TRITON
from glaim_stream.core.settings import Settings
from glaim_stream.core.tls import Identity
from glaim_stream.imputers.centring import Centred
from glaim_stream.imputers.first_answer import typical_windows
from glaim_stream.imputers.protocol import Imputed, Windows, requested_values
from glaim_stream.imputers.remote.access import TritonAccess, triton_access
from glaim_stream.imputers.version_choice import VersionChoice
from glaim_stream.models import Contracts

_UNREACHABLE = "StatusCode.UNAVAILABLE"  # unreachable or restarting
_DEADLINE = "StatusCode.DEADLINE_EXCEEDED"  # a call without an answer in the time that was left to it
_TOKEN_REFUSED = ("StatusCode.UNAUTHENTICATED", "StatusCode.PERMISSION_DENIED")  # a new token may be on its way
_NOT_SERVED = "StatusCode.NOT_FOUND"  # the server is draining, or still loading the model, or does not have it
_OF_THE_VERSION = ("StatusCode.INTERNAL", "StatusCode.UNKNOWN", "StatusCode.INVALID_ARGUMENT")  # another may answer
# INTERNAL: the process behind a model is dead. Triton does not restart it and reports it after about 2 s (2.51). With
# several Tritons the next one may be alive: it is called at once, and twice more after a pause, because concurrent
# calls take turns too.
_RETRIED_ELSEWHERE, _MAX_TRIES = "StatusCode.INTERNAL", 4

# A name may resolve to several Tritons (a headless Service): calls go to each in turn, and a retry to the next one.
log = logging.getLogger(__name__)

# gRPC's default, one connection to one address, would tie a worker to the first Triton for as long as it lives.
_CHANNEL = [
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A node that vanishes acknowledges no packet. Data unacknowledged for 5 s closes the connection (TCP_USER_TIMEOUT,
    # which gRPC sets to the second number when the first is given), and the node's calls go to the others. The pings
    # themselves stay below the rate that a server tolerates by default, one in 5 minutes.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # A restarted Triton is reconnected within 5 s; gRPC's default pause grows to 120 s between attempts.
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


class TritonImputer:
    """An imputer that sends stacked windows to a served model.

    The newest version answers. If it fails or its answer is unusable, a former one that is still loaded gets the same
    windows, and after several failures in a row all further ones (see VersionChoice).
    """

    name = "triton"

    def __init__(
        self,
        url: str,
        contracts: Mapping[str, Contract],
        *,
        deadline_s: float = 5.0,
        fixed_batch: int | None = None,
        access: TritonAccess | None = None,
        shadow: bool = False,
    ) -> None:
        """Create the imputer without connecting.

        Args:
            url: host:port of Triton's gRPC endpoint; calls to a name with several addresses go to all of them.
            contracts: contracts of the served models, by model name; a `Contracts` also records versions served later.
            deadline_s: maximum time for one batch of a model, retries included, before the ladder calls the next rung.
            fixed_batch: every call to a model has exactly this many windows (see Windows.padded); `check` then
                compares it with the served configuration.
            access: TLS and token of the calls; None: neither.
            shadow: find out at each look which versions can answer `impute_by_other`.
        """
        self._url = url
        self._contracts = contracts if isinstance(contracts, Contracts) else Contracts(contracts)
        self._deadline_s = deadline_s
        self._fixed_batch = fixed_batch
        self._access = access or TritonAccess()
        self._client: InferenceServerClient | None = None
        self._identity: Identity | None = None  # identity of the client's connections
        self._choices = {model: VersionChoice(model) for model in self._contracts}
        self._shadow = shadow
        self._comparable: dict[str, list[str]] = {}  # versions that may be compared, newest first
        # Triton goes on serving the last version of a model when its folder is gone, so that its models are not called.
        self._withdrawn: set[str] = set()

    async def impute(self, windows: Windows) -> Imputed:
        """See Rung."""
        if windows.model not in self._contracts:
            raise ImputerAbsent(f"no contract for model {windows.model}, known are {sorted(self._contracts)}")
        if windows.model in self._withdrawn:
            raise ImputerAbsent(f"all versions of {windows.model} were withdrawn")
        choice = self._choices[windows.model]
        end_s = asyncio.get_running_loop().time() + self._deadline_s
        try:
            answer = await self._answer(windows, choice.asked, end_s)
        except WrongAnswer as error:
            return await self._answer_of_another(windows, choice, error, end_s)
        except ImputerUnavailable:
            choice.release()
            raise
        choice.answered(answer.version[0])
        return answer

    async def impute_by_other(self, windows: Windows, serving: str) -> Imputed | None:
        """Impute by the newest version in service but `serving`; its outcome does not affect other calls.

        Returns:
            The values; None if no other version with a fitting contract was served at the last look.

        Raises:
            ImputerError: it does not answer, or its answer is unusable. It is not called again before the next look.
        """
        others = [version for version in self._comparable.get(windows.model, ()) if version != serving]
        if not others or windows.model in self._withdrawn:
            return None
        try:
            return await self._answer(windows, others[0], asyncio.get_running_loop().time() + self._deadline_s)
        except ImputerError:
            self._comparable.pop(windows.model, None)
            raise

    def failing(self, model: str) -> list[str]:
        """The versions of a model that failed and have not answered since."""
        return self._choices[model].failing

    async def look(self) -> None:
        """Look at the versions that are served: try new ones and those out of service, and choose the one to call.

        A server that does not answer changes nothing.
        """
        await asyncio.gather(*(self._look(contract) for contract in self._contracts.values()))

    async def _look(self, contract: Contract) -> None:
        model, choice = contract.name, self._choices[contract.name]
        if await asyncio.to_thread(self._contracts.are_withdrawn, model):
            if model not in self._withdrawn:
                log.warning("all versions of %s were withdrawn: Triton is not called for it any more", model)
            self._withdrawn.add(model)
            return
        if model in self._withdrawn:
            log.info("%s has a version again", model)
            self._withdrawn.discard(model)
        served = await self._served(model, self._deadline_s)
        if served is None:
            return
        choice.saw(served, await asyncio.to_thread(self._contracts.newest_offered, model))
        for version in choice.untried(served):
            failed_on = choice.refused[version].windows if version in choice.refused else None
            await self._try(choice, version, [typical_windows(contract), *([failed_on] if failed_on else [])])
        if choice.refused:  # otherwise no former version is called, and its contract may be missing
            for version in choice.others(served, choice.asked):
                with suppress(ContractError):
                    await self._contracts.follow(model, version)
        if self._shadow:
            others = choice.others(served, "")
            self._comparable[model] = [each for each in others if await self._contracts.consult(model, each)]
        choice.choose(served, [version for version in served if self._contracts.of(model, version) is not None])

    async def _try(self, choice: VersionChoice, version: str, trials: Sequence[Windows]) -> None:
        for windows in trials:
            end_s = asyncio.get_running_loop().time() + self._deadline_s
            try:
                await self._answer(windows, version, end_s)
            except WrongAnswer as error:
                choice.refuse(version, error.reason, str(error))
                return
            except ImputerError:  # the server is busy, or has no such version any more
                return
        choice.answered(version, on_trial=True)

    async def _answer(self, windows: Windows, version: str, end_s: float) -> Imputed:
        """Impute by one version.

        Raises:
            WrongAnswer: the version fails, or its answer is unusable.
            ImputerError: there is no answer, for another reason.
        """
        model, contract = windows.model, self._contracts[windows.model]
        sent = windows.padded(self._fixed_batch)
        centred = Centred.of(sent, contract)
        inputs = [
            _tensor(VALUES, centred.values, "FP32"),
            _tensor(OBSERVED, centred.observed, "BOOL"),
        ]
        answer = await self._infer(model, version, inputs, end_s)
        answered_by = answer.get_response().model_version
        values = requested_values(
            model,
            answer.as_numpy(IMPUTED),
            windows,
            sent=len(sent),
            sensors=len(contract.sensors),
            emitted_steps=contract.emitted_steps,
            version=answered_by,
        )
        try:
            await self._contracts.follow(model, answered_by)
        except ContractError as error:
            raise WrongAnswer(str(error), "contract", answered_by) from error
        return centred.imputed(windows, values, answered_by)

    async def _answer_of_another(
        self, windows: Windows, choice: VersionChoice, error: WrongAnswer, end_s: float
    ) -> Imputed:
        """Impute windows on which a version has failed by another one, the newest that can and has a contract.

        Raises:
            ImputerUnavailable: no other version could, and the failed one is out of service.
            WrongAnswer: the version's failure, if it stays in service.
        """
        model = windows.model
        served = await self._served(model, end_s - asyncio.get_running_loop().time()) or []
        failed = error.version or choice.asked or max(served, key=int, default="")
        others_fail = False
        for version in choice.others(served, failed):
            try:
                answer = await self._answer(windows, version, end_s)
            except ImputerError as another:
                others_fail |= isinstance(another, WrongAnswer) and another.reason != "contract"
                continue
            if self._contracts.of(model, version) is None:  # it may have other sensors, or another order
                continue
            choice.failed(failed, error, windows, version)
            return answer
        # Windows on which every version fails say nothing about one of them.
        if failed and not others_fail and choice.failed(failed, error, windows):
            raise ImputerUnavailable(f"version {failed} is out of service: {error}") from error
        raise error

    async def _served(self, model: str, timeout_s: float) -> list[str] | None:
        """The versions that a server answers for; None if it does not say."""
        try:
            metadata = await self._connected().get_model_metadata(
                model, headers=self._access.headers(), as_json=True, client_timeout=max(timeout_s, 0.001)
            )
        except InferenceServerException as error:
            return [] if error.status() == _NOT_SERVED else None
        return [version for version in metadata.get("versions", []) if version.isdigit()]

    async def check(self) -> None:
        """Compare each served model's tensors with its contract, and its batch size with `fixed_batch`.

        Every model is checked, even if another one fails.

        Raises:
            ContractError: served models do not fit their contracts, or would get batches of another size.
            ImputerUnavailable: the server does not answer, or does not serve some models.
        """
        checks = (self._check_model(name, contract) for name, contract in self._contracts.items())
        problems = [problem for problem in await asyncio.gather(*checks) if problem is not None]
        if problems:
            kind = ContractError if any(isinstance(each, ContractError) for each in problems) else ImputerUnavailable
            raise kind("; ".join(map(str, problems)))

    async def _check_model(self, name: str, contract: Contract) -> ContractError | ImputerUnavailable | None:
        try:
            client = self._connected()
            metadata = await client.get_model_metadata(
                name, headers=self._access.headers(), as_json=True, client_timeout=self._deadline_s
            )
            _require_tensors(name, contract, metadata)
            if self._fixed_batch is not None:
                config = await client.get_model_config(
                    name, headers=self._access.headers(), as_json=True, client_timeout=self._deadline_s
                )
                _require_batch(name, self._fixed_batch, config["config"])
        except InferenceServerException as error:
            return ImputerUnavailable(
                f"{self._url} does not serve {name}: {await self._access.examined(self._url, error)}"
            )
        except ContractError as error:
            return error
        return None

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _connected(self) -> InferenceServerClient:
        """Return the client; a new one after the TLS files have changed.

        Calls in progress keep the old connection, which closes with the last of them.
        """
        identity = self._access.identity()
        if self._client is None or identity is not self._identity:  # created here: gRPC binds it to the running loop
            self._client, self._identity = self._access.client(self._url, identity, _CHANNEL), identity
        return self._client

    def _forget(self, client: InferenceServerClient) -> None:
        """Connect anew at the next call, because gRPC resolves an unknown name again only every 2 minutes.

        Calls in progress keep the old connection, which closes with the last of them.
        """
        if self._client is client:
            self._client = None

    async def _infer(self, model: str, version: str, inputs: list[InferInput], end_s: float) -> Any:
        loop = asyncio.get_running_loop()
        pauses = TRITON.pauses(most_s=self._deadline_s)
        tries = 0
        before: InferenceServerException | None = None  # tells more than the deadline that cuts off the next try
        while True:
            tries += 1
            left_s = end_s - loop.time()
            client = self._connected()
            try:
                return await client.infer(
                    model,
                    inputs,
                    model_version=version,
                    outputs=[InferRequestedOutput(IMPUTED)],
                    client_timeout=max(left_s, 0.001),
                    headers=self._access.headers(),
                )
            except InferenceServerException as error:
                status = error.status()
                elsewhere = status == _RETRIED_ELSEWHERE and tries < _MAX_TRIES
                if elsewhere and tries == 1:
                    continue
                if status in (_UNREACHABLE, _NOT_SERVED, *_TOKEN_REFUSED) or elsewhere:
                    before = error
                    pause_s = next(pauses)
                elif status == _DEADLINE:
                    pause_s = math.inf
                else:
                    message = f"{self._url}: {self._access.explained(error)}"
                    of_version = status in _OF_THE_VERSION
                    raise (WrongAnswer(message, "error", version) if of_version else ImputerError(message)) from error
                if loop.time() + pause_s >= end_s:
                    cause = before or error
                    if cause.status() == _UNREACHABLE:  # otherwise the connection works, and serves the other models
                        self._forget(client)
                    raise ImputerUnavailable(
                        f"{self._url} did not answer in {self._deadline_s} s: {self._access.explained(cause)}"
                    ) from error
            await asyncio.sleep(pause_s)


def _tensor(name: str, array: np.ndarray, datatype: str) -> InferInput:
    tensor = InferInput(name, array.shape, datatype)
    tensor.set_data_from_numpy(array)
    return tensor


def _require_tensors(name: str, contract: Contract, metadata: Mapping[str, Any]) -> None:
    sensors = len(contract.sensors)
    expected = {
        VALUES: ("FP32", [sensors, contract.window]),
        OBSERVED: ("BOOL", [sensors, contract.window]),
        IMPUTED: ("FP32", [sensors, contract.emitted_steps]),
    }
    found = {
        tensor["name"]: (tensor["datatype"], [int(size) for size in tensor["shape"]][1:])
        for tensor in [*metadata["inputs"], *metadata["outputs"]]
    }
    if found != expected:
        raise ContractError(f"served model {name}: the contract expects {expected}, found {found}")


def _require_batch(name: str, fixed_batch: int, config: Mapping[str, Any]) -> None:
    """Check that the server cannot merge calls of `fixed_batch` windows into batches of another size."""
    largest = int(config.get("max_batch_size", 0))
    if fixed_batch == largest or (fixed_batch < largest and "dynamic_batching" not in config):
        return
    raise ContractError(
        f"served model {name}: a fixed batch of {fixed_batch} windows needs max_batch_size {fixed_batch}, found "
        f"{largest}: the server may merge smaller calls and rejects larger ones; set triton_batch to {largest}"
    )


def create(settings: Settings, contracts: Mapping[str, Contract], models: Sequence[Model]) -> TritonImputer:
    """Make the imputer that is registered as `triton`; models are not used."""
    return TritonImputer(
        settings.triton_address,
        contracts,
        deadline_s=settings.triton_deadline_s,
        fixed_batch=settings.fixed_batch,
        access=triton_access(settings),
        shadow=settings.compares_versions,
    )
