"""How a worker restores windows from the topic: failing records, probes to learn from, and retries."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import retry
from glaim_stream.core.readings import InputRecord
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import HORIZON, Applied, PartitionWindows
from glaim_stream.worker import restore
from glaim_stream.worker.restore import CannotApply, Rebuild, TopicRestore
from tests.support import POISON, MemoryRebuilder, PoisonedPipeline, Record, catalogue, json_record

RULES = catalogue(sensors=1)


def pipeline() -> Pipeline:
    return Pipeline(RULES, {}, Ladder([Interpolation()]))


def poisoned() -> PoisonedPipeline:
    return PoisonedPipeline(RULES, {}, Ladder([Interpolation()]))


def topic(count: int) -> list[Record]:
    """One reading per step; the record at offset 1 is poisoned."""
    return [
        json_record(n, key=POISON if n == 1 else None, group="g0", sensor="s0", ts=n * 1000, value=n)
        for n in range(count)
    ]


def failures() -> float:
    return REGISTRY.get_sample_value("glaim_rebuild_failures_total") or 0.0


async def test_steps_that_close_during_a_rebuild_are_not_closed_again() -> None:
    rebuild = Rebuild(pipeline(), lambda: 10**6, isolate=False)
    await rebuild.apply(topic(5))
    windows = rebuild.restored().windows
    assert not windows.rebuilding
    applied = pipeline().apply(windows, [json_record(5, group="g0", sensor="s0", ts=5000, value=5)], now_ms=10**6)
    assert [closed.ts_ms.tolist() for closed in applied.closed] == [[4000]]


async def test_without_isolation_a_failing_record_ends_the_rebuild() -> None:
    rebuild = Rebuild(poisoned(), lambda: 10**6, isolate=False)
    with pytest.raises(CannotApply) as raised:
        await rebuild.apply(topic(3))
    assert isinstance(raised.value.__cause__, RuntimeError)


async def test_with_isolation_a_rebuild_skips_failing_records() -> None:
    rebuild = Rebuild(poisoned(), lambda: 10**6, isolate=True)
    await rebuild.apply(topic(3))
    await rebuild.apply([json_record(3, group="g0", sensor="s0", ts=3000, value=3)])
    windows = rebuild.restored().windows
    assert not windows.rebuilding
    whole = pipeline().windows()
    pipeline().apply(whole, [record for record in topic(4) if record.offset != 1], now_ms=10**6)
    assert windows.rebuild_from(10) == whole.rebuild_from(10)
    assert windows.clock.newest_event_ms == whole.clock.newest_event_ms == 3000


@pytest.mark.parametrize("isolate", [False, True])
async def test_probes_of_every_part_are_kept_up_to_the_horizon(isolate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    def newest_steps(probes: Sequence[Any], horizon: int) -> list[Any]:
        kept.append(horizon)
        return list(probes)

    class Probing(Pipeline):
        def slices(
            self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int
        ) -> Iterator[Applied]:
            return iter([Applied(probes=[f"probe {records[0].offset}"])])  # type: ignore[list-item]

    monkeypatch.setattr(restore, "newest_steps", newest_steps)
    pipeline = Probing(RULES, {}, Ladder([Interpolation()]), score_share=1.0)
    rebuild = Rebuild(pipeline, lambda: 10**6, isolate=isolate)
    for record in topic(3):
        await rebuild.apply([record])
    assert rebuild.restored().probes == ["probe 0", "probe 1", "probe 2"]
    assert kept == [HORIZON] * 3


async def test_the_windows_before_a_batch_are_rebuilt_from_the_records_below_it() -> None:
    rebuilder = MemoryRebuilder(topic(9))
    restored = await TopicRestore(pipeline(), rebuilder, topic="in", partition=0, now_ms=lambda: 10**6).before(4)
    assert rebuilder.calls == [4]
    assert restored.windows.clock.newest_event_ms == 3000


async def test_an_unreadable_topic_is_retried_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []

    def pauses() -> Iterator[float]:
        yield from (0.001, 0.002)

    monkeypatch.setattr(retry, "pauses_s", lambda *_: pauses())
    original_sleep = restore.asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await original_sleep(0)

    monkeypatch.setattr(restore.asyncio, "sleep", sleep)
    before, rebuilder = failures(), MemoryRebuilder(topic(4), failures=2)
    await TopicRestore(pipeline(), rebuilder, topic="in", partition=6, now_ms=lambda: 10**6).before(4)
    assert rebuilder.calls == [4, 4, 4]
    assert [seconds for seconds in slept if seconds] == [0.001, 0.002]
    assert failures() - before == 2
    assert "in-6: cannot rebuild the windows, retrying in 0.0 s" in caplog.text


async def test_after_a_failing_record_the_rebuild_restarts_at_once_with_isolation() -> None:
    before, rebuilder = failures(), MemoryRebuilder(topic(4))
    restored = await TopicRestore(poisoned(), rebuilder, topic="in", partition=0, now_ms=lambda: 10**6).before(4)
    assert rebuilder.calls == [4, 4]
    assert restored.windows.clock.newest_event_ms == 3000
    assert failures() == before, "the topic could be read"


async def test_each_restore_is_timed_once() -> None:
    def count() -> float:
        return REGISTRY.get_sample_value("glaim_rebuild_seconds_count") or 0.0

    before = count()
    await TopicRestore(pipeline(), MemoryRebuilder(), topic="in", partition=0, now_ms=lambda: 0).before(0)
    assert count() == before + 1
