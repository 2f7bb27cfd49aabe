"""The outages of a series are found, and only those."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data.outages import FULLEST, Outages


@given(seed=st.integers(0, 10_000), gaps=st.floats(0, 0.9))
@settings(max_examples=40, deadline=None)
def test_every_template_is_a_window_of_the_data(seed: int, gaps: float) -> None:
    rng = np.random.default_rng(seed)
    known = np.repeat(rng.random((2, 3, 20)) >= gaps, 3, axis=2)
    outages = Outages.harvest(known, 12)
    windows = {known[g, :, r : r + 12].tobytes() for g in range(2) for r in range(49)}
    lost = ~known & known.any(axis=2, keepdims=True)
    for template in outages.templates:
        assert 0 < template.mean() <= FULLEST
        if np.array_equal(lost, ~known):
            assert (~template).tobytes() in windows


def test_a_set_counts_once_per_outage_whatever_its_length() -> None:
    known = np.ones((1, 4, 300), np.bool_)
    known[0, :2, 10:200] = False  # long
    known[0, 2:, 220:221] = False  # short
    known[0, 3, 250:260] = False  # alone: no set
    known[0, :, 280] = False  # the whole group: no set either
    sets = Outages.harvest(known, 24).sets
    assert sets.tolist() == [[True, True, False, False], [False, False, True, True]]


def test_a_sensor_that_a_group_lacks_is_not_an_outage() -> None:
    known = np.ones((2, 3, 100), np.bool_)
    known[0, 1] = False
    outages = Outages.harvest(known, 24)
    assert outages.templates.shape == (0, 3, 24)
    assert outages.sets.shape == (0, 3)


def test_many_outages_are_thinned_evenly() -> None:
    known = np.random.default_rng(0).random((1, 3, 2000)) >= 0.02
    outages = Outages.harvest(known, 24, most=50)
    assert 0 < len(outages.templates) <= 50
    assert np.array_equal(outages.templates, Outages.harvest(known, 24, most=50).templates)
