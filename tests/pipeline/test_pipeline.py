"""Decoding, windows, imputation and repair together: bytes in, Arrow out."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import REGISTRY

from glaim_stream.core.errors import ContractError
from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.core.vocabulary import Status
from glaim_stream.imputers import Imputed, Interpolation, Ladder, Windows
from glaim_stream.output import Method, read_rows
from glaim_stream.pipeline import pipeline as applying
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows import Applied, Outage
from tests.support import Record, catalogue, contract, json_record

NOW_MS = 10**9


def reading(offset: int, step: int, value: float | None, *, group: str = "g0", sensor: str = "s0") -> Record:
    return json_record(offset, group=group, sensor=sensor, ts=step * 1000, value=value)


async def rows(pipeline: Pipeline, applied: Applied) -> list[dict[str, object]]:
    messages = pipeline.messages(await pipeline.fill(applied.closed))
    tables = [read_rows(message.value) for message in messages]
    assert [table.num_rows for table in tables] == [message.rows for message in messages]
    return [row for table in tables for row in table.set_column(2, "ts", table["ts"].cast(pa.int64())).to_pylist()]


async def test_a_hole_is_interpolated_and_marked_as_such() -> None:
    """
    step      0     1     2     3
    s0        1     .     3     4
    """
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    windows = pipeline.windows()
    records = [reading(n, step, float(step + 1)) for n, step in enumerate([0, 2, 3, 4])]
    applied = pipeline.apply(windows, records, now_ms=NOW_MS)
    assert (applied.readings, applied.dropouts, applied.superseded, applied.rejects) == (4, 0, 0, [])
    found = [
        (row["ts"], row["value"], row["method"], row["quality"], row["revision"], row["final"], row["gap_age"])
        for row in await rows(pipeline, applied)
    ]
    assert found == [
        (0, 1.0, "observed", "good", 0, True, 0),
        (1000, 1.0, "last_value", "uncertain", 0, False, 1),
        (2000, 3.0, "observed", "good", 0, True, 0),
        (3000, 4.0, "observed", "good", 0, True, 0),
        (1000, 2.0, "interpolation", "uncertain", 1, True, 1),
    ]


async def test_readings_dropouts_superseded_and_late_readings_are_counted_separately() -> None:
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    records = [
        reading(0, 20, 1.0),
        reading(1, 20, 2.0),  # replaces the first one
        reading(2, 20, None),
        reading(3, 1, 5.0),  # 19 s behind a window of 6
        reading(4, 20, 5.0, group="unknown"),
    ]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    assert (applied.readings, applied.dropouts, applied.superseded) == (3, 1, 1)
    assert [(each.offset, each.position, each.cause) for each in applied.rejects] == [
        (4, 0, DeadLetterCause.UNKNOWN_GROUP),
        (3, 0, DeadLetterCause.TOO_LATE),
    ]
    assert applied.rejects[1].detail.startswith("19 s behind the watermark")
    assert applied.rejects[1].late_by_ms == 19_000


def test_an_outage_is_announced_with_group_and_model_names() -> None:
    pipeline = Pipeline(catalogue(), {}, Ladder([Interpolation()]))
    pipeline.apply(pipeline.windows(), [reading(0, 1, 1.0), reading(1, 1, 1.0, group="g2")], now_ms=NOW_MS)
    dark = Outage(model_index=0, group=1, kind="dark", ts_ms=5_000, last_ts_ms=1_000, by_clock=False)
    speaks = Outage(model_index=0, group=1, kind="speaks", ts_ms=9_500, last_ts_ms=-1, by_clock=True)
    announcements = pipeline.announcements([dark, speaks])
    assert [each.key for each in announcements] == [b"g2", b"g2"]
    assert [json.loads(each.value) for each in announcements] == [
        {"group": "g2", "model": "m", "kind": "dark", "ts": "1970-01-01T00:00:05Z",
         "last_ts": "1970-01-01T00:00:01Z", "by_clock": False},
        {"group": "g2", "model": "m", "kind": "speaks", "ts": "1970-01-01T00:00:09.500Z", "last_ts": None,
         "by_clock": True},
    ]  # fmt: skip


async def test_withheld_values_are_counted_by_cause() -> None:
    class Guess:
        async def impute(self, windows: Windows) -> Imputed:
            shape = (len(windows), 2, windows.steps)
            return Imputed(np.full(shape, 5, np.float64), np.full(shape, Method.MODEL, np.int8), ["1"] * len(windows))

    def withheld(cause: str) -> float:
        return REGISTRY.get_sample_value("glaim_withheld_rows_total", {"cause": cause}) or 0.0

    above, below = [[1.0, 4.0]] * 2, [[-1.0, -4.0]] * 2  # interval bounds for gap ages of one and two steps
    quantiles = {"gap_ages": [1, 2], "newest_lower": below, "newest_upper": above,
                 "interior_lower": below, "interior_upper": above}  # fmt: skip
    rules = catalogue(sensors=[{"id": "s0", "max_interval": 3}, {"id": "s1"}], revise_after=0, max_gap=2)
    pipeline = Pipeline(rules, {"m": contract(2, residual_quantiles=quantiles)}, Guess())
    before = withheld("gap"), withheld("interval")
    records = [reading(0, 0, 1.0), *(reading(step + 1, step, 1.0, sensor="s1") for step in range(5))]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    found = [row for row in await rows(pipeline, applied) if row["sensor"] == "s0"]
    assert [(row["value"], row["method"], row["quality"], row["status"]) for row in found] == [
        (1.0, "observed", "good", Status.GOOD),
        (5.0, "model", "uncertain", Status.UNCERTAIN_SUBSTITUTE_VALUE),
        (None, "none", "bad", Status.BAD_AGGREGATE_INVALID_INPUTS),
        (None, "none", "bad", Status.BAD_NO_COMMUNICATION),
    ]
    assert (withheld("gap") - before[0], withheld("interval") - before[1]) == (1, 1)


async def test_the_imputer_gets_the_time_of_each_window_of_holes_and_probes() -> None:
    """Each reading's value is its step, so that a window shows its own time."""
    given: list[Windows] = []

    class Recorder(Interpolation):
        async def impute(self, windows: Windows) -> Imputed:
            given.append(windows)
            return await super().impute(windows)

    pipeline = Pipeline(catalogue(sensors=2), {}, Recorder(), score_share=1.0)
    cells = [(step, sensor) for step in range(1000, 1030) for sensor in ("s0", "s1") if (step, sensor) != (1010, "s1")]
    records = [reading(n, step, float(step), sensor=sensor) for n, (step, sensor) in enumerate(cells)]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    assert applied.probes
    await pipeline.query(applied.closed, applied.probes)
    (windows,) = given
    assert len(windows) > 2
    assert windows.end_ms is not None
    steps = windows.end_ms[:, None, None] // 1000 + np.arange(1 - 6, 1)
    np.testing.assert_array_equal(windows.values, np.where(windows.observed, steps, 0))


async def test_windows_with_a_hole_and_those_of_probes_are_counted_apart() -> None:
    """One reading is missing: its window is filled when its step closes and once more for the final value."""

    def counts() -> list[float]:
        return [REGISTRY.get_sample_value(f"glaim_{name}_total") or 0.0 for name in ("windows", "side_windows")]

    pipeline = Pipeline(catalogue(sensors=2), {}, Interpolation(), score_share=1.0)
    cells = [(step, sensor) for step in range(30) for sensor in ("s0", "s1") if (step, sensor) != (10, "s1")]
    records = [reading(n, step, float(step), sensor=sensor) for n, (step, sensor) in enumerate(cells)]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    before = counts()
    await pipeline.query(applied.closed, [])
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [2, 0]
    await pipeline.query([], applied.probes)
    probes = sum(len(each.values) for each in applied.probes)
    assert probes > 10
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [2, probes]


@pytest.mark.parametrize(
    ("name", "times"),
    [("glaim_apply_seconds", [100.0, 102.5, 200.0, 200.0, 200.0]), ("glaim_impute_seconds", [100.0] * 4 + [102.5])],
)
async def test_applying_a_batch_and_filling_its_windows_are_timed(
    name: str, times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def observed() -> list[float]:
        return [REGISTRY.get_sample_value(f"{name}_{what}") or 0.0 for what in ("count", "sum")]

    pipeline = Pipeline(catalogue(sensors=1), {}, Interpolation())
    records = [reading(n, step, 1.0) for n, step in enumerate([0, 2, 3, 4])]
    count, total = observed()
    monkeypatch.setattr(applying, "time", SimpleNamespace(perf_counter=iter(times).__next__))
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    await pipeline.query(applied.closed)
    assert observed() == [count + 1, pytest.approx(total + 2.5)]


async def test_without_closed_steps_there_is_no_message() -> None:
    pipeline = Pipeline(catalogue(), {}, Ladder([Interpolation()]))
    applied = pipeline.apply(pipeline.windows(), [], now_ms=NOW_MS)
    assert await rows(pipeline, applied) == []


async def test_a_step_without_holes_does_not_call_the_imputer() -> None:
    class Untouchable:
        async def impute(self, windows: Windows) -> Imputed:
            raise AssertionError("nothing is missing")

    pipeline = Pipeline(catalogue(sensors=1), {}, Untouchable())
    applied = pipeline.apply(pipeline.windows(), [reading(0, 0, 1.0), reading(1, 1, 2.0)], now_ms=NOW_MS)
    assert [row["value"] for row in await rows(pipeline, applied)] == [1.0]


async def test_output_is_split_at_the_message_size_limit() -> None:
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]), max_message_bytes=4_000)
    records = [reading(n, 0, float(n), group=f"g{n}") for n in range(200)] + [reading(200, 1, 1.0)]
    applied = pipeline.apply(pipeline.windows(), records, now_ms=NOW_MS)
    messages = pipeline.messages(await pipeline.fill(applied.closed))
    assert len(messages) > 1
    assert all(len(message.value) <= 4_000 for message in messages)
    assert sum(message.rows for message in messages) == 200


def test_a_contract_that_does_not_fit_raises_on_construction() -> None:
    with pytest.raises(ContractError, match="window"):
        Pipeline(catalogue(), {"m": contract(window=7)}, Ladder([Interpolation()]))


async def test_partitions_share_names_but_not_windows() -> None:
    pipeline = Pipeline(catalogue(sensors=1), {}, Ladder([Interpolation()]))
    one, two = pipeline.windows(), pipeline.windows()
    pipeline.apply(one, [reading(0, 0, 1.0)], now_ms=NOW_MS)
    applied = pipeline.apply(two, [reading(0, 0, 2.0, group="g1"), reading(1, 1, 2.0, group="g1")], now_ms=NOW_MS)
    assert [(row["group"], row["value"]) for row in await rows(pipeline, applied)] == [("g1", 2.0)]
    assert (one.groups, two.groups) == (1, 1)
