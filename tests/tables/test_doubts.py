"""A reading far from those around it stays as it is, and fills nothing."""

import numpy as np
import pandas as pd
import pytest

from glaim_stream import Imputer, impute
from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.groups import Group
from tests.tables.test_fill import group, names, series, with_holes

SPIKE = 123_456_789.0


def spiked() -> tuple[np.ndarray, np.ndarray]:
    """Holes, without and with a spike between two of them."""
    clean = with_holes(series(800))
    clean[1, 398:403] = clean[1, 300], np.nan, clean[1, 301], np.nan, clean[1, 302]
    wrong = clean.copy()
    wrong[1, 400] = SPIKE
    clean[1, 400] = np.nan
    return clean, wrong


def test_one_spike_changes_no_fill_and_no_expected_error():
    clean, wrong = spiked()
    without, result = (fill_groups([group(each)], sensors=names(3)) for each in (clean, wrong))
    found, expected = result.groups[0], without.groups[0]
    assert found.values[1, 400] == SPIKE
    assert np.argwhere(found.doubted).tolist() == [[1, 400]]
    holes = np.isnan(wrong)
    spread = np.nanstd(clean, axis=1)[:, None]
    assert (np.abs(found.values - expected.values)[holes] < (0.05 * spread + 0 * holes)[holes]).all()
    width = [(each.upper - each.lower)[holes].mean() for each in (found, expected)]
    assert width[0] == pytest.approx(width[1], rel=0.1)
    assert result.expected_error["s1"] == pytest.approx(without.expected_error["s1"], rel=0.25)


def test_all_readings_are_used_on_request():
    _, wrong = spiked()
    found = fill_groups([group(wrong)], sensors=names(3), plausibility=False).groups[0]
    assert not found.doubted.any()
    assert found.values[1, 399] > 1e6


def test_spikes_in_one_reading_of_a_hundred_cost_less_than_a_twentieth():
    truth, rng = series(3000, sensors=4), np.random.default_rng(6)
    hidden = rng.random(truth.shape) < 0.08
    known = np.where(hidden, np.nan, truth)
    spikes = (rng.random(truth.shape) < 0.01) & ~hidden
    size = np.exp(rng.uniform(np.log(10), np.log(1e6), truth.shape)) * rng.choice([-1, 1], truth.shape)
    wrong = np.where(spikes, known + size * truth.std(axis=1)[:, None], known)
    error = [
        np.abs(fill_groups([group(each)], sensors=names(4)).groups[0].values - truth)[hidden].mean()
        for each in (known, wrong)
    ]
    assert error[1] < 1.05 * error[0]


def test_a_gap_beside_a_doubted_reading_is_no_longer_than_it_is():
    values = series(400)
    values[0, 200:203] = np.nan
    values[0, 203] = SPIKE
    found = fill_groups([group(values)], sensors=names(3), max_gap=3).groups[0]
    assert found.doubted[0, 203]
    assert np.isfinite(found.values[0, 200:203]).all()


def test_too_few_readings_are_believed():
    values = np.array([[1.0, np.nan, 1e6, np.nan, 1.0]])
    assert not fill_groups([Group("g", 60_000 * np.arange(5), values)], sensors=["a"]).groups[0].doubted.any()


def test_tables_come_back_with_the_reading_and_bands_that_show_the_doubt():
    _, wrong = spiked()
    table = pd.DataFrame(wrong.T, columns=names(3), index=pd.date_range("2026-01-01", periods=800, freq="min"))
    filled = impute(table)
    assert filled["s1"].iloc[400] == SPIKE
    assert filled["s1"].iloc[399] < 1e3
    assert impute(table, plausibility=False)["s1"].iloc[399] > 1e6
    imputer = Imputer().fit(table)
    assert np.flatnonzero(imputer.bands(table)["s1"].doubtful).tolist() == [400]
    later = table.copy()
    later.iloc[120, 2] = -SPIKE
    later.iloc[121, 2] = np.nan
    assert abs(imputer.transform(later)["s2"].iloc[121]) < 1e3
    assert np.flatnonzero(imputer.bands(later)["s2"].doubtful).tolist() == [120]
    assert not Imputer(plausibility=False).fit(table).bands(table)["s1"].doubtful.any()
