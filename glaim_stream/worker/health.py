"""The states started, ready and live of a worker, with reasons. Pure bookkeeping, with an injected clock.

    started   the topics exist, the worker is a member of the consumer group, and the first rung has answered a window
              of each model. Latched: each condition stays true once it was.
    ready     started, and the windows of every assigned partition are rebuilt. An imputer that fails later changes
              nothing: no traffic is routed to a worker, readiness only paces roll-outs, and interpolation fills in.
    live      the event loop runs and its agent works. Kafka or Triton never make it false: a restart would repair
              neither, and would cost the windows.

The event loop writes and the thread that answers HTTP reads; each field is replaced as a whole, so no lock is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SILENCE_S = 60.0  # longest silence of the loop; less restarts a stuck worker sooner, but also one that is only busy


class PartitionState(StrEnum):
    """The state of an assigned partition."""

    UNREAD = "nothing fetched yet"
    IDLE = "no input is waiting"
    REBUILDING = "windows are being rebuilt"
    WHOLE = "windows are complete"


SETTLED = (PartitionState.IDLE, PartitionState.WHOLE)


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """The answer of a health page: good, or what is missing."""

    page: str
    why_not: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.why_not

    @property
    def document(self) -> dict[str, Any]:
        """The answer as a JSON document."""
        return {self.page: bool(self), "why_not": list(self.why_not)}


class Health:
    """The state of a worker as its parts report it."""

    def __init__(self, *, silence_s: float = SILENCE_S, now_s: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing reported, which is no reason for a restart.

        Args:
            silence_s: longest time without a report of the event loop or of the agent, seconds.
            now_s: a monotonic clock, seconds.
        """
        self._silence_s, self._now_s = silence_s, now_s
        self._waits_for: str | None = "Kafka has not confirmed yet that the topics exist"
        self._joined = False
        self._unanswered: dict[str, str] = {}  # reason by model
        self._loop_s: float | None = None  # time of its last run; None: it has not started
        self._agent_s: float | None = None  # time at which it was last seen at work; None: Faust has not started it
        self._ending = False
        self._crash: str | None = None
        self._degraded = ""
        self._partitions: Callable[[], Mapping[int, PartitionState]] = dict

    def topics_are_there(self) -> None:
        """Record that every topic of the settings exists."""
        self._waits_for = None

    def waits_for(self, why: str) -> None:
        """Record the reason why the worker cannot start yet: a contract, the broker, a topic or a right is missing."""
        self._waits_for = why

    def joined(self) -> None:
        """Record that this worker is a member of the consumer group, with or without partitions."""
        self._joined = True

    def await_answers(self, models: Iterable[str], rung: str) -> None:
        """Require one answer of `rung` for each of `models` before the worker counts as started."""
        self._unanswered = dict.fromkeys(models, f"{rung} was not queried yet")

    def answered(self, model: str) -> None:
        """Record that a window of the model was imputed."""
        self._unanswered = {name: why for name, why in self._unanswered.items() if name != model}

    def not_answered(self, model: str, why: str) -> None:
        """Record why a query for the model failed."""
        if model in self._unanswered:
            self._unanswered = self._unanswered | {model: why}

    def beat(self, *, agent_works: bool) -> float:
        """Record that the event loop runs; return the seconds since the last time, 0 at first."""
        now = self._now_s()
        pause = 0.0 if self._loop_s is None else now - self._loop_s
        if agent_works:
            self._agent_s = now
        self._loop_s = now
        return pause

    def watch(self, partitions: Callable[[], Mapping[int, PartitionState]]) -> None:
        """Set the function that returns the states of the assigned partitions; it is called from another thread."""
        self._partitions = partitions

    def crashed(self, error: BaseException) -> None:
        """Record the error that ends the worker."""
        self._crash = repr(error)

    def degraded(self, why: str) -> None:
        """Record what a restart would not mend, and so changes no verdict; empty: nothing."""
        self._degraded = why

    def ending(self) -> None:
        """Record a shutdown request: from here on a silent loop is intended."""
        self._ending = True

    @property
    def started(self) -> PageVerdict:
        """Whether everything that a worker needs has been available."""
        why_not = []
        if self._waits_for is not None:
            why_not.append(self._waits_for)
        if not self._joined:
            why_not.append("the worker is not a member of its consumer group yet")
        why_not += [f"model {model}: {why}" for model, why in self._unanswered.items()]
        return PageVerdict("started", tuple(why_not))

    @property
    def ready(self) -> PageVerdict:
        """Whether it has started and works on all of its partitions, which may be none."""
        open_ = [f"partition {number}: {state}" for number, state in self._states().items() if state not in SETTLED]
        return PageVerdict("ready", (*self.started.why_not, *open_))

    @property
    def live(self) -> PageVerdict:
        """Whether the worker can go on; false means that a restart is needed."""
        if self._crash is not None:
            return PageVerdict("live", (f"processing ended: {self._crash}",))
        if self._ending or self._loop_s is None:
            return PageVerdict("live")
        why_not = []
        now = self._now_s()
        if (silent := now - self._loop_s) > self._silence_s:
            why_not.append(f"the event loop has not run for {silent:.1f} s, {self._silence_s:g} s are allowed")
        elif self._agent_s is not None and (silent := now - self._agent_s) > self._silence_s:
            why_not.append(f"no agent has been at work for {silent:.1f} s, {self._silence_s:g} s are allowed")
        return PageVerdict("live", tuple(why_not))

    @property
    def verdicts(self) -> tuple[PageVerdict, PageVerdict, PageVerdict]:
        """All three verdicts, in the order in which they become true."""
        return self.live, self.started, self.ready

    @property
    def document(self) -> dict[str, Any]:
        """Everything, as a JSON document."""
        beat_s = self._loop_s
        return {
            **{verdict.page: bool(verdict) for verdict in self.verdicts},
            "why_not": {verdict.page: list(verdict.why_not) for verdict in self.verdicts if not verdict},
            "degraded": [self._degraded] if self._degraded else [],
            "loop_turned_s_ago": None if beat_s is None else round(self._now_s() - beat_s, 3),
            "partitions": {str(number): str(state) for number, state in self._states().items()},
            "models_not_answered": dict(self._unanswered),
        }

    def _states(self) -> dict[int, PartitionState]:
        return dict(sorted(self._partitions().items()))
