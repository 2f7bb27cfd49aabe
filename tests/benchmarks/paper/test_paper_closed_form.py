"""The closed form's lines and its column: one fit a data set, every draw of every cell, and no test row seen."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import form_means, lines, score
from benchmarks.paper.__main__ import main
from benchmarks.paper.datasets import DATASETS, WINDOW
from training import closed_form
from training.data import load

pytestmark = pytest.mark.slow  # it trains or fits; quicker: test_paper_cells.py, test_paper_page.py, test_blend.py

ROWS = (420, 60, 50)  # a fit needs more training rows than the networks of the other tests


@pytest.fixture
def longer(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny data set with more rows."""
    rng = np.random.default_rng(1)
    drive = np.sin(np.arange(sum(ROWS)) / 9) + 0.1 * rng.standard_normal(sum(ROWS))
    cells = np.stack([drive, 2 * drive + 5, rng.standard_normal(sum(ROWS))], axis=1)
    stamps = np.datetime64("2026-01-01T00:00") + np.arange(sum(ROWS))
    rows = [f"{stamp},{a:.4f},{b:.4f},{c:.4f}" for stamp, (a, b, c) in zip(stamps, cells, strict=True)]
    (tiny / "data" / "tiny.csv").write_text("\n".join(["time,a,b,c", *rows]) + "\n")
    monkeypatch.setitem(DATASETS, "Tiny", dataclasses.replace(DATASETS["Tiny"], rows=ROWS))
    return tiny


def run(tiny: Path, *further: str) -> list[lines.Line]:
    assert main(["closed-form", "--only", "Tiny/*/0.3", "--results", str(tiny / "paper.jsonl"), *further]) == 0
    return lines.read(tiny / "paper.jsonl")


def test_every_draw_of_a_cell_has_its_lines(longer: Path) -> None:
    found = run(longer, "--draws", "2")
    places = {(line["table"], line["pattern"], line["test_rate"], line["draw"]) for line in found}
    assert len(found) == len(places) == 8
    assert {table for table, *_ in places} == {"block", "random", "shift"}
    assert len({line["digest"] for line in found}) == 1
    assert set(found[0]) == {*lines.KEYS, "draw", "digest", "choices"}
    blocks = [line for line in found if line["table"] == "block"]
    assert blocks[0]["mse"] != blocks[1]["mse"]
    bars = score.baselines(score.HiddenCells("Tiny", "block", 0.3))
    assert blocks[0]["interpolation_mse"] == pytest.approx(bars["interpolation"].mse)
    assert blocks[0]["mse"] < blocks[0]["last_value_mse"]  # two of the three sensors follow each other


def test_the_test_rows_do_not_change_the_closed_form(longer: Path) -> None:
    """Without the test rows in the file, or with others, the digest is the same."""
    parts = score.parts("Tiny", WINDOW)
    whole = closed_form.fit(parts.train, WINDOW, parts.validation).form.digest
    file = longer / "data" / "tiny.csv"
    header, *rows = file.read_text().splitlines()
    first, second, _ = DATASETS["Tiny"].rows
    digests = []
    for text in (
        [*rows[: first + second]],
        [*rows[: first + second], *(row.split(",")[0] + ",77,-5,1000" for row in rows[first + second :])],
    ):
        file.write_text("\n".join([header, *text]) + "\n")
        series = load(DATASETS["Tiny"].spec, file)
        rows = series.part(0, first), series.part(first, first + second)
        digests.append(closed_form.fit(rows[0], WINDOW, rows[1]).form.digest)
    assert digests == [whole, whole]


def test_sentinels_are_missing_in_the_fit_alone(longer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows and scale keep them, as the paper does."""
    file = longer / "data" / "tiny.csv"
    header, *rows = file.read_text().splitlines()
    rows[7] = rows[7].split(",")[0] + ",-9999,1,1"
    file.write_text("\n".join([header, *rows]) + "\n")
    monkeypatch.setitem(DATASETS, "Tiny", dataclasses.replace(DATASETS["Tiny"], sentinels=(-9999.0,)))
    train = score.parts("Tiny", WINDOW).train
    assert train.values[0, 0, 7] == -9999
    without = score.rows_of_form("Tiny", WINDOW).values
    assert np.isnan(without[0, 0, 7])
    assert np.isnan(without).sum() == 1


def test_the_page_shows_the_mean_of_the_draws(longer: Path) -> None:
    found = [line for line in run(longer, "--draws", "2") if line["table"] == "block"]
    mse = sum(line["mse"] for line in found) / 2
    text = (longer / "paper.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith("| Tiny | 0.3 |")]
    assert len(rows) == 2  # of blocks, and of random cells
    assert any(f"| {mse:.3f} / " in row and "(2)" in row for row in rows)


def test_ratios_are_those_of_means_to_the_papers_figures() -> None:
    forms: list[lines.Line] = [
        {
            "recipe": "closed_form",
            "dataset": "Illness",
            "test_rate": rate,
            "draw": draw,
            "mse": mse,
            "mae": 0.1,
            "paper_mse": 0.1,
            "choices": 24,
        }
        for rate, pair in ((0.1, (0.04, 0.06)), (0.3, (0.1, 0.3)))
        for draw, mse in enumerate(pair)
    ]
    cell = form_means.of_cell(forms, "Illness", 0.1)
    assert cell is not None
    assert (cell.ratio, cell.draws) == (pytest.approx(0.5), 2)
    assert form_means.of_rates(forms, "Illness", (0.1, 0.3, 0.5)) is None
    both = form_means.of_rates(forms, "Illness", (0.1, 0.3))
    assert both is not None
    assert both.ratio == pytest.approx(1.25)
    text = form_means.summary(forms)
    assert "1.00 times the paper's MSE, geometric mean of 2 cells; above the paper: Illness 0.3 (2.00)" in text
    assert "Illness 24" in text
