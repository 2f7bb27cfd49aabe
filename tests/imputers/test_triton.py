"""The Triton rung against scripted servers: rejected calls, retries, and deadlines."""

import socket
import time
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

from glaim_stream.core.errors import ContractError, ImputerError, ImputerUnavailable
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.remote.triton import TritonImputer, _require_tensors
from glaim_stream.output import Method
from tests.imputers.kserve import served
from tests.support import contract

DEADLINE_S = 0.4
WINDOWS = Windows("m", np.zeros((1, 2, 6), np.float32), np.zeros((1, 2, 6), np.bool_), 3)


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address that is bound but not listening, so that connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent_port() -> Iterator[str]:
    """An address where connections are accepted but never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("port", ["closed_port", "silent_port"])
async def test_an_unreachable_server_is_reported_within_the_deadline(port: str, request: pytest.FixtureRequest) -> None:
    imputer = TritonImputer(request.getfixturevalue(port), {"m": contract()}, deadline_s=DEADLINE_S)
    start_s = time.perf_counter()
    with pytest.raises(ImputerUnavailable):
        await imputer.impute(WINDOWS)
    assert time.perf_counter() - start_s < DEADLINE_S + 1.5, "gRPC and a busy machine may add a little, not more"
    with pytest.raises(ImputerUnavailable, match="does not serve m"):
        await imputer.check()
    await imputer.close()
    await imputer.close()


async def test_the_client_reconnects_after_a_call_without_an_answer(closed_port: str) -> None:
    """After a name was unresolvable for 90 s, the old connection needed another 29 s; a new one connects at once."""
    imputer = TritonImputer(closed_port, {"m": contract()}, deadline_s=DEADLINE_S)
    first = imputer._connected()
    with pytest.raises(ImputerUnavailable):
        await imputer.impute(WINDOWS)
    assert imputer._connected() is not first
    await imputer.close()


async def test_a_model_that_is_not_served_leaves_the_connection_to_the_others() -> None:
    async with served(NOT_FOUND) as (url, _):
        imputer = TritonImputer(url, {"m": contract()}, deadline_s=0.2)
        first = imputer._connected()
        with pytest.raises(ImputerUnavailable):
            await imputer.impute(WINDOWS)
        assert imputer._connected() is first
        await imputer.close()


async def test_a_model_without_a_contract_is_rejected_before_any_call() -> None:
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
def test_served_tensors_that_do_not_fit_the_contract_are_rejected(other: dict[str, tuple[str, list[str]]]) -> None:
    with pytest.raises(ContractError, match="served model m: the contract expects"):
        _require_tensors("m", contract(), tensors(**other))


# With a scripted server, so that each status occurs

GOOD = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
UNAVAILABLE, NOT_FOUND, INTERNAL = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL)


async def test_values_of_the_newest_steps_are_returned_with_their_version() -> None:
    async with served(GOOD, version="7") as (url, server):
        imputer = TritonImputer(url, {"m": contract()})
        answer = await imputer.impute(Windows("m", WINDOWS.values, WINDOWS.observed, 2))
        await imputer.close()
    assert answer.values.tolist() == [[[1, 2], [4, 5]]]
    assert (answer.method == Method.MODEL).all()
    assert answer.version == ["7"]
    assert server.shapes == [[1, 2, 6]]


@pytest.mark.parametrize(
    "statuses",
    [[UNAVAILABLE], [NOT_FOUND, UNAVAILABLE], [INTERNAL], [INTERNAL] * 3, [UNAVAILABLE] * 5],
)
async def test_a_call_is_retried_after_a_transient_error(statuses: list[grpc.StatusCode]) -> None:
    async with served(*statuses, GOOD) as (url, server):
        imputer = TritonImputer(url, {"m": contract()}, deadline_s=30)
        answer = await imputer.impute(WINDOWS)
        await imputer.close()
    assert answer.values.tolist() == GOOD.tolist()
    assert len(server.shapes) == len(statuses) + 1


@pytest.mark.parametrize(
    ("status", "calls"), [(INTERNAL, 4), (grpc.StatusCode.INVALID_ARGUMENT, 1), (grpc.StatusCode.UNKNOWN, 1)]
)
async def test_a_persistent_error_is_raised_as_an_imputer_error(status: grpc.StatusCode, calls: int) -> None:
    async with served(status) as (url, server):
        imputer = TritonImputer(url, {"m": contract()}, deadline_s=30)
        with pytest.raises(ImputerError, match="scripted") as failed:
            await imputer.impute(WINDOWS)
        await imputer.close()
    assert not isinstance(failed.value, ImputerUnavailable)
    assert len(server.shapes) == calls


async def test_a_call_is_retried_until_the_deadline() -> None:
    async with served(UNAVAILABLE) as (url, server):
        imputer = TritonImputer(url, {"m": contract()}, deadline_s=0.3)
        client = imputer._connected()
        with pytest.raises(ImputerUnavailable, match=r"did not answer in 0\.3 s"):
            await imputer.impute(WINDOWS)
        assert len(server.shapes) >= 2, "pauses of 0.05 and 0.1 s fit into the deadline"
        assert imputer._connected() is not client
        await imputer.close()


async def test_a_try_that_the_deadline_cuts_off_is_reported_with_the_error_before_it() -> None:
    async with served(UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED) as (url, server):
        imputer = TritonImputer(url, {"m": contract()}, deadline_s=30)
        client = imputer._connected()
        with pytest.raises(ImputerUnavailable, match=r"did not answer in 30 s: .*UNAVAILABLE"):
            await imputer.impute(WINDOWS)
        assert len(server.shapes) == 2
        assert imputer._connected() is not client
        await imputer.close()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (np.zeros((1, 2, 2)), r"shape \(1, 2, 3\), found \(1, 2, 2\)"),
        (np.full((1, 2, 3), np.nan), "not finite"),
    ],
)
async def test_unusable_values_are_an_imputer_error(reply: np.ndarray, message: str) -> None:
    async with served(reply) as (url, _):
        imputer = TritonImputer(url, {"m": contract()})
        with pytest.raises(ImputerError, match=message) as failed:
            await imputer.impute(WINDOWS)
        await imputer.close()
    assert not isinstance(failed.value, ImputerUnavailable)


async def test_a_fixed_batch_is_padded_and_only_the_requested_windows_are_returned() -> None:
    reply = np.arange(24).reshape(4, 2, 3)
    async with served(reply) as (url, server):
        imputer = TritonImputer(url, {"m": contract()}, fixed_batch=4)
        answer = await imputer.impute(WINDOWS)
        await imputer.close()
    assert server.shapes == [[4, 2, 6]]
    assert answer.values.tolist() == reply[:1].tolist()
    assert (answer.method.shape, answer.version) == ((1, 2, 3), ["1"])
