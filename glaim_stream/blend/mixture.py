"""Two answers into one, each weighted by how far it was off lately. Arithmetic only.

A model that was trained on last year's level and a straight line between two readings are each the better one at
times, and a stream tells which: readings that did arrive are hidden, imputed both ways and compared. From these errors
the share w of the model follows by least squares with an exponential memory: the w that would have made

    sum over steps of memory^age * (w * model_error + (1 - w) * baseline_error)^2      0 <= w <= 1

smallest, drawn towards one half while little is known. Weights fitted once on a validation part fail when the level
drifts; these follow it within ten steps or so. Least squares rather than shares in proportion to the inverse squared
errors, because two answers that err alike have nothing to give each other: where the model wins by a margin it keeps
nearly all of the say.

What is known when: at step t the caller has the errors of questions asked at steps before t, no other, so the weight
never depends on the value that it is used for. An error that nobody could know is NaN and does not count.

Nothing older than `HORIZON` steps matters, to the bit (glaim_stream.blend.recent): a state that ran for years, and one
rebuilt from the errors of the last `HORIZON` steps, give the same weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.recent import RecentSums
from glaim_stream.windows.history import HORIZON

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

# On the validation part of Illness neither number is delicate: a memory of 0.9 to 0.95 and a caution of 0.5 to 8 move
# the MSE of a row by at most 7 %, the MAE by 2 %. The shorter memory is for a level that drifts faster than there.
MEMORY = 0.9  # of a step: what happened 10 steps ago has a third of the say
CAUTION = 2.0  # how many errors of the better method's size the pull towards START is worth
START = 0.5  # the model's share while no error is known


class RecentError:
    """Running sums of the errors of a model and of a baseline, for any array of keys (sensors, gap ages, groups).

    Four numbers a key.
    """

    def __init__(
        self, shape: int | tuple[int, ...], *, memory: float = MEMORY, horizon: int = HORIZON,
        caution: float = CAUTION, start: float = START,
    ) -> None:  # fmt: skip
        """Know nothing yet.

        Args:
            shape: Of the keys.
            memory: The say of an error shrinks by this factor a step, in (0, 1].
            horizon: Steps after which an error is forgotten; even, 2 or more.
            caution: Strength of the pull towards `start`, 0 or more; see `weights`.
            start: The model's share while no error is known, in [0, 1].

        Raises:
            ValueError: an argument out of its range.
        """
        if not 0 < memory <= 1 or not 0 <= start <= 1 or caution < 0:
            raise ValueError(
                f"expected memory in (0, 1], start in [0, 1] and caution of 0 or more, "
                f"found {memory}, {start} and {caution}"
            )
        self.memory, self.horizon, self.caution, self.start = memory, horizon, caution, start
        keys = (shape,) if isinstance(shape, int) else tuple(shape)
        # [count, model, baseline, apart][keys]: sums of 1, e_m^2, e_b^2 and (e_m - e_b)^2.
        # At 96 steps and 0.9 no factor of theirs is above 25,000.
        self._sums = RecentSums((4, *keys), memory=memory, horizon=horizon)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the keys."""
        return self._sums.values.shape[2:]

    def update(self, step: int, model_error: Floats, baseline_error: Floats) -> None:
        """Take in the errors of the questions asked at `step`, once their truth is known.

        Args:
            step: Number of the step on the stream's grid; later than that of the last update.
            model_error: imputed minus true, [keys]; NaN (or infinite) where not known.
            baseline_error: The same for the baseline. A key counts where both are known.

        Raises:
            ValueError: `step` is not later than the last one, or an array has another shape than the keys.
        """
        model, baseline = np.asarray(model_error, np.float64), np.asarray(baseline_error, np.float64)
        if model.shape != self.shape or baseline.shape != self.shape:
            raise ValueError(f"expected errors of shape {self.shape}, found {model.shape} and {baseline.shape}")
        known = np.isfinite(model) & np.isfinite(baseline)
        model, baseline = np.where(known, model, 0.0), np.where(known, baseline, 0.0)
        squares = np.square(model), np.square(baseline), np.square(model - baseline)
        added = np.array([known, *squares], np.float64)
        old, young = self._sums.turn(step)
        self._sums.values[0] += added * old
        self._sums.values[1] += added * young

    def weights(self, step: int) -> Doubles:
        """The model's share for questions asked at `step`, [keys], each in [0, 1]; the baseline's is the rest.

        With A, M, B the remembered sums of (e_m - e_b)^2, e_m^2 and e_b^2 and N their count, least squares gives
        (A + B - M) / 2A. The pull towards `start` is `caution` errors of the better method's mean square,
        r = caution * min(M, B) / N, so that it has a say as long as few errors are known, no say against an answer
        that is exact, and none against one that is far worse:

            w = ((A + B - M) / 2 + r * start) / (A + r), kept within [0, 1]

        Raises:
            ValueError: `step` is not later than the last update: its own error would be used.
        """
        sums = self._sums.read(step)
        if sums is None:
            return np.full(self.shape, self.start)
        count, model, baseline, apart = sums
        pull = self.caution * np.minimum(model, baseline) / np.where(count > 0, count, 1.0)
        below = apart + pull
        decided = below > 0
        share = (0.5 * (apart + baseline - model) + pull * self.start) / np.where(decided, below, 1.0)
        return np.where(decided, np.clip(share, 0.0, 1.0), self.start)


def blend(model: Floats, baseline: Floats, weight: Floats) -> Doubles:
    """The mixture weight * model + (1 - weight) * baseline, never outside of the two.

    Args:
        model: Answers in any unit, NaN where there is none.
        baseline: The same, of a shape that goes with it.
        weight: The model's share, in [0, 1].

    Returns:
        float64; where one of the answers is not finite the other one, NaN where neither is.
    """
    model, baseline = np.asarray(model, np.float64), np.asarray(baseline, np.float64)
    model = np.where(np.isfinite(model), model, np.nan)
    baseline = np.where(np.isfinite(baseline), baseline, np.nan)
    mixed = weight * model + (1.0 - np.asarray(weight, np.float64)) * baseline
    mixed = np.clip(mixed, np.fmin(model, baseline), np.fmax(model, baseline))  # rounding may step over by a bit
    return np.where(np.isnan(mixed), np.where(np.isnan(model), baseline, model), mixed)
