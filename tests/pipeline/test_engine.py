"""The engine of a partition: counts, restored windows, reported faults and cancelled queries.

test_faults.py tests internal errors; tests/worker and tests/feed/replay test the users of the engine.
"""

import asyncio
import gc
import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from prometheus_client import REGISTRY

from glaim_stream.blend import Scores
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.imputers import Imputed, Interpolation, Ladder, Windows
from glaim_stream.output import Announcement, Origin
from glaim_stream.pipeline.engine import PartitionEngine
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.pipeline.restore import Restore, Restored
from glaim_stream.windows import Closed, Outage, PartitionWindows, Probes
from tests.support import POISON, PoisonedPipeline, Record, catalogue, header, json_record

RULES = catalogue(sensors=1)


class EmptyRestore(Restore):
    """Restores empty windows and records the calls of the engine."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.before_offsets: list[int] = []
        self.applied: list[int] = []
        self.isolated: list[PartitionWindows] = []
        self.probes: list[Probes] = []
        self.restoring: list[bool] = []
        self.engine: PartitionEngine | None = None

    async def before(self, offset: int) -> Restored:
        assert self.engine is not None
        self.restoring.append(self.engine.restoring)
        self.before_offsets.append(offset)
        return Restored(self.pipeline.windows(), self.probes)

    def note_applied(self, records: Sequence[InputRecord], windows: PartitionWindows) -> None:
        self.applied.append(records[0].offset)

    def note_isolated(self, windows: PartitionWindows) -> None:
        self.isolated.append(windows)


def engine(
    pipeline: Pipeline | None = None, now_ms: Callable[[], int] = lambda: 1_000_000
) -> tuple[PartitionEngine, EmptyRestore, list[None]]:
    """An engine, its restore, and a list with one entry per fault."""
    pipeline = pipeline or Pipeline(RULES, {}, Ladder([Interpolation()]))
    restore, faults = EmptyRestore(pipeline), list[None]()
    restore.engine = PartitionEngine(
        pipeline, restore, topic="in", partition=3, now_ms=now_ms, on_fault=lambda: faults.append(None)
    )
    return restore.engine, restore, faults


def reading(offset: int, step: int, **fields: Any) -> Record:
    record = json_record(offset, **{"group": "g0", "sensor": "s0", "ts": step * 1000, "value": step} | fields)
    return Record(record.value, offset, timestamp=step * 1000)


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"glaim_{name}_total", labels) or 0.0


async def test_windows_are_restored_before_the_first_batch_and_kept_after_it() -> None:
    it, restore, _ = engine()
    assert (it.windows, it.restoring) == (None, True)
    await it.apply([reading(7, 0), reading(8, 1)])
    assert (restore.before_offsets, it.restoring) == ([7], False)
    windows = it.windows
    await it.apply([reading(9, 2)])
    assert restore.before_offsets == [7]
    assert it.windows is windows
    assert (restore.applied, restore.isolated) == ([7, 9], [])


async def test_dropped_windows_are_restored_without_their_scores() -> None:
    it, restore, _ = engine()
    first = await it.apply([reading(0, 0)])
    second = await it.apply([reading(1, 1)])
    assert second.scores is first.scores
    it.drop_windows()
    third = await it.apply([reading(2, 2)])
    assert third.scores is not first.scores
    assert restore.before_offsets == [0, 2]
    assert restore.restoring == [True, True]


async def test_each_output_states_its_partition_and_the_last_record_of_its_batch() -> None:
    it, _, _ = engine()
    pending = await it.apply([reading(0, 0), reading(1, 4)])
    output = await it.finish(pending)
    assert (output.partition, output.origin) == (3, Origin(1, 4000))
    end = it.close_end()
    assert end is not None
    assert (end.records, end.origin) == ([], Origin(1, 4000))


async def test_records_and_readings_are_counted_once_applied() -> None:
    it, _, _ = engine(Pipeline(catalogue(sensors=1, max_ahead_s=300), {}, Ladder([Interpolation()])))
    names = ("records", "readings", "dropouts", "superseded_readings", "skewed_readings")
    before = [counted(name) for name in names]
    skewed = Record(reading(3, 3).value, 3, timestamp=2_000)  # stamped 1 s ahead of its record
    await it.apply([reading(0, 1), reading(1, 1, value=9), reading(2, 1, value=None), skewed, Record(b"\xff", 4)])
    after = [counted(name) for name in names]
    assert [now - then for now, then in zip(after, before, strict=True)] == [5, 4, 1, 1, 1]


async def test_rejects_are_counted_by_cause_and_late_readings_separately() -> None:
    it, _, _ = engine()
    before = (
        counted("late_readings"),
        counted("dead_letters", cause="unknown-sensor"),
        counted("dead_letters", cause="too-late"),
    )
    items = [{"sensor": "x"}, {"sensor": "y"}]
    batch = [reading(0, 50), json_record(1, group="g0", ts=50_000, readings=items), reading(2, 1)]
    finished = await it.finish(await it.apply(batch))
    after = (
        counted("late_readings"),
        counted("dead_letters", cause="unknown-sensor"),
        counted("dead_letters", cause="too-late"),
    )
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 2, 0]
    assert sorted(reject.cause for reject in finished.rejects) == ["too-late", "unknown-sensor", "unknown-sensor"]
    found = [
        (header(each.headers, "glaim-topic"), header(each.headers, "glaim-partition")) for each in finished.letters
    ]
    assert found == [("in", "3")] * 2


async def test_outages_are_announced_and_counted() -> None:
    it, _, _ = engine()
    batch = [reading(0, 0), reading(1, 0, group="g1"), *(reading(n + 2, n) for n in range(1, 20))]
    before = counted("outages", kind="speaks"), counted("outages", kind="dark")
    finished = await it.finish(await it.apply(batch))
    documents = [json.loads(each.value) for each in finished.announcements]
    assert [(each["group"], each["kind"]) for each in documents] == [("g0", "speaks"), ("g1", "speaks"), ("g1", "dark")]
    assert (counted("outages", kind="speaks"), counted("outages", kind="dark")) == (before[0] + 2, before[1] + 1)


async def test_rows_are_published_despite_a_fault_in_announcements(caplog: pytest.LogCaptureFixture) -> None:
    class Unannounced(Pipeline):
        def announcements(self, outages: Sequence[Outage]) -> list[Announcement]:
            raise RuntimeError("a bug")

    it, _, faults = engine(Unannounced(RULES, {}, Ladder([Interpolation()])))
    before = counted("worker_faults")
    finished = await it.finish(await it.apply([reading(0, 0), reading(1, 1)]))
    assert [message.rows for message in finished.messages] == [1]
    assert (finished.announcements, len(faults)) == ([], 1)
    assert counted("worker_faults") == before + 1
    assert "in-3: internal error in a batch of 2 records" in caplog.text


async def test_rows_are_published_despite_a_fault_in_upgrades() -> None:
    class WithoutUpgrades(Pipeline):
        def upgrades(self, windows: PartitionWindows, scores: Scores) -> list[Closed]:
            raise RuntimeError("a bug")

    it, _, faults = engine(WithoutUpgrades(RULES, {}, Ladder([Interpolation()])))
    finished = await it.finish(await it.apply([reading(0, 0), reading(1, 1)]))
    assert [message.rows for message in finished.messages] == [1]
    assert len(faults) == 1


async def test_upgrades_are_queried_with_the_windows_and_scores_of_their_batch() -> None:
    calls: list[tuple[PartitionWindows, Scores]] = []

    class Upgrading(Pipeline):
        def upgrades(self, windows: PartitionWindows, scores: Scores) -> list[Closed]:
            calls.append((windows, scores))
            return []

    it, _, _ = engine(Upgrading(RULES, {}, Ladder([Interpolation()])))
    pending = await it.apply([reading(0, 0)])
    assert calls == [(it.windows, pending.scores)]


class Recorded(Pipeline):
    """Records the calls of `query` and `settle` in order."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.events: list[Any] = []
        self.fails = False

    async def query(self, closed: Any, probes: Any = (), upgrades: Any = (), **more: Any) -> Any:
        self.events.append(("query", len(closed), len(probes)))
        return await super().query(closed, [], upgrades)

    def settle(self, scores: Any, answers: Any, *, again: bool = False) -> Any:
        self.events.append(("settle", len(answers), again))
        if self.fails:
            raise RuntimeError("a bug")
        return super().settle(scores, answers, again=again)


async def test_errors_of_restored_windows_are_learned_before_the_first_batch_is_settled() -> None:
    pipeline = Recorded(RULES, {}, Ladder([Interpolation()]))
    it, restore, _ = engine(pipeline)
    restore.probes = [object()]  # type: ignore[list-item]
    first = await it.apply([reading(0, 0), reading(1, 1)])
    second = await it.apply([reading(2, 2)])
    await it.finish(first)
    await it.finish(second)
    settled = [event for event in pipeline.events if event[0] == "settle"]
    assert settled == [("settle", 0, True), ("settle", 1, False), ("settle", 1, False)]
    assert [event for event in pipeline.events if event[0] == "query"] == [
        ("query", 0, 1),
        ("query", 1, 0),
        ("query", 1, 0),
    ]


async def test_windows_without_probes_have_nothing_to_learn() -> None:
    it, _, _ = engine()
    assert (await it.apply([reading(0, 0)])).relearning is None


async def test_rows_are_published_despite_a_fault_in_learning() -> None:
    pipeline = Recorded(RULES, {}, Ladder([Interpolation()]))
    it, restore, faults = engine(pipeline)
    restore.probes = [object()]  # type: ignore[list-item]
    pending = await it.apply([reading(0, 0), reading(1, 1)])
    pipeline.fails = True
    finished = await it.finish(pending)
    assert [message.rows for message in finished.messages] == [1], "the observed rows, without imputed values"
    assert len(faults) == 3, "in learning, in rows with the model and in rows without it"


async def test_a_warm_up_batch_is_learned_without_output() -> None:
    pipeline = Recorded(RULES, {}, Ladder([Interpolation()]))
    it, restore, faults = engine(pipeline)
    restore.probes = [object()]  # type: ignore[list-item]
    await it.learn(await it.apply([reading(0, 0), reading(1, 1)]))
    assert pipeline.events == [("query", 0, 1), ("query", 1, 0), ("settle", 0, True), ("settle", 1, True)]
    pipeline.fails = True
    await it.learn(await it.apply([reading(2, 2)]))
    assert len(faults) == 1


async def test_a_batch_whose_rows_cannot_be_made_becomes_one_letter_per_record() -> None:
    class Mute(Pipeline):
        def messages(self, filled: Any) -> Any:
            raise RuntimeError("a bug")

    it, _, _ = engine(Mute(RULES, {}, Ladder([Interpolation()])))
    finished = await it.finish(await it.apply([reading(0, 0), Record(b"\xff", 1)]))
    assert [(each.offset, each.cause) for each in finished.rejects] == [
        (0, DeadLetterCause.PROCESSING),
        (1, DeadLetterCause.PROCESSING),
    ]
    assert {header(each.headers, "glaim-detail") for each in finished.letters} == {
        "the rows of its batch could not be made"
    }


async def test_the_windows_of_isolated_records_are_passed_to_the_restore() -> None:
    it, restore, faults = engine(PoisonedPipeline(RULES, {}, Ladder([Interpolation()])))
    scores = (await it.apply([reading(0, 0)])).scores
    pending = await it.apply([replace(reading(1, 1), key=POISON), reading(2, 2), reading(3, 3)])
    assert restore.before_offsets == [0, 1]
    assert (restore.applied, restore.isolated) == ([0], [it.windows])
    assert pending.scores is scores, "the errors so far are kept"
    assert pending.relearning is None
    assert [reject.offset for reject in pending.applied.rejects] == [1]
    assert len(faults) == 1


async def test_without_windows_nothing_is_closed() -> None:
    it, _, _ = engine()
    assert it.close_idle() is None
    assert it.close_end() is None


async def test_without_closed_steps_there_is_no_output() -> None:
    it, _, _ = engine()
    await it.apply([reading(0, 0)])
    assert it.close_idle() is None, "the partition is not idle for long enough"
    assert it.close_end() is not None
    assert it.close_end() is None, "no step is open any more"


async def test_steps_that_cannot_be_closed_drop_the_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(windows: PartitionWindows, now_ms: int) -> None:
        raise RuntimeError("a bug")

    it, _, faults = engine()
    await it.apply([reading(0, 0)])
    monkeypatch.setattr(PartitionWindows, "close_idle", fails)
    assert it.close_idle() is None
    assert (it.windows, len(faults)) == (None, 1)
    assert it.close_idle() is None
    assert len(faults) == 1, "there are no windows to close"


async def test_the_clock_announces_groups_that_go_dark() -> None:
    clock_ms = count(1_000_000, 1_000)
    pipeline = Pipeline(catalogue(sensors=1, idle_timeout_s=1), {}, Ladder([Interpolation()]))
    it, _, _ = engine(pipeline, lambda: next(clock_ms))
    await it.finish(await it.apply([reading(0, 0)]))
    documents = []
    for _ in range(40):
        if (pending := it.close_idle()) is not None:
            documents += [json.loads(each.value) for each in (await it.finish(pending)).announcements]
    assert [(each["group"], each["kind"]) for each in documents] == [("g0", "speaks"), ("g0", "dark")]


async def test_a_batch_is_ready_once_the_imputer_has_answered() -> None:
    answer = asyncio.Event()

    class Waiting(Interpolation):
        async def impute(self, windows: Windows) -> Imputed:
            await answer.wait()
            return await super().impute(windows)

    it, _, _ = engine(Pipeline(RULES, {}, Waiting()))
    pending = await it.apply([reading(0, 0), reading(1, 3)])
    await asyncio.sleep(0)
    assert pending.ready is False
    answer.set()
    await it.finish(pending)
    assert pending.ready is True


async def test_close_cancels_pending_queries_and_waits_for_them() -> None:
    started, ended = list[str](), list[str]()

    class Hanging:
        async def impute(self, windows: Windows) -> Imputed:
            started.append("query")
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("cancelled")
            raise AssertionError

    it, _, _ = engine(Pipeline(RULES, {}, Hanging()))
    pending = [await it.apply([reading(n, 2 * n)]) for n in range(4)]  # every other step is a hole
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(started) == 3
    await it.close()
    assert ended == ["cancelled"] * 3
    assert [each.query.done() for each in pending] == [True] * 4
    await it.close()


async def test_a_finished_query_is_not_kept() -> None:
    it, _, _ = engine()
    pending = await it.apply([reading(0, 0), reading(1, 1)])
    query = weakref.ref(pending.query)
    await it.finish(pending)
    await asyncio.sleep(0)
    del pending
    gc.collect()
    assert query() is None
