"""Long series are judged from end to end, by the readings on both sides and by where their readings usually lie."""

import numpy as np
import pytest

from glaim_stream.health.doubtful_series import doubtful_cells
from tests.health.test_plausibility import smooth


@pytest.mark.parametrize("steps", [1, 40, 96, 97, 144, 500])
def test_series_are_judged_from_end_to_end(steps: int) -> None:
    series = smooth(2, steps, seed=3)[None].repeat(2, axis=0)
    observed, judged = np.ones(series.shape, np.bool_), np.ones(2, np.bool_)
    assert not doubtful_cells(series, observed, judged).any()
    spikes = sorted({0, steps - 1} | ({steps // 2} if steps > 40 else set())) if steps >= 12 else []
    for step in spikes:
        series[1, 0, step] = 1e5
    found = np.argwhere(doubtful_cells(series, observed, judged))
    assert found.tolist() == [[1, 0, step] for step in spikes]


def rain(steps: int, rng: np.random.Generator) -> np.ndarray:
    """Showers of a few steps in one step of eight, with a heavy tail."""
    wet = np.repeat(rng.random(steps // 4) < 0.15, 4)
    return np.where(wet, rng.exponential(1.0, steps) ** 1.5, 0.0)


def test_spikes_in_a_dry_stretch_are_found_by_where_readings_usually_lie() -> None:
    rng = np.random.default_rng(4)
    series = rain(4000, rng)[None, None]
    observed, judged = np.ones(series.shape, np.bool_), np.ones(1, np.bool_)
    assert doubtful_cells(series, observed, judged).sum() <= 8, "heavy showers are rain"
    dry = np.flatnonzero(np.convolve(series[0, 0], np.ones(97), "same") == 0.0)
    spikes = rng.choice(dry, 12, replace=False) if len(dry) >= 12 else np.flatnonzero(series[0, 0] == 0.0)[:2400:200]
    series[0, 0, spikes] = rng.choice([-1.0, 1.0], 12) * np.exp(rng.uniform(np.log(300), np.log(1e6), 12))
    found = doubtful_cells(series, observed, judged)[0, 0]
    assert found[spikes].all()
    assert found.sum() <= 12 + 8


def test_groups_are_judged_alone() -> None:
    calm, wild = smooth(2, 500, seed=1), 1e6 * smooth(2, 500, seed=2)
    calm[0, 250] = 5e7  # usual in the other group
    both = np.stack([calm, wild])
    observed, judged = np.ones(both.shape, np.bool_), np.ones(2, np.bool_)
    assert np.argwhere(doubtful_cells(both, observed, judged)).tolist() == [[0, 0, 250]]
    assert np.array_equal(doubtful_cells(both[:1], observed[:1], judged)[0], doubtful_cells(both, observed, judged)[0])


def test_readings_without_a_doubt_asked_for_are_left_alone() -> None:
    series = smooth(2, 300)[None].copy()
    series[0, :, 100] = 1e6
    series[0, 1, 200] = 1e6
    observed = np.ones(series.shape, np.bool_)
    found = doubtful_cells(series, observed, np.array([False, True]))
    assert not found[0, 0].any()
    assert found[0, 1, 200]


def test_spikes_make_no_direction_of_a_wind_speed() -> None:
    rng = np.random.default_rng(3)
    speed = np.abs(2.0 + rng.standard_normal(3000))[None, None]
    observed, judged = np.ones(speed.shape, np.bool_), np.ones(1, np.bool_)
    spikes = np.arange(60, 3000, 130)
    speed[0, 0, spikes] = rng.uniform(20.0, 355.0, len(spikes))
    assert np.flatnonzero(doubtful_cells(speed, observed, judged)).tolist() == spikes.tolist()


def test_wind_from_north_is_no_series_of_spikes() -> None:
    rng = np.random.default_rng(1)
    wind = ((10.0 + 6.0 * rng.standard_normal(3000)) % 360.0)[None, None]
    assert (wind > 180.0).sum() > 100, "without turns through north, this test shows nothing"
    observed, judged = np.ones(wind.shape, np.bool_), np.ones(1, np.bool_)
    assert not doubtful_cells(wind, observed, judged).any()
    wind[0, 0, [500, 1000, 2000]] = 700.0, -40.0, 190.0
    assert np.flatnonzero(doubtful_cells(wind, observed, judged)).tolist() == [500, 1000, 2000]


def test_wind_around_180_is_no_series_of_spikes() -> None:
    rng = np.random.default_rng(1)
    wind = np.cumsum(rng.normal(0, 9, 4000)) % 360.0
    wind[1000:] = (180.0 + 6.0 * rng.standard_normal(3000)) % 360.0
    wind = (wind - 360.0 * (wind > 180.0))[None, None]
    observed, judged = np.ones(wind.shape, np.bool_), np.ones(1, np.bool_)
    assert not doubtful_cells(wind, observed, judged).any()
    wind[0, 0, [1500, 2000, 3000]] = 700.0, -240.0, 0.0
    assert np.flatnonzero(doubtful_cells(wind, observed, judged)).tolist() == [1500, 2000, 3000]
