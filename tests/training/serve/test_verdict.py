"""The rule by which the export accepts or rejects a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from training.serve.verdict import compare, judge

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def case(
    model: tuple[float, float], line: tuple[float, float] = (1.0, 1.0), last: tuple[float, float] = (1.0, 1.0),
    cells: int = 100, sensors: dict[str, float] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A case from the (mse, mae) of three methods; `sensors` has the model's MAE per sensor, the baselines' is 1."""
    rows = sensors if sensors is not None else {"a": model[1], "b": model[1]}

    def method(scores: tuple[float, float], mae: dict[str, float]) -> dict[str, Any]:
        rows_by_sensor = {name: {"cells": cells, "mse": scores[0], "mae": value} for name, value in mae.items()}
        return {"mse": scores[0], "mae": scores[1], "sensors": rows_by_sensor}

    even = dict.fromkeys(rows, 1.0)
    methods = {"model": method(model, rows), "interpolation": method(line, even), "last_value": method(last, even)}
    return {"label": "blocks", "cells": cells, "methods": methods}


def report(**cases: dict[str, Any]) -> dict[str, Any]:
    return {"cases": cases}


def test_a_model_that_beats_both_baselines_is_accepted_without_notes() -> None:
    verdict = judge(report(random=case((0.5, 0.5)), edge_one=case((0.9, 0.9))))
    assert verdict.refusals == verdict.notes == ()


def test_losing_one_sensor_in_one_case_is_a_note_that_names_it() -> None:
    verdict = judge(report(random=case((0.5, 0.8), sensors={"a": 0.4, "b": 1.2}), edge_one=case((0.9, 0.9))))
    assert verdict.refusals == ()
    assert verdict.notes == ("blocks: a baseline has the lower MAE for b",)


def test_a_case_lost_beyond_chance_is_a_rejection_with_numbers_and_sensors() -> None:
    bad = case((1.2, 1.1), line=(1.0, 1.4), last=(2.0, 1.0), sensors={"a": 1.6, "b": 0.6})
    verdict = judge(report(random=case((0.1, 0.1)), block=bad))
    assert verdict.refusals == (
        "worse in a case - blocks: MSE 1.200 against 1.000 of interpolation, MAE 1.100 against 1.000 of last value; "
        "behind in MAE for a",
    )


@pytest.mark.parametrize("scores", [(1.04, 1.04), (1.04, 1.5), (1.5, 1.04)])
def test_a_case_lost_by_less_than_chance_is_a_note(scores: tuple[float, float]) -> None:
    verdict = judge(report(random=case((0.5, 0.5)), edge_all=case(scores)))
    assert verdict.refusals == ()
    assert [note.split(" - ")[0] for note in verdict.notes] == ["not better in a case"]


@pytest.mark.parametrize("scores", [(0.9, 1.5), (1.5, 0.9)])
def test_a_model_that_wins_one_of_both_errors_is_accepted(scores: tuple[float, float]) -> None:
    assert judge(report(random=case((0.7, 0.7)), edge_all=case(scores, sensors={"a": 0.9}))).refusals == ()


def test_a_model_that_is_slightly_worse_everywhere_is_rejected() -> None:
    verdict = judge(report(random=case((1.02, 1.02)), block=case((1.01, 1.01)), edge=case((0.99, 0.99))))
    assert len(verdict.refusals) == 1
    assert verdict.refusals[0].startswith("worse on the whole - MSE 1.01 times the better baseline's, MAE 1.01 times")


def test_each_error_is_compared_with_the_better_baseline() -> None:
    verdict = judge(report(random=case((0.9, 0.9), line=(0.5, 2.0), last=(2.0, 0.5), sensors={"a": 0.9})))
    assert "MSE 0.900 against 0.500 of interpolation, MAE 0.900 against 0.500 of last value" in verdict.refusals[1]


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_rejected(score: float) -> None:
    refusals = judge(report(random=case((score, score)), block=case((0.1, 0.1)))).refusals
    assert any("worse in a case" in line for line in refusals)


def test_a_report_without_a_hidden_cell_is_rejected() -> None:
    for empty in ({}, report(), report(random=case((0.0, 0.0), cells=0))):
        assert judge(empty).refusals == (
            "the evaluation scored no hidden cell, so nothing shows that the model is of use",
        )


def test_a_case_without_cells_is_skipped() -> None:
    assert judge(report(random=case((0.5, 0.5)), block=case((0.0, 0.0), (0.0, 0.0), (0.0, 0.0), cells=0))) == judge(
        report(random=case((0.5, 0.5)))
    )


def test_an_error_below_a_thousandth_of_a_deviation_is_ignored() -> None:
    near = case((4e-8, 2e-5), (0.0, 0.0), (0.0, 0.0), sensors={"a": 2e-5})
    assert judge(report(random=near, block=case((0.5, 0.5)))).refusals == ()
    assert judge(report(random=case((0.5, 0.5), (0.0, 0.0), (0.0, 0.0)))).refusals != ()


def test_a_single_sensor_is_not_judged_by_the_silent_case() -> None:
    alone = case((3.0, 3.0), sensors={"a": 3.0})
    assert judge(report(random=case((0.5, 0.5), sensors={"a": 0.5}), silent_one=alone)).refusals == ()
    two = case((3.0, 3.0))
    assert judge(report(random=case((0.5, 0.5)), silent_one=two)).refusals != ()


def test_the_shipped_models_pass_with_their_known_weaknesses_as_notes() -> None:
    plant, beijing = (
        judge(json.loads((RESULTS / f"{name}.json").read_text())) for name in ("plant-pump", "beijing-air")
    )
    assert plant.refusals == plant.notes == beijing.refusals == ()
    assert any("newest step, whole group" in note for note in beijing.notes)


def brief(model: float, line: float = 0.5) -> dict[str, Any]:
    scores = {"model": model, "interpolation": line, "last_value": 0.6}
    return {method: {"mse": score, "mae": score} for method, score in scores.items()}


def test_an_earlier_model_is_compared_on_the_same_cells_only() -> None:
    assert compare({"edge": brief(0.1)}, {"edge": brief(0.2)}) == [
        "edge: MSE 0.100 against 0.200 now, MAE 0.100 against 0.200 now"
    ]
    assert compare({"edge": brief(0.2)}, {"edge": brief(0.1)}) == []
    assert (
        compare({"edge": brief(0.1)}, {"edge": brief(0.2, line=0.501)}) == []
    )  # other cells, since the baseline's score differs
    assert compare({"other": brief(0.1)}, {"edge": brief(0.2)}) == []
    assert compare({"edge": {"model": {"mse": 0.1, "mae": 0.1}}}, {"edge": brief(0.2)}) == []


def test_when_all_of_many_sensors_lose_only_their_number_is_stated() -> None:
    many = case((1.2, 1.2), sensors={f"s{index}": 1.2 for index in range(29)})
    assert judge(report(random=many)).refusals[1].endswith("; behind in MAE for all 29 sensors")
