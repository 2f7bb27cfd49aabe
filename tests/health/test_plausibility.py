"""Single readings that stand apart are doubted; shifts, peaks, showers and what neighbours confirm are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from glaim_stream.core.angles import are_circles
from glaim_stream.health.plausibility import Plausibility

Doubles = NDArray[np.float64]
T = 96


def smooth(sensors: int = 3, steps: int = T, *, seed: int = 0) -> Doubles:
    """Sensors [C, T] with a daily swing of 3 and noise of 0.5."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6, sensors)[:, None]
    return 50 + 3 * np.sin(np.arange(steps) / 15 + phase) + rng.normal(0, 0.5, (sensors, steps))


def doubted(window: Doubles, observed: NDArray[np.bool_] | None = None) -> list[tuple[int, int]]:
    """Sensor and step of each cell that is doubted in a window [C, T]."""
    seen = np.ones(window.shape, np.bool_) if observed is None else observed
    found = Plausibility(np.ones(len(window), np.bool_)).doubtful(window[None], seen[None])[0]
    return [(int(sensor), int(step)) for sensor, step in np.argwhere(found)]


@pytest.mark.parametrize("size", [30.0, -60.0, 123_456_789.0, 1e300, -1e308])
@pytest.mark.parametrize("step", [0, 40, T - 1])
def test_a_spike_is_doubted_and_nothing_else(size: float, step: int) -> None:
    window = smooth()
    window[1, step] += size
    assert doubted(window) == [(1, step)]


def test_spikes_of_all_sizes_are_found_beside_each_other() -> None:
    window = smooth()
    for step, size in ((5, 40.0), (20, 4e3), (33, 5e5), (60, -6e7), (95, 50.0)):
        window[0, step] += size
    assert doubted(window) == [(0, 5), (0, 20), (0, 33), (0, 60), (0, 95)]


def test_a_smooth_window_and_a_constant_one_are_believed() -> None:
    assert doubted(np.concatenate([smooth(), np.full((1, T), 7.0)])) == []


def test_a_shift_is_believed_from_its_third_reading_on() -> None:
    for length, expected in ((1, [(0, T - 1)]), (2, [(0, T - 2), (0, T - 1)]), (3, []), (20, [])):
        window = smooth()
        window[0, T - length :] += 80
        assert doubted(window) == expected, length


def test_a_jump_that_another_sensor_confirms_is_believed() -> None:
    window = smooth()
    window[0, -1] += 30
    window[2, -1] -= 25
    assert doubted(window) == []
    window[2, -1] += 1e6  # two wild values confirm nothing
    window[0, -1] += 1e6
    assert doubted(window) == [(0, T - 1), (2, T - 1)]


def test_a_shower_is_believed_once_the_sensor_has_shown_its_habits() -> None:
    rain = np.zeros((1, T))
    rain[0, [10, 11, 40, 41, 42, 70]] = 0.4, 1.5, 0.3, 2.0, 0.9, 0.6
    rain[0, -1] = 3.0
    assert doubted(rain) == []
    rain[0, -1] = 900.0
    assert doubted(rain) == [(0, T - 1)]
    first = np.zeros((1, T))
    first[0, -1] = 3.0  # nothing is known of this sensor but that it was dry
    assert doubted(first) == []


def test_gaps_do_not_separate_a_reading_from_those_beside_it() -> None:
    window, observed = smooth(), np.ones((3, T), np.bool_)
    window[0, 50:] += 80
    observed[0, 40:70] = False
    assert doubted(window, observed) == []
    window[0, 80] = -400
    assert doubted(window, observed) == [(0, 80)]


def test_few_readings_raise_no_doubt() -> None:
    window, observed = smooth(), np.zeros((3, T), np.bool_)
    observed[:, -11:] = True
    window[0, -1] = 1e9
    assert doubted(window, observed) == []
    observed[:, -12:] = True
    assert doubted(window, observed) == [(0, T - 1)]


def test_what_is_not_observed_has_no_part() -> None:
    window, observed = smooth(), np.ones((3, T), np.bool_)
    observed[1, 30] = False
    for filling in (np.nan, np.inf, 1e300):
        window[1, 30] = filling
        assert doubted(window, observed) == []


def test_a_sensor_may_be_exempt() -> None:
    window = smooth()
    window[:2, -1] += 1e6, 3e3
    rule = Plausibility(np.array([False, True, True]))
    assert np.argwhere(rule.doubtful(window[None], np.ones((1, 3, T), np.bool_))[0]).tolist() == [[1, T - 1]]


def test_sound_windows_hold_zero_where_a_reading_is_doubted() -> None:
    window, observed = smooth()[None], np.ones((1, 3, T), np.bool_)
    rule = Plausibility(np.ones(3, np.bool_))
    same = rule.sound(window, observed)
    assert same[0] is window
    assert same[1] is observed
    wild = window.copy()
    wild[0, 1, 4] = 1e7
    values, seen = rule.sound(wild, observed)
    assert wild[0, 1, 4] == 1e7
    assert (values[0, 1, 4], seen[0, 1, 4], seen.sum()) == (0, False, 3 * T - 1)


@pytest.mark.parametrize("unknown", [np.nan, np.inf, 1e30])
def test_windows_of_a_training_are_judged_alike_whatever_stands_where_nothing_was_observed(unknown: float) -> None:
    window, observed = smooth()[None], np.ones((1, 3, T), np.bool_)
    window[0, 1, 40] += 1000
    observed[0, 1, 50:60] = observed[0, 2, 3] = False
    window[~observed] = unknown
    rule = Plausibility(np.ones(3, np.bool_))
    for values in (window, window.astype(np.float32), np.asfortranarray(window)):
        assert np.argwhere(rule.doubtful(values, observed)).tolist() == [[0, 1, 40]]


@given(arrays(np.float64, (4, 2, 20), elements=st.floats(-1e308, 1e308)), arrays(np.bool_, (4, 2, 20)))
@settings(max_examples=60, deadline=None)
def test_a_window_is_judged_alone_and_by_its_observed_cells(values: Doubles, observed: NDArray[np.bool_]) -> None:
    rule = Plausibility(np.ones(2, np.bool_))
    found = rule.doubtful(values, observed)
    assert not (found & ~observed).any()
    for number in range(4):
        np.testing.assert_array_equal(
            rule.doubtful(values[number : number + 1], observed[number : number + 1])[0], found[number]
        )


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6), st.integers(0, 20))
@settings(max_examples=40, deadline=None)
def test_units_do_not_matter(scale: float, shift: float, seed: int) -> None:
    window = smooth(seed=seed)
    window[0, 17] += 70
    window[1, -1] -= 70
    assert doubted(window * scale + shift * scale) == doubted(window) == [(0, 17), (1, T - 1)]


RANGE = np.zeros(1), np.full(1, 72.0)


def beyond(readings: list[float], trained: tuple[Doubles, Doubles] | None = RANGE) -> list[int]:
    """Steps that are doubted in a window of one sensor, whose newest readings these are."""
    window = np.zeros((1, 1, T))
    window[0, 0, T - len(readings) :] = readings
    seen = np.zeros(window.shape, np.bool_)
    seen[0, 0, T - len(readings) :] = True
    rule = Plausibility(np.ones(1, np.bool_), trained)
    return (np.flatnonzero(rule.doubtful(window, seen)[0, 0]) - (T - len(readings))).tolist()


@pytest.mark.parametrize("spike", [7062.0, -423.0, 1e300, -1e308])
def test_a_reading_far_beyond_the_training_is_doubted_however_few_there_are(spike: float) -> None:
    assert beyond([spike]) == [0]
    assert beyond([1.0, spike]) == [1]
    assert beyond([spike, 1.0, 2.0, 0.5]) == [0]
    assert beyond([0.0] * 90 + [spike]) == [90]  # a dry window knows nothing of rain
    assert beyond([1.0, spike], None) == []


def test_readings_within_reach_of_the_training_are_believed() -> None:
    assert beyond([0.0] * 90 + [70.0]) == []
    assert beyond([1.0, 140.0]) == []  # less than one range beyond it
    constant = np.full(1, 5.0), np.full(1, 5.0)
    assert beyond([5.0, 4000.0, 5.0], constant) == []  # the training knew one value only


def test_a_shift_beyond_the_training_is_believed_from_its_third_reading_on() -> None:
    assert beyond([1.0, 2.0, 900.0]) == [2]
    assert beyond([1.0, 2.0, 900.0, 910.0]) == [2, 3]
    assert beyond([1.0, 2.0, 900.0, 910.0, 890.0]) == []


def test_beyond_the_training_only_a_sensor_that_is_as_far_away_confirms() -> None:
    window = np.stack([smooth(1)[0], smooth(1, seed=1)[0]])
    window[:, -1] = 80.0, 58.0  # 40 and 10 deviations away
    seen = np.ones((1, *window.shape), np.bool_)
    rule = Plausibility(np.ones(2, np.bool_), (np.full(2, 45.0), np.full(2, 55.0)))
    assert rule.doubtful(window[None], seen)[0].nonzero()[0].tolist() == [0]
    assert not Plausibility(np.ones(2, np.bool_)).doubtful(window[None], seen).any()
    window[1, -1] = 85.0
    assert not rule.doubtful(window[None], seen).any()


def test_a_direction_stands_apart_by_its_distance_on_the_circle() -> None:
    rng = np.random.default_rng(2)
    window = np.stack([(4.0 + 3.0 * rng.standard_normal(T)) % 360.0, smooth(1)[0]])
    window[0, 40:43] = 5.0, 357.0, 3.0
    window[0, [20, 70]] = 185.0, 5000.0
    seen = np.ones((1, *window.shape), np.bool_)
    wind = np.array([True, False])
    found = Plausibility(np.ones(2, np.bool_), directions=wind).doubtful(window[None], seen)[0]
    assert np.argwhere(found).tolist() == [[0, 20], [0, 70]]
    assert Plausibility(np.ones(2, np.bool_)).doubtful(window[None], seen)[0, 0, 41], "as a number it would be doubted"


@pytest.mark.parametrize("ranged", [False, True])
def test_a_direction_from_minus_180_to_180_stands_apart_by_its_distance_too(ranged: bool) -> None:
    rng = np.random.default_rng(2)
    window = np.stack([(4.0 + 3.0 * rng.standard_normal(T)) % 360.0 - 180.0, smooth(1)[0]])
    window[0, 40:43] = -175.0, 177.0, -177.0
    window[0, [20, 70]] = 5.0, -5000.0
    seen = np.ones((1, *window.shape), np.bool_)
    trained = (np.array([-180.0, 0.0]), np.array([180.0, 100.0])) if ranged else None
    found = Plausibility(np.ones(2, np.bool_), trained, np.array([True, False])).doubtful(window[None], seen)[0]
    assert np.argwhere(found).tolist() == [[0, 20], [0, 70]]


def test_directions_are_known_by_the_range_of_their_readings() -> None:
    least, most = np.array([0.0, 0.2, 0.0, 0.0, -np.inf, -3.0]), np.array([360.0, 359.8, 290.0, 500.0, np.inf, 360.0])
    assert are_circles(least, most).tolist() == [True, True, False, False, False, False]
