"""A gRPC server with Triton's KServe protocol and scripted replies."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

Reply = grpc.StatusCode | np.ndarray


class Versions(service_pb2_grpc.GRPCInferenceServiceServicer):
    """One model, as in `tests.support.contract`, with several versions, each of which always gives the same reply."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        self.replies = replies  # by version; may change
        self.asked: list[str] = []  # version of each call, empty for the newest
        self.poison = b""  # values on which every version fails

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        self.asked.append(request.model_version)
        version = request.model_version or max(self.replies)
        if version not in self.replies:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"version {version} is not found")
        if request.raw_input_contents[0] == self.poison:
            await context.abort(grpc.StatusCode.INTERNAL, "poison")
        return await _response(self.replies[version], request.model_name, version, context)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:
        if not self.replies:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no available versions")
        found = service_pb2.ModelMetadataResponse(name=request.name, versions=sorted(self.replies))
        for place, name, datatype, shape in (
            (found.inputs, "VALUES", "FP32", (-1, 2, 6)),
            (found.inputs, "OBSERVED", "BOOL", (-1, 2, 6)),
            (found.outputs, "IMPUTED", "FP32", (-1, 2, 3)),
        ):
            place.add(name=name, datatype=datatype, shape=shape)
        return found


async def _response(reply: Reply, model: str, version: str, context: Any) -> Any:
    if isinstance(reply, grpc.StatusCode):
        await context.abort(reply, "scripted")
    response = service_pb2.ModelInferResponse(model_name=model, model_version=version)
    output = response.outputs.add(name="IMPUTED", datatype="FP32")
    output.shape.extend(reply.shape)
    response.raw_output_contents.append(reply.astype(np.float32).tobytes())
    return response


@asynccontextmanager
async def versions_served(replies: dict[str, Reply]) -> AsyncIterator[tuple[str, Versions]]:
    """Serve versions by their replies; yields the address and the servicer."""
    server = grpc.aio.server()
    servicer = Versions(replies)
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", servicer
    finally:
        await server.stop(None)


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
    def __init__(self, replies: Sequence[Reply], version: str) -> None:
        self.replies = list(replies)
        self.version = version
        self.shapes: list[list[int]] = []
        self.headers: list[dict[str, str]] = []
        self.callers: list[str] = []  # common names of the client certificates

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        self.shapes.append(list(request.inputs[0].shape))
        self.headers.append({key: str(value) for key, value in context.invocation_metadata()})
        self.callers += [name.decode() for name in context.auth_context().get("x509_common_name", ())]
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await _response(reply, request.model_name, self.version, context)


@asynccontextmanager
async def served(
    *replies: Reply, version: str = "1", credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[tuple[str, _Servicer]]:
    """Serve the replies in order and repeat the last one; yields the address and the servicer, which records calls."""
    server = grpc.aio.server()
    servicer = _Servicer(replies, version)
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    address = "127.0.0.1:0"
    port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}", servicer
    finally:
        await server.stop(None)
