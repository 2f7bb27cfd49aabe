"""The start-up check of served models, against a gRPC server that describes them as a test scripts it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from glaim_stream.core.errors import ContractError, ImputerUnavailable
from glaim_stream.core.secret_files import SecretFile
from glaim_stream.imputers.remote.access import TritonAccess
from glaim_stream.imputers.remote.triton import TritonImputer
from tests.support import contract

DEADLINE_S = 0.3


class Describer(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Describes the model of `contract()` with batches of at most 8 windows; never answers the call named `hangs`."""

    def __init__(self, hangs: str | None, sensors: int) -> None:
        self.hangs, self.sensors = hangs, sensors
        self.tokens: list[str | None] = []

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        self._note(context)
        await self._hang("metadata")
        response = service_pb2.ModelMetadataResponse(name=request.name)
        for tensors, name, datatype, steps in (
            (response.inputs, "VALUES", "FP32", 6),
            (response.inputs, "OBSERVED", "BOOL", 6),
            (response.outputs, "IMPUTED", "FP32", 3),
        ):
            tensors.add(name=name, datatype=datatype).shape.extend([-1, self.sensors, steps])
        return response

    async def ModelConfig(self, request: Any, context: Any) -> Any:
        self._note(context)
        await self._hang("config")
        response = service_pb2.ModelConfigResponse()
        response.config.name, response.config.max_batch_size = request.name, 8
        return response

    def _note(self, context: Any) -> None:
        self.tokens.append(dict(context.invocation_metadata()).get("authorization"))

    async def _hang(self, call: str) -> None:
        if self.hangs == call:
            await asyncio.Event().wait()


@asynccontextmanager
async def described(
    *, hangs: str | None = None, fixed_batch: int | None = 8, sensors: int = 2, token: SecretFile | None = None
) -> AsyncIterator[tuple[TritonImputer, Describer]]:
    """An imputer connected to a server that describes the model."""
    server, describer = grpc.aio.server(), Describer(hangs, sensors)
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(describer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    imputer = TritonImputer(
        f"127.0.0.1:{port}",
        {"m": contract()},
        deadline_s=DEADLINE_S if hangs else 30,
        fixed_batch=fixed_batch,
        access=TritonAccess(token=token),
    )
    try:
        yield imputer, describer
    finally:
        await imputer.close()
        await server.stop(None)


@pytest.mark.parametrize("fixed_batch", [None, 8])
async def test_a_model_that_fits_its_contract_passes(fixed_batch: int | None) -> None:
    async with described(fixed_batch=fixed_batch) as (imputer, _):
        await imputer.check()


async def test_a_model_with_larger_batches_is_rejected() -> None:
    async with described(fixed_batch=9) as (imputer, _):
        with pytest.raises(ContractError, match="needs max_batch_size 9, found 8"):
            await imputer.check()


async def test_a_model_with_other_sensors_is_rejected() -> None:
    async with described(sensors=3) as (imputer, _):
        with pytest.raises(ContractError, match="VALUES"):
            await imputer.check()


async def test_both_descriptions_are_asked_for_with_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    async with described(token=SecretFile(tmp_path / "token")) as (imputer, describer):
        await imputer.check()
    assert describer.tokens == ["Bearer secret"] * 2


@pytest.mark.parametrize("hangs", ["metadata", "config"])
async def test_a_server_that_does_not_describe_its_model_in_time_is_unavailable(hangs: str) -> None:
    async with described(hangs=hangs) as (imputer, _), asyncio.timeout(20):
        with pytest.raises(ImputerUnavailable, match="does not serve m"):
            await imputer.check()
