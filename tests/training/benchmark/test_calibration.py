"""The calibration on a data set that follows no paper: its plumbing, its figures' sums, its refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from training.benchmark import calibration, paper
from training.benchmark.calibration import Gaps, Sample, by_sampler, log_error, main, training_moments
from training.benchmark.datasets import DATASETS, HISTORY, WINDOW, Dataset
from training.benchmark.dlinear import data_moments
from training.errors import DataError

SERIES = Dataset("Illness", "tiny.csv", 3, (160, 40, 48), time="time")


@pytest.fixture
def results(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny file under a name for which the paper has figures, few samples of it."""
    monkeypatch.setitem(DATASETS, "Illness", SERIES)
    monkeypatch.setattr(calibration, "TEST_SAMPLE", 300)
    return tiny / "results"


def run(results: Path, *more: str) -> int:
    return main(["--datasets", "Illness", "--hidden", "60", "--results", str(results), *more])


def test_a_run_gives_every_rate_for_each_sampler_and_each_number_of_test_rows(results: Path) -> None:
    assert run(results, "--samplers", "2..6", "3..3", "--test-rows", "Illness=40") == 0
    content = json.loads((results / "calibration.json").read_text())
    cells = content["cells"]
    found = {(c["pattern"], c["rate"], tuple(c["segments"] or ()), c["test_rows"]) for c in cells}
    assert found == {("random", rate, (), rows) for rate in paper.RATES for rows in (48, 40)} | {
        ("block", rate, pair, 48) for rate in paper.RATES for pair in ((2, 6), (3, 3))
    }
    assert len(cells) == len(found)
    # History reaches 96 rows back, so there is a window for each test row and one more.
    assert {c["test_rows"]: c["test_windows"] * c["test_stride"] for c in cells} == {48: 49, 40: 41}
    text = (results / "calibration.md").read_text()
    assert "3 always" in text
    assert "--samplers 2..6 3..3" in text
    printed = next(row for row in paper.full_row("block", "Illness", 0.3) if row.model == "DLinear")
    assert f"{printed.mse:.3f} / {printed.mae:.3f}" in text


def test_the_same_command_gives_the_same_figures_and_another_seed_others(results: Path) -> None:
    def figures(*more: str) -> list[float]:
        assert run(results, "--samplers", "--test-rows", *more) == 0
        return [cell["mse"] for cell in json.loads((results / "calibration.json").read_text())["cells"]]

    first = figures()
    assert figures() == first
    assert figures("--seed", "7") != first


def test_a_sampler_is_as_far_off_as_its_cells_say_and_the_nearest_comes_first() -> None:
    def cell(pair: tuple[int, int], mse: float) -> dict[str, object]:
        common = {"pattern": "block", "dataset": "Illness", "paper_mse": 1.0, "paper_mae": 1.0, "mae": 1.0}
        return {**common, "segments": pair, "mse": mse}

    rows = by_sampler([cell((3, 8), 2.0), cell((3, 8), 0.5), cell((2, 16), 1.1)])
    assert [row["segments"] for row in rows] == [[2, 16], [3, 8]]
    assert rows[1]["log_error_mse"] == pytest.approx(math.log(2))
    assert rows[1]["cells"] == 2
    assert log_error([{"mae": 2.0, "paper_mae": 1.0}], "mae") == pytest.approx(math.log(2))


def test_a_large_part_gives_windows_apart_and_a_small_one_all_of_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((1, 2, WINDOW + 99), np.float32)  # 100 windows of 2 sensors
    monkeypatch.setattr(calibration, "TEST_SAMPLE", 50)
    large = Sample.of(values)
    assert (large.stride, large.draws, len(large.windows)) == (4, 1, 25)
    monkeypatch.setattr(calibration, "TEST_SAMPLE", 1000)
    small = Sample.of(values)
    assert (small.stride, small.draws, len(small.windows)) == (1, 5, 100)
    assert sum(len(batch.values) for batch in small.batches(np.ones((4, WINDOW), np.bool_), 0)) == 500


def test_training_sees_its_own_rows_only_and_the_test_begins_a_window_before_its_own(results: Path) -> None:
    moments, tests = calibration.parts(SERIES, (48,))
    windows = SERIES.rows[0] - WINDOW + 1
    assert moments[-1, -1] == windows * 3  # the constant counts windows times sensors
    assert len(tests[48].windows) == HISTORY + 48 - WINDOW + 1


def test_moments_are_those_of_all_windows_at_once_whatever_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal((1, 2, WINDOW + 20)).astype(np.float32)
    whole = np.lib.stride_tricks.sliding_window_view(values[0], WINDOW, axis=-1).reshape(-1, WINDOW)
    monkeypatch.setattr(calibration, "CHUNK", 4)
    assert training_moments(values) == pytest.approx(data_moments(whole))
    values[0, 1, 30] = np.nan
    with pytest.raises(DataError, match="found 1 without"):
        training_moments(values)


def test_training_and_test_gaps_differ_and_hide_what_the_rate_says() -> None:
    gaps = Gaps.draw("block", 0.3, (2, 6), 60, 0)
    assert gaps.test.shape == (200, WINDOW)
    assert (gaps.test.sum(axis=1) == round(0.3 * WINDOW)).all()
    trained = gaps.train[:, -1, -1]  # how often each step is hidden
    assert trained.sum() == 200 * round(0.3 * WINDOW)
    assert not np.array_equal(trained, gaps.test.sum(axis=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--datasets", "Nowhere"), "found Nowhere"),
        (("--samplers", "16..2"), "found '16..2'"),
        (("--test-rows", "Illness"), "found 'Illness'"),
        (("--hidden", "0"), "found 0"),
        (("--test-rows", "Illness=9999"), "expected 10199 rows"),
        (("--datasets", "PEMS03"), "found none of those asked for"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run(results, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not results.exists()
