"""Fixed-size batches on a real Triton, whose dynamic batcher joins concurrent requests."""

import asyncio

import numpy as np
import pytest

from deploy.cache import CHECKOUT
from deploy.triton import ExternalTriton, LocalTriton
from glaim_stream.core.contract import read_contract
from glaim_stream.core.errors import ContractError
from glaim_stream.imputers import Ladder, Windows
from glaim_stream.imputers.remote import TritonImputer
from glaim_stream.output import Method

REPOSITORY = CHECKOUT / "model_repo"
MODEL = "plant-pump"
SERVED_BATCH = 256


@pytest.fixture(scope="module")
def contracts() -> dict[str, object]:
    return {MODEL: read_contract(REPOSITORY / MODEL)}


def windows(count: int, seed: int) -> Windows:
    random = np.random.default_rng(seed)
    observed = random.random((count, len(read_contract(REPOSITORY / MODEL).sensors), 96)) < 0.8
    values = np.where(observed, random.normal(50, 10, observed.shape), 0).astype(np.float32)
    return Windows(MODEL, values, observed, 16)


async def test_concurrent_calls_give_the_same_bytes_as_single_calls(
    triton: LocalTriton | ExternalTriton, contracts: dict[str, object]
) -> None:
    rung = TritonImputer(triton.grpc_url, contracts, deadline_s=60, fixed_batch=SERVED_BATCH)
    await rung.check()
    ladder = Ladder([rung], batch=SERVED_BATCH)
    parts = [windows(size, seed) for seed, size in enumerate((1, 3, 11, 1, 40))]
    alone = [await ladder.impute(part) for part in parts]
    concurrent = await asyncio.gather(*(ladder.impute(part) for part in parts))
    joined = Windows(
        MODEL, np.concatenate([part.values for part in parts]), np.concatenate([part.observed for part in parts]), 16
    )
    in_one = await ladder.impute(joined)
    await rung.close()
    for one, other in zip(alone, concurrent, strict=True):
        assert (one.method == Method.MODEL).all()
        assert one.values.tobytes() == other.values.tobytes()
    assert np.concatenate([one.values for one in alone]).tobytes() == in_one.values.tobytes()


async def test_a_fixed_batch_below_the_servers_batch_size_is_rejected_at_startup(
    triton: LocalTriton | ExternalTriton, contracts: dict[str, object]
) -> None:
    rung = TritonImputer(triton.grpc_url, contracts, deadline_s=60, fixed_batch=64)
    with pytest.raises(ContractError, match=r"needs max_batch_size 64, found 256.*set triton_batch to 256"):
        await rung.check()
    await rung.close()
