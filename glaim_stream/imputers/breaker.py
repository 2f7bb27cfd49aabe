"""A circuit breaker for one model of an imputer. Pure: the caller passes the time in.

Closed: every batch calls the imputer. One failure opens the breaker, because the imputer has already retried until its
deadline. Open: batches go to the next rung at once. After a rest, one batch calls the imputer as a trial while the
others still go to the next rung: half open. A response closes the breaker; a failure starts another rest.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class State(IntEnum):
    """State of a breaker; the numbers are the values of a metric."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """The circuit breaker of one imputer for one model."""

    def __init__(self, rest_s: float, on_state: Callable[[State], None] = lambda state: None) -> None:
        """Create a closed breaker.

        Args:
            rest_s: time from a failure to the next trial.
            on_state: called with the new state after every change.
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
        """Whether a batch may call the imputer now.

        The batch admitted after a rest is the trial; it must call `answered` or `failed`.
        """
        if self._state is State.OPEN and now_s >= self._rest_until_s:
            self._go(State.HALF_OPEN)
            return True
        return self._state is State.CLOSED

    def answered(self) -> None:
        """Record that an admitted batch got a response. Any response, even an error, shows that the model is served.

        A response to a batch from before the breaker opened changes nothing.
        """
        if self._state is State.HALF_OPEN:
            self._go(State.CLOSED)

    def failed(self, now_s: float) -> None:
        """Record that an admitted batch got no response. If several fail together, the first one starts the rest."""
        if self._state is not State.OPEN:
            self._rest_until_s = now_s + self._rest_s
            self._go(State.OPEN)

    def _go(self, state: State) -> None:
        self._state = state
        self._on_state(state)
