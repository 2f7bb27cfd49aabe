"""The scores of the test part, and the intervals from measured errors."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glaim_stream.form import fit as fit_series
from glaim_stream.form import interpolation, last_value
from training.checkpoint import Checkpoint
from training.config import build
from training.data import Floats, Scale, WindowSet, fit_scale, load, split
from training.evaluate import (
    BASELINES,
    CASES,
    ErrorTally,
    evaluate,
    evaluate_run,
    losing_sensors,
    shortfalls,
    winners,
    with_fallback,
)
from training.network import build_network

SCALE = Scale(np.array([5.0, 0.0]), np.array([2.0, 10.0]), np.zeros(2), np.ones(2))


def series(seed: int = 0, rows: int = 400) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2, 2, rows)).cumsum(axis=-1).astype(np.float32) / 5


def test_errors_are_averaged_over_hidden_cells_and_given_in_units() -> None:
    tally = ErrorTally(2)
    truth = np.zeros((1, 2, 3), np.float32)
    filled = np.array([[[1, 9, 9], [2, 3, 9]]], np.float32)
    hidden = np.array([[[True, False, False], [True, True, False]]])
    tally.add(filled, truth, hidden)
    summary = tally.summary(["a", "b"], SCALE.std)
    assert summary["mse"] == pytest.approx((1 + 4 + 9) / 3)
    assert summary["mae"] == pytest.approx(2.0)
    assert summary["sensors"]["a"]["mae_unit"] == pytest.approx(2.0)
    assert summary["sensors"]["b"]["mse_unit"] == pytest.approx(6.5 * 100)


def test_a_perfect_method_scores_zero_and_all_methods_fill_the_same_cells() -> None:
    values = series()
    windows = WindowSet(values, 24)
    truth = iter([windows.take(windows.spread(40)) for _ in CASES])
    fills = {"perfect": lambda v, o: next(truth), "mean": lambda v, o: np.where(o, v, np.float32(0))}
    report = evaluate(windows, fills, ["a", "b"], SCALE, most=40, seed=1)
    for case in report.values():
        assert case["methods"]["perfect"]["mae"] == 0
        assert case["methods"]["mean"]["mae"] > 0
        assert case["cells"] == sum(row["cells"] for row in case["methods"]["mean"]["sensors"].values())
    assert report["edge_one"]["cells"] == 40
    assert report["edge_all"]["cells"] == 80


def tallied(errors: Floats) -> ErrorTally:
    """A tally of windows with one hidden cell each."""
    tally = ErrorTally(1)
    cells = errors.reshape(-1, 1, 1)
    tally.add(cells, np.zeros_like(cells), np.ones(cells.shape, np.bool_))
    return tally


def test_a_method_wins_only_beyond_the_noise_of_the_difference() -> None:
    rng = np.random.default_rng(0)
    hard = np.abs(rng.standard_normal(400)).astype(np.float32)
    base, better = tallied(hard), tallied(hard * np.float32(0.99))
    assert winners({"base": base, "better": better}) == {"mse": "better", "mae": "better"}, "by as much in each window"
    as_good = tallied(rng.permutation(hard) * np.float32(0.99))
    assert winners({"base": base, "as_good": as_good})["mae"] is None
    assert winners({"one": base, "same": base}) == {"mse": None, "mae": None}
    assert winners({"one": tallied(hard[:1]), "other": tallied(hard[:1] * 2)}) == {"mse": None, "mae": None}


def test_errors_of_a_direction_go_the_shorter_way() -> None:
    rng = np.random.default_rng(2)
    level, wind = rng.standard_normal((2, 700)).cumsum(axis=1) * [[0.2], [17.0]]
    rows = np.stack([level, wind % 360.0])[None]
    form = fit_series(
        rows, np.ones(rows.shape, np.bool_), start_ms=0, step_ms=60_000, sensors=["level", "wind"], steps=24
    ).form
    assert form.directions is not None
    scale = Scale(np.array([0.0, 180.0]), np.array([1.0, 100.0]), np.zeros(2), np.ones(2))
    windows = WindowSet(scale.apply(rows.astype(np.float32)), 24)
    cases = evaluate(
        windows, BASELINES, ["level", "wind"], scale, most=200, seed=1, form=form, times_ms=60_000 * np.arange(700)
    )
    plain = evaluate(windows, BASELINES, ["level", "wind"], scale, most=200, seed=1)
    last, as_number = (each["edge_one"]["methods"]["last_value"]["sensors"] for each in (cases, plain))
    assert last["level"] == as_number["level"]
    steps = np.abs(np.diff(wind))
    assert last["wind"]["mae_unit"] == pytest.approx(steps.mean(), rel=0.2)
    assert as_number["wind"]["mae_unit"] > 1.3 * last["wind"]["mae_unit"]


def test_a_valve_has_the_closed_form_s_values_as_it_has_in_a_stream() -> None:
    rng = np.random.default_rng(2)
    level, valve = rng.standard_normal(700).cumsum() / 5, rng.integers(0, 2, 700).astype(np.float64)
    rows = np.stack([level, valve])[None]
    form = fit_series(
        rows, np.ones(rows.shape, np.bool_), start_ms=0, step_ms=60_000, sensors=["level", "valve"], steps=24
    ).form
    scale = Scale(np.zeros(2), np.ones(2), np.zeros(2), np.ones(2))
    windows, nine = WindowSet(rows.astype(np.float32), 24), {"model": lambda v, o: np.where(o, v, np.float32(9))}
    times_ms = 60_000 * np.arange(700)
    for case in evaluate(
        windows, nine, ["level", "valve"], scale, most=40, seed=1, form=form, times_ms=times_ms
    ).values():
        model, gaussian = (case["methods"][name]["sensors"] for name in ("model", "gaussian"))
        assert model["valve"] == gaussian["valve"]
        assert model["level"]["mae"] > 1.5 * gaussian["level"]["mae"]


def test_the_same_seed_hides_the_same_cells() -> None:
    windows = WindowSet(series(), 24)
    fills = {"last_value": with_fallback(last_value)}
    first, second = (evaluate(windows, fills, ["a", "b"], SCALE, most=30, seed=5) for _ in range(2))
    assert first == second


def test_a_baseline_without_any_observation_gives_the_training_mean() -> None:
    observed = np.zeros((1, 1, 4), np.bool_)
    np.testing.assert_array_equal(with_fallback(interpolation)(np.ones((1, 1, 4), np.float32), observed), 0)


def test_shortfalls_are_named() -> None:
    def case(model: float) -> dict[str, object]:
        scores = {"model": model, "interpolation": 0.5, "last_value": 0.7, "mean": 1.0}
        return {"label": "x", "methods": {name: {"mse": score, "mae": score} for name, score in scores.items()}}

    assert shortfalls({"cases": {"x": case(0.4)}}) == []
    found = shortfalls({"cases": {"x": case(0.6)}})
    assert len(found) == 1
    assert "not better than linear interpolation (MSE 0.600 against 0.500" in found[0]


def test_sensors_on_which_a_baseline_is_better_are_listed() -> None:
    def rows(a: float, b: float) -> dict[str, object]:
        return {"sensors": {"a": {"cells": 3, "mae": a}, "b": {"cells": 3, "mae": b}}}

    methods = {"model": rows(0.5, 0.5), "interpolation": rows(0.6, 0.9), "last_value": rows(0.7, 0.4)}
    assert losing_sensors({"methods": methods}) == ["b"]


def checkpoint_of(source: Path, *, averaged_seed: int = 1, weights_seed: int = 2) -> Checkpoint:
    """A checkpoint without a training: random weights, and other random ones as the averaged weights."""
    config = build(
        {
            "name": "tiny",
            "data": {"split": [0.6, 0.2, 0.2]},
            "model": {
                "num_variables": 3, "window": 24, "d_model": 8, "layers": 1, "ffn": 8, "heads": 2, "d_psi": 8, "d_g": 2,
                "large_kernel": 7,
            },
        }
    )  # fmt: skip
    series = load(config.data, source)
    scale = fit_scale(split(series, config.data, config.model.window).train)

    def weights(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        return {name: tensor.clone() for name, tensor in build_network(config.model).state_dict().items()}

    return Checkpoint(
        config=config.to_json(), sensors=list(series.sensors), units=["", "", ""],
        scale={name: getattr(scale, name).tolist() for name in ("mean", "std", "minimum", "maximum")}, step_s=60.0,
        source=source.name, source_sha256=series.sha256, rows=series.rows, epoch=1, weights=weights(weights_seed),
        averaged=weights(averaged_seed), optimiser={}, best_score=1.0, best_epoch=1, history=[], seconds=1.0,
        git_commit="",
    )  # fmt: skip


def with_changed_rows(source: Path, rows: range) -> Path:
    """A copy of a CSV file with other sensor values in these rows."""
    lines = source.read_text().splitlines()
    for row in rows:
        time, *cells = lines[1 + row].split(",")
        lines[1 + row] = ",".join([time, *(f"{3 * (row % 7)}.5" if cell else "" for cell in cells)])
    copy = source.with_name(f"changed-{rows.start}.csv")
    copy.write_text("\n".join(lines) + "\n")
    return copy


def test_only_the_test_part_is_scored(wide_csv: Path) -> None:
    state = checkpoint_of(wide_csv)  # 900 rows: 540 for training, 180 for validation, 180 for scoring
    report = evaluate_run(state, data=wide_csv, most=20)
    before = evaluate_run(state, data=with_changed_rows(wide_csv, range(720)), most=20)
    inside = evaluate_run(state, data=with_changed_rows(wide_csv, range(720, 900)), most=20)
    assert before["cases"] == report["cases"]
    assert inside["cases"] != report["cases"]
    assert report["test"] == {"first": "2026-01-01 12:00", "last": "2026-01-01 14:59", "rows": 180}


def test_the_averaged_weights_of_the_run_are_scored(wide_csv: Path) -> None:
    def scores(averaged_seed: int, weights_seed: int) -> dict[str, float]:
        state = checkpoint_of(wide_csv, averaged_seed=averaged_seed, weights_seed=weights_seed)
        cases = evaluate_run(state, data=wide_csv, most=20)["cases"]
        return {name: case["methods"]["model"]["mse"] for name, case in cases.items()}

    found = scores(1, 2)
    assert found == scores(1, 3)
    assert found != scores(3, 2)
