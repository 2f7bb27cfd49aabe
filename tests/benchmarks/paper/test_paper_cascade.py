"""The recipe `cascade`: one training a data set, a line for each cell and draw, and no work lost by a kill."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.paper import cascade, feed, form_means, lines, page, published, score
from benchmarks.paper import pool as pools
from benchmarks.paper.__main__ import main
from benchmarks.paper.datasets import DATASETS, WINDOW
from training import checkpoint as checkpoints
from training import closed_form
from training.checkpoint import Checkpoint
from training.data import fit_scale
from training.fit import fit_folds

pytestmark = pytest.mark.slow  # it trains or fits; quicker: test_paper_cells.py, test_paper_page.py, test_blend.py

ROWS = (640, 60, 50)


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the closed forms of all tests, which have the same rows: a fit takes seconds."""
    return tmp_path_factory.mktemp("forms")


@pytest.fixture
def longer(tiny: Path, forms: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny data set with more rows, and a short training."""
    rng = np.random.default_rng(1)
    drive = np.sin(np.arange(sum(ROWS)) / 9) + 0.1 * rng.standard_normal(sum(ROWS))
    cells = np.stack([drive, 2 * drive + 5, rng.standard_normal(sum(ROWS))], axis=1)
    stamps = np.datetime64("2026-01-01T00:00") + np.arange(sum(ROWS))
    rows = [f"{stamp},{a:.4f},{b:.4f},{c:.4f}" for stamp, (a, b, c) in zip(stamps, cells, strict=True)]
    (tiny / "data" / "tiny.csv").write_text("\n".join(["time,a,b,c", *rows]) + "\n")
    monkeypatch.setitem(DATASETS, "Tiny", dataclasses.replace(DATASETS["Tiny"], rows=ROWS))
    original = fit_folds
    monkeypatch.setattr(
        cascade, "fit_folds", lambda train, window, _, *more, **named: original(train, window, forms, *more, **named)
    )
    monkeypatch.setattr(cascade, "FOLDS", 2)
    monkeypatch.setattr(pools, "CHUNK", 8)
    monkeypatch.setattr(feed, "POOL_CHUNKS", 2)
    monkeypatch.setattr(feed, "FRESH_CHUNKS", 1)
    short = dataclasses.replace(
        cascade.TRAIN, iterations=3, batch_size=4, validation_windows=12, warmup=1, checkpoint_minutes=1e-9
    )
    monkeypatch.setattr(cascade, "TRAIN", short)
    return tiny


def run(tiny: Path, *further: str, results: str = "paper.jsonl", runs: str = "runs", only: str = "Tiny/*/0.3") -> None:
    files = ["--results", str(tiny / results), "--runs", str(tiny / runs)]
    assert main(["cascade", "--only", only, "--d-model", "8", "--epochs", "2", *files, *further]) == 0


def lines_of_cells(file: Path) -> list[lines.Line]:
    """Those of the tables of cells, without their places in the table of the shift."""
    return [line for line in lines.read(file) if line["table"] != "shift"]


def test_the_line_of_the_shift_has_the_papers_figure_for_a_training_at_another_rate() -> None:
    cell = {"table": "block", "dataset": "Illness", "pattern": "block", "train_rate": 0.7, "test_rate": 0.7}
    line = form_means.shifted({**cell, "mse": 0.15, "paper_mse": 0.266, "paper_mae": 0.2})
    figure = published.glaim("block", "Illness", 0.7, shifted=True)
    assert figure is not None
    assert (line["table"], line["train_rate"], line["mse"]) == ("shift", 0.3, 0.15)
    assert (line["paper_mse"], line["paper_mae"]) == (figure.mse, figure.mae)
    assert figure.mse != 0.266


def test_one_training_gives_every_cell_and_draw_its_line(longer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(longer, "--draws", "2")
    found = lines.read(longer / "paper.jsonl")
    assert {(line["table"], line["pattern"], line["draw"]) for line in found} == {
        (table, pattern, draw) for pattern in ("block", "random") for table in (pattern, "shift") for draw in (0, 1)
    }
    assert len(found) == 8
    assert [folder.name for folder in (longer / "runs").iterdir() if folder.name.startswith("Tiny-cascade")] == [
        "Tiny-cascade-e2-s2021-d8"
    ]
    line = found[0]
    assert set(line) == {*lines.KEYS, "draw", "digest", "blend", "parts_mse"}
    assert (line["recipe"], line["d_model"], line["epochs"], line["finished"]) == ("cascade-e2", 8, 2, True)
    assert np.sum(list(line["blend"].values()), axis=0) == pytest.approx(1.0, abs=1e-3)
    assert line["mse"] <= sum(line["parts_mse"].values())
    capsys.readouterr()
    before = (longer / "paper.jsonl").read_text()
    lines.put(longer / "paper.jsonl", [{**next(line for line in found if line["table"] == "shift"), "mse": 9.0}])
    run(longer, "--draws", "2")
    assert sorted((longer / "paper.jsonl").read_text().splitlines()) == sorted(before.splitlines())
    assert "draw 0" not in capsys.readouterr().out


def test_the_form_among_the_answers_is_the_recipe_closed_form(longer: Path) -> None:
    run(longer, "--draws", "1", only="Tiny/block/0.3")
    alone = longer / "alone.jsonl"
    assert main(["closed-form", "--only", "Tiny/block/0.3", "--draws", "1", "--results", str(alone)]) == 0
    form = next(line for line in lines.read(alone) if line["table"] == "block")
    line = lines_of_cells(longer / "paper.jsonl")[0]
    assert line["digest"] == form["digest"]
    assert line["parts_mse"]["form"] == pytest.approx(form["mse"], rel=1e-6)
    for name in ("interpolation_mse", "last_value_mae", "windows"):
        assert line[name] == pytest.approx(form[name])


@pytest.mark.parametrize("saves", [3])
def test_a_killed_training_continues_to_the_same_weights_and_lines(longer: Path, saves: int) -> None:
    run(longer, "--draws", "1", only="Tiny/block/0.3")
    original, saved = checkpoints.save, []

    def killed(state: Checkpoint, path: Path) -> None:
        original(state, path)
        saved.append(path)
        if len(saved) == saves:
            raise SystemExit(9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "save", killed)
        with pytest.raises(SystemExit):
            run(longer, "--draws", "1", runs="cut", results="cut.jsonl", only="Tiny/block/0.3")
    assert lines_of_cells(longer / "cut.jsonl") == []
    run(longer, "--draws", "1", runs="cut", results="cut.jsonl", only="Tiny/block/0.3")
    states = [checkpoints.load(longer / runs / "Tiny-cascade-e2-s2021-d8" / "last.pt") for runs in ("runs", "cut")]
    assert all(torch.equal(states[0].averaged[name], states[1].averaged[name]) for name in states[0].averaged)
    both = [lines_of_cells(longer / results)[0] for results in ("paper.jsonl", "cut.jsonl")]
    assert [both[0][name] for name in ("mse", "mae", "blend")] == [both[1][name] for name in ("mse", "mae", "blend")]


def test_validation_counts_no_cell_that_the_form_has_seen(longer: Path) -> None:
    settings = cascade.Run("Tiny", 8, 1).config
    split = score.parts("Tiny", WINDOW)
    form = fit_folds(split.train, WINDOW, longer, lambda _: None, 2, split.validation, only_numbers=True).whole
    scale = fit_scale(split.train)
    batches = feed.validation_batches(settings, split, closed_form.fill_of(form, scale), scale)
    first = batches[0]
    assert batches[-1].hidden[-1].any()
    assert not first.hidden[0][:, : WINDOW - 1].any()  # the first window ends at the first validation row
    assert (~first.observed[0][:, : WINDOW - 1]).any()
    assert np.isfinite(first.values).all()


def test_the_page_has_the_blend_and_its_network(longer: Path) -> None:
    results = longer / "paper.jsonl"
    run(longer, "--draws", "2", only="Tiny/block/0.3")
    renamed = [{**line, "dataset": "Illness", "recipe": "cascade", "paper_mse": 0.093} for line in lines.read(results)]
    results.write_text("".join(json.dumps(line) + "\n" for line in renamed))
    text = page.write(results).read_text()
    block = text.split("## Block missing")[1].split("##")[0]
    row = next(row for row in block.splitlines() if row.startswith("| Illness | 0.3"))
    mean = np.mean([line["mse"] for line in renamed])
    assert f"{mean / 0.093:.2f}" in row
    assert "(2)" in row
    assert f"{np.mean([line['parts_mse']['network'] for line in renamed]):.3f}" in row
