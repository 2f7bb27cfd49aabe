"""Exponential weights over a leader and the experts that may sleep, with a proven bound on the regret. Arithmetic only.

A pool is a set of keys that share weights. Time is cut into blocks of `BLOCK` steps, and in each block every pool
starts again with the prior weights: 1 - DOUBT for the leader and DOUBT / K for each of K experts. A round is a step at
which errors of the pool became known. The leader is itself a rule that may change its choice at every step; below, an
expert is the leader or one of the K.

    weights of a round    w(k) = prior(k) exp(-RATE L(k)) / sum, with L(k) the losses of the block's earlier rounds
    awake in a cell       u(k) = w(k) / sum over those awake, 0 for those asleep; the leader is awake if any expert is
    charged in a cell     the loss of k, in [0, 1]; those asleep: the sum of u(k) * loss(k), which changes nothing
    loss of the round     the mean of the charged losses over the pool's cells
    published             the leader alone where u(leader) >= 1 - SPARE, else the mixture by u

**Bound.** In every block and pool, for every sequence of losses and of sleeping experts, and for each expert k

    sum over rounds of mean over cells of awake(k) * (loss of the published mixture - loss of k)
        <= ln(1 / prior(k)) / RATE + T * (RATE / 8 + SPARE + d * RATE / 4)

where T <= BLOCK is the number of rounds, and d the largest number of rounds by which the errors came too late, i.e. the
weights used in a round lacked the errors of up to d earlier ones (0 in a worker, where the errors of a step are learnt
before the weights of the next step are read). With K = 4 that is 7.5 + 0.12 T against an expert and 0.013 + 0.12 T
against the leader, in units of the largest loss. It is below T / 2 from T = 20 on, with d = 1 from T = 42 on. Over
several blocks the bounds add up, and each block may have another best expert.

**Proof.** The charge makes the mean of all weights' losses equal the mean of those awake, and makes each sleeper's
regret 0 while it sleeps (Freund, Schapire, Singer and Warmuth 1997; Gaillard, Stoltz and van Erven 2014). So the sum is
that of exponential weights on losses in [0, 1] with everyone awake: at most ln(1 / prior(k)) / RATE + T * RATE / 8
(Hoeffding's lemma; Cesa-Bianchi and Lugosi 2006, theorem 2.2 with a prior). The loss is convex, so the mixture of
answers loses at most the mean of their losses. Publishing the leader alone moves at most SPARE of the weights, hence
T * SPARE. One round changes the weights by at most tanh(RATE / 4) <= RATE / 4 in total variation, hence
T * d * RATE / 4. The restart gives the horizon that a fixed RATE needs.

The bound is about probes, whose values are known; holes are filled with the same weights, and nothing is proven for
them. Losses of different keys of a pool are added, so a single key may lose what others gain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows import HORIZON

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

BLOCK = HORIZON // 2  # steps between two restarts: with the leader's memory, nothing is older than the horizon
RATE = 0.8  # minimises the bound of 4 experts for about 50 rounds, also with a delay of one round
DOUBT = 0.01  # prior weight of all experts but the leader
SPARE = 0.02  # weight of the experts below which only the leader is published


class Hedge:
    """Losses of the leader and the experts by pool, since the newest restart."""

    def __init__(self, pools: int, experts: int) -> None:
        """Start without losses, for this many pools and experts besides the leader."""
        self._log_prior = np.log([1 - DOUBT, *[DOUBT / experts] * experts])
        self._losses = np.zeros((pools, experts + 1))
        self._block: int | None = None

    def weights(self, step: int) -> Doubles:
        """Weights [pools, 1 + experts] at `step`, the leader's first, as if all were awake."""
        losses = self._losses if step // BLOCK == self._block else np.zeros_like(self._losses)
        logs = self._log_prior - RATE * losses
        weights: Doubles = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def learn(self, step: int, pool: Ints, losses: Doubles, awake: Bools, used: Doubles) -> None:
        """Add the losses of a step's cells.

        Args:
            step: number of the step; steps must not descend.
            pool: int64 [n].
            losses: float64 [n, 1 + experts], in [0, 1]; ignored where asleep.
            awake: bool [n, experts], experts with a value for the cell.
            used: float64 [n, 1 + experts], the weights that mixed the answers, 0 where asleep (`awake_weights`).
        """
        block = step // BLOCK
        if block != self._block:
            self._block = block
            self._losses[:] = 0.0
        if not awake.all():
            charge = (used * losses).sum(axis=1, keepdims=True)
            losses = np.concatenate([losses[:, :1], np.where(awake, losses[:, 1:], charge)], axis=1)
        sums = np.zeros_like(self._losses)
        np.add.at(sums, pool, losses)
        self._losses += sums / np.maximum(np.bincount(pool, minlength=len(sums)), 1)[:, None]


def awake_weights(weights: Doubles, awake: Bools) -> Doubles:
    """Weights [n, 1 + experts] of those awake [n, experts], with the sum 1; the leader, in column 0, never sleeps."""
    if awake.all():
        return weights
    kept = weights.copy()
    kept[:, 1:] *= awake
    total = np.where(awake.all(axis=1), 1.0, kept.sum(axis=1))  # a row's bits do not depend on the other rows
    kept /= total[:, None]
    return kept


def published(used: Doubles, leader: Doubles) -> Doubles:
    """Mix the leader's weights of the experts [n, experts] and the experts by their weights [n, 1 + experts]."""
    alone = used[:, :1] >= 1 - SPARE
    return leader if alone.all() else np.where(alone, leader, used[:, :1] * leader + used[:, 1:])
