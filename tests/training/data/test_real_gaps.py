"""Gaps, sentinels and later parts of the data influence neither training nor scores."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data_sets import DATA_SETS
from training.config import RunConfig, read
from training.data.batches import draw
from training.data.masks import FittedMasks, MaskSpec
from training.data.series import DataSpec, Floats, GroupSeries, Scale, fit_scale, split
from training.data.tables import load
from training.data.windows import WindowBatch, WindowSet, fixed_batches, hide
from training.errors import DataError
from training.evaluate import CASES, ErrorTally, evaluate
from training.fit import hidden_loss

ROOT = Path(__file__).parents[3]
WINDOW, SHARES = 24, (0.6, 0.2, 0.2)
SPEC = DataSpec(split=SHARES, sentinels=(-1.0,))
MASKS = MaskSpec("deployment", rates=(0.1, 0.5))


def series_of(values: Floats) -> GroupSeries:
    sensors = tuple(f"s{index}" for index in range(values.shape[1]))
    times = np.arange(values.shape[-1], dtype=np.int64) * 60_000
    return GroupSeries(("g",), sensors, ("",) * len(sensors), times, values, 60.0, "made", "0")


def gappy(rows: int = 400, sensors: int = 4, missing: float = 0.2) -> Floats:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((1, sensors, rows)).cumsum(axis=-1).astype(np.float32)
    values[rng.random(values.shape) < missing] = np.nan
    return values


def training_input(series: GroupSeries, masks: MaskSpec = MASKS) -> tuple[Scale, list[WindowBatch]]:
    """The complete input of a training: the statistics and the batches of one epoch."""
    train = split(series, SPEC, WINDOW).train
    scale = fit_scale(train)
    values = scale.apply(train.values)
    fitted = masks.fitted(np.isfinite(values), WINDOW)
    return scale, epoch(WindowSet(values, WINDOW), fitted)


def epoch(windows: WindowSet, masks: MaskSpec | FittedMasks) -> list[WindowBatch]:
    return [hide(drawn.values, drawn.hidden) for drawn in draw(windows, masks, 16, seed=1, epoch=0)]


def same(first: tuple[Scale, list[WindowBatch]], second: tuple[Scale, list[WindowBatch]]) -> bool:
    scales = all(np.array_equal(getattr(first[0], name), getattr(second[0], name)) for name in vars(first[0]))
    batches = all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(first[1], second[1], strict=True)
        for name in vars(a)
    )
    return scales and batches


@pytest.mark.parametrize("part", [slice(240, 320), slice(320, 400), slice(240, 400)])
@pytest.mark.parametrize("change", [lambda v: v * 0 + 1e6, lambda v: v * np.nan, np.nan_to_num])
def test_no_value_after_the_training_part_changes_the_training_input(
    part: slice, change: Callable[[Floats], Floats]
) -> None:
    values = gappy()
    before = training_input(series_of(values.copy()))
    values[:, :, part] = change(values[:, :, part])
    assert same(before, training_input(series_of(values)))


def test_a_value_of_the_training_part_changes_the_training_input() -> None:
    """Shows that the test above can fail."""
    values = gappy()
    before = training_input(series_of(values.copy()))
    values[0, 0, np.flatnonzero(np.isfinite(values[0, 0]))[7]] += 1
    assert not same(before, training_input(series_of(values)))


def written(path: Path, values: Floats, filler: str) -> Path:
    """Write a CSV of one group with `filler` in every gap."""
    rows = (",".join(filler if np.isnan(cell) else repr(float(cell)) for cell in row) for row in values[0].T)
    head = ",".join(["time", *(f"s{index}" for index in range(values.shape[1]))])
    path.write_text("\n".join([head, *(f"{1_767_225_600_000 + 60_000 * step},{row}" for step, row in enumerate(rows))]))
    return path


def test_the_text_of_a_gap_does_not_matter(tmp_path: Path) -> None:
    """An empty cell, a declared sentinel, NaN and infinity give the same statistics, batches and truths."""
    values = gappy(rows=200, sensors=3)
    fillers = ("", "-1", "NaN", "inf")
    read_back = [load(SPEC, written(tmp_path / f"{index}.csv", values, text)) for index, text in enumerate(fillers)]
    outcomes = [training_input(series) for series in read_back]
    assert all(same(outcomes[0], other) for other in outcomes[1:])
    assert np.isnan(read_back[1].values).sum() == np.isnan(values).sum()


def test_a_number_that_is_not_declared_is_a_reading(tmp_path: Path) -> None:
    """Shows that the test above can fail."""
    values = gappy(rows=200, sensors=3)
    path = written(tmp_path / "a.csv", values, "-1")
    assert not same(*(training_input(load(spec, path)) for spec in (DataSpec(), SPEC)))


@pytest.mark.parametrize("pattern", ["random", "block", "tail_one", "tail_all", "silent", "deployment"])
def test_only_cells_with_a_known_value_are_hidden_and_scored(pattern: str) -> None:
    values = gappy(missing=0.4)
    windows = WindowSet(values, WINDOW, minimum_observed=0.1)
    masks = MaskSpec(pattern).fitted(np.isfinite(values), WINDOW)
    batches = [*epoch(windows, masks), *fixed_batches(windows, masks, 16, 64, "k")]
    assert sum(int(batch.hidden.sum()) for batch in batches) > 0
    chosen = windows.spread(64)
    known = np.isfinite(windows.take(chosen))
    fixed = np.concatenate([batch.hidden for batch in fixed_batches(windows, masks, 16, 64, "k")])
    assert not (fixed & ~known).any()
    for batch in batches:
        assert not (batch.hidden & batch.observed).any()
        unknown = ~(batch.hidden | batch.observed)
        assert (batch.truth[unknown] == 0).all()
        assert (batch.values[~batch.observed] == 0).all()
        assert np.isfinite(batch.truth).all()


def test_the_loss_ignores_outputs_in_cells_without_a_known_value() -> None:
    values = gappy(missing=0.4)
    windows = WindowSet(values, WINDOW, minimum_observed=0.1).take(np.arange(8))
    batch = hide(windows, np.random.default_rng(0).random(windows.shape) < 0.3)
    truth, hidden = torch.from_numpy(batch.truth), torch.from_numpy(batch.hidden)
    filled = torch.zeros_like(truth)
    wild = torch.where(hidden, filled, torch.full_like(filled, 1e9))
    assert torch.equal(hidden_loss(filled, truth, hidden, 0.5, 0.5), hidden_loss(wild, truth, hidden, 0.5, 0.5))
    assert torch.isfinite(hidden_loss(filled, truth, torch.zeros_like(hidden)))


def test_scores_ignore_cells_without_a_known_value() -> None:
    """An error of a million in cells without a known value does not change the score."""
    values = gappy(missing=0.4)
    windows = WindowSet(values, WINDOW, minimum_observed=0.1)
    unit = Scale(np.zeros(4), np.ones(4), -np.ones(4), np.ones(4))
    hidden_cells: list[np.ndarray] = []

    def zero(values: Floats, observed: np.ndarray) -> Floats:
        return np.zeros_like(values)

    plain = evaluate(windows, {"model": zero}, list("abcd"), unit, most=40, seed=1)
    for name, case in plain.items():
        assert np.isfinite(case["methods"]["model"]["mse"]), name
    known = np.isfinite(windows.take(windows.spread(40)))
    for number, case in enumerate(CASES):
        hidden = case.hide(np.random.default_rng([1, number, 0]), 0, known)
        assert not (hidden & ~known).any()
        hidden_cells.append(hidden)
    tally = ErrorTally(4)
    wrong = np.where(known, 0.0, 1e6).astype(np.float32)
    tally.add(wrong, np.zeros_like(wrong), hidden_cells[0])
    assert tally.squared.sum() == 0


def test_a_sensor_without_a_training_value_is_named() -> None:
    values = gappy()
    values[0, 2, :300] = np.nan
    with pytest.raises(DataError, match="training part of made: s2"):
        fit_scale(split(series_of(values), SPEC, WINDOW).train)


REAL = {
    "beijing-air": (132 * 35_064, 72_205),
    "weather": (21 * 52_704, 81 + 9 * 21),  # the sentinels and the missing rows
}


def real(name: str) -> tuple[RunConfig, GroupSeries]:
    folder = "benchmarks/paper" if name == "weather" else "training"
    config = read(ROOT / folder / "configs" / f"{name}.toml")
    path = DATA_SETS / config.data.file
    if not path.is_file():
        pytest.skip(f"no {path.name} in the folder that GLAIM_DATA names")
    return config, load(config.data, path)


@pytest.mark.slow  # quicker: the made gaps, above
@pytest.mark.parametrize("name", REAL)
def test_all_real_gaps_are_recognised(name: str) -> None:
    config, series = real(name)
    cells, missing = REAL[name]
    assert (series.values.size, int(np.isnan(series.values).sum())) == (cells, missing)
    assert np.nanmin(series.values) > -1000  # no -9999 is left
    parts = split(series, config.data, config.model.window)
    scale = fit_scale(parts.train)
    parts.validation.values[:], parts.test.values[:] = 1e9, -1e9
    again = fit_scale(parts.train)
    np.testing.assert_array_equal(scale.mean, again.mean)
    np.testing.assert_array_equal(scale.std, again.std)
    assert np.isfinite(scale.mean).all()
    assert (scale.std > 0).all()


@pytest.mark.slow  # quicker: the made gaps, above
@pytest.mark.parametrize("name", REAL)
def test_real_gaps_are_never_hidden_cells(name: str) -> None:
    config, series = real(name)
    train = split(series, config.data, config.model.window).train
    values = fit_scale(train).apply(train.values[:, :, :2000])
    windows = WindowSet(values, config.model.window, 97, config.train.minimum_observed)
    for batch in fixed_batches(windows, config.masks, 16, 32, "k"):
        assert np.isfinite(batch.truth).all()
        assert batch.hidden.any()
    known = np.isfinite(windows.take(windows.spread(32)))
    hidden = np.concatenate([batch.hidden for batch in fixed_batches(windows, config.masks, 16, 32, "k")])
    assert not (hidden & ~known).any()
