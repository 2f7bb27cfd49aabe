"""Runs with several seeds: averages, directories, and parsing of the option."""

import argparse
import statistics
from pathlib import Path
from typing import Any

import pytest

from training.config import RunConfig
from training.fit import seeds


def report(shift: float) -> dict[str, Any]:
    scores = {method: {"mse": 1.0, "mae": 0.5} for method in ("interpolation", "last_value", "mean")}
    return {"cases": {"block": {"label": "blocks", "methods": {**scores, "model": {"mse": 0.1 + shift, "mae": 0.2}}}}}


def test_mean_and_deviation_are_taken_over_the_runs() -> None:
    found = seeds.spread([report(0.0), report(0.1), report(0.5)])["block"]
    runs = [0.1, 0.2, 0.6]
    assert found["model"]["mse"]["runs"] == pytest.approx(runs)
    assert found["model"]["mse"]["mean"] == pytest.approx(0.3)
    assert found["model"]["mse"]["std"] == pytest.approx(statistics.stdev(runs))
    assert found["last_value"]["mse"] == {"mean": 1.0, "std": 0.0, "runs": [1.0, 1.0, 1.0]}
    assert "| blocks | 0.3000 ± 0.2646 | 0.2000 ± 0.0000 | 1.000 / 0.500 |" in seeds.table({"block": found})


def test_each_seed_has_a_separate_directory() -> None:
    runs = seeds.runs(RunConfig(), (1, 7), Path("run"))
    assert {place.name: run.train.seed for place, run in runs.items()} == {"seed-1": 1, "seed-7": 7}


@pytest.mark.parametrize("text", ["2021", "1,1", "1,two", "", "1,-2"])
def test_seeds_must_be_two_or_more_different_numbers(text: str) -> None:
    assert seeds.parse("2021,2022") == (2021, 2022)
    with pytest.raises(argparse.ArgumentTypeError, match="two or more different seeds"):
        seeds.parse(text)
