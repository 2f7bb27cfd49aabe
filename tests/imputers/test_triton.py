"""The Triton rung without a server: what it refuses, and how long a server that is away may hold it up."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from glaim_stream.errors import ContractError, ImputerError, ImputerUnavailable
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.triton import TritonImputer, _require_tensors
from tests.support import contract

DEADLINE_S = 0.4
WINDOWS = Windows("m", np.zeros((1, 2, 6), np.float32), np.zeros((1, 2, 6), np.bool_), 3)


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address where nobody listens, and nobody can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent_port() -> Iterator[str]:
    """An address where connections are taken and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("port", ["closed_port", "silent_port"])
async def test_a_server_that_is_away_is_unavailable_within_the_deadline(
    port: str, request: pytest.FixtureRequest
) -> None:
    imputer = TritonImputer(request.getfixturevalue(port), {"m": contract()}, deadline_s=DEADLINE_S)
    start_s = time.perf_counter()
    with pytest.raises(ImputerUnavailable):
        await imputer.impute(WINDOWS)
    assert time.perf_counter() - start_s < DEADLINE_S + 1.5, "gRPC and a busy machine may add a little, not more"
    with pytest.raises(ImputerUnavailable, match="does not serve m"):
        await imputer.check()
    await imputer.close()
    await imputer.close()


async def test_who_did_not_answer_is_looked_up_anew(closed_port: str) -> None:
    """A name that was unknown for 90 s: the old connection met it 29 s after it was known, a new one at once."""
    imputer = TritonImputer(closed_port, {"m": contract()}, deadline_s=DEADLINE_S)
    first = imputer._connected()
    with pytest.raises(ImputerUnavailable):
        await imputer.impute(WINDOWS)
    assert imputer._connected() is not first
    await imputer.close()


async def test_a_model_without_contract_is_refused_before_any_call() -> None:
    with pytest.raises(ImputerError, match=r"no contract for model m, known are \['other'\]"):
        await TritonImputer("nowhere:1", {"other": contract()}).impute(WINDOWS)


def tensors(**shapes: tuple[str, list[str]]) -> dict[str, list[dict[str, object]]]:
    found = {
        "VALUES": ("FP32", ["-1", "2", "6"]),
        "OBSERVED": ("BOOL", ["-1", "2", "6"]),
        "IMPUTED": ("FP32", ["-1", "2", "3"]),
    } | shapes
    listed = [{"name": name, "datatype": datatype, "shape": shape} for name, (datatype, shape) in found.items()]
    return {"inputs": listed[:2], "outputs": listed[2:]}


def test_served_tensors_that_fit_the_contract_are_accepted() -> None:
    _require_tensors("m", contract(), tensors())


@pytest.mark.parametrize(
    "other",
    [
        {"VALUES": ("FP64", ["-1", "2", "6"])},
        {"VALUES": ("FP32", ["-1", "3", "6"])},
        {"OBSERVED": ("BOOL", ["-1", "2", "7"])},
        {"IMPUTED": ("FP32", ["-1", "2", "6"])},
        {"MORE": ("FP32", ["-1", "1"])},
    ],
)
def test_served_tensors_that_do_not_fit_are_refused(other: dict[str, tuple[str, list[str]]]) -> None:
    with pytest.raises(ContractError, match="served model m: the contract expects"):
        _require_tensors("m", contract(), tensors(**other))
