"""Checks that a model is served by running an inference: health endpoints stay green while its interpreter is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import tritonclient.grpc as grpc_client
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException, triton_to_np_dtype


class TensorMetadata(Protocol):
    """One tensor of Triton's model metadata."""

    name: str
    datatype: str
    shape: Sequence[int]


def zero_arrays(inputs: Sequence[TensorMetadata], batch: int = 1) -> dict[str, NDArray[np.generic]]:
    """Arrays of zeros (False, empty strings) for a model's inputs, with `batch` windows and size 1 on open axes.

    Triton puts the batch axis first, as -1. Zeros with OBSERVED all False are also an edge case that models tend to
    get wrong.
    """
    arrays = {}
    for tensor in inputs:
        open_axes = [batch] + [1] * len(tensor.shape)
        shape = [size if size >= 0 else open_axes[0 if axis == 0 else 1] for axis, size in enumerate(tensor.shape)]
        arrays[tensor.name] = np.zeros(shape, dtype=triton_to_np_dtype(tensor.datatype))
    return arrays


def model_problem(
    client: grpc_client.InferenceServerClient,
    model: str,
    *,
    timeout_s: float = 10.0,
    headers: Mapping[str, str] | None = None,
) -> str | None:
    """None if an inference on zeros returns all outputs of a model, otherwise a description of the problem."""
    options = {"client_timeout": timeout_s, "headers": dict(headers or {})}
    try:
        metadata = client.get_model_metadata(model, **options)
        arrays = zero_arrays(metadata.inputs)
        inputs = []
        for tensor in metadata.inputs:
            array = arrays[tensor.name]
            described = grpc_client.InferInput(tensor.name, list(array.shape), tensor.datatype)
            described.set_data_from_numpy(array)
            inputs.append(described)
        result = client.infer(model, inputs, **options)
    except InferenceServerException as error:
        return f"model {model}: {error.message()}"
    for tensor in metadata.outputs:
        answer = result.as_numpy(tensor.name)
        # With numpy 2 inside the server every health check is green and every output has 0 bytes.
        if answer is None or answer.size == 0:
            return f"model {model}: output {tensor.name} is empty"
    return None
