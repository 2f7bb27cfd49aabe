"""Cells of filled gaps so far from their sensor's readings that a window of the form may have none of them."""

import numpy as np
import pytest

from glaim_stream.core.vocabulary import Method
from glaim_stream.tables.choice import better_by_line
from glaim_stream.tables.fill import fill_groups
from glaim_stream.tables.groups import FilledGroup, Group

STEPS = 3000
GAP = 45  # steps; at most 48, so it is filled by default
REACH = 16  # steps, half a window


def resting(rest: float, rng: np.random.Generator) -> np.ndarray:
    """A series [N] of deviation 1 that keeps a share of each value in the next."""
    out = rng.normal(size=STEPS)
    for step in range(1, STEPS):
        out[step] = rest * out[step - 1] + np.sqrt(1.0 - rest**2) * out[step]
    return out


def filled(truth: np.ndarray, gap: slice, seed: int, max_gap: int | None = None, silent: int = 1) -> FilledGroup:
    """Two sensors [2, N] with short holes, of which the first ones are silent in a gap."""
    values = np.where(np.random.default_rng(seed).random(truth.shape) < 0.08, np.nan, truth)
    values[:silent, gap] = np.nan
    values[:, gap.start - 1] = truth[:, gap.start - 1]
    group = Group("g", 60_000 * np.arange(STEPS), values)
    return fill_groups([group], sensors=["a", "b"], max_gap=max_gap).groups[0]


@pytest.mark.parametrize(
    ("seed", "length", "max_gap"), [(4, GAP, None), (10, GAP, None), (11, GAP, None), (0, 300, 500), (1, 300, 500)]
)
def test_sensors_that_never_return_keep_their_last_value_at_the_end_of_a_table(seed, length, max_gap):
    rng = np.random.default_rng(seed)
    walk = 0.1 * np.cumsum(resting(0.8, rng))
    truth = np.stack([100 + walk + 0.3 * rng.normal(size=STEPS), 50 + 0.5 * walk + 0.6 * rng.normal(size=STEPS)])
    end = slice(STEPS - length, STEPS)
    found = filled(truth, end, seed, max_gap, silent=2)
    far = slice(end.start + REACH, STEPS)
    assert (found.method[:, end.start] == (Method.LAST_VALUE if max_gap else Method.GAUSSIAN)).all()
    assert (found.method[:, far] == Method.LAST_VALUE).all()
    assert (found.values[:, far] == truth[:, [end.start - 1]]).all()
    assert ((found.lower <= truth) & (truth <= found.upper))[:, far].mean() > 0.8


def test_a_sensor_that_the_others_tell_is_filled_by_the_form_far_from_its_readings_too():
    rng = np.random.default_rng(1)
    wave = resting(0.97, rng)
    truth = np.stack([100 + 3 * wave + 0.3 * rng.normal(size=STEPS), 50 + 2 * wave + 0.2 * rng.normal(size=STEPS)])
    found = filled(truth, slice(STEPS - GAP, STEPS), 1)
    assert (found.method[0, STEPS - GAP :] == Method.GAUSSIAN).all()


def test_a_sensor_that_returns_to_its_mean_gets_it_far_from_its_readings():
    rng = np.random.default_rng(5)
    truth = np.stack([100.0 + resting(0.8, rng) + 0.3 * rng.normal(size=STEPS), 50.0 + resting(0.9, rng)])
    found = filled(truth, slice(STEPS - GAP, STEPS), 5)
    assert (found.method[0, STEPS - GAP + REACH :] == Method.GAUSSIAN).all()
    assert np.abs(found.values[0, STEPS - GAP + REACH :] - 100.0).max() < 1.0


def test_a_meter_climbs_along_the_line_through_a_gap_that_a_stated_longest_gap_includes():
    rng = np.random.default_rng(5)
    flow = np.maximum(10.0 + 4.0 * resting(0.5, rng), 0.0)
    truth = np.stack([1000.0 + np.cumsum(flow), flow + 0.1 * rng.normal(size=STEPS)])
    gap = slice(1000, 1150)
    found = filled(truth, gap, 5, max_gap=200)
    rises = np.diff(found.values[0, gap.start - 1 : gap.stop])
    assert (found.method[0, gap] == Method.INTERPOLATION).all()
    np.testing.assert_allclose(rises, rises[0], rtol=1e-6)


def test_with_too_few_readings_for_a_trial_of_the_line_the_form_keeps_what_others_tell():
    values = np.full((1, 60), 1.0)
    values[0, 20:] = np.nan
    far = np.isnan(values) & (np.arange(60) > 36)
    told = np.arange(60)[None] < 50
    chosen = better_by_line(values, far, np.ones((1, 60)), told)
    assert np.flatnonzero(chosen[0]).tolist() == list(range(50, 60))
