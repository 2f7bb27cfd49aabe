"""The rows that are due with a batch are the observed rows of its output, whatever the order and the repeats."""

import numpy as np
import pytest

from glaim_stream.core.budget import Budget
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.output import read_rows
from glaim_stream.pipeline.pipeline import Pipeline
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


@pytest.mark.parametrize("by_clock", [False, True], ids=["event time", "wall clock"])
@pytest.mark.parametrize("bucket", ["last", "mean"])
@pytest.mark.parametrize("seed", range(10))
async def test_due_rows_come_out_as_observed_rows_of_the_same_batch(bucket: str, seed: int, by_clock: bool) -> None:
    pipeline = Pipeline(catalogue(sensors=1, bucket=bucket), {}, Ladder([Interpolation()]))
    windows = pipeline.windows()
    records = disturbed(seed)
    counts = []
    for start in range(0, len(records), 7):
        applied = pipeline.apply(windows, records[start : start + 7], now_ms=NOW_MS)
        counts.append((applied.due_rows, await _observed(pipeline, applied.closed)))
        if by_clock and start % 3 == 0:
            idle = windows.close_idle(NOW_MS + 7_000)
            counts.append((idle.due_rows, await _observed(pipeline, idle.closed)))
    end = windows.close_end()
    counts.append((end.due_rows, await _observed(pipeline, end.closed)))
    assert [due for due, _ in counts] == [observed for _, observed in counts]
    assert sum(due for due, _ in counts) > 30


@pytest.mark.parametrize("seed", range(3))
async def test_each_slice_of_a_batch_holds_its_own_due_rows(seed: int) -> None:
    budget = Budget(slice_bytes=1)
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]), budget=budget)
    windows = pipeline.windows()
    slices = list(pipeline.slices(windows, disturbed(seed), now_ms=NOW_MS))
    assert len(slices) > 10
    assert [each.due_rows for each in slices] == [await _observed(pipeline, each.closed) for each in slices]


async def test_a_row_that_the_windows_lose_is_due_nevertheless() -> None:
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    windows = pipeline.windows()
    pipeline.apply(windows, [json_record(0, group="g0", sensor="s0", ts=0, value=1.0)], now_ms=NOW_MS)
    windows.models[0].rings.observed[:] = False
    applied = pipeline.apply(windows, [json_record(1, group="g0", sensor="s0", ts=9_000, value=1.0)], now_ms=NOW_MS)
    assert (applied.due_rows, await _observed(pipeline, applied.closed)) == (1, 0)


async def test_rows_are_owed_from_when_the_wall_clock_should_have_closed_their_step() -> None:
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    windows = pipeline.windows()
    assert windows.owed_rows(NOW_MS) == 0
    pipeline.apply(windows, [json_record(0, group="g0", sensor="s0", ts=0, value=1.0)], now_ms=NOW_MS)
    model = pipeline.catalogue.models[0]
    over_ms = model.step_ms + model.lateness_ms + round(model.idle_timeout_s * 1000)
    assert windows.owed_rows(NOW_MS + over_ms - 1) == 0
    assert windows.owed_rows(NOW_MS + over_ms) == 1
    windows.close_idle(NOW_MS + over_ms)
    assert windows.owed_rows(NOW_MS + over_ms) == 0


async def _observed(pipeline: Pipeline, closed: list) -> int:  # type: ignore[type-arg]
    messages = pipeline.messages(await pipeline.fill(closed))
    found = [read_rows(message.value)["method"].to_pylist().count("observed") for message in messages]
    assert [message.observed for message in messages] == found
    return sum(found)
