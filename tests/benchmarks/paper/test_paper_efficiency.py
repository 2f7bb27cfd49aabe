from pathlib import Path

import pytest

from benchmarks.paper import efficiency, lines, published


def test_parameters_and_multiplications_match_the_paper() -> None:
    line = efficiency.measure("ETTh1", batch=1, iterations=1)
    printed = published.figures()["efficiency"]["ETTh1"]["GLAIM"]
    assert line["parameters"] / 1e6 == pytest.approx(printed["parameters_m"], abs=0.0005)
    # Folding saves some multiplications; the others are the paper's.
    assert 0.75 < 16 * line["gflops"] / printed["gflops"] <= 1
    assert line["ms_per_iteration"] > 0
    assert line["paper_gflops"] is None  # the paper states figures for batches of 16 only


@pytest.mark.slow  # quicker: the multiplications, above
def test_the_section_shows_our_figures_below_the_papers(tmp_path: Path) -> None:
    assert efficiency.section(tmp_path) == ""
    lines.put(tmp_path / efficiency.FILE, [efficiency.measure("ETTh1", batch=1, iterations=1)], efficiency.IDENTITY)
    text = efficiency.section(tmp_path)
    assert "| ETTh1 | paper, GLAIM | 0.479 | 5.381 | 786.7 | 21.351 |  | RTX 4090 |" in text
    assert "| ETTh1 | ours, cpu | 0.479 |" in text
