"""Steps that the wall clock closes while nothing arrives: what follows is the same as without that silence."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from glaim_stream.core.readings import InputRecord
from glaim_stream.core.vocabulary import Method
from glaim_stream.feed.replay.partition import CopyRestore
from glaim_stream.imputers import Imputed, Windows
from glaim_stream.output import read_rows
from glaim_stream.pipeline.engine import PartitionEngine
from glaim_stream.pipeline.pipeline import Pipeline
from tests.pipeline.form_streams import Form, Offset, pipeline_of, records
from tests.support import catalogue, contract, json_record

Row = dict[str, Any]


class Alternating:
    """A network that knows the readings: 40 and 50 in turns."""

    async def impute(self, windows: Windows) -> Imputed:
        assert windows.end_ms is not None
        steps = windows.end_ms[:, None] // 1000 - np.arange(windows.steps - 1, -1, -1)
        values = np.repeat((40.0 + 10.0 * (steps % 2))[:, None], 2, axis=1)
        return Imputed(values, np.full(values.shape, Method.MODEL, np.int8), ["1"] * len(windows))


async def rows_of(pipeline: Pipeline, stream: Sequence[InputRecord], silent_from: int, idle_s: int) -> list[Row]:
    """All rows of a stream that is silent by the wall clock, for `idle_s`, before its first record of a step."""
    now_ms, faults, rows = [10**9], [], []
    engine = PartitionEngine(
        pipeline, CopyRestore(pipeline, now_ms=lambda: now_ms[0]), topic="in", partition=0, now_ms=lambda: now_ms[0],
        on_fault=lambda: faults.append(1),
    )  # fmt: skip
    before = [each for each in stream if json.loads(each.value)["ts"] < silent_from * 1000]

    async def take(pending: Any) -> None:
        for message in (await engine.finish(pending)).messages:
            rows.extend(read_rows(message.value).to_pylist())

    for part in (before, stream[len(before) :]):
        for start in range(0, len(part), 11):
            await take(await engine.apply(part[start : start + 11]))
        now_ms[0] += idle_s * 1000
        while part is before and (pending := engine.close_idle(len(before))) is not None:
            await take(pending)
    assert not faults
    return rows


def finals(rows: Sequence[Row]) -> dict[tuple[Any, ...], Row]:
    """The rows that event time alone has made."""
    return {(row["group"], row["sensor"], row["ts"], row["revision"]): row for row in rows if row["revision"] >= 1}


@pytest.mark.parametrize("idle_s", [8, 9, 12, 25])
def test_intervals_that_follow_errors_do_so_after_a_silence_too(idle_s: int) -> None:
    rules = catalogue(sensors=2, window=12, revise_after=2, max_gap=8)
    bounds = {f"{place}_{end}": [[sign]] * 2 for place in ("newest", "interior")
              for end, sign in (("lower", -1.0), ("upper", 1.0))}  # fmt: skip
    contracts = {"m": contract(2, window=12, residual_quantiles={"gap_ages": [1], **bounds})}
    stream = [
        json_record(number, group="g0", sensor=f"s{sensor}", ts=step * 1000, value=40.0 + 10.0 * (step % 2))
        for number, (step, sensor) in enumerate(np.ndindex(60, 2)) if (step * 2 + sensor) % 7
    ]  # fmt: skip

    def found(idle_s: int) -> list[Row]:
        pipeline = Pipeline(rules, contracts, Alternating(), score_share=1.0)
        return asyncio.run(rows_of(pipeline, stream, 38, idle_s))

    rows = found(idle_s)
    assert len(rows) > len(finals(rows)) > 10
    assert finals(rows) == finals(found(0))
    assert {row["method"] for row in finals(rows).values() if not row["observed"]} <= {"model", "blend"}


@pytest.mark.parametrize(("network", "form"), [(20.0, 500.0), (300.0, 400.0)])
def test_steps_that_the_clock_closes_leave_the_weights_of_the_experts_as_they_are(network: float, form: float) -> None:
    stream = records(320, constant=False)

    def found(idle_s: int) -> list[Row]:
        return asyncio.run(rows_of(pipeline_of(Offset(network), Form(Offset(form))), stream, 196, idle_s))

    rows = found(13)
    assert finals(rows) == finals(found(0))
    assert sum(not row["observed"] for row in finals(rows).values()) > 100
