"""What the page shows beside what was published and what the windows hold."""

import asyncio
import base64
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from glaim_stream.core.metrics import input_partitions
from glaim_stream.core.vocabulary import METHODS
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.output import read_rows
from glaim_stream.page import watching as module
from glaim_stream.page.board import Board, Viewer
from glaim_stream.page.sources import LoopBusy
from glaim_stream.page.watched import RowKind
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows.states import GroupState
from tests.page.http_client import strict
from tests.page.worker import PARTITION, PagedWorker, paged_worker, readings
from tests.support import catalogue


async def refreshed(it: PagedWorker, group: str | None = None) -> dict[str, Any]:
    """The events of a new viewer by name, made from the state of now."""
    with it.board.viewer(group) as viewer:
        await asyncio.to_thread(it.board.refresh)
        return {name: strict(data) for name, data in viewer.take()}


def numbers(text: str, kind: str = "u1") -> list[int]:
    return np.frombuffer(base64.b64decode(text), f"<{kind}").tolist()


async def test_rows_of_a_group_are_those_that_were_published() -> None:
    async with paged_worker(catalogue(lateness_s=0), board_runs=False) as it:
        await refreshed(it)
        await it.send(readings(range(8), ["g0", "g1"], holes=[4, 7]))
        await it.send(readings(range(8, 11), ["g0", "g1"]))
        await it.send([{"group": "g0", "sensor": "s0", "ts": 7000, "value": 99.5}])  # late
        await it.send(readings(range(11, 12), ["g0", "g1"]))
        found = (await refreshed(it, "g0"))["group"]
        published = [row for message in it.publisher.messages for row in plain(read_rows(message.value))]
        newest_ms = max(row["ts"] for row in published)
        expected = {
            (row["sensor"], row["ts"], kind(row)): (row["value"], row["lower"], row["upper"], row["method"])
            for row in published
            if row["group"] == "g0" and row["ts"] > newest_ms - 6000
        }
        names = [each["id"] for each in found["sensors"]]
        shown = {(names[line[0]], line[1], line[2]): tuple(line[3:7]) for line in found["rows"]}
        assert shown == expected
        assert ("s0", 7000, RowKind.LATE) in shown
        assert shown["s0", 7000, RowKind.LATE][0] == 99.5
        assert ("s0", 7000, RowKind.PROVISIONAL) in shown, "what it replaced stays visible"
        assert found["end_ms"] == newest_ms + 1000


def plain(table: pa.Table) -> list[dict[str, Any]]:
    return [
        row | {"ts": ts} for row, ts in zip(table.to_pylist(), table["ts"].cast(pa.int64()).to_pylist(), strict=True)
    ]


def kind(row: dict[str, Any]) -> int:
    if row["revision"] >= 3:
        return RowKind.LATE
    if row["observed"]:
        return RowKind.OBSERVED
    return RowKind.FINAL if row["revision"] else RowKind.PROVISIONAL


async def test_a_group_that_nobody_looked_at_has_its_window_at_once() -> None:
    """Readings come from the windows where the messages are not kept any more."""
    async with paged_worker(board_runs=False) as it:
        await it.send(readings(range(10), holes=[6]))
        it.sources.recent._messages.clear()
        rows = (await refreshed(it, "g0"))["group"]["rows"]
        assert sorted((line[0], line[1] // 1000) for line in rows) == [
            (sensor, step) for sensor in (0, 1) for step in range(3, 9) if (sensor, step) != (0, 6)
        ]
        assert {(line[2], line[6]) for line in rows} == {(RowKind.OBSERVED, METHODS[0])}


async def test_every_group_has_a_state_and_its_share_of_missing_cells() -> None:
    async with paged_worker(catalogue(lateness_s=0, window=20, max_gap=10, revise_after=2), board_runs=False) as it:
        await it.send(readings(range(30), ["g-whole", "g-holes"]))
        await it.send(readings(range(30, 31), ["g-dark"]))
        sent = readings(range(31, 46), ["g-whole"]) + readings(range(31, 46), ["g-holes"], holes=[40, 41, 42])
        await it.send(sorted(sent, key=lambda each: each["ts"]))
        await it.send(readings(range(46, 47), ["g-whole", "g-holes", "g-new"]))
        found = await refreshed(it)
        names, overview = found["names"]["names"], found["overview"]
        states = dict(zip(names, numbers(overview["state"]), strict=True))
        missing = dict(zip(names, numbers(overview["missing"]), strict=True))
        behind = dict(zip(names, numbers(overview["behind_s"], "u4"), strict=True))
        assert states == {
            "g-whole": GroupState.WHOLE,
            "g-holes": GroupState.HOLES,
            "g-dark": GroupState.DARK,
            "g-new": GroupState.NEW,
        }
        assert missing["g-whole"] == 0
        assert missing["g-holes"] == np.ceil(100 * 3 / 24)
        assert (behind["g-whole"], behind["g-dark"]) == (0, 45 - 30)
        assert overview["count"] == 4
        assert overview["partitions"] == [PARTITION]
        input_partitions.set(3)
        assert (await refreshed(it))["overview"]["input_partitions"] == 3
        input_partitions.set(0)


async def test_slow_sensors_are_missing_only_when_their_interval_is_over() -> None:
    sensors: list[dict[str, Any]] = [{"id": "s0"}, {"id": "s1", "cadence_s": 5}]
    async with paged_worker(catalogue(sensors=sensors, lateness_s=0, window=20, max_gap=10), board_runs=False) as it:
        sent = [each for each in readings(range(40)) if each["sensor"] == "s0" or each["ts"] % 5000 == 4000]
        await it.send(sent)
        found = await refreshed(it)
        assert numbers(found["overview"]["state"]) == [GroupState.WHOLE]


async def test_a_group_that_is_not_here_is_said_to_be_absent_and_gets_no_code() -> None:
    async with paged_worker(board_runs=False) as it:
        await it.send(readings(range(4)))
        known = len(it.sources.pipeline.index)
        found = await refreshed(it, "g77")
        assert found["gone"] == {"group": "g77", "why": "this worker has no such group now"}
        assert len(it.sources.pipeline.index) == known


async def test_no_more_groups_are_watched_than_memory_is_meant_for() -> None:
    async with paged_worker(board_runs=False) as it:
        names = [f"g{number}" for number in range(module.MOST_WATCHED + 1)]
        await it.send(readings(range(4), names))
        viewers = [it.board.viewer(name) for name in names]
        opened = [viewer.__enter__() for viewer in viewers]
        await asyncio.to_thread(it.board.refresh)
        taken = [{name for name, _ in viewer.take()} for viewer in opened]
        assert sum("group" in each for each in taken) == module.MOST_WATCHED
        assert sum("gone" in each for each in taken) == 1
        for viewer in viewers:
            viewer.__exit__(None, None, None)


async def test_nothing_is_read_while_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[float] = []
    async with paged_worker() as it:
        genuine = it.board.refresh

        def counted() -> None:
            reads.append(time.monotonic())
            genuine()

        monkeypatch.setattr(it.board, "refresh", counted)
        await it.send(readings(range(5)))
        await asyncio.sleep(1.5)
        assert reads == []
        with it.board.viewer(None):
            await asyncio.sleep(2.5)
        assert 2 <= len(reads) <= 4
        await asyncio.sleep(1.2)
        count = len(reads)
        await asyncio.sleep(1.5)
        assert len(reads) == count


async def test_a_blocked_loop_is_reported_and_blocks_no_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with paged_worker(board_runs=False) as it:
        await it.send(readings(range(5)))

        def busy(coroutine: Any) -> Any:
            coroutine.close()
            raise LoopBusy("the worker's event loop did not answer for 10 s")

        monkeypatch.setattr(it.sources, "in_loop", busy)
        assert (await refreshed(it))["overview"]["busy"] == "the worker's event loop did not answer for 10 s"


async def test_ten_thousand_groups_take_no_long_turn_of_the_loop() -> None:
    """The longest turn while the page reads 10,000 groups, beside the turn that applies a batch of them.

    Both in time of this thread's processor, which other processes take nothing from.
    """
    rules = catalogue(sensors=8, window=96, max_gap=48, revise_after=8)
    async with paged_worker(rules, board_runs=False) as it:
        names = [f"g{number:05}" for number in range(10_000)]
        took_s = []
        for step in range(3):
            start_s = time.thread_time()
            await it.send([{"group": name, "sensor": "s0", "ts": step * 1000, "value": 1.0} for name in names])
            took_s.append(time.thread_time() - start_s)
        longest_s, last_s, stop = 0.0, time.thread_time(), threading.Event()

        async def watch() -> None:
            nonlocal longest_s, last_s
            while not stop.is_set():
                now_s = time.thread_time()
                longest_s, last_s = max(longest_s, now_s - last_s), now_s
                await asyncio.sleep(0)

        await it.sources.states()
        last_s = time.thread_time()
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        states = await it.sources.states()
        stop.set()
        await watching
        assert sum(len(part.names) for part in states) == 10_000
        assert longest_s < 0.2
        assert longest_s < 0.2 * min(took_s), (longest_s, took_s)


async def test_states_are_read_less_often_where_reading_takes_long() -> None:
    async with paged_worker(board_runs=False) as it:
        await it.send(readings(range(5)))
        genuine = it.sources.states
        reads = 0

        async def slow() -> Any:
            nonlocal reads
            reads += 1
            await asyncio.sleep(0.05)
            return await genuine()

        it.sources.states = slow  # type: ignore[method-assign]
        with it.board.viewer(None):
            for _ in range(5):
                await asyncio.to_thread(it.board.refresh)
        assert reads == 1, "0.05 s are half a percent of 10 s"


def test_a_position_of_another_page_is_a_fresh_start() -> None:
    pipeline = Pipeline(catalogue(), {}, Ladder([Interpolation()]))
    board = Board(module.Sources(pipeline, dict, None))  # type: ignore[arg-type]
    for position in (
        None,
        "",
        "x",
        "x.1.2.3",
        f"{board.nonce}",
        f"{board.nonce}.a.b",
        f"{board.nonce}.1",
        f"{board.nonce}.3.17.2",
        f"{board.nonce}.3.x",
    ):
        viewer = Viewer(board, None)
        viewer.resume(position)
        assert (viewer.names, viewer.rows) == (-1, -1), position
    viewer = Viewer(board, None)
    viewer.resume(f"{board.nonce}.3.17")
    assert (viewer.names, viewer.rows) == (3, 17)
