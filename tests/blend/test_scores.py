"""Scores: the errors of the probe cells decide the blend weights of later steps, through to the published rows."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client import REGISTRY

from glaim_stream.blend.mixture import blend
from glaim_stream.blend.scores import Expert, ModelScores, Predictions, Scores
from glaim_stream.imputers import Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.output import METHODS, Method, Rows
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import AGES, HORIZON, PartitionWindows, Place, Probes, newest_steps
from tests.support import Neighbours, Record, catalogue, contract, json_record

NOW_MS = 10**9
RULES = catalogue(sensors=4, window=12, revise_after=2, max_gap=8)


def answers(
    step: list[int], model: list[float], baseline: list[float], *, sensor: int = 0, age: int = 0
) -> Predictions:
    ints = [np.array(step), *(np.full(len(step), value) for value in (sensor, age, Place.EDGE))]
    return Predictions(*ints, np.stack([model, baseline], axis=1).astype(np.float64))


def hole_at(step: int, **key: int) -> Predictions:
    return answers([step], [0.0], [0.0], **key)


def model_share(scores: ModelScores, step: int) -> NDArray[np.float64]:
    return scores.weights(step).table()[..., Expert.MODEL]


def latest_share(scores: ModelScores, cells: Predictions) -> float:
    return float(scores.latest(cells)[:, Expert.MODEL].item())


def test_the_weights_of_a_step_depend_only_on_the_errors_of_earlier_steps() -> None:
    scores = ModelScores(2)
    probes = answers([5, 6], [1.0, 1.0], [3.0, 3.0])
    holes = answers([5, 6, 7], [0.0] * 3, [0.0] * 3)
    hole_weights, probe_weights = scores.walk(holes, probes, np.array([1.0, 1.0]))
    assert hole_weights.tolist() == [[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]
    assert probe_weights.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_a_cell_that_the_model_did_not_fill_does_not_count() -> None:
    scores = ModelScores(1)
    scores.walk(Predictions.none(), answers([1, 2], [np.nan, np.nan], [1.0, 1.0]), np.array([0.0, 0.0]))
    assert model_share(scores, 3)[0, 0, 0] == 0.5


def test_every_cell_gets_the_weight_of_its_key() -> None:
    scores = ModelScores(2)
    probes = replace(answers([1, 1], [1.0, 3.0], [3.0, 1.0]), sensor=np.array([0, 1]))
    scores.walk(Predictions.none(), probes, np.array([1.0, 1.0]))
    holes = replace(answers([2, 2, 3], [0.0] * 3, [0.0] * 3), sensor=np.array([1, 0, 1]))
    hole_weights, probe_weights = scores.walk(holes, Predictions.none(), np.empty(0))
    assert (hole_weights[:, Expert.MODEL].tolist(), len(probe_weights)) == ([0.0, 1.0, 0.0], 0)


def test_an_upgrade_uses_the_current_weights_for_any_step() -> None:
    scores = ModelScores(1)
    assert latest_share(scores, hole_at(7)) == 0.5
    scores.walk(Predictions.none(), answers([5], [1.0], [3.0]), np.array([1.0]))
    assert latest_share(scores, hole_at(2)) == 1.0
    scores.walk(Predictions.none(), Predictions.none(), np.empty(0))
    assert latest_share(scores, hole_at(2)) == 1.0
    scores.walk(hole_at(5 + 2 * HORIZON), Predictions.none(), np.empty(0))
    assert latest_share(scores, hole_at(2)) == 0.5, "holes also advance the step, so the error is forgotten"


def test_new_scores_hold_no_errors() -> None:
    scores = Scores([2, 3])
    assert [model_share(model, 0).shape for model in scores.models] == [
        (2, len(AGES), len(Place)),
        (3, len(AGES), len(Place)),
    ]
    assert [len(upgrades) for upgrades in scores.upgrades] == [0, 0]


def test_a_key_without_errors_uses_the_errors_of_its_place_and_then_of_its_sensor() -> None:
    scores = ModelScores(2)
    for step in range(30):
        scores.walk(Predictions.none(), answers([2 * step], [0.1], [1.0], age=1), np.array([0.0]))
        inside = replace(answers([2 * step + 1], [1.0], [0.1], age=1), place=np.array([Place.INTERIOR]))
        scores.walk(Predictions.none(), replace(inside, sensor=np.array([1])), np.array([0.0]))
    weights = model_share(scores, 60)
    assert weights[0, :, Place.EDGE] == pytest.approx(1.0, abs=0.1), "for every age"
    assert weights[0, :, Place.ROW_INTERIOR] == pytest.approx(1.0, abs=0.1), "for every place"
    assert weights[1, :, Place.INTERIOR :] == pytest.approx(0.0, abs=0.1), "for every place of the other sensor"
    assert weights[1, :, Place.EDGE] == pytest.approx(1.0, abs=0.1), "but where only the first sensor has errors"
    assert weights.shape == (2, len(AGES), len(Place))


def with_form(cells: Predictions, values: list[float]) -> Predictions:
    """The same answers with a third column, the closed form's."""
    return replace(cells, values=np.column_stack([cells.values, values]))


def test_without_answers_of_a_closed_form_there_are_two_experts() -> None:
    scores = ModelScores(1)
    scores.walk(hole_at(1), answers([1], [1.0], [3.0]), np.array([1.0]))
    assert scores.weights(2).table().shape[-1] == 2


def test_a_closed_form_that_appears_begins_with_equal_weights() -> None:
    scores = ModelScores(1)
    scores.walk(Predictions.none(), answers([1], [1.0], [3.0]), np.array([1.0]))
    first, _ = scores.walk(with_form(hole_at(2), [0.0]), Predictions.none(), np.empty(0))
    np.testing.assert_allclose(first, 1 / 3)
    scores.walk(Predictions.none(), with_form(answers([2], [2.0], [3.0]), [1.0]), np.array([1.0]))
    then, _ = scores.walk(with_form(hole_at(3), [0.0]), Predictions.none(), np.empty(0))
    assert then.tolist() == [[0.0, 0.0, 1.0]]
    assert scores.latest(with_form(hole_at(1), [np.nan])).tolist() == [[1.0, 0.0, 0.0]], "asleep"
    assert scores.latest(hole_at(1)).tolist() == [[0.5, 0.5]], "gone"


@pytest.mark.parametrize("before", [0, 1], ids=["it has appeared", "it has gone"])
def test_after_the_horizon_the_weights_are_those_of_experts_that_were_always_there(before: int) -> None:
    """In particular, an expert that has gone leaves no trace, not even on the last bit."""
    random, since = np.random.default_rng(3), 70
    changed, always = ModelScores(1), ModelScores(1)
    for step in range(since + HORIZON + 20):
        model, line, form = random.normal(size=3)
        cells = answers([step], [model], [line])
        both = cells, with_form(cells, [form])
        changed.walk(Predictions.none(), both[before if step < since else 1 - before], np.zeros(1))
        always.walk(Predictions.none(), both[1 - before], np.zeros(1))
        if step >= since + HORIZON:
            assert np.array_equal(changed.weights(step + 1).table(), always.weights(step + 1).table())


def records(steps: int, *, groups: int = 3, lone: float = 0.0) -> list[Record]:
    """Four sensors that move together, by about 100 per step; with `lone`, the first one has this constant value."""
    rng = np.random.default_rng(5)
    out = []
    for step in range(steps):
        for group in range(groups):
            common = 100.0 * rng.standard_normal()
            for sensor in range(4):
                silent = step > 40 and (step + 3 * group) % 7 < 2 and sensor == group % 4
                if not silent:
                    value = lone if lone and sensor == 0 else 1000.0 * sensor + common
                    out.append(
                        json_record(len(out), group=f"g{group}", sensor=f"s{sensor}", ts=step * 1000, value=value)
                    )
    return out


async def rows_of(imputer: WindowImputer, share: float, topic: list[Record], **options: object) -> Rows:
    """All rows that one partition emits."""
    contracts = {"m": contract(4, window=12, **options)} if options else {}
    pipeline = Pipeline(RULES, contracts, imputer, score_share=share)
    windows, scores = pipeline.windows(), pipeline.scores()
    parts = []
    for start in range(0, len(topic), 50):
        applied = pipeline.apply(windows, topic[start : start + 50], now_ms=NOW_MS)
        parts += [rows for _, rows in pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes))]
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__))


async def test_each_sensor_is_filled_by_the_method_with_the_smaller_error() -> None:
    rows = await rows_of(Neighbours(), 1.0, records(300, lone=7.0))
    late = (rows.ts_ms > 150_000) & ~rows.observed
    together, alone = late & (rows.sensor > 0), late & (rows.sensor == 0)
    methods = {METHODS[method] for method in rows.method[late].tolist()}
    assert methods == {"model", "last_value", "interpolation"}
    assert np.abs(rows.value[alone] - 7.0).max() == 0, "the constant sensor keeps its last value"
    by_model = (await rows_of(Neighbours(), 0.0, records(300, lone=7.0))).value
    by_line = (await rows_of(Ladder([Interpolation()]), 0.0, records(300, lone=7.0))).value
    assert np.abs(rows.value - by_model)[together].mean() < 0.2 * np.abs(rows.value - by_line)[together].mean()


async def test_with_a_share_of_zero_nothing_is_hidden_or_blended() -> None:
    class Counting(Neighbours):
        imputed_windows = 0

        async def impute(self, windows: Windows) -> Imputed:
            Counting.imputed_windows += len(windows)
            return await super().impute(windows)

    topic = records(100)
    rows = await rows_of(Counting(), 0.0, topic)
    holes, Counting.imputed_windows = Counting.imputed_windows, 0
    await rows_of(Counting(), 1.0, topic)
    assert Counting.imputed_windows > holes + 3 * 80
    assert set(rows.method.tolist()) <= {Method.OBSERVED, Method.MODEL, Method.NONE}


async def test_observed_rows_are_the_same_with_and_without_scores() -> None:
    topic = records(100)
    one, two = await rows_of(Neighbours(), 0.0, topic), await rows_of(Neighbours(), 1.0, topic)
    for name in ("group", "sensor", "ts_ms", "observed", "gap_age", "revision", "final"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert np.array_equal(one.value[one.observed], two.value[one.observed])


async def test_values_of_a_fallback_baseline_are_published_unchanged() -> None:
    topic = records(100)
    one, two = [await rows_of(Ladder([Interpolation()]), share, topic) for share in (0.0, 1.0)]
    for name in ("value", "method"):
        assert np.array_equal(getattr(one, name), getattr(two, name), equal_nan=True)


@pytest.mark.slow  # quicker: a restarted partition in tests/worker/test_partition.py
@given(
    events=st.lists(
        st.tuples(st.integers(0, 70), st.integers(0, 4), st.integers(0, 3), st.integers(-9, 9)), min_size=2
    ),
    spread=st.integers(1, 4),
    late=st.integers(0, 6),
)
@settings(max_examples=15)
def test_a_rebuilt_partition_has_the_same_weights_to_the_bit(
    events: list[tuple[int, int, int, int]], spread: int, late: int
) -> None:
    """For any history before the rebuild, including groups that have sent nothing since."""
    steady = [(step, group, sensor, step % 5) for step in range(0, 70, 2) for group in (0, 3) for sensor in range(4)]
    ordered = sorted(steady + events, key=lambda event: event[0] + (event[2] * late) % 7)
    topic = [
        json_record(offset, group=f"g{group}", sensor=f"s{sensor}", ts=step * spread * 1000, value=value)
        for offset, (step, group, sensor, value) in enumerate(ordered)
    ]
    pipeline = Pipeline(RULES, {}, Neighbours(), score_share=0.5)

    def run(records: list[Record], *, batch: int, again: bool) -> tuple[PartitionWindows, Scores]:
        windows, scores, probes = pipeline.windows(), pipeline.scores(), list[Probes]()
        for start in range(0, len(records), batch):
            applied = pipeline.apply(windows, records[start : start + batch], now_ms=NOW_MS)
            probes += applied.probes
            if not again:
                pipeline.settle(scores, asyncio.run(pipeline.query(applied.closed, applied.probes)))
        if again:
            pipeline.settle(scores, asyncio.run(pipeline.query([], newest_steps(probes, HORIZON))), again=True)
        return windows, scores

    windows, live = run(topic, batch=31, again=False)
    _, rebuilt = run(topic[windows.rebuild_from(len(topic)) :], batch=50, again=True)
    step = max(event[0] for event in ordered) * spread
    assert np.array_equal(live.models[0].weights(step).table(), rebuilt.models[0].weights(step).table())


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"model": "m", **labels}) or 0.0


async def test_errors_and_intervals_are_counted_for_the_accuracy_metrics() -> None:
    quantiles = {
        "gap_ages": [1],
        "newest_lower": [[-1e6]] * 4, "newest_upper": [[1e6]] * 4,
        "interior_lower": [[-1e-6]] * 4, "interior_upper": [[1e-6]] * 4,
    }  # fmt: skip
    key = {"sensor": "s2", "position": "edge"}

    def counted() -> np.ndarray:
        errors = [sample("glaim_score_error_total", method=method, **key) for method in ("model", "baseline", "blend")]
        shares = [
            sample(f"glaim_score_intervals{which}_total", position=position)
            for which in ("", "_holding")
            for position in ("edge", "interior")
        ]
        return np.array([*errors, sample("glaim_score_questions_total", method="model", **key), *shares])

    before = counted()
    rows = await rows_of(Neighbours(), 1.0, records(200), residual_quantiles=quantiles)
    model, baseline, mixed, questions, edges, insides, edges_hold, insides_hold = counted() - before
    assert questions > 20
    assert model / questions < 40 < baseline / questions
    assert mixed < 0.6 * baseline
    assert edges == edges_hold > 20, "intervals of a million on each side hold the truth"
    assert insides_hold < 0.1 * insides, "intervals of a millionth hardly ever do"
    filled = rows.method == Method.MODEL
    assert filled.any()
    assert np.isfinite(rows.lower[filled]).all()


def test_a_blend_without_values_is_nan() -> None:
    assert np.isnan(blend(np.array([np.nan, np.nan]), np.array([0.5, 0.5])))


def test_an_upgrade_uses_the_weights_of_the_step_after_the_newest_one() -> None:
    """An error of step 0 counts up to step HORIZON - 1."""
    scores = ModelScores(1)
    scores.walk(Predictions.none(), answers([0], [1.0], [3.0]), np.array([1.0]))
    scores.walk(answers([HORIZON - 3, HORIZON - 2], [0.0] * 2, [0.0] * 2), Predictions.none(), np.empty(0))
    assert latest_share(scores, hole_at(1)) == 1.0
    scores.walk(answers([HORIZON - 2, HORIZON - 1], [0.0] * 2, [0.0] * 2), Predictions.none(), np.empty(0))
    assert latest_share(scores, hole_at(1)) == 0.5


def test_the_errors_of_the_next_step_are_not_known_yet() -> None:
    """
    step                     5     6
    error of the model       0    10
    error of the baseline    2     0
    """
    scores = ModelScores(1)
    probes = answers([5, 6], [0.0, 10.0], [2.0, 0.0])
    of_hole, of_probe = scores.walk(hole_at(6), probes, np.array([0.0, 0.0]))
    assert (of_hole[:, 0].tolist(), of_probe[:, 0].tolist()) == ([1.0], [0.5, 1.0])


def test_no_answers_are_columns_without_a_row() -> None:
    columns = [getattr(Predictions.none(), name) for name in Predictions.__slots__]
    assert {len(each) for each in columns if each is not None} == {0}
