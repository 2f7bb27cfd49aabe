"""Outages: a group of which nothing at all is heard, and its return. Pure.

A group is dark at a step when none of its sensors was observed at it and at the `max_gap` steps before. What event
time says as steps close is a function of the topic: `dark` and `speaks` in turn, whoever reads the topic. What the
wall clock says meanwhile (`by_clock`) is a claim: an event of the same group that follows it confirms it, by saying
the same, or takes it back. A worker that dies takes its claims along, so an observed row of a group ends them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.holes import Look, Rules

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

UNKNOWN_MS = -1


@dataclass(frozen=True, slots=True)
class Outage:
    """One group went dark, or speaks again: at the first step observed after its silence, or when it is new."""

    model_index: int
    group: int  # the group's code (groups.GroupIndex)
    kind: Literal["dark", "speaks"]
    ts_ms: int  # start of the step
    last_ts_ms: int  # start of the last step before it in which the group was observed; UNKNOWN_MS when none is known
    by_clock: bool


class Hearing:
    """Which groups of a model are heard, by row of the rings."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._heard = np.zeros(0, np.bool_)  # at the newest step that event time closed
        self._told = np.zeros(0, np.bool_)  # what the last event said
        self._silent_from = np.zeros(0, np.int64)  # newest observed step when the clock said dark
        self._claims = False  # the clock said something of some group that event time has not said yet

    def close(self, look: Look, groups: Sequence[int]) -> list[Outage]:
        """Events of a step that event time closes; `groups` are the codes by row."""
        now = look.group_age <= self._rules.max_gap
        changed = np.flatnonzero(now != self._heard)
        events: list[Outage] = []
        if len(changed):
            events = self._events(look, groups, changed, now, self._rules.max_gap + 2, by_clock=False)
            self._heard = now
            self._told[changed] = now[changed]
        if self._claims:
            # The clock called it dark too soon: event time has not reached the end of its patience, and hears more.
            newest = look.step - look.group_age
            back = np.flatnonzero(now & ~self._told & (newest > self._silent_from))
            since = look.step - self._silent_from[back]
            events += self._events(look, groups, back, now, since, by_clock=True)
            self._told[back] = True
            self._claims = bool((self._told != now).any())
        return events

    def close_by_clock(self, look: Look, groups: Sequence[int]) -> list[Outage]:
        """Events of a step that the wall clock closes."""
        now = look.group_age <= self._rules.max_gap
        changed = np.flatnonzero(now != self._told)
        self._silent_from[changed] = look.step - look.group_age[changed]
        self._told[changed] = now[changed]
        self._claims |= len(changed) > 0
        return self._events(look, groups, changed, now, self._rules.max_gap + 2, by_clock=True)

    def grow(self, rows: int) -> None:
        """Make room for so many rows; a group that is new was not heard before."""
        missing = rows - len(self._heard)
        if missing > 0:
            self._heard = np.concatenate([self._heard, np.zeros(missing, np.bool_)])
            self._told = np.concatenate([self._told, np.zeros(missing, np.bool_)])
            self._silent_from = np.concatenate([self._silent_from, np.zeros(missing, np.int64)])

    def keep(self, rows: Ints) -> None:
        """Keep these rows of the rings, in their order."""
        rows = rows[rows < len(self._heard)]
        self._heard, self._told, self._silent_from = self._heard[rows], self._told[rows], self._silent_from[rows]

    def _events(
        self, look: Look, groups: Sequence[int], rows: Ints, now: Bools, since: int | Ints, *, by_clock: bool
    ) -> list[Outage]:
        """Events of the rows; what was observed in the newest `since` steps, [k] or one for all, is the return."""
        if len(rows) == 0:
            return []
        heard = look.recent[rows].any(axis=1)  # [k, window], newest first
        place = np.arange(heard.shape[1])
        new = heard & (place < np.reshape(since, (-1, 1))) & now[rows][:, None]
        first = np.where(now[rows], np.where(new, place, -1).max(axis=1), 0)
        older = heard & (place > first[:, None])
        last = np.where(older.any(axis=1), older.argmax(axis=1), -1)
        step_ms = self._rules.step_ms
        return [
            Outage(
                self._rules.model_index,
                groups[row],
                "speaks" if now[row] else "dark",
                (look.step - back) * step_ms,
                UNKNOWN_MS if behind < 0 else (look.step - behind) * step_ms,
                by_clock,
            )
            for row, back, behind in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True)
        ]
