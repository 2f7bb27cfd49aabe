"""A gRPC server with Triton's KServe protocol and scripted replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

Reply = grpc.StatusCode | np.ndarray


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
        if isinstance(reply, grpc.StatusCode):
            await context.abort(reply, "scripted")
        response = service_pb2.ModelInferResponse(model_name=request.model_name, model_version=self.version)
        output = response.outputs.add(name="IMPUTED", datatype="FP32")
        output.shape.extend(reply.shape)
        response.raw_output_contents.append(reply.astype(np.float32).tobytes())
        return response


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
