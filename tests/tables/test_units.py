"""Groups that have the same sensor in different units."""

import numpy as np
import pandas as pd
import pytest

from glaim_stream import Imputer
from glaim_stream.core.errors import ModelError
from glaim_stream.core.vocabulary import Method
from glaim_stream.form import Kind
from glaim_stream.tables import saved
from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.groups import Group, Result
from glaim_stream.tables.units import common_units, units_of

NAMES = ["x", "y"]


def resting(steps: int, rest: float, rng: np.random.Generator) -> np.ndarray:
    """A series [N] of deviation 1 that keeps a share of each value in the next."""
    out = rng.normal(size=steps)
    for step in range(1, steps):
        out[step] = rest * out[step - 1] + np.sqrt(1.0 - rest**2) * out[step]
    return out


def with_holes(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(values.shape) < 0.08, np.nan, values)


def filled(*series: np.ndarray) -> Result:
    groups = [Group(str(number), 60_000 * np.arange(values.shape[1]), values) for number, values in enumerate(series)]
    return fill_groups(groups, sensors=NAMES)


def apart(unit: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two groups of slow sensors that line and last value fill best, the second in another unit; and the truth."""
    rng = np.random.default_rng(1)
    truth = [np.stack([20 + resting(2000, 0.99, rng), 50 + 2 * resting(2000, 0.995, rng)]) for _ in range(2)]
    truth[1] *= unit
    return [with_holes(each, rng) for each in truth], truth


def test_bands_of_interpolation_have_the_unit_of_their_group():
    values, truth = apart(100.0)
    result = filled(*values)
    assert set(result.chosen.values()) == {"interpolation"}
    for group, hole, true in zip(result.groups, map(np.isnan, values), truth, strict=True):
        held = (group.lower <= true) & (true <= group.upper)
        assert 0.8 < held[hole].mean() < 0.97
    widths = [(each.upper - each.lower)[0][np.isnan(mine[0])] for each, mine in zip(result.groups, values, strict=True)]
    assert np.median(widths[1]) / np.median(widths[0]) == pytest.approx(100.0, rel=0.1)


def test_a_few_rows_in_another_unit_choose_their_own_method_and_not_that_of_thousands():
    for seed in range(2, 6):
        rng = np.random.default_rng(seed)
        wave = resting(4000, 0.95, rng)
        noise = rng.normal(size=(2, 4000))
        large = with_holes(np.stack([20 + 3 * wave + 0.6 * noise[0], 50 + 5 * wave + noise[1]]), rng)
        small = np.stack([2000 + 300 * resting(200, 0.999, rng), 5000 + 500 * resting(200, 0.999, rng)])
        assert filled(large).chosen == {"x": "gaussian", "y": "gaussian"}
        values = with_holes(small, rng)
        result = filled(large, values)
        assert result.chosen == {"x": "gaussian", "y": "gaussian"}
        assert (result.groups[0].method[np.isnan(large)] == Method.GAUSSIAN).all()
        assert (result.groups[1].method[:, 20:-20][np.isnan(values[:, 20:-20])] == Method.INTERPOLATION).all()


def test_groups_that_move_alike_have_units_of_one():
    values, _ = apart(3.0)
    kinds = (Kind.NUMBER, None)
    common = common_units(values, kinds)
    assert np.isnan(common).all()
    assert units_of(values[1], kinds, common).tolist() == [1.0, 1.0]
    assert np.isnan(common_units(values[:1], kinds)).all()
    assert np.isnan(common_units([], kinds)).all()


def test_a_group_that_shows_no_unit_has_the_common_one():
    values, _ = apart(100.0)
    still = np.ones((2, 500))
    kinds = (Kind.NUMBER, Kind.NUMBER)
    common = common_units([*values, still, still[:, :5]], kinds)
    own = [units_of(each, kinds, common) for each in values]
    np.testing.assert_allclose(common, np.sqrt(own[0] * own[1]))
    assert units_of(still, kinds, common).tolist() == common.tolist()
    assert units_of(still[:, :5], kinds, common).tolist() == common.tolist()


def test_states_and_directions_have_one_unit_and_the_reset_of_a_meter_is_no_move():
    busy, calm = np.arange(400) % 2.0, np.arange(400) // 100 % 2.0
    kinds = (Kind.STATE, Kind.ANGLE)
    assert np.isnan(common_units([np.stack([busy] * 2), np.stack([calm] * 2)], kinds)).all()
    meter = np.arange(400.0)
    reset = np.where(meter < 200, meter + 99_800, meter - 200)
    assert np.isnan(common_units([meter[None], reset[None]], (Kind.METER,))).all()


def test_an_imputer_keeps_the_units_and_a_file_without_them_is_refused(tmp_path, monkeypatch):
    values, _ = apart(100.0)
    values[0] = values[0][:, :400] + 5.0 * np.sin(np.arange(400) / 20)  # which the form of the other does not know
    rows = [pd.DataFrame(each.T, columns=NAMES).assign(plant=name) for each, name in zip(values, "ab", strict=True)]
    table = pd.concat(rows, ignore_index=True)
    imputer = Imputer(group="plant").fit(table)
    imputer.save(tmp_path / "imputer.npz")
    again = Imputer.load(tmp_path / "imputer.npz")
    for name in NAMES:
        np.testing.assert_array_equal(again.bands(table)[name].lower, imputer.bands(table)[name].lower)
    assert again._fitted.by_line == imputer._fitted.by_line
    monkeypatch.setattr(saved, "_ARRAYS", [name for name in saved._ARRAYS if name != "common_units"])
    imputer.save(tmp_path / "older.npz")
    monkeypatch.undo()
    with pytest.raises(ModelError, match="saved by an earlier version"):
        saved.read(tmp_path / "older.npz")
