"""Whether the network has earned its calls: by sensor and block, at most one change in a block, and never for ever."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.blend.worth import BLOCK, FEWEST, RATE, Worth, judged

GAIN = 0.1
SENSORS = np.array([0, 1])


def feed(worth: Worth, steps: range, model: list[float], form: list[float], *, spread: float = 0.3) -> list[list[bool]]:
    """Errors of this size at every step, of alternating sign for the network; the sensors at rest at each step."""
    resting = []
    for step in steps:
        worth.advance(step)
        resting.append(rests(worth, step).tolist())
        random = np.random.default_rng(step)
        sizes = [np.array(each) * random.uniform(1 - spread, 1 + spread, 2) for each in (model, form)]
        worth.learn(step, SENSORS, sizes[0] * random.choice([-1, 1], 2), sizes[1] * random.choice([-1, 1], 2))
    return resting


def rests(worth: Worth, step: int) -> NDArray[np.bool_]:
    return worth.rests(np.full(2, step), SENSORS)


def test_the_network_rests_for_the_sensors_where_it_gained_too_little_in_the_block_before() -> None:
    worth = Worth(2, GAIN)
    resting = feed(worth, range(2 * BLOCK), [0.5, 4.0], [1.0, 1.0])
    assert resting == [[False, False]] * BLOCK + [[False, True]] * BLOCK


def test_a_network_as_good_as_the_closed_form_is_called_where_a_mixture_gains() -> None:
    """Independent errors of the same size: the mean of both answers is better than each."""
    worth = Worth(2, GAIN)
    assert feed(worth, range(BLOCK + 1), [1.0, 1.0], [1.0, 1.0])[-1] == [False, False]
    same = Worth(1, GAIN)
    for step in range(BLOCK):
        same.advance(step)
        same.learn(step, np.zeros(1, np.int64), np.ones(1), np.ones(1))
    same.advance(BLOCK)
    assert same.rests(np.array([BLOCK]), np.array([0])).all(), "the same answers gain nothing"


@pytest.mark.parametrize("better_from", [BLOCK, BLOCK + 1, 2 * BLOCK - 1])
def test_a_version_that_became_better_is_in_use_within_two_blocks(better_from: int) -> None:
    worth = Worth(2, GAIN)
    feed(worth, range(better_from), [5.0, 5.0], [1.0, 1.0])
    later = feed(worth, range(better_from, better_from + 2 * BLOCK), [0.2, 0.2], [1.0, 1.0])
    assert later[0] == [True, True]
    assert later[-1] == [False, False]


def test_a_gain_that_hovers_at_the_threshold_changes_a_decision_at_most_once_in_a_block() -> None:
    worth, random, seen = Worth(1, GAIN), np.random.default_rng(0), list[bool]()
    for step in range(40 * BLOCK):
        worth.advance(step)
        seen.append(bool(worth.rests(np.array([step]), np.array([0]))[0]))
        form = random.normal(size=4)
        worth.learn(step, np.zeros(4, np.int64), form * random.uniform(0.8, 1.02, 4), form)
    changes = np.flatnonzero(np.diff(seen))
    assert len(changes) >= 5, "the gain does hover"
    assert np.diff(changes).min() >= BLOCK


def test_decisions_depend_on_the_errors_of_one_block_only() -> None:
    """A worker that starts in the middle decides the same after two blocks."""
    whole, late = Worth(2, GAIN), Worth(2, GAIN)
    feed(whole, range(BLOCK + 30), [9.0, 0.1], [1.0, 1.0])
    tail = [feed(each, range(BLOCK + 30, 4 * BLOCK), [0.5, 4.0], [1.0, 1.0]) for each in (whole, late)]
    assert tail[0][0] != tail[1][0]
    assert tail[0][2 * BLOCK :] == tail[1][2 * BLOCK :]


def test_only_the_probes_of_judged_steps_count() -> None:
    worth = Worth(1, GAIN)
    assert BLOCK % RATE == 0
    assert sum(bool(judged(step)) for step in range(BLOCK)) == BLOCK // RATE
    for step in range(BLOCK):
        worth.advance(step)
        worth.learn(step, np.zeros(1, np.int64), np.array([0.1 if judged(step) else 9.0]), np.ones(1))
    worth.advance(BLOCK)
    assert not worth.rests(np.array([BLOCK]), np.array([0])).any()


@pytest.mark.parametrize(("probes", "expected"), [(FEWEST - 1, False), (FEWEST, True)])
def test_few_probes_decide_nothing(probes: int, expected: bool) -> None:
    worth = Worth(1, GAIN)
    worth.advance(0)
    worth.learn(0, np.zeros(probes, np.int64), np.full(probes, 5.0), np.ones(probes))
    worth.learn(0, np.zeros(9, np.int64), np.full(9, np.nan), np.ones(9))
    worth.advance(BLOCK)
    assert worth.rests(np.array([BLOCK]), np.array([0])).tolist() == [expected]


def test_a_jump_of_the_level_does_not_decide_for_a_block() -> None:
    worth = Worth(1, GAIN)
    for step in range(0, BLOCK, RATE):
        worth.advance(step)
        jump = 1e6 if step == 50 else 0.0
        worth.learn(step, np.zeros(1, np.int64), np.array([0.2 + jump]), np.array([1.0]))
    worth.advance(BLOCK)
    assert not worth.rests(np.array([BLOCK]), np.array([0])).any()


def test_after_a_block_without_probes_nothing_rests() -> None:
    worth = Worth(2, GAIN)
    feed(worth, range(BLOCK), [5.0, 5.0], [1.0, 1.0])
    worth.advance(BLOCK)
    assert rests(worth, BLOCK).all()
    worth.advance(2 * BLOCK)
    assert not rests(worth, 2 * BLOCK).any()
    feed(worth, range(2 * BLOCK, 3 * BLOCK), [5.0, 5.0], [1.0, 1.0])
    worth.advance(4 * BLOCK)
    assert not rests(worth, 4 * BLOCK).any(), "a whole block is missing"


def test_steps_of_other_blocks_are_not_known_to_rest() -> None:
    worth = Worth(2, GAIN)
    assert not rests(worth, 0).any()
    feed(worth, range(BLOCK + 1), [5.0, 5.0], [1.0, 1.0])
    assert [rests(worth, step).all() for step in (BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK)] == [
        False, True, True, False,
    ]  # fmt: skip
    worth.advance(3)
    assert rests(worth, BLOCK).all(), "an older step changes nothing"
