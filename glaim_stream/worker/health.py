"""Whether a worker has started, is ready and lives, and why not. Bookkeeping with an injected clock; no HTTP, no Kafka.

    started   topics there, a member of the consumer group, and the first rung has answered a window of each model.
              Latched: what was true once stays.
    ready     started, and the windows of every assigned partition are rebuilt. An imputer that goes away later changes
              nothing: no traffic is routed to a worker, readiness only paces roll-outs, and interpolation stands in.
    live      the event loop turns and its agent works. Never false for Kafka's or Triton's sake: a restart would mend
              neither, and would cost the windows.

The loop writes, the thread that answers HTTP reads: each field is replaced whole, so no lock is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class PartitionState(StrEnum):
    """How far a worker is with a partition that it was assigned."""

    UNREAD = "nothing fetched yet"
    IDLE = "no input waits"
    REBUILDING = "windows are being rebuilt"
    WHOLE = "windows are whole"


SETTLED = (PartitionState.IDLE, PartitionState.WHOLE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A page's answer: good, or what it is waiting for."""

    page: str
    why_not: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.why_not

    @property
    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {self.page: bool(self), "why_not": list(self.why_not)}


class Health:
    """What the parts of a worker have told of themselves."""

    def __init__(self, *, silence_s: float = 60.0, now_s: Callable[[], float] = time.monotonic) -> None:
        """Begin: nothing is there yet, and that is no reason to be restarted.

        Args:
            silence_s: the loop may be silent for so long, and so may the agent.
            now_s: a clock that never goes back, seconds.
        """
        self._silence_s, self._now_s = silence_s, now_s
        self._topics = False
        self._joined = False
        self._unanswered: dict[str, str] = {}  # why, by model
        self._loop_s: float | None = None  # when it turned last; None: it has not begun
        self._agent_s: float | None = None  # when it was seen at work last; None: Faust has not started it
        self._ending = False
        self._crash: str | None = None
        self._partitions: Callable[[], Mapping[int, PartitionState]] = dict

    def topics_are_there(self) -> None:
        """Every topic of the settings exists."""
        self._topics = True

    def joined(self) -> None:
        """The consumer group has made this worker a member; it may have given it no partition."""
        self._joined = True

    def await_answers(self, models: Iterable[str], rung: str) -> None:
        """`rung` has to answer once for each of `models` before the worker has started."""
        self._unanswered = dict.fromkeys(models, f"{rung} was not asked yet")

    def answered(self, model: str) -> None:
        """A window of the model was imputed."""
        self._unanswered = {name: why for name, why in self._unanswered.items() if name != model}

    def not_answered(self, model: str, why: str) -> None:
        """It was asked, and this came of it."""
        if model in self._unanswered:
            self._unanswered = self._unanswered | {model: why}

    def beat(self, *, agent_works: bool) -> float:
        """The loop has turned; returns the seconds since it did before, 0 at the first time."""
        now = self._now_s()
        pause = 0.0 if self._loop_s is None else now - self._loop_s
        if agent_works:
            self._agent_s = now
        self._loop_s = now
        return pause

    def watch(self, partitions: Callable[[], Mapping[int, PartitionState]]) -> None:
        """Say where the states of the assigned partitions are to be had; called from another thread."""
        self._partitions = partitions

    def crashed(self, error: BaseException) -> None:
        """The worker is on its way out because of this."""
        self._crash = repr(error)

    def ending(self) -> None:
        """The worker was told to end: the loop is silent on purpose from here on."""
        self._ending = True

    @property
    def started(self) -> Verdict:
        """Whether everything that a worker needs was there once."""
        why_not = []
        if not self._topics:
            why_not.append("Kafka has not told yet whether the topics are there")
        if not self._joined:
            why_not.append("the worker is no member of its consumer group yet")
        why_not += [f"model {model}: {why}" for model, why in self._unanswered.items()]
        return Verdict("started", tuple(why_not))

    @property
    def ready(self) -> Verdict:
        """Whether it has started and works on all its partitions, which may be none."""
        open_ = [f"partition {number}: {state}" for number, state in self._states().items() if state not in SETTLED]
        return Verdict("ready", (*self.started.why_not, *open_))

    @property
    def live(self) -> Verdict:
        """Whether there is any sense in letting it run on."""
        if self._crash is not None:
            return Verdict("live", (f"the work ended: {self._crash}",))
        if self._ending or self._loop_s is None:
            return Verdict("live")
        why_not = []
        now = self._now_s()
        if (silent := now - self._loop_s) > self._silence_s:
            why_not.append(
                f"the event loop has not turned for {silent:.1f} s, {self._silence_s:g} s are allowed "
                "(GLAIM_LOOP_SILENCE_S)"
            )
        elif self._agent_s is not None and (silent := now - self._agent_s) > self._silence_s:
            why_not.append(f"no agent has been at work for {silent:.1f} s, {self._silence_s:g} s are allowed")
        return Verdict("live", tuple(why_not))

    @property
    def verdicts(self) -> tuple[Verdict, Verdict, Verdict]:
        """All three, in the order in which they come true."""
        return self.live, self.started, self.ready

    @property
    def document(self) -> dict[str, Any]:
        """All there is to know, for JSON."""
        beat_s = self._loop_s
        return {
            **{verdict.page: bool(verdict) for verdict in self.verdicts},
            "why_not": {verdict.page: list(verdict.why_not) for verdict in self.verdicts if not verdict},
            "loop_turned_s_ago": None if beat_s is None else round(self._now_s() - beat_s, 3),
            "partitions": {str(number): str(state) for number, state in self._states().items()},
            "models_not_answered": dict(self._unanswered),
        }

    def _states(self) -> dict[int, PartitionState]:
        return dict(sorted(self._partitions().items()))
