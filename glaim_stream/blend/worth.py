"""Whether the network has earned its calls: for which sensors it gains enough over the closed form. Arithmetic only.

Time is cut into blocks of `BLOCK` steps. In a block the network rests for a sensor where, on the probes of the block
before, the best mixture of network and closed form gained less than the required share of the closed form's mean
absolute error. Judged are the probes of every `RATE`-th step alone, for which the network is always called. So a
decision depends on the errors of one block and on no decision before it: a worker that reads the topic again decides
the same, and a network that rests is judged like one that does not.

- A decision changes at most once in `BLOCK` steps, whatever the gain does.
- A version that became better is in use again after at most two blocks: the rest of the block in which it appeared,
  and the one in which it is judged.
- Sensors with fewer than `FEWEST` judged probes in the block before are not at rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.history import JUDGED_BLOCK

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

BLOCK = JUDGED_BLOCK
RATE = 5  # steps, a divisor of BLOCK
FEWEST = 8  # probes of a sensor in a block
_SHARES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # of the network in a mixture with the closed form
_CAP = 3.0  # times the median size of a sensor's errors: a jump of the level must not decide for a block


class Worth:
    """The sensors of one model for which the network rests, in one partition."""

    def __init__(self, sensors: int, gain: float) -> None:
        """Start without errors; nothing rests.

        Args:
            sensors: number of sensors.
            gain: share of the closed form's error that the network must save, in (0, 1).
        """
        self._gain = gain
        self._block: int | None = None  # of the newest step seen
        self._resting = np.zeros(sensors, np.bool_)  # in that block
        self._sensor: list[Ints] = []  # of the judged probes of that block
        self._errors: list[Doubles] = []  # [n, 2] of network and closed form

    def rests(self, step: Ints, sensor: Ints) -> Bools:
        """Where the network is known to rest, bool [n]; False at steps whose block is not decided yet."""
        if self._block is None:
            return np.zeros(len(sensor), np.bool_)
        resting: Bools = (step // BLOCK == self._block) & self._resting[sensor]
        return resting

    def advance(self, step: int) -> None:
        """Go on to a step; when it begins a block, decide for which sensors the network rests in it.

        The probes of all earlier blocks must have been learned from.
        """
        block = step // BLOCK
        if self._block is not None and block <= self._block:
            return
        follows = self._block is not None and block == self._block + 1
        self._resting = self._decide() if follows else np.zeros_like(self._resting)
        self._block, self._sensor, self._errors = block, [], []

    def learn(self, step: int, sensor: Ints, model: Doubles, form: Doubles) -> None:
        """Add the errors of probes [n] of a step, to which `advance` has gone on; NaN where there is no answer."""
        if judged(step) and step // BLOCK == self._block:
            known = np.isfinite(model) & np.isfinite(form)
            self._sensor.append(sensor[known])
            self._errors.append(np.stack([model[known], form[known]], axis=1))

    def _decide(self) -> Bools:
        resting = np.zeros_like(self._resting)
        if not self._errors:
            return resting
        every, errors = np.concatenate(self._sensor), np.concatenate(self._errors)
        for sensor in np.flatnonzero(np.bincount(every, minlength=len(resting)) >= FEWEST).tolist():
            model, form = errors[every == sensor].T
            size = np.maximum(np.abs(model), np.abs(form))
            cap = _CAP * np.median(size)
            capped = np.divide(cap, size, out=np.ones_like(size), where=size > cap)
            mixed = np.abs(form[:, None] + _SHARES * (model - form)[:, None]) * capped[:, None]
            means = mixed.mean(axis=0)
            resting[sensor] = means.min() >= (1.0 - self._gain) * means[0]
        return resting


def judged(step: Ints | int) -> NDArray[np.bool_] | np.bool_:
    """Whether the network's probes of a step count, for which it is always called."""
    return np.equal(np.mod(step, RATE), 0)
