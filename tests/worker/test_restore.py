"""How a worker makes windows from the topic: what it leaves out, what it keeps to learn, when it tries again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import REGISTRY

from glaim_stream.decode.dead_letters import InputRecord
from glaim_stream.decode.stamps import Tick
from glaim_stream.imputers.ladder import Ladder
from glaim_stream.imputers.simple import Interpolation
from glaim_stream.pipeline.pipeline import Applied, Pipeline
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.worker import restore
from glaim_stream.worker.restore import CannotApply, Rebuild, TopicRestore
from tests.support import MemoryRebuilder, Record, catalogue, json_record

RULES = catalogue(sensors=1)


def pipeline() -> Pipeline:
    return Pipeline(RULES, {}, Ladder([Interpolation()]))


class Poisoned(Pipeline):
    """Fails on a record at offset 1."""

    def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
        if any(record.offset == 1 for record in records):
            raise RuntimeError("a bug")
        return super().apply(windows, records, now_ms=now_ms)


def topic(count: int) -> list[Record]:
    return [json_record(n, group="g0", sensor="s0", ts=n * 1000, value=n) for n in range(count)]


def failures() -> float:
    return REGISTRY.get_sample_value("glaim_rebuild_failures_total") or 0.0


async def test_steps_that_close_while_windows_are_made_are_not_closed_again() -> None:
    rebuild = Rebuild(pipeline(), lambda: 10**6, isolate=False)
    await rebuild.apply(topic(5))
    windows = rebuild.restored().windows
    assert not windows.rebuilding
    applied = pipeline().apply(windows, [json_record(5, group="g0", sensor="s0", ts=5000, value=5)], now_ms=10**6)
    assert [closed.ts_ms.tolist() for closed in applied.closed] == [[4000]]


async def test_a_record_that_cannot_be_applied_ends_a_rebuild_that_does_not_isolate() -> None:
    rebuild = Rebuild(Poisoned(RULES, {}, Ladder([Interpolation()])), lambda: 10**6, isolate=False)
    with pytest.raises(CannotApply) as raised:
        await rebuild.apply(topic(3))
    assert isinstance(raised.value.__cause__, RuntimeError)


async def test_a_rebuild_that_isolates_leaves_such_records_out() -> None:
    rebuild = Rebuild(Poisoned(RULES, {}, Ladder([Interpolation()])), lambda: 10**6, isolate=True)
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
        def apply(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Applied:
            return Applied([], [], probes=[f"probe {records[0].offset}"])  # type: ignore[list-item]

    monkeypatch.setattr(restore, "newest_steps", newest_steps)
    rebuild = Rebuild(Probing(RULES, {}, Ladder([Interpolation()])), lambda: 10**6, isolate=isolate)
    for record in topic(3):
        await rebuild.apply([record])
    assert rebuild.restored().probes == ["probe 0", "probe 1", "probe 2"]
    assert kept == [restore.HORIZON] * 3


async def test_the_windows_before_a_batch_are_made_of_the_records_below_it() -> None:
    rebuilder = MemoryRebuilder(topic(9))
    restored = await TopicRestore(pipeline(), rebuilder, topic="in", partition=0, now_ms=lambda: 10**6).before(
        topic(9)[4:]
    )
    assert rebuilder.calls == [4]
    assert restored.windows.clock.newest_event_ms == 3000


async def test_a_topic_that_cannot_be_read_is_retried_with_pauses_that_grow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []

    def pauses() -> Iterator[float]:
        yield from (0.001, 0.002)

    class Flaky(MemoryRebuilder):
        async def rebuild(
            self,
            topic: str,
            partition: int,
            next_offset: int,
            apply: Callable[[Sequence[InputRecord]], Awaitable[None]],
            recall: Callable[[Sequence[Tick], int], None],
        ) -> None:
            await super().rebuild(topic, partition, next_offset, apply, recall)
            if len(self.calls) < 3:
                raise OSError("the broker is away")

    monkeypatch.setattr(restore, "pauses_s", pauses)
    real_sleep = restore.asyncio.sleep

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(restore.asyncio, "sleep", sleep)
    before, rebuilder = failures(), Flaky(topic(4))
    await TopicRestore(pipeline(), rebuilder, topic="in", partition=6, now_ms=lambda: 10**6).before(topic(5)[4:])
    assert rebuilder.calls == [4, 4, 4]
    assert [seconds for seconds in slept if seconds] == [0.001, 0.002]
    assert failures() - before == 2
    assert "in-6: cannot rebuild the windows, retrying in 0.0 s" in caplog.text


async def test_a_rebuild_that_cannot_apply_a_record_starts_again_at_once_and_isolates() -> None:
    before, rebuilder = failures(), MemoryRebuilder(topic(4))
    poisoned = Poisoned(RULES, {}, Ladder([Interpolation()]))
    restored = await TopicRestore(poisoned, rebuilder, topic="in", partition=0, now_ms=lambda: 10**6).before(
        topic(5)[4:]
    )
    assert rebuilder.calls == [4, 4]
    assert restored.windows.clock.newest_event_ms == 3000
    assert failures() == before, "the topic could be read"


async def test_each_restore_is_timed_once() -> None:
    def count() -> float:
        return REGISTRY.get_sample_value("glaim_rebuild_seconds_count") or 0.0

    before = count()
    await TopicRestore(pipeline(), MemoryRebuilder(), topic="in", partition=0, now_ms=lambda: 0).before(topic(1))
    assert count() == before + 1
