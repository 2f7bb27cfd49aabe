"""The commands of the documents leave a clone clean: what they write by default goes to folders that git ignores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.paper import lines, run
from benchmarks.paper.__main__ import parser as benchmark_parser
from deploy.demo import options

ROOT = Path(__file__).parents[1]
KEPT = (ROOT / "benchmarks" / "paper" / "results", ROOT / "benchmarks" / "edge" / "results")


def is_ignored(path: str | Path) -> bool:
    done = subprocess.run(["git", "check-ignore", "--quiet", path], cwd=ROOT, check=False)
    return done.returncode == 0


def test_default_outputs_are_ignored() -> None:
    defaults = [
        lines.RESULTS / "edge.jsonl",
        benchmark_parser().get_default("results") / lines.NAME,
        run.ROOT / "cell" / "best.pt",
        options.parse([]).out / "report.html",
        Path("build/results/stream.jsonl"),
        Path("build/runs/pumps/report.html"),
        Path("model_repo/pumps/contract.json"),
    ]
    assert [path for path in defaults if not is_ignored(path)] == []


@pytest.mark.parametrize(
    ("command", "page"),
    [
        (["benchmarks.edge", "--page-only"], "edge.md"),
        (["benchmarks.paper", "--table"], "paper.md"),
    ],
)
def test_results_are_written_beside_the_caller_by_default(command: list[str], page: str, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for folder in KEPT for path in folder.iterdir()}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "build" / "results" / page).is_file()
    assert {path: path.stat().st_mtime_ns for folder in KEPT for path in folder.iterdir()} == before


def test_a_folder_or_a_file_takes_the_results(tmp_path: Path) -> None:
    assert lines.file_in(tmp_path, "edge.jsonl") == tmp_path / "edge.jsonl"
    assert lines.file_in(tmp_path / "mine.jsonl", "edge.jsonl") == tmp_path / "mine.jsonl"
