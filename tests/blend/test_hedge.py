"""The bound on the regret of what is published, on sequences made to break it, in half horizons of 48 steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from glaim_stream.blend.experts import Experts
from glaim_stream.blend.hedge import BLOCK, Hedge, awake_weights, published
from glaim_stream.windows import HORIZON

Doubles = NDArray[np.float64]
Random = np.random.Generator
NAN = float("nan")
BLOCKS = 4
AGES = 3

# (random numbers, step, weights [cells, experts] that will be published if all are awake) -> errors [cells, experts]
Adversary = Callable[[Random, int, Doubles], Doubles]


def bound(experts: int, rounds: int, delay: int = 0) -> float:
    """The bound against an expert as the documentation of `hedge` states it, with its figures."""
    return math.log(100 * experts) / 0.8 + rounds * (0.8 / 8 + 0.02 + delay * 0.8 / 4)


def hit_the_heaviest(random: Random, step: int, weights: Doubles) -> Doubles:
    """The expert with the largest weight errs, the others are exact."""
    errors = np.zeros(weights.shape)
    errors[np.arange(len(weights)), weights.argmax(axis=1)] = 1.0
    return errors


def hit_ever_harder(random: Random, step: int, weights: Doubles) -> Doubles:
    """Likewise, and each error is twice the one before, so that each exceeds the cap."""
    return hit_the_heaviest(random, step, weights) * 2.0 ** (step % BLOCK)


def alternate(random: Random, step: int, weights: Doubles) -> Doubles:
    """Two experts are exact by turns; the first half loss makes the one wrong that was right before."""
    errors = np.ones(weights.shape)
    errors[:, step % 2] = 0.5 if step % BLOCK == 0 else 0.0
    return errors


def jump(random: Random, step: int, weights: Doubles) -> Doubles:
    """Every fifth step is a million times as large, and then the order of the experts is reversed."""
    ranks = np.arange(weights.shape[1]) + 0.1 * random.random(weights.shape)
    return 1e6 * ranks[:, ::-1] if step % 5 == 0 else ranks


def jump_and_hit(random: Random, step: int, weights: Doubles) -> Doubles:
    """The heaviest errs, by any size between a millionth and a million."""
    return hit_the_heaviest(random, step, weights) * 10.0 ** random.integers(-6, 7)


def sleep_when_good(random: Random, step: int, weights: Doubles) -> Doubles:
    """Each expert sleeps for 4 of 12 steps in most cells; of those awake, the heaviest errs."""
    errors = hit_ever_harder(random, step, weights)
    asleep = (np.arange(weights.shape[1]) + step // 4) % 3 == 0
    return np.where(asleep & (random.random(weights.shape) < 0.9), NAN, errors)


def one_is_exact(random: Random, step: int, weights: Doubles) -> Doubles:
    """The last expert is exact, and the others err on the same side."""
    errors = 1 + random.random(weights.shape)
    errors[:, -1] = 0.0
    return errors * 2.0 ** (step % BLOCK)


ADVERSARIES = [
    hit_the_heaviest, hit_ever_harder, alternate, jump, jump_and_hit, sleep_when_good, one_is_exact,
]  # fmt: skip


@dataclass(frozen=True)
class Played:
    """Regret against each expert, [blocks, experts], and the number of rounds of each block."""

    regret: Doubles
    rounds: int


def play(
    adversary: Adversary, experts: int, *, cells: int = 3, delay: int = 0, each: int = 1, learns: bool = True
) -> Played:
    """Play against the experts in one pool; the errors of every `each`-th step become known, `delay` steps late."""
    random = np.random.default_rng(1)
    rule = Experts(experts, 1, AGES, 1)
    regret = np.zeros((BLOCKS, experts))
    used, waiting = {}, {}
    for step in range(BLOCKS * BLOCK):
        used[step] = rule.weights(step)
        ints, age = np.zeros(cells, np.int64), random.integers(AGES, size=cells)
        every = np.ones((cells, experts), np.bool_)
        if step % each == 0:
            errors = adversary(random, step, used[step].of(ints, age, ints, every))
            awake = np.isfinite(errors)
            counted = awake.sum(axis=1) > 1
            sizes = np.abs(np.where(awake, errors, 0.0))
            scale = np.maximum(used[step].standings.cap[0, 0], sizes.max(axis=1))
            scale = np.where(scale > 0, scale, 1.0)[:, None]
            mixed = np.where(awake, used[step].of(ints, age, ints, awake) * np.where(awake, errors, 0.0), 0.0)
            losses = np.where(awake, np.abs(mixed.sum(axis=1, keepdims=True)) - sizes, 0.0) / scale
            regret[step // BLOCK] += losses[counted].mean(axis=0) if counted.any() else 0.0
            waiting[step] = age, errors
        if learns and step - delay in waiting:
            age, errors = waiting.pop(step - delay)
            rule.learn(used.pop(step - delay), ints, age, ints, errors)
    return Played(regret, BLOCK // each)


@pytest.mark.parametrize("experts", [2, 3, 4])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_the_regret_stays_below_a_bound_that_binds(adversary: Adversary, experts: int) -> None:
    played = play(adversary, experts)
    limit = bound(experts, played.rounds)
    assert limit < played.rounds / 2
    assert played.regret.max() < limit


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_errors_that_come_a_step_late_cost_no_more_than_the_bound_says(adversary: Adversary) -> None:
    played = play(adversary, 4, delay=1)
    limit = bound(4, played.rounds, delay=1)
    assert limit < played.rounds / 2
    assert played.regret.max() < limit


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("delay", [2, 5])
def test_the_bound_also_holds_for_longer_delays(adversary: Adversary, delay: int) -> None:
    played = play(adversary, 3, delay=delay)
    assert played.regret.max() < bound(3, played.rounds, delay)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_the_bound_counts_only_the_steps_whose_errors_are_known(adversary: Adversary) -> None:
    played = play(adversary, 4, each=2)
    assert played.rounds == 24
    assert played.regret.max() < bound(4, 24) < 12


@pytest.mark.parametrize("experts", [2, 3, 4])
def test_without_learning_the_regret_exceeds_the_bound(experts: int) -> None:
    played = play(one_is_exact, experts, learns=False)
    assert played.regret.max() > bound(experts, played.rounds)


@pytest.mark.parametrize("experts", [2, 3, 4])
def test_the_leader_alone_exceeds_the_bound(experts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hedge, "learn", lambda *_: None)
    played = play(hit_ever_harder, experts)
    assert played.regret.max() > bound(experts, played.rounds)


def test_against_the_leader_the_regret_is_a_few_percent_of_the_rounds() -> None:
    """On random losses nobody is better than the leader; in this test it is exact half of the time."""
    random = np.random.default_rng(2)
    hedge, lost, one = Hedge(1, 4), 0.0, np.zeros(1, np.int64)
    for step in range(BLOCK):
        used = awake_weights(hedge.weights(step), np.ones((1, 4), np.bool_))
        losses = random.random((1, 5)) * [[random.integers(2), 1, 1, 1, 1]]
        lost += float((used * losses).sum() - losses[0, 0])
        hedge.learn(step, one, losses, np.ones((1, 4), np.bool_), used)
    assert lost < -math.log(0.99) / 0.8 + BLOCK * 0.1


def test_the_weights_start_anew_at_every_half_horizon() -> None:
    hedge, one = Hedge(2, 2), np.ones(1, np.int64)
    prior = [[0.99, 0.005, 0.005]] * 2
    assert np.allclose(hedge.weights(7), prior)
    losses, used = np.array([[1.0, 0.0, 0.5]]), hedge.weights(HORIZON + 3)[:1]
    hedge.learn(HORIZON + 3, one, losses, np.ones((1, 2), np.bool_), used)
    weights = hedge.weights(HORIZON + 4)
    assert np.allclose(weights[0], prior[0])
    assert weights[1, 1] / weights[1, 0] == pytest.approx(0.005 / 0.99 * math.exp(0.8))
    assert weights[1, 1] / weights[1, 2] == pytest.approx(math.exp(0.4))
    assert np.allclose(hedge.weights(HORIZON + 3 + BLOCK), prior)


def test_a_sleeper_is_charged_what_the_others_lose_on_average() -> None:
    hedge, one = Hedge(1, 2), np.zeros(1, np.int64)
    awake = np.array([[False, True]])
    used = awake_weights(hedge.weights(0), awake)
    assert used[0].tolist() == pytest.approx([0.99 / 0.995, 0, 0.005 / 0.995])
    hedge.learn(0, one, np.array([[0.6, 0.9, 0.1]]), awake, used)
    mixed = (0.99 * 0.6 + 0.005 * 0.1) / 0.995
    weights = hedge.weights(1)[0]
    assert math.log(weights[1] / weights[0]) == pytest.approx(math.log(0.005 / 0.99) + 0.8 * (0.6 - mixed))


def test_cells_of_a_step_count_by_their_mean() -> None:
    hedge, pool = Hedge(2, 2), np.array([1, 1, 0])
    losses = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    hedge.learn(0, pool, losses, np.ones((3, 2), np.bool_), hedge.weights(0)[pool])
    logs = np.log(hedge.weights(1)) - np.log(hedge.weights(BLOCK))
    assert logs[1, 0] - logs[1, 1] == pytest.approx(-0.4)
    assert logs[1, 2] - logs[1, 1] == pytest.approx(-0.4)
    assert logs[0, 2] - logs[0, 1] == pytest.approx(0.8)


def test_the_leader_is_published_alone_until_the_experts_weigh_two_percent() -> None:
    leader = np.array([[1.0, 0.0], [1.0, 0.0]])
    found = published(np.array([[0.98, 0.0, 0.02], [0.97, 0.01, 0.02]]), leader)
    assert found.tolist() == [[1.0, 0.0], pytest.approx([0.98, 0.02])]
