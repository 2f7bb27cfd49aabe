"""The copy of the windows that a replay keeps: when it is made, and that it is independent of the windows."""

from collections.abc import Iterator, Sequence

import pytest

from glaim_stream.core.readings import InputRecord
from glaim_stream.feed.replay import partition
from glaim_stream.feed.replay.partition import CopyRestore
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from tests.support import Record, catalogue, json_record


class Recording(Pipeline):
    """Records the offsets that it applies."""

    def __init__(self) -> None:
        super().__init__(catalogue(sensors=1), {}, Ladder([Interpolation()]))
        self.offsets: list[int] = []

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        assert now_ms == 10**6
        self.offsets += [record.offset for record in records]
        return super().slices(windows, records, now_ms=now_ms)


def reading(step: int, group: str = "g0") -> Record:
    return json_record(step, group=group, sensor="s0", ts=step * 1000, value=step)


SIZE = len(reading(1).value or b"")


async def reapplied(pipeline: Recording, it: CopyRestore) -> list[int]:
    """Offsets that restoring applies again."""
    pipeline.offsets.clear()
    await it.before(99)
    return pipeline.offsets


def applied(pipeline: Recording, it: CopyRestore, windows: PartitionWindows, *steps: int) -> None:
    records = [reading(step) for step in steps]
    pipeline.apply(windows, records, now_ms=10**6)
    it.note_applied(records, windows)


async def test_before_the_first_copy_everything_is_applied_again_to_empty_windows() -> None:
    pipeline = Recording()
    it, windows = CopyRestore(pipeline, now_ms=lambda: 10**6), pipeline.windows()
    assert (await it.before(0)).windows.groups == 0
    applied(pipeline, it, windows, 0, 1)
    applied(pipeline, it, windows, 2)
    assert await reapplied(pipeline, it) == [0, 1, 2]
    restored = await it.before(3)
    assert restored.windows.clock.newest_event_ms == windows.clock.newest_event_ms == 2000
    assert restored.probes == []


@pytest.mark.parametrize(("copy_bytes", "per_group"), [(3 * SIZE, 0), (0, 3 * SIZE)])
async def test_a_copy_is_made_once_the_batches_since_the_last_one_reach_a_size(
    copy_bytes: int, per_group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "COPY_BYTES", copy_bytes)
    monkeypatch.setattr(partition, "COPY_BYTES_PER_GROUP", per_group)
    pipeline = Recording()
    it, windows = CopyRestore(pipeline, now_ms=lambda: 10**6), pipeline.windows()
    applied(pipeline, it, windows, 1, 2)
    assert await reapplied(pipeline, it) == [1, 2]
    applied(pipeline, it, windows, 3)
    assert await reapplied(pipeline, it) == [], "the size limit is reached exactly"
    applied(pipeline, it, windows, 4)
    applied(pipeline, it, windows, 5)
    assert await reapplied(pipeline, it) == [4, 5], "the size is counted from the last copy"


async def test_an_isolation_makes_a_new_copy() -> None:
    pipeline = Recording()
    it, windows = CopyRestore(pipeline, now_ms=lambda: 10**6), pipeline.windows()
    applied(pipeline, it, windows, 0, 1)
    it.note_isolated(windows)
    assert await reapplied(pipeline, it) == []
    assert (await it.before(2)).windows.clock.newest_event_ms == 1000


async def test_windows_copy_and_restored_windows_change_independently() -> None:
    pipeline = Recording()
    it, windows = CopyRestore(pipeline, now_ms=lambda: 10**6), pipeline.windows()
    applied(pipeline, it, windows, 0, 1)
    it.note_isolated(windows)
    pipeline.apply(windows, [reading(50)], now_ms=10**6)
    first = (await it.before(2)).windows
    pipeline.apply(first, [reading(60, "g1")], now_ms=10**6)
    second = (await it.before(2)).windows
    assert (second.clock.newest_event_ms, second.groups) == (1000, 1)


async def test_a_record_without_a_value_counts_as_zero_bytes() -> None:
    pipeline = Recording()
    it = CopyRestore(pipeline, now_ms=lambda: 10**6)
    it.note_applied([Record(None, 0)], pipeline.windows())
    assert await reapplied(pipeline, it) == [0]
