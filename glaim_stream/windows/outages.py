"""Outages: a group of which nothing at all is heard, and its return. Pure.

A group is dark at a step when none of its sensors was observed at it and at the `max_gap` steps before. What event
time says as steps close is a function of the topic: `dark` and `speaks` in turn, whoever reads the topic. What the
wall clock says meanwhile (`by_clock`) is a claim: an event of the same group that follows it confirms it, by saying
the same, or takes it back. A worker that dies takes its claims along, so an observed row of a group ends them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.holes import Look, Rules
from glaim_stream.windows.rings import Rings

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

    def __init__(self, rings: Rings, rules: Rules) -> None:
        self._rings, self._rules = rings, rules
        self._heard = rings.attach((), np.bool_)  # at the newest step that event time closed
        self._told = rings.attach((), np.bool_)  # what the last event said
        self._silent_from = rings.attach((), np.int64)  # newest observed step when the clock said dark
        self._claims = False  # the clock said something of some group that event time has not said yet

    def close(self, look: Look) -> list[Outage]:
        """Events of a step that event time closes."""
        now = look.group_age <= self._rules.max_gap
        heard, told = self._heard.array[: len(now)], self._told.array[: len(now)]
        changed = np.flatnonzero(now != heard)
        events: list[Outage] = []
        if len(changed):
            events = self._events(look, changed, now, self._rules.max_gap + 2, by_clock=False)
            heard[:] = now
            told[changed] = now[changed]
        if self._claims:
            # The clock called it dark too soon: event time has not reached the end of its patience, and hears more.
            newest, silent_from = look.step - look.group_age, self._silent_from.array[: len(now)]
            back = np.flatnonzero(now & ~told & (newest > silent_from))
            events += self._events(look, back, now, look.step - silent_from[back], by_clock=True)
            told[back] = True
            self._claims = bool((told != now).any())
        return events

    def close_by_clock(self, look: Look) -> list[Outage]:
        """Events of a step that the wall clock closes."""
        now = look.group_age <= self._rules.max_gap
        told = self._told.array[: len(now)]
        changed = np.flatnonzero(now != told)
        self._silent_from.array[changed] = look.step - look.group_age[changed]
        told[changed] = now[changed]
        self._claims |= len(changed) > 0
        return self._events(look, changed, now, self._rules.max_gap + 2, by_clock=True)

    def _events(self, look: Look, rows: Ints, now: Bools, since: int | Ints, *, by_clock: bool) -> list[Outage]:
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
                self._rings.groups[row],
                "speaks" if now[row] else "dark",
                (look.step - back) * step_ms,
                UNKNOWN_MS if behind < 0 else (look.step - behind) * step_ms,
                by_clock,
            )
            for row, back, behind in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True)
        ]
