"""Intervals that follow recent errors, from the readings to the published rows."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.blend import Scores
from glaim_stream.imputers import BlendedRung, Imputed, WindowImputer, Windows
from glaim_stream.output import Method, Rows
from glaim_stream.pipeline.pipeline import Pipeline
from glaim_stream.windows import HORIZON, PartitionWindows, Probes, newest_steps
from tests.pipeline.form_streams import (
    AWAY,
    NOW_MS,
    QUANTILES,
    RULES,
    Form,
    Offset,
    records,
    rows_of,
    with_factors_of_one,
)
from tests.support import Record, contract

WIDE = {name: [[1000 * each for each in row] for row in rows] for name, rows in QUANTILES.items() if name != "gap_ages"}


def pipeline_of(imputer: WindowImputer, form: Form | None, *, quantiles: dict[str, Any] | None = QUANTILES) -> Pipeline:
    contracts = {"m": contract(4, window=12, residual_quantiles=quantiles)}
    expert = None if form is None else BlendedRung(form)
    return Pipeline(RULES, contracts, imputer, form_expert=expert, score_share=0.5, upgrades=True)


def widths(rows: Rows, chosen: np.ndarray) -> np.ndarray:
    return (rows.upper - rows.lower)[chosen]


def late(rows: Rows) -> np.ndarray:
    """Rows of steps whose probes have long shown how large the errors are; the first sensor is constant."""
    return (rows.ts_ms >= 80_000) & (rows.sensor > 0)


async def test_intervals_widen_to_the_errors_of_late_and_nothing_else_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract promises errors of 7, the model is off by 20."""
    topic = records(200)
    adapted = await rows_of(pipeline_of(Offset(20.0), None), topic)
    with_factors_of_one(monkeypatch)
    fixed = await rows_of(pipeline_of(Offset(20.0), None), topic)
    for name in set(Rows.__slots__) - {"lower", "upper"}:
        np.testing.assert_array_equal(getattr(fixed, name), getattr(adapted, name), name)
    by_model = (adapted.method == Method.MODEL) & late(adapted)
    assert by_model.sum() > 20
    np.testing.assert_allclose(widths(fixed, by_model), 14.0)
    assert (widths(adapted, by_model) > 39.0).all()
    observed = adapted.observed
    assert np.isnan(adapted.lower[observed]).all()


async def test_intervals_narrow_where_the_errors_are_small() -> None:
    """Sensors jump by about 100 from step to step; the contract promises errors of 7,000."""
    rows = await rows_of(pipeline_of(Offset(1.0), None, quantiles=QUANTILES | WIDE), records(200))
    by_model = (rows.method == Method.MODEL) & late(rows)
    assert by_model.sum() > 20
    assert (widths(rows, by_model) < 7000).all()


@pytest.mark.parametrize("form", [None, Form(Offset(0.0))])
async def test_every_filled_value_has_an_interval_while_the_model_is_away(form: Form | None) -> None:
    rows = await rows_of(pipeline_of(AWAY, form), records(200))
    filled = ~rows.observed & np.isfinite(rows.value)
    assert filled.sum() > 100
    assert np.isin(rows.method[filled], [Method.INTERPOLATION, Method.LAST_VALUE]).any()
    assert np.isfinite(rows.lower[filled]).all()
    assert np.isfinite(rows.upper[filled]).all()


async def test_interpolated_values_have_intervals_as_wide_as_their_errors() -> None:
    """Sensors jump by about 100 from step to step, of which the contract knows nothing."""
    rows = await rows_of(pipeline_of(AWAY, None), records(300))
    jumping = late(rows) & np.isin(rows.method, [Method.INTERPOLATION, Method.LAST_VALUE])
    assert 100 < np.median(widths(rows, jumping)) < 600


async def test_without_contract_intervals_and_form_nothing_is_known_about_the_errors() -> None:
    rows = await rows_of(pipeline_of(AWAY, None, quantiles=None), records(100))
    assert np.isnan(rows.lower).all()


async def test_a_model_without_measured_residuals_has_the_interval_of_the_form() -> None:
    rows = await rows_of(pipeline_of(Offset(1.0), Form(Offset(-60.0)), quantiles=None), records(200))
    by_model = rows.method == Method.MODEL
    assert by_model.any()
    assert np.isfinite(rows.lower[by_model]).all()


async def test_an_interval_of_the_form_has_the_deviation_at_the_step_of_its_row() -> None:
    """Sensors are asked for the newest three steps, whose deviations are 1, 2 and 3; final rows are two steps old."""

    class Uneven(Form):
        async def impute(self, windows: Windows) -> Imputed:
            found = await super().impute(windows)
            return replace(found, deviation=np.broadcast_to(np.arange(1.0, 4.0), found.values.shape))

    rows = await rows_of(pipeline_of(AWAY, Uneven(Offset(0.0)), quantiles=None), records(60))
    newest, final = (widths(rows, (rows.method == Method.GAUSSIAN) & (rows.revision == each)) for each in (0, 1))
    assert min(len(newest), len(final)) > 5
    np.testing.assert_allclose(newest, 3 * final[0], rtol=0.01)


async def test_every_interval_holds_its_value_and_is_no_narrower_than_the_resolution() -> None:
    rows = await rows_of(pipeline_of(Offset(0.0), Form(Offset(0.0))), records(200))
    filled = ~rows.observed & np.isfinite(rows.value)
    lower, upper, value = (each[filled] for each in (rows.lower, rows.upper, rows.value))
    assert (lower <= value).all()
    assert (value <= upper).all()
    assert (upper - lower >= 0.01 - 1e-9).all(), "also of the sensor that never changes"


@pytest.mark.parametrize("batch", [7, 400])
async def test_the_intervals_do_not_depend_on_the_batches(batch: int) -> None:
    topic = records(150)
    parts = [await rows_of(pipeline_of(Offset(20.0), Form(Offset(-60.0))), topic, each) for each in (50, batch)]
    order = [np.lexsort((rows.revision, rows.ts_ms, rows.sensor, rows.group)) for rows in parts]
    for name in ("value", "lower", "upper"):
        one, other = (getattr(rows, name)[places] for rows, places in zip(parts, order, strict=True))
        np.testing.assert_array_equal(one, other, name)


@pytest.mark.parametrize("killed_at", [pytest.param(159, marks=pytest.mark.slow), 160, 164])
def test_after_a_rebuild_the_intervals_are_those_of_a_worker_that_went_on_to_the_bit(killed_at: int) -> None:
    """Wherever in a block of eight steps the worker ends; 160 begins one."""
    topic = records(killed_at + 60)
    pipeline = pipeline_of(Offset(20.0), Form(Offset(-60.0)))
    ended = next(place for place, record in enumerate(topic) if f'"ts": {killed_at * 1000}' in str(record.value))

    def settle(windows: PartitionWindows, scores: Scores, part: list[Record], *, again: bool) -> list[Rows]:
        rows, probes = list[Rows](), list[Probes]()
        for start in range(0, len(part), 31):
            applied = pipeline.apply(windows, part[start : start + 31], now_ms=NOW_MS)
            probes += applied.probes
            if not again:
                answers = asyncio.run(pipeline.query(applied.closed, applied.probes))
                rows += [each for _, each in pipeline.settle(scores, answers)]
        if again:
            pipeline.settle(scores, asyncio.run(pipeline.query([], newest_steps(probes, HORIZON))), again=True)
        return rows

    def joined(parts: list[Rows]) -> Rows:
        return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__))

    windows, scores = pipeline.windows(), pipeline.scores()
    settle(windows, scores, topic[:ended], again=False)
    first = windows.rebuild_from(ended)
    assert first > ended // 4, "it has forgotten much"
    went_on = joined(settle(windows, scores, topic[ended:], again=False))
    windows, scores = pipeline.windows(), pipeline.scores()
    settle(windows, scores, topic[first:ended], again=True)
    rebuilt = joined(settle(windows, scores, topic[ended:], again=False))
    filled = ~went_on.observed & np.isfinite(went_on.lower)
    assert filled.sum() > 30
    for name in ("value", "method", "lower", "upper"):
        np.testing.assert_array_equal(getattr(went_on, name), getattr(rebuilt, name), name)


async def test_the_metrics_count_the_adapted_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted() -> np.ndarray:
        names = ("glaim_score_intervals_total", "glaim_score_intervals_holding_total")
        labels = [{"model": "m", "position": position} for position in ("edge", "interior")]
        return np.array([sum(REGISTRY.get_sample_value(name, each) or 0.0 for each in labels) for name in names])

    shares = []
    for _ in ("adapted", "fixed"):
        before = counted()
        await rows_of(pipeline_of(Offset(20.0), None), records(300))
        drawn, holding = counted() - before
        assert drawn > 100
        shares.append(holding / drawn)
        with_factors_of_one(monkeypatch)
    assert shares[0] > 0.8
    assert shares[1] < 0.5
