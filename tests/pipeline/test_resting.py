"""A network that gains too little rests: what is saved, which rows come of it, and how it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.blend.scores import Scores
from glaim_stream.blend.worth import BLOCK, RATE
from glaim_stream.core.errors import ImputerAbsent
from glaim_stream.core.readings import InputRecord
from glaim_stream.core.vocabulary import UPGRADED
from glaim_stream.feed.replay.restore import CopyRestore
from glaim_stream.imputers.protocol import Imputed, Windows
from glaim_stream.output.records import Method, Rows, read_rows
from glaim_stream.pipeline.applied import Applied
from glaim_stream.pipeline.engine import PartitionEngine, Pending
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows.partition import PartitionWindows
from glaim_stream.windows.probes import Probes, newest_steps
from tests.pipeline.form_streams import AWAY, NOW_MS, Form, Offset, pipeline_of, records, rows_of
from tests.support import Neighbours, Record

GAIN = 0.1
COMPARED = ("group", "sensor", "ts", "revision", "value", "method", "lower", "upper")
STEPS = 320


class Counted(Offset):
    """A model that records the steps of its windows' ends, and whose offset may change."""

    def __init__(self, offset: float, better_from: int = 10**9) -> None:
        super().__init__(offset)
        self.better_from, self.steps = better_from, list[int]()

    async def impute(self, windows: Windows) -> Imputed:
        assert windows.end_ms is not None
        self.steps += (windows.end_ms // 1000).tolist()
        found, exact = await super().impute(windows), await Neighbours().impute(windows)
        better = (windows.end_ms // 1000 >= self.better_from)[:, None, None]
        return replace(found, values=np.where(better, exact.values, found.values))

    def calls(self, first: int, last: int, *, judged: bool) -> int:
        """Windows of the steps [first, last) for which it was called."""
        return sum(first <= step < last and (step % RATE == 0) == judged for step in self.steps)


def sorted_columns(rows: Rows) -> list[np.ndarray]:
    order = np.lexsort((rows.revision, rows.ts_ms, rows.sensor, rows.group))
    return [getattr(rows, name)[order] for name in Rows.__slots__]


def require_equal(one: Rows, other: Rows) -> None:
    for name, *columns in zip(Rows.__slots__, sorted_columns(one), sorted_columns(other), strict=True):
        np.testing.assert_array_equal(*columns, name)


Row = tuple[object, ...]


async def published(pipeline: Pipeline, topic: list[Record], batch: int) -> list[Row]:
    """The rows of an engine that applies everything before it finishes anything."""
    restore = CopyRestore(pipeline, now_ms=lambda: NOW_MS)
    engine = PartitionEngine(pipeline, restore, topic="in", partition=0, now_ms=lambda: NOW_MS)
    taken = list[Pending]()

    async def take(pending: Pending) -> None:
        taken.append(pending)

    for start in range(0, len(topic), batch):
        taken.append(await engine.apply(topic[start : start + batch], take))
    out = list[Row]()
    for pending in taken:
        async with asyncio.timeout(30):
            output = (await engine.finish(pending)).output
        for message in output.messages:
            rows = read_rows(message.value)
            out += zip(*(rows[name].to_pylist() for name in COMPARED), strict=True)
    await engine.close()
    return sorted(out, key=lambda row: tuple(map(str, row[:4])))


def outcome(name: str) -> float:
    labels = {"model": "m", "outcome": name}
    return REGISTRY.get_sample_value("glaim_model_windows_total", labels) or 0.0


async def test_a_model_that_gains_nothing_is_called_for_the_probes_of_judged_steps_only() -> None:
    model, before = Counted(500.0), (outcome("called"), outcome("saved"))
    rows = await rows_of(pipeline_of(model, Form(Neighbours()), gain=GAIN), records(STEPS, constant=False), batch=11)
    late = 2 * BLOCK, STEPS - 5
    assert model.calls(0, BLOCK, judged=False) > 100
    assert model.calls(*late, judged=False) <= 3 * 9, "the first batch of a block is not decided yet"
    assert model.calls(*late, judged=True) > 50
    assert (rows.revision < UPGRADED).all(), "no row waits for a model at rest"
    filled = (rows.ts_ms > 2 * BLOCK * 1000) & ~rows.observed
    assert set(rows.method[filled].tolist()) <= {Method.GAUSSIAN, Method.BLEND, Method.INTERPOLATION, Method.LAST_VALUE}
    assert (rows.method[filled] == Method.GAUSSIAN).mean() > 0.9
    called, saved = outcome("called") - before[0], outcome("saved") - before[1]
    assert called == len(model.steps)
    assert saved > 0.4 * (called + saved)


async def test_without_a_required_gain_every_window_is_called() -> None:
    model, before = Counted(500.0), outcome("saved")
    pipeline = pipeline_of(model, Form(Neighbours()))
    await rows_of(pipeline, records(150))
    assert (model.calls(BLOCK, 150, judged=False) > 50, outcome("saved")) == (True, before)
    assert pipeline.scores().models[0].worth is None


async def test_a_model_that_gains_is_called_for_every_window() -> None:
    pipeline, free = [pipeline_of(Counted(0.0), Form(Offset(500.0)), gain=gain) for gain in (GAIN, 0.0)]
    require_equal(await rows_of(pipeline, records(220)), await rows_of(free, records(220)))


async def test_a_model_is_not_called_for_sensors_whose_values_the_form_alone_makes() -> None:
    model = Counted(0.0)
    pipeline = pipeline_of(model, Form(Offset(500.0), unmixable=range(4)), gain=GAIN)
    rows = await rows_of(pipeline, records(STEPS), batch=11)
    assert model.calls(0, BLOCK, judged=False) > 100
    assert model.calls(2 * BLOCK, STEPS - 5, judged=False) <= 3 * 9, "the first batch of a block is not decided yet"
    assert set(rows.method[~rows.observed].tolist()) <= {Method.GAUSSIAN, Method.NONE}


async def test_the_rows_do_not_depend_on_which_windows_were_called() -> None:
    """A worker calls for windows whose block is not decided yet; a replay in large batches does so nearly always."""
    topic, before = records(STEPS), outcome("saved")
    small, large, ignorant = [
        await rows_of(pipeline_of(Counted(60.0), Form(Offset(20.0)), gain=GAIN), topic, batch, told=told)
        for batch, told in ((11, True), (len(topic), True), (50, False))
    ]
    assert outcome("saved") - before > 100
    require_equal(small, large)
    require_equal(small, ignorant)


async def test_a_worker_that_is_far_behind_saves_the_same_calls() -> None:
    """It applies all of the topic before the first answer, in one batch or in many."""
    topic, saved, found, models = records(STEPS, constant=False), list[float](), list[list[Row]](), list[Counted]()
    for batch in (11, len(topic), 400):
        models.append(Counted(500.0))
        before = outcome("saved")
        found.append(await published(pipeline_of(models[-1], Form(Neighbours()), gain=GAIN), topic, batch))
        saved.append(outcome("saved") - before)
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert len(found[0]) > STEPS
    assert saved[0] == saved[1] == saved[2] > 200
    for model in models:
        assert model.calls(BLOCK, STEPS - 5, judged=False) == 0


async def test_after_an_error_a_worker_that_is_far_behind_continues() -> None:
    """The windows are restored in the middle of the topic, and the first block after it decides nothing."""
    topic = records(STEPS, constant=False)
    model = Counted(500.0)

    class Failing(Pipeline):
        failures = 0

        def slices(
            self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int
        ) -> Iterator[Applied]:
            if Failing.failures == 0 and records[0].offset > 1000:
                Failing.failures += 1
                raise RuntimeError("a bug")
            return super().slices(windows, records, now_ms=now_ms)

    pipeline = pipeline_of(model, Form(Neighbours()), gain=GAIN, kind=Failing)
    rows = await published(pipeline, topic, 400)
    assert Failing.failures == 1
    unhurt = await published(pipeline_of(Counted(500.0), Form(Neighbours()), gain=GAIN), topic, 400)
    assert [row[:4] for row in rows] == [row[:4] for row in unhurt]
    assert model.calls(STEPS - 80, STEPS - 5, judged=False) == 0


async def test_a_model_that_became_better_is_called_again_within_two_blocks() -> None:
    better_from = 150
    model = Counted(500.0, better_from)
    rows = await rows_of(pipeline_of(model, Form(Offset(-60.0)), gain=GAIN), records(380, constant=False), batch=11)
    assert model.calls(120, 150, judged=False) == 0
    later = (rows.ts_ms >= (better_from + 2 * BLOCK) * 1000) & ~rows.observed
    assert later.sum() > 20
    assert (rows.method[later] == Method.MODEL).mean() > 0.9


@pytest.mark.slow  # quicker: the weights after a rebuild in test_form_in_stream.py
def test_after_a_rebuild_the_same_windows_are_called() -> None:
    topic = records(5 * BLOCK, groups=2)

    def run(pipeline: Pipeline, part: list[Record], *, again: bool) -> tuple[int, Scores]:
        windows, scores, probes = pipeline.windows(), pipeline.scores(), list[Probes]()
        for start in range(0, len(part), 100):
            applied = pipeline.apply(windows, part[start : start + 100], now_ms=NOW_MS)
            probes += applied.probes
            if not again:
                pipeline.settle(scores, asyncio.run(pipeline.query(applied.closed, applied.probes, scores=scores)))
        if again:
            newest = newest_steps(probes, pipeline.error_steps)
            pipeline.settle(scores, asyncio.run(pipeline.query([], newest)), again=True)
        return windows.rebuild_from(len(topic)), scores

    for model, form, rests in ((Counted(60.0), Offset(20.0), True), (Counted(20.0), Offset(60.0), False)):
        pipeline = pipeline_of(model, Form(form), share=0.3, gain=GAIN)
        first, live = run(pipeline, topic, again=False)
        assert first > BLOCK
        _, rebuilt = run(pipeline, topic[first:], again=True)
        newest = 5 * BLOCK - 1
        weights = [each.models[0].weights(newest).table() for each in (live, rebuilt)]
        np.testing.assert_array_equal(*weights)
        resting = []
        for each in (live, rebuilt):
            worth = each.models[0].worth
            assert worth is not None
            resting.append(worth.rests(np.full(4, newest), np.arange(4)).tolist())
        assert resting[0] == resting[1]
        assert any(resting[0][1:]) == rests


async def test_a_form_that_is_gone_leaves_no_window_to_a_model_at_rest() -> None:
    model, form = Counted(500.0), Form(Neighbours())
    pipeline = pipeline_of(model, form, gain=GAIN)
    windows, scores, topic = pipeline.windows(), pipeline.scores(), records(180, constant=False)
    applied = pipeline.apply(windows, topic[:1400], now_ms=NOW_MS)
    pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes, scores=scores))
    form.outcome = ImputerAbsent("removed")
    applied = pipeline.apply(windows, topic[1400:1500], now_ms=NOW_MS)
    answers = await pipeline.query(applied.closed, applied.probes, scores=scores)
    (answer,) = answers
    assert answer.called is not None
    assert not answer.called.any(), "it is at rest"
    assert answer.imputed is not None
    assert (answer.imputed.method == Method.MODEL).all()
    ((_, rows),) = pipeline.settle(scores, answers)
    assert Method.GAUSSIAN not in rows.method
    assert {Method.MODEL, Method.BLEND} & set(rows.method.tolist())


async def test_while_the_model_is_away_the_rows_are_those_of_form_and_baseline() -> None:
    rows = await rows_of(pipeline_of(AWAY, Form(Neighbours()), gain=GAIN), records(150))
    require_equal(rows, await rows_of(pipeline_of(AWAY, Form(Neighbours())), records(150)))
