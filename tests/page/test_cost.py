"""What the page costs the worker: shares of its own work, not seconds."""

import asyncio
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from glaim_stream.output import Output
from glaim_stream.page.recent import MOST_BYTES
from tests.page.worker import paged_worker
from tests.support import catalogue

RULES = catalogue(sensors=8, window=96, max_gap=48, revise_after=8, lateness_s=0, max_ahead_s=30)


def step_of(step: int, groups: Sequence[str]) -> list[dict[str, Any]]:
    """One step with a hole in each group."""
    return [
        {"group": group, "sensor": f"s{sensor}", "ts": step * 1000, "value": 1.0 + sensor}
        for group in groups
        for sensor in range(8)
        if (step + sensor) % 9
    ]


@pytest.mark.usefixtures("collected_before")
@pytest.mark.parametrize(("groups", "steps"), [(8, 200), (4_000, 4)])
async def test_keeping_messages_takes_less_than_a_hundredth_of_the_work(groups: int, steps: int) -> None:
    """Small batches and large ones, and without Kafka: with it the share is smaller still. Waits do not count."""
    async with paged_worker(RULES, board_runs=False) as it:
        keep, spent_s = it.sources.recent.add, 0.0

        def timed(outputs: Sequence[Output]) -> None:
            nonlocal spent_s
            start_s = time.thread_time()
            keep(outputs)
            spent_s += time.thread_time() - start_s

        it.worker._on_published = timed
        names = [f"g{number}" for number in range(groups)]
        start_s = time.thread_time()
        for step in range(steps):
            await it.send(step_of(step, names))
        assert it.sources.recent.newest > 0
        assert 0 < spent_s < 0.01 * (time.thread_time() - start_s)


async def test_a_viewer_of_ten_thousand_groups_takes_less_than_five_megabytes() -> None:
    async with paged_worker(RULES, board_runs=False) as it:
        names = [f"g{number:05}" for number in range(10_000)]
        for step in range(2):
            await it.send(step_of(step, names))
        tracemalloc.start()
        try:
            base = tracemalloc.get_traced_memory()[0]
            with it.board.viewer("g00007") as viewer:
                for step in range(2, 4):
                    it.board._states_due = 0
                    await asyncio.to_thread(it.board.refresh)
                    sent = {name: len(data) for name, data in viewer.take()}
                    assert ("names" in sent) == (step == 2), "names are sent once"
            peak = tracemalloc.get_traced_memory()[1] - base
        finally:
            tracemalloc.stop()
        assert peak + MOST_BYTES < 5_000_000, "with the messages that are kept"
