from pathlib import Path

import pytest

from benchmarks.paper.__main__ import main
from benchmarks.paper.cells import PaperCell
from benchmarks.paper.lines import KEYS, read
from benchmarks.paper.score import HiddenCells, score

pytestmark = pytest.mark.slow  # it trains or fits; quicker: test_paper_cells.py, test_paper_page.py, test_blend.py

REQUIRED = {
    "table", "dataset", "pattern", "train_rate", "test_rate", "variant", "seed", "mse", "mae", "paper_mse", "paper_mae",
    "epochs", "seconds", "machine", "date", "command", "recipe", "d_model", "layers", "large_kernel", "windows",
    "interpolation_mse", "interpolation_mae", "last_value_mse", "last_value_mae",
}  # fmt: skip


def benchmark(folder: Path, *arguments: str) -> int:
    """Run the command on the tiny data set, with one epoch of a tiny network."""
    where = ["--runs", str(folder / "runs"), "--results", str(folder / "paper.jsonl")]
    return main([*where, "--d-model", "8", "--epochs", "1", *arguments])


def test_a_cell_is_trained_scored_stored_and_not_run_again(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "Tiny/block/0.3"]
    assert benchmark(tiny, "--plan", *only) == 0
    assert "Tiny/block/0.3/full  to train" in capsys.readouterr().out
    assert benchmark(tiny, *only) == 0
    lines = read(tiny / "paper.jsonl")
    assert [(line["table"], line["test_rate"]) for line in lines] == [
        ("block", 0.3), ("shift", 0.1), ("shift", 0.3), ("shift", 0.5), ("shift", 0.7),
    ]  # fmt: skip
    first = lines[0]
    assert tuple(first) == KEYS
    assert set(first) >= REQUIRED
    assert (first["windows"], first["epochs"], first["finished"], first["recipe"]) == (49, 1, True, "paper-e1")
    assert first["paper_mse"] is None
    assert 0 < first["interpolation_mse"] < first["last_value_mse"]
    assert first["mse"] == lines[2]["mse"]
    # At a higher rate the gaps are longer, so interpolation must do worse.
    assert lines[1]["interpolation_mse"] < lines[4]["interpolation_mse"]

    capsys.readouterr()
    trained = (tiny / "runs" / PaperCell("Tiny", "block", 0.3, d_model=8, epochs=1).name / "last.pt").stat().st_mtime_ns
    assert benchmark(tiny, *only) == 0
    assert "1 cells, 1 done before" in capsys.readouterr().out
    assert read(tiny / "paper.jsonl") == lines
    assert benchmark(tiny, "--plan", *only) == 0
    assert "1 cells, 1 done" in capsys.readouterr().out

    # Scoring again trains nothing, adds no line, and gives exactly the same numbers.
    assert benchmark(tiny, "--again", *only) == 0
    assert [line["mse"] for line in read(tiny / "paper.jsonl")] == [line["mse"] for line in lines]
    assert next((tiny / "runs").glob("*/last.pt")).stat().st_mtime_ns == trained

    page = tiny / "paper.md"
    before = page.read_text()
    assert f"| Tiny | 0.3 |  | {first['mse']:.3f} / {first['mae']:.3f} |" in before
    page.unlink()
    assert benchmark(tiny, "--table") == 0
    assert page.read_text() == before

    assert benchmark(tiny, "--sampler", "2..3", *only) == 0
    sampler = [line for line in read(tiny / "paper.jsonl") if line["table"] == "sampler"]
    assert [line["segments"] for line in sampler] == [[2, 3]]
    # Fewer segments with the same hidden share make longer gaps, which are harder to interpolate.
    assert sampler[0]["interpolation_mse"] > first["interpolation_mse"]


def test_an_unfinished_cell_is_scored_marked_and_replaced(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "Tiny/random/0.5"]
    assert benchmark(tiny, *only) == 0
    longer = ["--runs", str(tiny / "runs"), "--results", str(tiny / "paper.jsonl"), "--d-model", "8", *only]
    short = tiny / "runs" / PaperCell("Tiny", "random", 0.5, d_model=8, epochs=1).name
    short.rename(tiny / "runs" / PaperCell("Tiny", "random", 0.5, d_model=8).name)
    assert main([*longer, "--score-only"]) == 0
    line = read(tiny / "paper.jsonl")[-1]
    assert (line["recipe"], line["epochs"], line["finished"]) == ("paper", 1, False)
    assert "1 epochs, not finished" in capsys.readouterr().out
    assert " | 1+ | " in (tiny / "paper.md").read_text()
    assert main([*longer, "--plan"]) == 0
    assert "epoch 1 of 300  about" in capsys.readouterr().out
    count = len(read(tiny / "paper.jsonl"))
    assert main([*longer, "--score-only"]) == 0
    assert len(read(tiny / "paper.jsonl")) == count


def test_a_checkpoint_of_another_cell_is_rejected(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark(tiny, "--only", "Tiny/random/0.5") == 0
    runs = tiny / "runs"
    one, other = (PaperCell("Tiny", "random", rate, d_model=8, epochs=1) for rate in (0.5, 0.7))
    (runs / one.name).rename(runs / other.name)
    assert benchmark(tiny, "--only", "Tiny/random/0.7") == 2
    error = capsys.readouterr().err
    assert "was trained otherwise: masks.rates was (0.5, 0.5), is (0.7, 0.7)" in error


def test_the_score_covers_hidden_cells_only_and_every_window(tiny: Path) -> None:
    perfect = score(lambda values, observed: values, HiddenCells("Tiny", "random", 0.5))
    seen: list[int] = []

    def zeros(values, observed):  # type: ignore[no-untyped-def]
        seen.append(len(values))
        assert (values[~observed] == 0).all()
        return values * 0

    # One fill keeps observed cells, the other one overwrites them: the score must be the same.
    assert score(zeros, HiddenCells("Tiny", "random", 0.5)) == perfect
    assert sum(seen) == perfect.windows == 48 + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tables", "blocks"], "expected --tables of random, block"),
        (["--only", "Tiny/tail"], "no cell of the tables random, block, shift, ablation is called Tiny/tail"),
        (["--sampler", "7..2", "--only", "Tiny"], "expected --sampler LOW..HIGH like 2..7, found '7..2'"),
    ],
)
def test_bad_input_is_an_error_message(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert benchmark(tiny, *arguments) == 2
    assert message in capsys.readouterr().err
