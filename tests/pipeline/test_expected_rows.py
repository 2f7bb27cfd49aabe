"""Every reading that must become a row does: expected rows equal observed rows, whatever the order and the repeats."""

from __future__ import annotations

import numpy as np
import pytest

from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.records import read_rows
from tests.support import Record, catalogue, json_record

NOW_MS = 10**9


def disturbed(seed: int) -> list[Record]:
    """Readings of 40 steps with several a step, repeats, dropouts, holes and late ones, in batches' order."""
    random = np.random.default_rng(seed)
    times = [step * 1000 + int(part) for step in range(40) for part in random.integers(0, 1000, random.integers(0, 4))]
    late = [time - int(random.integers(0, 5_000)) for time in times if random.random() < 0.1]
    order = sorted([*times, *late], key=lambda time: time + random.normal(0, 900))
    return [
        json_record(
            offset,
            group=f"g{random.integers(2)}",
            sensor="s0",
            ts=max(0, time),
            value=None if random.random() < 0.05 else float(random.integers(3)),
        )
        for offset, time in enumerate(order)
    ]


@pytest.mark.parametrize("bucket", ["last", "mean"])
@pytest.mark.parametrize("seed", range(10))
async def test_expected_rows_come_out_as_observed_rows(bucket: str, seed: int) -> None:
    pipeline = Pipeline(catalogue(sensors=1, bucket=bucket), {}, Ladder([Interpolation()]))
    windows = pipeline.windows()
    records = disturbed(seed)
    expected = observed = 0
    for start in range(0, len(records), 7):
        applied = pipeline.apply(windows, records[start : start + 7], now_ms=NOW_MS)
        expected += applied.expected_rows
        observed += await _observed(pipeline, applied.closed)
    observed += await _observed(pipeline, windows.close_end().closed)
    assert expected == observed
    assert expected > 30


async def _observed(pipeline: Pipeline, closed: list) -> int:  # type: ignore[type-arg]
    messages = pipeline.messages(await pipeline.fill(closed))
    return sum(read_rows(message.value)["method"].to_pylist().count("observed") for message in messages)
