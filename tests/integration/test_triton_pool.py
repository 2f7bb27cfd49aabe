"""Two real Tritons behind one address: calls are balanced over both, and none fails when one dies."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from deploy.errors import TritonUnavailable
from deploy.triton import LocalTriton
from glaim_stream.imputers import Windows
from glaim_stream.imputers.remote import TritonImputer
from tests.stubs import kill_stubs
from tests.support import contract

MODEL = "tiny"
CONTRACT = contract(3, window=96, emitted_steps=4, name=MODEL)
WINDOWS = Windows(MODEL, np.ones((2, 3, 96), np.float32), np.ones((2, 3, 96), bool), 4)


def calls_served(triton: LocalTriton) -> int:
    """The number of calls that this server has answered."""
    with grpc_client.InferenceServerClient(triton.grpc_url) as client:
        (model,) = client.get_inference_statistics(MODEL).model_stats
        return int(model.inference_stats.success.count)


@contextmanager
def two_tritons(repository: Path, *options: str) -> Iterator[list[LocalTriton]]:
    tritons = [LocalTriton(repository, options=options, environment={"OMP_NUM_THREADS": "1"}) for _ in range(2)]
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(LocalTriton.start, tritons))
        yield tritons
    except TritonUnavailable as reason:
        pytest.skip(str(reason))
    finally:
        for triton in tritons:
            triton.stop()


@pytest.fixture(scope="module")
def pool(tiny_repository: Path) -> Iterator[list[LocalTriton]]:
    """Two servers that renew their connections every second; the chart's do so every minute."""
    with two_tritons(tiny_repository, "--grpc-max-connection-age=1000", "--grpc-max-connection-age-grace=5000") as both:
        yield both


def rung_of(pool: list[LocalTriton]) -> TritonImputer:
    # The gRPC form of the addresses to which a headless Service's name resolves.
    return TritonImputer("ipv4:" + ",".join(triton.grpc_url for triton in pool), {MODEL: CONTRACT}, deadline_s=5)


@pytest.mark.slow  # quicker: tests/imputers/test_triton.py, with a scripted server
async def test_calls_are_balanced_over_both_servers(pool: list[LocalTriton]) -> None:
    rung = rung_of(pool)
    await rung.check()
    before = [calls_served(triton) for triton in pool]
    for _ in range(40):
        await rung.impute(WINDOWS)
    await rung.close()
    shares = [calls_served(triton) - start for triton, start in zip(pool, before, strict=True)]
    assert sum(shares) == 40
    assert min(shares) >= 15


@pytest.mark.slow  # quicker: tests/imputers/test_triton.py, with a scripted server
async def test_no_call_fails_while_connections_are_renewed(pool: list[LocalTriton]) -> None:
    rung = rung_of(pool)
    before = [calls_served(triton) for triton in pool]
    end = asyncio.get_running_loop().time() + 4

    async def keep_calling() -> int:
        calls = 0
        while asyncio.get_running_loop().time() < end:
            await rung.impute(WINDOWS)
            calls += 1
        return calls

    calls = sum(await asyncio.gather(*(keep_calling() for _ in range(4))))
    await rung.close()
    shares = [calls_served(triton) - start for triton, start in zip(pool, before, strict=True)]
    assert sum(shares) >= calls  # an interrupted and retried call counts twice
    assert min(shares) > calls / 4


@pytest.mark.slow  # quicker: the renewed connections, above
async def test_no_call_fails_when_one_servers_model_dies_and_then_the_server(tiny_repository: Path) -> None:
    """A dead model returns INTERNAL for ever while its Triton still reports ready."""
    with two_tritons(tiny_repository) as pool:
        rung = rung_of(pool)
        for number in range(30):
            if number == 8:
                kill_stubs(pool[1])
            if number == 18:
                pool[1].kill()
            await rung.impute(WINDOWS)
        await rung.close()
        assert not pool[1].running
