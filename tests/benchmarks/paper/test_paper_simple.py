"""Imputers that need no network: each does what it is called, learns from training rows, and has its line."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import lines
from benchmarks.paper.__main__ import main
from benchmarks.paper.cells import PaperCell
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.simple import command, methods, table
from training.data import GroupSeries, fit_scale

pytestmark = pytest.mark.slow  # it trains or fits; quicker: test_paper_cells.py, test_paper_page.py, test_blend.py

HOUR_MS = 3_600_000
ROWS = (420, 60, 50)


def training_of(values: np.ndarray, window: int = 24) -> methods.TrainingRows:
    """Training rows [C, R], one an hour."""
    sensors = tuple(f"s{number}" for number in range(len(values)))
    times_ms = np.arange(values.shape[1], dtype=np.int64) * HOUR_MS
    series = GroupSeries(
        ("g",), sensors, ("",) * len(values), times_ms, values[None].astype(np.float32), 3600.0, "x", ""
    )
    return methods.TrainingRows(series, series, fit_scale(series), window)


def windows_of(training: methods.TrainingRows, count: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """The last windows of the rows, standardised, and the times of their newest steps."""
    rows = training.values
    ends = [rows.shape[1] - 7 * number for number in range(count)]
    values = np.stack([rows[:, end - training.window : end] for end in ends])
    return values, np.array([training.rows.times_ms[end - 1] for end in ends])


@pytest.fixture(scope="module")
def waves() -> methods.TrainingRows:
    """Two sensors that follow each other and the time of the day, and a third of its own."""
    rng = np.random.default_rng(0)
    hours = np.arange(600)
    day = np.sin(2 * np.pi * hours / 24) + 0.05 * rng.normal(size=600)
    return training_of(np.stack([day, 3 * day + 7, np.cumsum(rng.normal(size=600))]))


def errors_of(fill: methods.TimedFill, training: methods.TrainingRows, hidden: np.ndarray) -> float:
    values, end_ms = windows_of(training)
    given = np.where(hidden, 0.0, values).astype(np.float32)
    filled = fill(given, np.broadcast_to(~hidden, values.shape), end_ms)
    assert filled.shape == values.shape
    np.testing.assert_array_equal(filled[~np.broadcast_to(hidden, values.shape)], given[given != 0.0])
    return float(np.square(filled - values)[np.broadcast_to(hidden, values.shape)].mean())


def test_a_profile_knows_the_time_of_the_day(waves: methods.TrainingRows) -> None:
    hidden = np.zeros((3, 24), np.bool_)
    hidden[0, 4:20] = True
    line = methods.FIXED["interpolation"]
    assert errors_of(methods.profile(waves), waves, hidden) < 0.05 * errors_of(line, waves, hidden)


def test_other_sensors_tell_what_follows_them_and_nothing_else(waves: methods.TrainingRows) -> None:
    first, third = np.zeros((3, 24), np.bool_), np.zeros((3, 24), np.bool_)
    first[0] = third[2] = True
    fill = methods.other_sensors(waves.windows(True))
    assert errors_of(fill, waves, first) < 1e-3
    assert errors_of(fill, waves, third) > 0.1
    alone = methods.each_alone(waves)
    assert errors_of(alone, waves, first) > 100 * errors_of(methods.whole_form(waves), waves, first)


def test_the_nearest_windows_are_those_of_the_same_shape(waves: methods.TrainingRows) -> None:
    hidden = np.zeros((3, 24), np.bool_)
    hidden[:2, 6:18] = True
    line = methods.FIXED["interpolation"]
    assert errors_of(methods.nearest_windows(waves.windows(True), 1), waves, hidden) < 0.05 * errors_of(
        line, waves, hidden
    )


def test_low_rank_finds_a_row_that_is_a_multiple_of_another() -> None:
    rng = np.random.default_rng(3)
    pattern = rng.normal(size=24)
    values = (np.array([1.0, -2.0, 0.5])[:, None] * pattern)[None].astype(np.float32)
    observed = np.ones(values.shape, np.bool_)
    observed[0, 0, 5:9] = False
    filled = methods.low_rank(0.1)(np.where(observed, values, 0.0), observed, np.zeros(1, np.int64))
    np.testing.assert_allclose(filled, values, atol=0.1)


def test_chained_regressions_use_the_other_sensors(waves: methods.TrainingRows) -> None:
    rng = np.random.default_rng(1)
    values, _ = windows_of(waves, 40)
    observed = rng.random(values.shape) < 0.7
    known = methods.WindowBatch(np.where(observed, values, 0.0).astype(np.float32), observed, values, ~observed)
    hidden = np.zeros((3, 24), np.bool_)
    hidden[0] = True
    assert errors_of(methods.chained(known), waves, hidden) < 0.05


@pytest.fixture
def longer(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(1)
    drive = np.sin(np.arange(sum(ROWS)) / 9) + 0.1 * rng.standard_normal(sum(ROWS))
    cells = np.stack([drive, 2 * drive + 5, rng.standard_normal(sum(ROWS))], axis=1)
    stamps = np.datetime64("2026-01-01T00:00") + np.arange(sum(ROWS)) * np.timedelta64(1, "h")
    rows = [f"{stamp},{a:.4f},{b:.4f},{c:.4f}" for stamp, (a, b, c) in zip(stamps, cells, strict=True)]
    (tiny / "data" / "tiny.csv").write_text("\n".join(["time,a,b,c", *rows]) + "\n")
    monkeypatch.setitem(DATASETS, "Tiny", dataclasses.replace(DATASETS["Tiny"], rows=ROWS))
    command.training_of.cache_clear()
    command.learned.cache_clear()
    return tiny


def test_every_method_has_a_line_and_a_column(longer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simple", "--only", "Tiny/random/0.3", "--every", "3", "--results", str(longer)]
    assert main(arguments) == 0
    found = lines.read(longer / table.FILE)
    assert [line["method"] for line in found] == list(table.COLUMNS)
    errors = {line["method"]: line["mse"] for line in found}
    assert errors["closed form"] < min(errors["interpolation"], errors["each sensor alone"])
    page = (longer / "paper.md").read_text()
    assert f"| Tiny | random | 0.3 | {errors['interpolation']:.3f} |" in page
    assert "python -m benchmarks.paper simple --only Tiny --every 3" in page
    capsys.readouterr()
    assert main(arguments) == 0  # nothing is scored again
    assert "interpolation" not in capsys.readouterr().out
    assert lines.read(longer / table.FILE) == found


def test_a_method_chooses_its_constant_on_rows_outside_the_training_part(longer: Path) -> None:
    cell = PaperCell("Tiny", "block", 0.5)
    batches = command._validation_batches(cell)
    last_ms = command.training_of("Tiny").rows.times_ms[-1]
    assert sum(len(end_ms) for _, end_ms in batches) > 10
    for batch, end_ms in batches:
        ages = np.arange(batch.hidden.shape[2] - 1, -1, -1) * HOUR_MS
        assert not batch.hidden.transpose(0, 2, 1)[end_ms[:, None] - ages <= last_ms].any()
        assert batch.hidden.any()
    _, chosen = command.method("nearest windows", cell)
    assert chosen is not None
    assert chosen[0] in methods.NEIGHBOURS
