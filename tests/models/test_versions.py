"""A model version that first imputes while the worker runs: its contract is read once and applied to its rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core.contract import Contract, write_contract
from glaim_stream.core.errors import ContractError
from glaim_stream.imputers import Imputed, Windows
from glaim_stream.models.served import Contracts
from glaim_stream.output import Method, read_rows
from glaim_stream.pipeline import Pipeline
from tests.support import catalogue, contract, json_record


def version(number: int, width: float, **fields: Any) -> Contract:
    """A contract whose intervals extend by `width` to each side."""
    side = [[width], [width]]
    quantiles = {
        "gap_ages": [1],
        "newest_lower": [[-width], [-width]],
        "newest_upper": side,
        "interior_lower": [[-width], [-width]],
        "interior_upper": side,
    }
    return contract(version=number, residual_quantiles=quantiles, **fields)


def put(repository: Path, found: Contract, folder: str = "") -> None:
    directory = repository / "m" / folder
    directory.mkdir(parents=True, exist_ok=True)
    write_contract(found, directory)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def reads(outcome: str) -> float:
    return REGISTRY.get_sample_value("glaim_contract_reads_total", {"model": "m", "outcome": outcome}) or 0.0


async def test_the_contract_beside_the_weights_is_read_once(tmp_path: Path) -> None:
    contracts = Contracts({"m": version(1, 1.0)}, tmp_path)
    before = reads("read")
    put(tmp_path, version(2, 2.0), "2")
    assert contracts.of("m", "2") is None
    await contracts.follow("m", "2")
    assert contracts.of("m", "2") == version(2, 2.0)
    put(tmp_path, version(2, 9.0), "2")
    await contracts.follow("m", "2")
    assert contracts.of("m", "2") == version(2, 2.0)
    assert reads("read") == before + 1
    assert contracts.of("m", "1") == contracts["m"] == version(1, 1.0)  # the first contract stays known


async def test_a_contract_that_arrives_after_its_version_is_read_later(tmp_path: Path) -> None:
    clock = Clock()
    contracts = Contracts({"m": version(1, 1.0)}, tmp_path, now_s=clock)
    put(tmp_path, version(1, 1.0))
    absent, read = reads("absent"), reads("read")
    await contracts.follow("m", "2")  # Triton is faster than the ConfigMap
    assert contracts.of("m", "2") is None
    put(tmp_path, version(2, 2.0))
    clock.now_s = 9.9
    await contracts.follow("m", "2")
    assert contracts.of("m", "2") is None, "an attempt is made only every 10 s"
    assert (reads("absent"), reads("read")) == (absent + 1, read)
    clock.now_s = 10.0
    await contracts.follow("m", "2")
    assert contracts.of("m", "2") == version(2, 2.0)
    assert (reads("absent"), reads("read")) == (absent + 1, read + 1)


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({"sensors": 3}, r"sensor_ids \['s0', 's1'\], found \['s0', 's1', 's2'\]"),
        ({"window": 8}, "window 6, found 8"),
        ({"emitted_steps": 2}, "emitted_steps 3, found 2"),
        ({"name": "other"}, "name m, found other"),
    ],
)
async def test_a_version_with_different_windows_is_rejected_on_each_call(
    fields: dict[str, Any], difference: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contracts = Contracts({"m": contract()}, tmp_path)
    put(tmp_path, contract(**{"version": 2, **fields}), "2")
    for _ in range(3):
        with pytest.raises(ContractError, match=f"m version 2 is rejected.*{difference}"):
            await contracts.follow("m", "2")
    assert len(caplog.records) == 1
    assert contracts.of("m", "2") is None


def unusable(outcome: str) -> float | None:
    return REGISTRY.get_sample_value("glaim_unusable_contracts", {"model": "m", "outcome": outcome})


async def test_an_absent_contract_counts_as_unusable_until_it_is_read(tmp_path: Path) -> None:
    clock = Clock()
    contracts = Contracts({"m": version(1, 1.0)}, tmp_path, now_s=clock)
    for clock.now_s in (0.0, 10.0, 86_400.0, 200_000.0):
        await contracts.follow("m", "2")
        assert (unusable("absent"), unusable("refused")) == (1, 0), clock.now_s
    put(tmp_path, version(2, 2.0), "2")
    clock.now_s = 200_010.0
    await contracts.follow("m", "2")
    assert (unusable("absent"), unusable("refused")) == (0, 0)


async def test_a_refused_version_counts_as_unusable_until_others_have_replaced_it(tmp_path: Path) -> None:
    clock = Clock()
    contracts = Contracts({"m": contract()}, tmp_path, now_s=clock)
    put(tmp_path, contract(version=2, window=8), "2")
    for clock.now_s in (0.0, 86_400.0, 200_000.0):
        with pytest.raises(ContractError):
            await contracts.follow("m", "2")
        assert (unusable("absent"), unusable("refused")) == (0, 1), clock.now_s
    for clock.now_s in (200_001.0, 200_299.0):  # another replica still serves it, perhaps
        await contracts.follow("m", "1")
        assert unusable("refused") == 1
    clock.now_s = 200_301.0
    await contracts.follow("m", "1")
    assert unusable("refused") == 0


async def test_without_a_repository_all_versions_share_the_first_contract() -> None:
    contracts = Contracts({"m": contract()})
    await contracts.follow("m", "7")
    assert contracts.of("m", "7") is contracts["m"]
    assert contracts.of("other", "1") is None


class Answering:
    """A model that imputes 0 and reports the given version."""

    version = "1"

    async def impute(self, windows: Windows) -> Imputed:
        shape = (*windows.values.shape[:2], windows.steps)
        zeros, method = np.zeros(shape, np.float32), np.full(shape, Method.MODEL, np.int8)
        return Imputed(zeros, method, [self.version] * len(windows))


async def test_rows_have_the_intervals_of_the_version_that_imputed_them(tmp_path: Path) -> None:
    contracts = Contracts({"m": version(1, 1.0)}, tmp_path)
    put(tmp_path, version(2, 2.0), "2")
    model = Answering()
    pipeline = Pipeline(catalogue(), contracts, model)
    windows = pipeline.windows()
    found: dict[str, set[tuple[float | None, float | None]]] = {}
    for first, name in ((0, "1"), (4, "3"), (8, "2"), (12, "1")):
        model.version = name
        await contracts.follow("m", name)
        read = [("s0", step) for step in range(first, first + 4)] + [("s1", first), ("s1", first + 1)]
        records = [
            json_record(offset, group="g0", sensor=sensor, ts=step * 1000, value=5.0)
            for offset, (sensor, step) in enumerate(sorted(read, key=lambda each: each[1]))
        ]
        applied = pipeline.apply(windows, records, now_ms=10**9)
        for message in pipeline.messages(await pipeline.fill(applied.closed)):
            for row in read_rows(message.value).to_pylist():
                if row["method"] == "model":
                    found.setdefault(row["model_version"], set()).add((row["lower"], row["upper"]))
    assert found == {"1": {(-1.0, 1.0)}, "2": {(-2.0, 2.0)}, "3": {(None, None)}}
