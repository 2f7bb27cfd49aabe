"""Rows of the kept result pages, measured again on this tree: a page that an older tree wrote is found here."""

from pathlib import Path

import pytest

from benchmarks.edge.__main__ import main as edge
from benchmarks.edge.table import IDENTITY as OF_EDGE
from benchmarks.paper import lines
from benchmarks.paper.__main__ import main as paper
from benchmarks.paper.simple.table import IDENTITY as OF_SIMPLE
from deploy.cache import CHECKOUT
from glaim_stream.feed import plant
from tests.data_sets import DATA_SETS

pytestmark = pytest.mark.slow  # it fits whole data sets; quicker: the tests of the pages, beside this one

KEPT = CHECKOUT / "benchmarks"
# Machines differ in the last digits of a fit, and those may tip a choice between two constants of nearly equal error.
SAME = 0.005

needs_illness = pytest.mark.skipif(
    not (DATA_SETS / "national_illness.csv").is_file(),
    reason="no national_illness.csv in the folder that GLAIM_DATA names",
)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data sets of the paper, also where GLAIM_DATA is not set."""
    monkeypatch.setenv("GLAIM_DATA", str(DATA_SETS))


def require_same(again: Path, kept: Path, identity: tuple[str, ...]) -> None:
    """Compare the errors of every new line with those of the kept line of the same identity."""
    stated = {lines.identity(line, identity): line for line in lines.read(kept)}
    found = lines.read(again)
    assert found
    for line in found:
        key = lines.identity(line, identity)
        for metric in ("mse", "mae"):
            assert line[metric] == pytest.approx(stated[key][metric], rel=SAME), (kept.name, metric, key)


@needs_illness
def test_a_cell_of_the_closed_form_holds(data: None, tmp_path: Path) -> None:
    again = tmp_path / "paper.jsonl"
    assert paper(["closed-form", "--only", "Illness/block/0.3", "--draws", "1", "--results", str(again)]) == 0
    require_same(again, KEPT / "paper/results/paper.jsonl", lines.IDENTITY)


@needs_illness
def test_a_cell_of_the_simple_methods_holds(data: None, tmp_path: Path) -> None:
    assert paper(["simple", "--only", "Illness/random/0.5", "--results", str(tmp_path)]) == 0
    require_same(tmp_path / "simple.jsonl", KEPT / "paper/results/simple.jsonl", OF_SIMPLE)


@needs_illness
def test_the_newest_steps_of_a_closed_form_hold(data: None, tmp_path: Path) -> None:
    assert edge(["--form", "Illness", "--results", str(tmp_path)]) == 0
    require_same(tmp_path / "edge.jsonl", KEPT / "edge/results/edge.jsonl", OF_EDGE)


def test_the_newest_steps_of_the_shipped_plant_hold(tmp_path: Path) -> None:
    rows = tmp_path / "plant.parquet"
    plant.main(["--out", str(rows), "--days", "21", "--seed", "1"])
    served = ["--served", str(CHECKOUT / "model_repo" / "plant-pump"), "--data", str(rows)]
    assert edge([*served, "--windows", "100", "--groups", "3", "--results", str(tmp_path)]) == 0
    require_same(tmp_path / "edge.jsonl", KEPT / "edge/results/edge.jsonl", OF_EDGE)
