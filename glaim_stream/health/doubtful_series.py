"""Doubtful readings of long series, whose past and future are both known.

Each reading is judged by a window of the readings on both sides of it, with the rule of
`glaim_stream.health.plausibility`. The usual range of a sensor's readings takes the place of the range of the training.
Doubted readings narrow that range, so more may be found.
"""

from __future__ import annotations

import numpy as np

from glaim_stream.core.angles import TURN, start_of
from glaim_stream.form import Kind, are, kind_of
from glaim_stream.health.plausibility import Bools, Doubles, Plausibility, Range

_WINDOW = 96  # steps
_TAIL = 0.01  # share of a sensor's readings that may be doubtful
_TAIL_OF_REPEATED = 0.05  # the same share of readings that differ from a mostly repeated value
_ROOM = 0.5  # widths between the tails that the range gets on either side: rain has heavy tails
_FEWEST = 50  # readings from which a sensor's usual range is known
_ROUNDS = 10


def doubtful_cells(values: Doubles, observed: Bools, judged: Bools) -> Bools:
    """Return the doubted cells of series, bool [g, C, N].

    Args:
        values: float64 [g, C, N], sensor units; ignored where not observed.
        observed: bool [g, C, N].
        judged: bool [C], sensors whose readings may be doubted.
    """
    doubted = np.zeros(observed.shape, np.bool_)
    start = _circles(values, observed)
    directions = np.isfinite(start)
    groups = np.arange(len(observed))
    for _ in range(_ROUNDS):
        sound = observed[groups] & ~doubted[groups]
        known = np.where(sound, values[groups], 0.0)
        least, most = _usual_range(known, sound)
        least[:, directions], most[:, directions] = start[directions], start[directions] + TURN
        found = _doubtful(known, sound, Plausibility(judged, (least, most), directions if directions.any() else None))
        doubted[groups] |= found
        groups = groups[found.any(axis=(1, 2))]
        if not len(groups):
            break
    return doubted


def _doubtful(values: Doubles, observed: Bools, rule: Plausibility) -> Bools:
    doubted, steps = np.zeros(observed.shape, np.bool_), observed.shape[2]
    for start in range(0, max(1, steps - _WINDOW // 2), _WINDOW // 2):
        end = min(start + _WINDOW, steps)
        found = rule.doubtful(values[:, :, start:end], observed[:, :, start:end])
        # Each window judges its middle half; the first and the last window also judge the ends.
        first = start + (_WINDOW // 4 if start else 0)
        last = end if end == steps else start + 3 * _WINDOW // 4
        doubted[:, :, first:last] = found[:, :, first - start : last - start]
    return doubted


def _circles(values: Doubles, observed: Bools) -> Doubles:
    """The least value of each sensor's circle, [C]; NaN for sensors that are not directions, apart from a few readings.

    A direction has more readings in the first and in the last quarter of the circle than may be doubtful.
    """
    few, found = _TAIL * observed.sum(axis=(0, 2)), np.full(values.shape[1], np.nan)
    for start in start_of(np.array([False, True])).tolist():
        within = observed & (values >= start) & (values <= start + TURN)
        first, last = values < start + TURN / 4, values > start + 3 * TURN / 4
        outside, low, high = ((observed & cells).sum(axis=(0, 2)) for cells in (~within, first, last))
        possible = (outside <= few) & (low > few) & (high > few)
        kinds = [kind_of(values[:, place], within[:, place]) if possible[place] else None for place in range(len(few))]
        found[are(kinds, Kind.ANGLE)] = start
    return found


def _usual_range(values: Doubles, observed: Bools) -> Range:
    """Usual range of the readings of each series, [g, C] each; infinite with too few readings.

    If a sensor mostly repeats one value (rain), only the readings that differ from it count.
    """
    least, most = np.full(values.shape[:2], -np.inf), np.full(values.shape[:2], np.inf)
    for place in np.ndindex(*values.shape[:2]):
        readings, tail = values[place][observed[place]], _TAIL
        if len(readings) < _FEWEST:
            continue
        middle = float(np.median(readings))
        if np.mean(readings == middle) > 0.5:
            readings, tail = readings[readings != middle], _TAIL_OF_REPEATED
        if len(readings) >= _FEWEST:
            low, high = np.quantile(readings, (tail, 1.0 - tail))
            low, high = min(low, middle), max(high, middle)
            least[place], most[place] = low - _ROOM * (high - low), high + _ROOM * (high - low)
    return least, most
