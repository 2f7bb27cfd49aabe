"""Batches of a fixed size: a window gets the same bytes whichever windows share its batch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.cache import CHECKOUT
from glaim_stream.core.contract import file_digest, read_contract, write_contract
from glaim_stream.core.errors import ContractError, SettingsError, WindowShapeError
from glaim_stream.core.settings import read_settings
from glaim_stream.imputers.local import LocalImputer
from glaim_stream.imputers.protocol import Windows
from glaim_stream.imputers.remote.triton import _require_batch
from tests.support import contract

REPOSITORY = CHECKOUT / "model_repo"
MODEL = "plant-pump"


def windows(count: int, seed: int = 0) -> Windows:
    random = np.random.default_rng(seed)
    sensors = len(read_contract(REPOSITORY / MODEL).sensors)
    observed = random.random((count, sensors, 96)) < 0.8
    values = np.where(observed, random.normal(50, 10, observed.shape), 0).astype(np.float32)
    return Windows(MODEL, values, observed, 16)


def test_padding_repeats_the_last_window_and_keeps_the_others() -> None:
    three = windows(3)
    padded = three.padded(8)
    assert len(padded) == 8
    assert padded.slice(0, 3).values.tobytes() == three.values.tobytes()
    assert all(padded.observed[row].tobytes() == three.observed[2].tobytes() for row in range(2, 8))
    assert three.padded(None) is three
    with pytest.raises(WindowShapeError, match="expected 1 to 2 windows for a fixed batch, found 3"):
        three.padded(2)


@pytest.mark.parametrize("size", [8, 32])
async def test_a_model_imputes_a_window_to_the_same_bytes_in_any_batch(size: int) -> None:
    contracts = {MODEL: read_contract(REPOSITORY / MODEL)}
    fixed = LocalImputer(REPOSITORY, contracts, fixed_batch=size)
    chosen, others = windows(5), windows(size, seed=1)
    alone = await fixed.impute(chosen)
    assert alone.values.shape == (5, len(contracts[MODEL].sensors), 16)
    assert len(alone.version) == 5
    for place in range(size - 4):
        rows = np.concatenate([np.arange(place), np.arange(place, size - 5)])
        batch = Windows(
            MODEL,
            np.concatenate([others.values[rows[:place]], chosen.values, others.values[rows[place:]]]),
            np.concatenate([others.observed[rows[:place]], chosen.observed, others.observed[rows[place:]]]),
            16,
        )
        together = (await fixed.impute(batch)).values[place : place + 5]
        assert together.tobytes() == alone.values.tobytes(), f"at place {place} of {size}"


async def test_every_call_has_the_fixed_number_of_windows(tmp_path: Path) -> None:
    """Whether the last bits depend on the shape is up to the processor; these values are the number of windows."""
    torch = pytest.importorskip("torch", reason="the extra `local` is not installed")

    def forward(values: Any, observed: Any) -> Any:
        return torch.ones_like(values[:, :, :3]) * torch.ones_like(values[:, 0, 0]).sum()

    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    example = torch.zeros(1, 2, 6), torch.ones(1, 2, 6, dtype=torch.bool)
    torch.jit.trace(forward, example).save(str(folder / "model.pt"))
    write_contract(contract(version=1, torchscript_sha256=file_digest(folder / "model.pt")), tmp_path / "m")
    contracts = {"m": read_contract(tmp_path / "m")}
    for count in (1, 5, 8):
        given = Windows("m", np.ones((count, 2, 6), np.float32), np.zeros((count, 2, 6), np.bool_), 3)
        fixed = await LocalImputer(tmp_path, contracts, fixed_batch=8).impute(given)
        free = await LocalImputer(tmp_path, contracts).impute(given)
        assert (fixed.values == 8).all()
        assert (free.values == count).all()


def test_a_fixed_batch_needs_a_server_that_cannot_merge_calls() -> None:
    batching = {"max_batch_size": 64, "dynamic_batching": {}}
    _require_batch("m", 64, batching)
    _require_batch("m", 32, {"max_batch_size": 64})
    for fixed, config in ((32, batching), (128, batching), (128, {"max_batch_size": 64}), (8, {})):
        with pytest.raises(ContractError, match=rf"fixed batch of {fixed} windows needs max_batch_size {fixed}, found"):
            _require_batch("m", fixed, config)


def test_only_a_power_of_two_can_be_fixed() -> None:
    assert read_settings(triton_batch=256, triton_fixed_batch=True).fixed_batch == 256
    assert read_settings(triton_batch=40).fixed_batch is None
    with pytest.raises(SettingsError, match=r"GLAIM_TRITON_FIXED_BATCH: .*power of two, found 40"):
        read_settings(triton_batch=40, triton_fixed_batch=True)
