"""The closed form as an expert of the stream: which rows it makes, with which interval, and what it leaves alone."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import REGISTRY

from glaim_stream.blend import Scores
from glaim_stream.core.errors import ImputerAbsent, ImputerError
from glaim_stream.core.vocabulary import UPGRADED
from glaim_stream.imputers import BlendedRung, Imputed, Interpolation, WindowImputer, Windows
from glaim_stream.output import Method, Rows
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import HORIZON, PartitionWindows, Probes, newest_steps
from tests.pipeline.form_streams import (
    AWAY,
    NOW_MS,
    RULES,
    Form,
    Offset,
    pipeline_of,
    records,
    rows_of,
    with_factors_of_one,
)
from tests.support import Neighbours, Record

METHODS = ["model", "gaussian", "baseline"]

BAND = 2 * 1.6448536269514722


class Mirror(Neighbours):
    """An imputer that errs as interpolation does, to the other side."""

    async def impute(self, windows: Windows) -> Imputed:
        found, line = await super().impute(windows), await Interpolation().impute(windows)
        return replace(found, values=2 * found.values - line.values)


def require_equal(one: Rows, other: Rows) -> None:
    for name in Rows.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


def late_holes(rows: Rows) -> np.ndarray:
    """Holes after the experts have learnt."""
    return (rows.ts_ms > 150_000) & ~rows.observed


class Sparse(Offset):
    """An imputer with values that are far off at steps that nobody asked for."""

    async def impute(self, windows: Windows) -> Imputed:
        found = await super().impute(windows)
        return replace(found, values=np.where(windows.asked, found.values, 1e6))


async def test_rows_probes_and_upgrades_need_the_newest_step_and_that_of_the_final_rows_alone() -> None:
    asked: list[tuple[int, ...] | None] = []

    class Asked(Sparse):
        async def impute(self, windows: Windows) -> Imputed:
            asked.append(windows.lags)
            return await super().impute(windows)

    class Returning(Offset):
        back = False

        async def impute(self, windows: Windows) -> Imputed:
            assert windows.end_ms is not None
            self.back |= bool(windows.end_ms.max() >= 120_000)
            return await (super().impute(windows) if self.back else AWAY.impute(windows))

    whole, sparse = [
        await rows_of(pipeline_of(Returning(30.0), Form(form)), records(250), batch=11)
        for form in (Offset(-30.0), Asked(-30.0))
    ]
    assert set(asked) == {(0, 2)}
    assert {Method.GAUSSIAN, Method.BLEND} <= set(whole.method.tolist())
    assert (whole.revision == UPGRADED).any()
    require_equal(whole, sparse)


async def test_a_form_that_beats_the_model_fills_alone_with_its_band_and_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_factors_of_one(monkeypatch)
    pipeline = pipeline_of(Offset(500.0), Form(Neighbours()))
    rows = await rows_of(pipeline, records(250))
    late = late_holes(rows)
    together, constant = late & (rows.sensor > 0), late & (rows.sensor == 0)
    assert (rows.method[together] == Method.GAUSSIAN).all()
    np.testing.assert_allclose((rows.upper - rows.lower)[together], 2 * BAND, atol=0.02)
    assert {pipeline._versions[code] for code in rows.version[together].tolist()} == {"gaussian-01234567"}
    assert set(rows.method[constant].tolist()) <= {Method.LAST_VALUE, Method.INTERPOLATION}
    np.testing.assert_allclose((rows.upper - rows.lower)[constant], 2 * BAND, atol=0.02)
    assert (rows.version[constant] == 0).all()


async def test_the_row_of_a_model_that_beats_the_form_has_the_interval_of_both_and_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_factors_of_one(monkeypatch)
    pipeline = pipeline_of(Neighbours(), Form(Offset(500.0)))
    rows = await rows_of(pipeline, records(250))
    together = late_holes(rows) & (rows.sensor > 0)
    assert (rows.method[together] == Method.MODEL).all()
    np.testing.assert_allclose((rows.upper - rows.lower)[together], 2 * (7 * BAND) ** 0.5, atol=0.02)
    assert {pipeline._versions[code] for code in rows.version[together].tolist()} == {"1"}


async def test_where_model_and_form_err_to_opposite_sides_the_row_is_a_blend_with_the_interval_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_factors_of_one(monkeypatch)
    pipeline = pipeline_of(Offset(30.0), Form(Offset(-30.0)))
    rows, exact = await rows_of(pipeline, records(250)), await rows_of(pipeline_of(Neighbours(), None, 0), records(250))
    together = late_holes(rows) & (rows.sensor > 0)
    mixed = together & (rows.method == Method.BLEND) & (rows.version == pipeline._versions.index("1"))
    assert mixed.sum() > 0.9 * together.sum()
    assert np.abs(rows.value - exact.value)[mixed].mean() < 5
    np.testing.assert_allclose((rows.upper - rows.lower)[mixed], 2 * (7 * BAND) ** 0.5, atol=0.02)


@pytest.mark.parametrize("imputer", [Neighbours(), AWAY])
async def test_values_that_cannot_be_mixed_are_those_of_the_form_however_large_its_errors(
    imputer: WindowImputer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_factors_of_one(monkeypatch)
    form = Form(Offset(500.0), unmixable=[2])
    rows = await rows_of(pipeline_of(imputer, form), records(250))
    mixed = await rows_of(pipeline_of(imputer, Form(Offset(500.0))), records(250))
    exact = await rows_of(pipeline_of(Neighbours(), None, 0), records(250))
    alone = late_holes(rows) & (rows.sensor == 2)
    assert alone.sum() > 50
    assert (rows.method[alone] == Method.GAUSSIAN).all()
    np.testing.assert_allclose(rows.value[alone], exact.value[alone] + 500.0, atol=0.02)
    np.testing.assert_allclose((rows.upper - rows.lower)[alone], 2 * BAND, atol=0.02)
    others = rows.sensor != 2
    np.testing.assert_array_equal(rows.value[others], mixed.value[others])


async def test_while_the_model_is_away_form_and_interpolation_are_blended_with_the_band_of_the_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_factors_of_one(monkeypatch)
    rows = await rows_of(pipeline_of(AWAY, Form(Mirror())), records(250))
    exact = await rows_of(pipeline_of(Neighbours(), None, 0), records(250))
    together = late_holes(rows) & (rows.sensor > 0)
    mixed = together & (rows.method == Method.BLEND)
    assert mixed.sum() > 0.9 * together.sum()
    line = await rows_of(pipeline_of(AWAY, None, 0), records(250))
    errors = [np.abs(each.value - exact.value)[mixed].mean() for each in (rows, line)]
    assert errors[0] < 0.25 * errors[1]
    np.testing.assert_allclose((rows.upper - rows.lower)[mixed], 2 * BAND, atol=0.02)
    np.testing.assert_allclose((rows.upper + rows.lower)[mixed] / 2, rows.value[mixed], atol=0.02)
    assert (rows.version[mixed] > 0).all()


async def test_while_the_model_is_away_the_better_of_form_and_baseline_fills() -> None:
    rows = await rows_of(pipeline_of(AWAY, Form(Neighbours())), records(250))
    late = late_holes(rows)
    assert (rows.method[late & (rows.sensor > 0)] == Method.GAUSSIAN).all()
    assert set(rows.method[late & (rows.sensor == 0)].tolist()) <= {Method.LAST_VALUE, Method.INTERPOLATION}


async def test_finals_of_form_and_baseline_are_made_again_by_the_model_with_its_interval() -> None:
    class Returning(Neighbours):
        back = False

        async def impute(self, windows: Windows) -> Imputed:
            assert windows.end_ms is not None
            self.back |= bool(windows.end_ms.max() >= 120_000)
            return await (super().impute(windows) if self.back else AWAY.impute(windows))

    pipeline = pipeline_of(Returning(), Form(Offset(500.0)))
    rows = await rows_of(pipeline, records(160), batch=11)
    again = (rows.revision == UPGRADED) & (rows.sensor > 0)
    assert again.sum() > 3
    assert (rows.ts_ms[again] < 120_000).all()
    assert set(rows.method[again].tolist()) <= {Method.MODEL, Method.BLEND}
    assert {pipeline._versions[code] for code in rows.version[again].tolist()} == {"1"}


async def test_a_form_that_agrees_with_the_baseline_makes_no_blends() -> None:
    rows = await rows_of(pipeline_of(AWAY, Form(Interpolation())), records(120))
    assert set(rows.method.tolist()) == {Method.OBSERVED, Method.GAUSSIAN}


@pytest.mark.parametrize("imputer", [Neighbours(), AWAY], ids=["model", "away"])
async def test_without_a_form_every_row_is_as_before(imputer: WindowImputer) -> None:
    absent = Form(Neighbours())
    absent.outcome = ImputerAbsent("no closed form of model m")
    topic = records(200)
    require_equal(await rows_of(pipeline_of(imputer, absent), topic), await rows_of(pipeline_of(imputer, None), topic))


@pytest.mark.parametrize("outcome", [None, ImputerError("singular")], ids=["declines", "fails"])
async def test_a_form_without_values_leaves_every_hole_to_the_others(outcome: Exception | None) -> None:
    form = Form(Neighbours())
    form.outcome, form.declines = outcome, outcome is None
    rows = await rows_of(pipeline_of(Neighbours(), form), records(200))
    assert np.isfinite(rows.value[~rows.observed]).all()
    assert set(rows.method.tolist()) <= set(Method) - {Method.GAUSSIAN, Method.NONE}
    together = late_holes(rows) & (rows.sensor > 0)
    assert (rows.method[together] == Method.MODEL).all()


async def test_without_a_share_of_probes_the_form_is_not_asked() -> None:
    form = Form(Neighbours())
    form.outcome = RuntimeError("nobody should call it")
    rows = await rows_of(pipeline_of(Neighbours(), form, share=0.0), records(60))
    assert set(rows.method.tolist()) == {Method.OBSERVED, Method.MODEL}


async def test_the_rows_do_not_depend_on_the_batches() -> None:
    topic = records(160)
    one, other = [
        await rows_of(pipeline_of(Offset(20.0), Form(Offset(-60.0))), topic, batch) for batch in (7, len(topic))
    ]
    order = [np.lexsort((rows.revision, rows.ts_ms, rows.sensor, rows.group)) for rows in (one, other)]
    for name in Rows.__slots__:
        columns = [getattr(rows, name)[places] for rows, places in zip((one, other), order, strict=True)]
        np.testing.assert_array_equal(*columns, name)


def test_a_rebuilt_partition_has_the_same_weights_to_the_bit() -> None:
    topic = records(2 * HORIZON + 60)
    pipeline = pipeline_of(Offset(20.0), Form(Offset(-60.0)), share=0.5)

    def run(part: list[Record], *, again: bool) -> tuple[PartitionWindows, Scores]:
        windows, scores, probes = pipeline.windows(), pipeline.scores(), list[Probes]()
        for start in range(0, len(part), 31):
            applied = pipeline.apply(windows, part[start : start + 31], now_ms=NOW_MS)
            probes += applied.probes
            if not again:
                pipeline.settle(scores, asyncio.run(pipeline.query(applied.closed, applied.probes)))
        if again:
            pipeline.settle(scores, asyncio.run(pipeline.query([], newest_steps(probes, HORIZON))), again=True)
        return windows, scores

    windows, live = run(topic, again=False)
    first = windows.rebuild_from(len(topic))
    assert first > len(topic) // 4, "it has forgotten much"
    _, rebuilt = run(topic[first:], again=True)
    weights = [each.models[0].weights(2 * HORIZON + 60).table() for each in (live, rebuilt)]
    assert weights[0].shape[-1] == 3
    assert np.array_equal(*weights)


def counted() -> np.ndarray:
    """The errors of model, closed form and baseline on the probes of a sensor, and the number of all probes."""
    return np.array([*(of_method("error", each) for each in METHODS), of_method("questions", "blend")])


def of_method(name: str, method: str) -> float:
    labels = {"model": "m", "sensor": "s2", "position": "edge", "method": method}
    return REGISTRY.get_sample_value(f"glaim_score_{name}_total", labels) or 0.0


async def test_errors_and_bands_of_the_form_are_counted_on_the_probes_that_it_answered() -> None:
    form = Form(Offset(-60.0))
    before = counted()
    await rows_of(pipeline_of(Offset(20.0), form), records(200))
    model, gaussian, _, questions = counted() - before
    assert questions > 20
    assert gaussian > 1.5 * model > 0
    form.declines, before = True, counted()
    await rows_of(pipeline_of(Offset(20.0), form), records(200))
    model, gaussian, _, questions = counted() - before
    assert (gaussian, questions > 20, model > 0) == (0, True, True)


async def test_without_a_network_the_errors_of_form_and_baseline_are_counted() -> None:
    before = counted()
    await rows_of(pipeline_of(Interpolation(), Form(Offset(-60.0)), networks=[]), records(200))
    model, gaussian, baseline, questions = counted() - before
    assert (model, questions > 20, gaussian > 0, baseline > 0) == (0, True, True, True)
    before = counted()
    await rows_of(pipeline_of(Interpolation(), None, networks=[]), records(200))
    model, gaussian, baseline, questions = counted() - before
    assert (model, gaussian, questions > 20, baseline > 0) == (0, 0, True, True), "no form has come yet"


async def test_a_form_that_comes_later_is_judged_by_the_questions_that_it_was_asked() -> None:
    form = Form(Offset(-60.0))

    def state() -> np.ndarray:
        return np.array([[of_method(name, each) for each in METHODS] for name in ("error", "questions")])

    before = state()
    await rows_of(pipeline_of(Offset(20.0), form), records(200))
    alone = state() - before
    form.declines, before = True, state()
    await rows_of(pipeline_of(Offset(20.0), form), records(600))
    form.declines = False
    await rows_of(pipeline_of(Offset(20.0), form), records(200))
    together = state() - before
    gaussian, model = METHODS.index("gaussian"), METHODS.index("model")
    assert together[1, gaussian] < 0.5 * together[1, model]
    assert together[0, gaussian] / together[1, gaussian] == pytest.approx(alone[0, gaussian] / alone[1, gaussian])


async def test_while_a_network_is_away_no_error_is_counted() -> None:
    """The errors of all methods are divided by the same number, so a method must not miss some of them."""
    before = counted()
    await rows_of(pipeline_of(Interpolation(), Form(Offset(-60.0)), networks=["m"]), records(200))
    assert (counted() == before).all()


async def test_filled_values_and_their_bands_have_the_decimals_that_came_with_the_form() -> None:
    form, learned = Form(Offset(0.0371)), dict[str, np.ndarray]()
    form.outcome = ImputerAbsent("none yet")
    pipeline = Pipeline(
        RULES, {}, Interpolation(), form_expert=BlendedRung(form), score_share=1.0, decimals=learned.get, networks=[]
    )
    topic = records(200, constant=False)

    async def off(part: list[Record]) -> np.ndarray:
        """Whether the value or a bound of the filled rows of each sensor has more than one decimal."""
        rows = await rows_of(pipeline, part)
        filled = (rows.method != Method.OBSERVED) & (rows.method != Method.NONE)
        numbers = np.stack([rows.value, rows.lower, rows.upper])[:, filled]
        more = ~(np.isnan(numbers) | (numbers == np.round(numbers, 1))).all(axis=0)
        return np.array([more[rows.sensor[filled] == sensor].any() for sensor in range(3)])

    assert (await off(topic)).all()
    form.outcome, learned["m"] = None, np.array([1, -1, 1, 1], np.int8)
    assert (await off(topic)).tolist() == [False, True, False]
