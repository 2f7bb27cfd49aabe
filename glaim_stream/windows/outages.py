"""Outages: a group from which nothing arrives at all, and its return.

A group is dark at a step when none of its sensors was observed at that step and the `max_gap` steps before. The events
that event time causes as steps close (`dark` and `speaks` in turn) are a function of the topic: every reader of the
topic finds the same ones. Meanwhile the wall clock may report events ahead of event time (`by_clock`). Such a report is
unconfirmed until an event of the same group follows it, which either repeats it or withdraws it. A worker that dies
loses its unconfirmed reports, so an observed row of the group ends them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glaim_stream.windows.holes import LookBack, Rules
from glaim_stream.windows.rings import Rings

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

UNKNOWN_MS = -1


@dataclass(frozen=True, slots=True)
class Outage:
    """One event: a group went `dark`, or `speaks` at the first observed step after its silence or ever."""

    model_index: int
    group: int  # the group's code (groups.GroupIndex)
    kind: Literal["dark", "speaks"]
    ts_ms: int  # start of the step
    last_ts_ms: int  # start of the last step before it in which the group was observed; UNKNOWN_MS when none is known
    by_clock: bool


class OutageTracker:
    """The active and the dark groups of a model, by row of the rings."""

    def __init__(self, rings: Rings, rules: Rules) -> None:
        self._rings, self._rules = rings, rules
        self._active = rings.attach((), np.bool_)  # active at the newest step that event time closed
        self._reported_active = rings.attach((), np.bool_)  # active by the last event
        self._has_spoken = rings.attach((), np.bool_)  # observed at any closed step: a new group is not dark
        self._last_observed = rings.attach((), np.int64)  # last observed step when the wall clock reported an outage
        self._unconfirmed = False  # whether the wall clock reported something that event time has not confirmed

    def dark(self) -> list[int]:
        """Codes of the groups that have windows and are dark by the last event."""
        groups = self._rings.groups
        silent = self._has_spoken.array[: len(groups)] & ~self._reported_active.array[: len(groups)]
        return [groups[row] for row in np.flatnonzero(silent).tolist()]

    def close(self, lookback: LookBack) -> list[Outage]:
        """Find the events of a step that event time closes."""
        now = lookback.group_age <= self._rules.max_gap
        active, reported = self._active.array[: len(now)], self._reported_active.array[: len(now)]
        self._has_spoken.array[: len(now)] |= now
        changed = np.flatnonzero(now != active)
        events: list[Outage] = []
        if len(changed):
            events = self._events(lookback, changed, now, self._rules.max_gap + 2, by_clock=False)
            active[:] = now
            reported[changed] = now[changed]
        if self._unconfirmed:
            # The wall clock reported an outage too early: event time stood still, and newer readings have arrived.
            newest, last_observed = lookback.step - lookback.group_age, self._last_observed.array[: len(now)]
            returned = np.flatnonzero(now & ~reported & (newest > last_observed))
            silent_steps = lookback.step - last_observed[returned]
            events += self._events(lookback, returned, now, silent_steps, by_clock=True)
            reported[returned] = True
            self._unconfirmed = bool((reported != now).any())
        return events

    def close_by_clock(self, lookback: LookBack) -> list[Outage]:
        """Find the events of a step that the wall clock closes."""
        now = lookback.group_age <= self._rules.max_gap
        reported = self._reported_active.array[: len(now)]
        self._has_spoken.array[: len(now)] |= now
        changed = np.flatnonzero(now != reported)
        self._last_observed.array[changed] = lookback.step - lookback.group_age[changed]
        reported[changed] = now[changed]
        self._unconfirmed |= len(changed) > 0
        return self._events(lookback, changed, now, self._rules.max_gap + 2, by_clock=True)

    def _events(
        self, lookback: LookBack, rows: Ints, now: Bools, return_steps: int | Ints, *, by_clock: bool
    ) -> list[Outage]:
        """Make the events of some rows.

        Args:
            lookback: observations up to the step that closes.
            rows: int64 [k], the rows whose state changed.
            now: bool [R], whether each group is active.
            return_steps: int64 [k], or one for all. A group returned at the oldest step observed among the newest
                `return_steps` ones.
            by_clock: whether the wall clock closes the step.
        """
        if len(rows) == 0:
            return []
        observed = lookback.newest_first[rows].any(axis=1)  # [k, window]
        age = np.arange(observed.shape[1])
        since_return = observed & (age < np.reshape(return_steps, (-1, 1))) & now[rows][:, None]
        at = np.where(now[rows], np.where(since_return, age, -1).max(axis=1), 0)
        earlier = observed & (age > at[:, None])
        last = np.where(earlier.any(axis=1), earlier.argmax(axis=1), -1)
        step_ms = self._rules.step_ms
        return [
            Outage(
                self._rules.model_index,
                self._rings.groups[row],
                "speaks" if now[row] else "dark",
                (lookback.step - event_age) * step_ms,
                UNKNOWN_MS if last_age < 0 else (lookback.step - last_age) * step_ms,
                by_clock,
            )
            for row, event_age, last_age in zip(rows.tolist(), at.tolist(), last.tolist(), strict=True)
        ]
