"""The holes that groups have now, as patterns that can be put on other groups: which sensors, and for how long.

A hole is filled twice: when its step closes (edge), and, with the readings that have followed, `revise_after` steps
later (interior). Each step takes patterns of one kind, from the steps that close or from earlier ones: a group that is
alone in its partition has no other group to copy from, and nothing is known of its sensor while that is silent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.holes import Rules
from glaim_stream.windows.rings import Rings

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TIMES = 4  # distances into the past: 0 to 3 thirds of the window's room beside the longest gap that is filled
LOOKED_AT = 4  # groups examined per wanted pattern: some are silent for longer than `max_gap`


@dataclass(frozen=True, slots=True)
class When:
    """The place from which a step's patterns are taken."""

    lag: int  # steps between the hole and the newest step of the window from which it is filled
    ago: int  # steps between that newest step and the one that closes now

    @classmethod
    def of(cls, step: int, draw: int, rules: Rules) -> When:
        """Choose edge or interior by the step's parity, and the distance by `draw`, a hash of the step."""
        lag = rules.revise_after if step % 2 else 0
        room = max(0, rules.window - 1 - lag - rules.max_gap)
        return cls(lag, draw % TIMES * room // (TIMES - 1))


@dataclass(frozen=True, slots=True)
class Patterns:
    """The holes of m groups, of C sensors each; every group has at least one."""

    lag: int  # steps before the newest one of the window
    hole: Bools  # [m, C]
    age: Ints  # [m, C] steps hidden that end with the hole
    ahead: Ints  # [m, C] steps hidden after it

    def __len__(self) -> int:
        return len(self.hole)


def candidates(rings: Rings, active: Ints, step: int, when: When) -> Ints:
    """Select, of the rows observed at the step (`active`), those with a sensor that was not observed at `when`."""
    slot = (step - when.ago - when.lag) % rings.length
    found: Ints = active[~rings.observed[active, :, slot].all(axis=1)]
    return found


def patterns(rings: Rings, rules: Rules, rows: Ints, step: int, when: When, count: int) -> Patterns:
    """Return the patterns of the first `count` rows that have holes which are filled.

    Args:
        rings: state of the model's groups.
        rules: the model's window rules.
        rows: rows of the rings, in order of preference.
        step: closing step.
        when: place to take the patterns from.
        count: greatest number of patterns.
    """
    seen = rings.past(rings.observed, rows, step)
    at = rules.window - 1 - when.lag - when.ago
    back = seen[:, :, at::-1]
    age = back.argmax(axis=2)
    hole = (age > 0) & (age <= rules.max_gap)
    ahead = np.zeros_like(age)
    if when.lag:
        after = seen[:, :, at + 1 : at + 1 + when.lag]
        ahead = after.argmax(axis=2)
        hole &= after.any(axis=2)
    chosen = np.flatnonzero(hole.any(axis=1))[:count]
    return Patterns(when.lag, hole[chosen], age[chosen], ahead[chosen])
