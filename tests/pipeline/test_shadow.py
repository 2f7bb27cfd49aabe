"""Another version of the network on the probes: both errors as metrics, and no row that depends on it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core import metrics
from glaim_stream.core.errors import ImputerUnavailable
from glaim_stream.imputers import BlendedRung, Imputed, Windows
from glaim_stream.output import Rows
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows import Probes
from tests.pipeline.form_streams import AWAY, NOW_MS, RULES, Form, Offset, records, rows_of
from tests.support import contract

Other = Callable[[Windows, str], Awaitable[Imputed | None]]


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    for counter in (metrics.shadow_error, metrics.shadow_questions, metrics.shadow_windows):
        counter.clear()


def pipeline_of(other: Other | None, *, imputer: object = None, form: Form | None = None, most: int = 64) -> Pipeline:
    return Pipeline(
        RULES, {"m": contract(4, window=12)}, imputer or Versioned("2", 5.0),  # type: ignore[arg-type]
        form_expert=None if form is None else BlendedRung(form), score_share=1.0, upgrades=True,
        shadow=other, shadow_windows=most,
    )  # fmt: skip


class Versioned(Offset):
    """A version of a model whose values are all too high."""

    def __init__(self, version: str, offset: float) -> None:
        super().__init__(offset)
        self.version = version

    async def impute(self, windows: Windows) -> Imputed:
        return replace(await super().impute(windows), version=[self.version] * len(windows))


class Shadowed:
    """The other version: the calls, and what they answer."""

    def __init__(self, version: str = "1", offset: float = 25.0) -> None:
        self.imputer, self.calls = Versioned(version, offset), list[tuple[int, str]]()
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, windows: Windows, serving: str) -> Imputed | None:
        self.calls.append((len(windows), serving))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self.imputer.impute(windows)


def total(name: str, **labels: str) -> float:
    """Sum of a counter over the series with these labels."""
    return sum(
        sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == f"glaim_shadow_{name}_total" and labels.items() <= sample.labels.items()
    )


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def streamed(pipeline: Pipeline, steps: int = 60, asked: list[Probes] | None = None) -> Rows:
    """The rows of a stream, with turns of the loop in which the other version answers; `asked` gets the probes."""
    windows, scores, parts = pipeline.windows(), pipeline.scores(), list[Rows]()
    topic = records(steps)
    for start in range(0, len(topic), 24):
        applied = pipeline.apply(windows, topic[start : start + 24], now_ms=NOW_MS)
        if asked is not None:
            asked += applied.probes
        answers = await pipeline.query(applied.closed, applied.probes, pipeline.upgrades(windows, scores))
        parts += [rows for _, rows in pipeline.settle(scores, answers)]
        await settled()
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__))


async def test_both_errors_are_those_of_the_same_hidden_readings() -> None:
    async def error(imputer: Versioned) -> float:
        """Sum of its absolute errors on every hidden reading, before they are rounded to 0.01."""
        found = 0.0
        for each in probes:
            values = (await imputer.impute(Windows("m", each.values, each.observed, 12))).values
            found += np.abs(values[each.window, each.sensor, 11 - each.lag] - each.truth).sum()
        return found

    serving, other, probes = Versioned("2", 5.0), Shadowed(), list[Probes]()
    await streamed(pipeline_of(other, imputer=serving), asked=probes)
    asked = total("questions", version="1", against="2")
    assert asked == total("questions", version="2", against="1") > 200
    assert {serving for _, serving in other.calls} == {"2"}
    assert asked == sum(len(each.step) for each in probes)
    assert total("error", version="2", against="1") == pytest.approx(await error(serving), abs=0.005 * asked)
    assert total("error", version="1", against="2") == pytest.approx(await error(other.imputer), abs=0.005 * asked)
    assert total("error", version="1") > 1.05 * total("error", version="2")
    assert total("windows", outcome="scored") == sum(count for count, _ in other.calls)
    assert total("windows", outcome="skipped") == 0


async def test_an_equal_version_has_the_same_error_to_the_bit() -> None:
    await streamed(pipeline_of(Shadowed(offset=5.0)))
    assert total("error", version="1") == total("error", version="2") > 0


@pytest.mark.parametrize("fault", ["none", "error", "internal", "hangs", "wrong shape", "no other"])
@pytest.mark.parametrize("form", [None, Form(Offset(-60.0))])
async def test_no_row_differs_by_a_bit_whatever_the_other_version_does(fault: str, form: Form | None) -> None:
    alone = await streamed(pipeline_of(None, form=form))
    other = Shadowed()
    if fault == "error":
        other.error = ImputerUnavailable("gone")
    if fault == "internal":
        other.error = ZeroDivisionError("a bug")
    if fault == "hangs":
        other.gate.clear()

    async def answers(windows: Windows, serving: str) -> Imputed | None:
        if fault == "no other":
            return None
        found = await other(windows, serving)
        assert found is not None
        return found.slice(0, 1) if fault == "wrong shape" else found

    beside = await streamed(pipeline_of(answers, form=form))
    for name in Rows.__slots__:
        np.testing.assert_array_equal(getattr(alone, name), getattr(beside, name), name)
    failed, skipped, scored = (total("windows", outcome=each) for each in ("failed", "skipped", "scored"))
    assert (failed > 0) == (fault in ("error", "internal", "wrong shape"))
    assert (skipped > 0) == (fault == "hangs")
    assert (scored > 0) == (fault == "none")
    other.gate.set()
    await settled()


async def test_a_slow_version_is_asked_once_at_a_time() -> None:
    other = Shadowed()
    other.gate.clear()
    await streamed(pipeline_of(other))
    assert len(other.calls) == 1
    other.gate.set()
    await settled()
    assert total("windows", outcome="scored") == other.calls[0][0]


async def test_a_call_has_no_more_windows_than_allowed() -> None:
    other = Shadowed()
    await rows_of(pipeline_of(other, most=3), records(100), batch=400)
    await settled()
    assert {count for count, _ in other.calls} == {3}


async def test_what_the_network_did_not_answer_is_not_scored() -> None:
    other = Shadowed()
    await streamed(pipeline_of(other, imputer=AWAY))
    assert other.calls == []


async def test_probes_that_are_asked_again_after_a_restart_are_not_scored_again() -> None:
    other = Shadowed()
    pipeline = pipeline_of(other)
    windows, scores = pipeline.windows(), pipeline.scores()
    applied = pipeline.apply(windows, records(60), now_ms=NOW_MS)
    pipeline.settle(scores, await pipeline.query([], applied.probes), again=True)
    await settled()
    assert other.calls == []


async def test_after_two_retrainings_the_series_of_the_first_pair_are_gone() -> None:
    serving, other = Versioned("9", 5.0), Shadowed("8")
    pipeline = pipeline_of(other, imputer=serving)
    for newest, former in (("9", "8"), ("10", "9"), ("11", "10")):
        serving.version, other.imputer.version = newest, former
        await streamed(pipeline)
    left = {
        (sample.labels["version"], sample.labels["against"])
        for metric in (metrics.shadow_error, metrics.shadow_questions)
        for sample in metric.collect()[0].samples
    }
    assert left == {("10", "9"), ("9", "10"), ("11", "10"), ("10", "11")}
