import math
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.paper import lines, stability
from benchmarks.paper.__main__ import main
from benchmarks.paper.cells import PaperCell
from training import checkpoint as checkpoints
from training.evaluate import restore
from training.network import GLAIMConfig, build_network

pytestmark = pytest.mark.slow  # it trains or fits; quicker: test_paper_cells.py, test_paper_page.py, test_blend.py


def test_the_aggregate_is_the_mean_over_features_and_its_rows_sum_to_one() -> None:
    model = build_network(GLAIMConfig(3, d_model=8)).eval()
    matrix = stability.aggregated(model)
    assert matrix.shape == (3, 3)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    with torch.no_grad():
        by_hand = sum(model.layers[0].staglo.dependencies(model.tokens)[d] for d in range(8)) / 8
    assert matrix == pytest.approx(by_hand.numpy(), abs=1e-6)


def test_spearman_depends_on_order_only_and_averages_tied_ranks() -> None:
    matrix = np.array([[0.5, 0.2], [0.25, 0.05]])
    assert stability.spearman(matrix, np.exp(5 * matrix)) == pytest.approx(1)
    assert stability.spearman(matrix, -matrix) == pytest.approx(-1)
    # Ranks 4 2 3 1 against 3.5 1.5 3.5 1.5: covariance 1 and 0.5 per pair, computed by hand.
    tied = np.array([[9.0, 1.0], [9.0, 1.0]])
    assert stability.spearman(matrix, tied) == pytest.approx(2 / math.sqrt(5))


def test_jensen_shannon_is_zero_for_equal_and_ln_2_for_disjoint_distributions() -> None:
    one, other = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert stability.jensen_shannon(one, one) == pytest.approx(0)
    assert stability.jensen_shannon(one, other) == pytest.approx(math.log(2))


def test_trained_rates_are_compared_with_each_other_and_with_the_start(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stability, "STABLE", (("Tiny", "random"),))
    where = ["--runs", str(tiny / "runs"), "--results", str(tiny / "paper.jsonl"), "--d-model", "8", "--epochs", "1"]
    for rate in ("0.3", "0.7"):
        assert main([*where, "--only", f"Tiny/random/{rate}"]) == 0
    assert main([*where, "--only", "Tiny", "--tables", "random,stability", "--score-only"]) == 0
    found = lines.read(tiny / stability.FILE)
    assert [(line["one"], line["other"]) for line in found] == [("start", "0.3"), ("start", "0.7"), ("0.3", "0.7")]
    assert all(-1 <= line["spearman"] <= 1 and line["jensen_shannon"] > 0 for line in found)
    assert "| Tiny random | 0.3 | 0.7 |" in (tiny / "paper.md").read_text()

    # The start is the network before training: one epoch with few steps changes it only slightly.
    file = tiny / "runs" / PaperCell("Tiny", "random", 0.3, d_model=8, epochs=1).name / "best.pt"
    state = checkpoints.load(file)
    before, after = stability.start(state), restore(state)[1]
    moved = [(a - b).abs().max() for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert 0 < max(moved) < 0.05
