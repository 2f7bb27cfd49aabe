"""Repeated draws of the hidden cells: the same share of different cells; the first draw is the tables'."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import draws, lines
from benchmarks.paper.__main__ import main
from benchmarks.paper.masks import window_masks

pytestmark = pytest.mark.slow  # it trains or fits; quicker: test_paper_cells.py, test_paper_page.py, test_blend.py


def test_draws_differ_and_the_first_equals_the_tables_draw() -> None:
    table, first, second = (window_masks("ETTh1", "random", 0.3, 96, 40, 7, draw=draw) for draw in (0, 1, 2))
    np.testing.assert_array_equal(table, window_masks("ETTh1", "random", 0.3, 96, 40, 7))
    for one, other in ((table, first), (first, second)):
        # Two independent draws agree in 0.3^2 + 0.7^2 of the cells; with 26,880 cells the deviation is 0.3 %.
        assert np.mean(one == other) == pytest.approx(0.58, abs=0.015)
        assert other.mean() == pytest.approx(0.3, abs=0.015)


def test_a_trained_cell_is_scored_on_every_draw(tiny: Path) -> None:
    where = ["--runs", str(tiny / "runs"), "--results", str(tiny / "paper.jsonl"), "--d-model", "8", "--epochs", "1"]
    assert main([*where, "--only", "Tiny/random/0.3", "--tables", "random,draws"]) == 0
    found = {line["test_rate"]: line for line in lines.read(tiny / draws.FILE)}
    assert set(found) == {0.1, 0.3, 0.5, 0.7}
    table_scores = {line["test_rate"]: line for line in lines.read(tiny / "paper.jsonl") if line["table"] == "shift"}
    for rate, line in found.items():
        assert len(line["mse"]) == len(set(line["mse"])) == draws.DRAWS
        assert (line["mse"][0], line["mae"][0]) == pytest.approx((table_scores[rate]["mse"], table_scores[rate]["mae"]))
    assert "| Tiny | random | 0.3 | 0.7 |" in (tiny / "paper.md").read_text()
