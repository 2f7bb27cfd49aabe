"""The numbers of the report page: gaps, coverage, the verdict and the ranks of the examples."""

import numpy as np
import pytest

from glaim_stream.core.contract import ResidualQuantiles
from glaim_stream.form import interpolation
from training.data import Bools, Floats, GroupSeries, Scale, WindowSet
from training.evaluate import Fill, with_fallback
from training.report.examples import FEWEST, RANKS, examples
from training.report.gaps import WHO, Errors, find_gaps, probe, summary
from training.report.intervals import coverage
from training.report.measure import tidy
from training.report.verdict import verdict

T = 24


def walk(sensors: int = 2, rows: int = 300) -> Floats:
    return np.random.default_rng(1).standard_normal((1, sensors, rows)).cumsum(axis=-1).astype(np.float32) / 4


def zeros(values: Floats, observed: Bools) -> Floats:
    return np.where(observed, values, np.float32(0))


def quantiles(low: float, high: float, sensors: int = 2) -> ResidualQuantiles:
    lower, upper = [[low, 2 * low]] * sensors, [[high, 2 * high]] * sensors
    return ResidualQuantiles(
        gap_ages=[2, T], newest_lower=lower, newest_upper=upper, interior_lower=lower, interior_upper=upper
    )


def test_a_gap_has_a_length_an_age_and_neighbours() -> None:
    gaps = find_gaps(np.array([[0, 1, 0, 0, 1, 0]], np.bool_))
    assert gaps.length[0, [0, 2, 3, 5]].tolist() == [1, 2, 2, 1]
    assert gaps.age[0, [2, 3, 5]].tolist() == [1, 2, 1]
    assert gaps.after_observation[0, [0, 2, 5]].tolist() == [False, True, True]
    assert gaps.before_observation[0, [0, 3, 5]].tolist() == [True, True, False]


def test_errors_cover_the_gap_and_all_methods_fill_the_same_cells() -> None:
    """Zeros imputed into ones have an error of one everywhere; interpolation of a constant is exact."""
    windows = WindowSet(np.ones((1, 2, 200), np.float32), T)
    fills: dict[str, Fill] = {"model": zeros, "interpolation": interpolation}
    found = probe(windows, fills, 2, most=20, seed=0)
    found_summary = summary(found, ["a", "b"], np.array([3.0, 1.0]))
    for who in WHO:
        for place in ("interior", "edge"):
            curve = found_summary["curves"][who][place]
            assert curve["mae"]["model"] == pytest.approx([1.0] * 6)
            assert curve["mae"]["interpolation"] == [0.0] * 6
    assert found_summary["curves"]["one"]["edge"]["cells"][:2] == [20, 40]
    assert found_summary["curves"]["all"]["edge"]["cells"][:2] == [40, 80]
    assert found_summary["sensors"]["a"]["edge"]["mae_unit"]["model"] == pytest.approx(3.0)
    one = found.errors["one"]
    assert one.newest.sum() == 6 * 20  # only the newest step of a gap at the edge is published
    assert one.age[one.newest].max() <= 22


def test_a_gap_adjacent_to_a_real_hole_counts_with_the_joint_length() -> None:
    values = walk()
    values[:, :, 1::2] = np.nan  # every other step is missing in the data
    found = probe(WindowSet(values, T), {"model": zeros}, 2, most=30, seed=0)
    found_summary = summary(found, ["a", "b"], np.ones(2))
    cells = found_summary["curves"]["one"]["interior"]["cells"]
    assert cells[0] == 0
    assert found_summary["curves"]["one"]["interior"]["mae"]["model"][0] is None
    assert cells[2] > 0


def test_coverage_is_the_share_of_errors_inside_the_interval_of_their_age() -> None:
    def errors(values: list[float], ages: list[int], sensor: list[int]) -> Errors:
        return Errors(np.array(values), np.array([True] * len(values)), np.array(ages), np.array(sensor))

    std = np.array(
        [1.0, 10.0]
    )  # quantiles are in sensor units, so the second sensor's are ten times as narrow in deviations
    found = {"several": errors([0.5, 1.5, 1.5, -3.0, 0.05, 0.5], [1, 1, 3, 99, 2, 2], [0, 0, 0, 0, 1, 1])}
    found_summary = coverage(found, quantiles(-1.0, 1.0), std, ["a", "b"])
    edge = found_summary["coverage"]["several"]["edge"]
    assert found_summary["nominal"] == pytest.approx(0.9)
    assert [each["cells"] for each in edge["by_age"]] == [4, 2]
    assert edge["by_age"][0]["inside"] == pytest.approx(2 / 4)
    assert edge["by_age"][1]["inside"] == pytest.approx(1 / 2)
    assert edge["by_sensor"]["b"] == {"cells": 2, "inside": 0.5, "width": pytest.approx(0.2)}
    assert found_summary["coverage"]["several"]["interior"]["inside"] is None


def test_the_interval_of_a_biased_model_is_widened_to_include_the_value() -> None:
    errors = {"one": Errors(np.array([0.0, 0.4]), np.array([False, False]), np.array([1, 1]), np.array([0, 0]))}
    found_summary = coverage(errors, quantiles(0.5, 1.0), np.ones(2), ["a", "b"])
    assert found_summary["coverage"]["one"]["interior"]["inside"] == 1.0
    assert found_summary["coverage"]["one"]["interior"]["width"] == pytest.approx(1.0)


def case(label: str, model: float, rival: float, mean: float = 9.0) -> dict[str, object]:
    scores = {"model": model, "interpolation": rival, "last_value": rival + 0.1, "mean": mean}
    methods = {
        name: {"mae": score, "mse": score, "sensors": {"a": {"cells": 4, "mae": score}, "b": {"cells": 0, "mae": 0.0}}}
        for name, score in scores.items()
    }
    return {"label": label, "cells": 4, "methods": methods}


def test_the_verdict_names_the_cases_won_lost_and_level() -> None:
    found_summary = verdict(
        {"x": case("blocks", 0.5, 1.0), "y": case("newest step", 1.2, 1.0), "z": case("tails", 1.005, 1.0)}
    )
    assert found_summary["sentence"] == (
        "By mean absolute error, the model beats the best baseline in 1 of 3 cases (blocks −50 %), "
        "loses in 1 (newest step +20 %) and is level in 1 (tails 0 %)."
    )
    assert found_summary["cases"]["x"]["sensors"] == {"a": pytest.approx(-0.5), "b": None}


def test_the_verdict_mentions_when_the_squared_error_disagrees() -> None:
    cases = {"x": case("blocks", 0.5, 1.0), "y": case("newest step", 1.2, 1.0)}
    assert "squared" not in verdict(cases)["sentence"]
    cases["y"]["methods"]["model"]["mse"] = 0.8  # type: ignore[index]
    found_summary = verdict(cases)["sentence"]
    assert found_summary.endswith(" By mean squared error it is better in 2 and worse in 0 of 2 cases.")


def test_examples_have_the_stated_ranks_and_sensor_units() -> None:
    values = walk(rows=200)
    scale = Scale(np.array([100.0, 0.0]), np.array([2.0, 1.0]), np.zeros(2), np.ones(2))
    part = GroupSeries(("g",), ("a", "b"), ("bar", ""), np.arange(200) * 60_000, values, 60.0, "x.csv", "0")
    windows = WindowSet(values, T)
    found = examples(windows, zeros, with_fallback(interpolation), part, scale, quantiles(-1, 1), most=50, seed=0)
    errors = [each["mae"] for each in found["blocks"]]
    assert [each["rule"] for each in found["blocks"]] == [rule for rule, _ in RANKS]
    assert errors == sorted(errors)
    assert found["blocks_cases"] == 100
    assert found["edge_cases"] == 50
    for each in [*found["blocks"], *found["edge"], *found["sensors"]]:
        sensor = part.sensors.index(each["sensor"])
        start = each["first_ms"] // 60_000
        truth = values[0, sensor, start : start + T] * scale.std[sensor] + scale.mean[sensor]
        hidden = [(step, value) for step, value in enumerate(each["hidden"]) if value is not None]
        assert len(hidden) == each["hidden_cells"] >= FEWEST
        for step, value in hidden:
            assert value == pytest.approx(truth[step], rel=1e-5)
            assert each["observed"][step] is None
            assert each["model"][step] == pytest.approx(scale.mean[sensor])
    assert [each["hidden"][-1] is not None for each in found["edge"]] == [True] * len(RANKS)


def test_values_are_rounded_and_converted_for_json() -> None:
    kept = tidy({"a": np.float32(0.1), "b": [np.int64(3), float("nan"), True], "c": np.array([1.23456789])})
    assert kept == {"a": 0.1, "b": [3, None, True], "c": [1.23457]}
