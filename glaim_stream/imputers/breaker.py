"""When to leave an imputer alone: a circuit breaker. Pure, time is handed in.

Closed, every batch asks. One failure opens it: the imputer has tried again by itself until its deadline, so a failure
is no accident of a moment. Open, batches pass on to the next rung at once. After a rest one batch tries, and the others
still pass on: half open. Its answer closes the breaker, its failure begins another rest.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class State(IntEnum):
    """Of a breaker."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """Of one imputer."""

    def __init__(self, rest_s: float, on_state: Callable[[State], None] = lambda state: None) -> None:
        """Begin closed.

        Args:
            rest_s: from a failure to the next probe.
            on_state: told of every change.
        """
        self._rest_s = rest_s
        self._on_state = on_state
        self._state = State.CLOSED
        self._rest_until_s = 0.0

    @property
    def state(self) -> State:
        """Closed, half open or open."""
        return self._state

    def admits(self, now_s: float) -> bool:
        """Whether a batch may ask now; the one that is admitted after a rest is the probe, and must report back."""
        if self._state is State.OPEN and now_s >= self._rest_until_s:
            self._go(State.HALF_OPEN)
            return True
        return self._state is State.CLOSED

    def answered(self) -> None:
        """A batch that was admitted got an answer, be it a refusal: somebody is there.

        An answer to a batch from before the breaker opened says nothing about now, and changes nothing.
        """
        if self._state is State.HALF_OPEN:
            self._go(State.CLOSED)

    def failed(self, now_s: float) -> None:
        """A batch that was admitted got no answer. Of several that failed together the first begins the rest."""
        if self._state is not State.OPEN:
            self._rest_until_s = now_s + self._rest_s
            self._go(State.OPEN)

    def _go(self, state: State) -> None:
        self._state = state
        self._on_state(state)
