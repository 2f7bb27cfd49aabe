"""Thresholds that hold false alarms at a stated rate, from readings without known faults.

Residuals are correlated in time and have heavy tails, so no distribution of single values is assumed. Episodes are
counted, as an operator sees them: an episode begins when a statistic exceeds its threshold after a quiet time. As many
of the highest values of a sensor's episodes exceed its threshold as the rate allows. If the rate allows fewer than
`_TAIL`, the tail is extrapolated by a power law with the exponent of Hill: heavier tails give higher thresholds.

Source: Hill (1975), A simple general approach to inference about the tail of a distribution; Weissman (1978),
Estimation of parameters and large quantiles based on the k largest observations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_FEWEST_EPISODES = 30  # episodes of a sensor from which it has a threshold of its own
_TAIL = 10  # number of highest episodes to which the tail is fitted
_LEAST = 1.0  # units; a threshold is never below the usual value
_STEEPEST, _FLATTEST = 0.05, 0.5  # bounds of the inverse exponent
_RANK = 3  # the third-highest episode is a sensor's unit: two faults in the learned readings do not blind it


def episodes(statistic: Doubles, apart: int) -> list[Doubles]:
    """Return the highest values of each sensor's episodes, in descending order.

    Args:
        statistic: float64 [C, N].
        apart: steps between the highest values of two episodes, at least.
    """
    out = []
    for row in statistic:
        blocks = np.pad(row, (0, -len(row) % apart)).reshape(-1, apart).max(axis=1, initial=0.0)
        # The highest value of two neighbouring blocks is one episode.
        beside = np.maximum(np.append(blocks[1:], 0.0), np.append(0.0, blocks[:-1]))
        out.append(np.sort(blocks[(blocks >= beside) & (blocks > 0)])[::-1])
    return out


def units(parts: Sequence[Doubles], apart: int, least: float) -> Doubles:
    """Return each sensor's unit, float64 [C]: the third-highest episode of all groups, at least `least`."""
    found = [episodes(part, apart) for part in parts]
    out = np.full(len(parts[0]), least)
    for sensor in range(len(out)):
        peaks = np.sort(np.concatenate([each[sensor] for each in found]))[::-1]
        if len(peaks):
            out[sensor] = max(least, float(peaks[min(_RANK, len(peaks)) - 1]))
    return out


def thresholds(parts: Sequence[Doubles], apart: int, allowed: float) -> Doubles:
    """Return the thresholds [C] that the allowed number of episodes exceed, about the same number for each sensor.

    A sensor with few episodes gets the threshold of all sensors together.

    Args:
        parts: statistics of the groups, float64 [C, N], in units of their sensors.
        apart: least steps between the highest values of two episodes.
        allowed: number of episodes of all sensors in these series; a fraction of one is extrapolated.
    """
    found = [episodes(part, apart) for part in parts]
    own = [np.concatenate([each[sensor] for each in found]) for sensor in range(len(parts[0]))]
    pooled = _threshold(np.concatenate(own), allowed)
    return np.array(
        [_threshold(peaks, allowed / len(own)) if len(peaks) >= _FEWEST_EPISODES else pooled for peaks in own]
    )


def _threshold(peaks: Doubles, allowed: float) -> float:
    peaks = np.sort(peaks)[::-1]
    if len(peaks) <= allowed or not len(peaks):
        return _LEAST
    if allowed >= _TAIL:
        return max(_LEAST, float(np.nextafter(peaks[int(allowed)], np.inf)))
    rank = min(_TAIL, len(peaks) - 1)
    if rank < 1:
        return max(_LEAST, 2.0 * float(peaks[0]))
    inverse = float(np.log(peaks[:rank] / peaks[rank]).mean())
    power = float(np.clip(inverse, _STEEPEST, _FLATTEST))
    extrapolated = float(peaks[rank] * np.power(rank / allowed, power))
    return max(_LEAST, extrapolated)
