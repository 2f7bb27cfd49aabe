"""The ladder: calls the best available imputer for batches of windows, with several calls in flight.

Every model has its own breakers and queue, so a missing, wrong or slow model leaves the answers of the others as they
are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import IntEnum
from functools import partial

import numpy as np

from glaim_stream.core.errors import ImputerAbsent, ImputerError, ImputerUnavailable
from glaim_stream.core.vocabulary import Method
from glaim_stream.imputers.protocol import Imputed, Rung, Windows

log = logging.getLogger(__name__)

# Time that a batch waits for its own trial of a rung that was unavailable. A model that is back answers within it; one
# that is still down would delay the rows of the other models in the batch by a deadline at every trial.
TRIAL_WAIT_S = 0.5


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


class Ladder:
    """An imputer that calls its rungs in order until one answers.

    The last rung should need nothing but the window, so that it always answers.
    """

    def __init__(
        self,
        rungs: Sequence[Rung],
        *,
        batch: int = 64,
        in_flight: int = 8,
        rest_s: float = 5.0,
        on_failure: Callable[[str, str], None] = lambda rung, model: None,
        on_state: Callable[[str, str, State], None] = lambda rung, model, state: None,
    ) -> None:
        """Build a ladder.

        Args:
            rungs: imputers, best first.
            batch: most windows in one call; larger batches use the accelerator better and wait longer.
            in_flight: most calls for one model at a time; more calls hide latency and hold more memory.
            rest_s: time for which a rung is skipped for a model after it was unavailable, before one batch tries it
                again, so an imputer that is down does not delay every batch (see Breaker).
            on_failure: called with the names of the rung that failed and of the model.
            on_state: called with the names of a rung and a model and the new state of their breaker.
        """
        self.rungs = list(rungs)
        self._batch = batch
        self._in_flight, self._rest_s = in_flight, rest_s
        self._on_failure, self._on_state = on_failure, on_state
        self._lanes: dict[str, _Lane] = {}
        self._trials: set[asyncio.Task[Imputed | None]] = set()

    async def impute(self, windows: Windows) -> Imputed:
        """Impute; windows that no rung could impute get NaN with method NONE."""
        starts = range(0, len(windows), self._batch)
        answers = await asyncio.gather(*(self._answer(windows.slice(start, start + self._batch)) for start in starts))
        return Imputed.joined(answers)

    async def close(self) -> None:
        """Release every rung."""
        trials = list(self._trials)
        for trial in trials:
            trial.cancel()
        await asyncio.gather(*trials, return_exceptions=True)
        for rung in self.rungs:
            await rung.close()

    async def _answer(self, windows: Windows) -> Imputed:
        lane = self._lane(windows.model)
        async with lane.gate:
            for rung, breaker in zip(self.rungs, lane.breakers, strict=True):
                if not breaker.admits(asyncio.get_running_loop().time()):
                    continue
                call = self._call(rung, breaker, windows)
                answer = await (self._trial(call) if breaker.state is State.HALF_OPEN else call)
                if answer is not None:
                    return answer
        shape = (*windows.values.shape[:2], windows.steps)
        nothing = np.full(shape, np.nan)
        return Imputed(nothing, np.full(shape, Method.NONE, np.int8), [""] * len(windows))

    def _lane(self, model: str) -> _Lane:
        if model not in self._lanes:
            breakers = [Breaker(self._rest_s, partial(self._on_state, rung.name, model)) for rung in self.rungs]
            self._lanes[model] = _Lane(breakers, self._in_flight)
        return self._lanes[model]

    async def _call(self, rung: Rung, breaker: Breaker, windows: Windows) -> Imputed | None:
        """Call a rung and report the outcome to its breaker; None if it could not impute.

        A call that is cancelled says nothing about the imputer, but a breaker that waits for a trial needs a report.
        """
        responded, cancelled = False, False
        try:
            answer = await rung.impute(windows)
            responded = True
            return answer
        except ImputerAbsent:
            responded = True
            return None
        except ImputerError as error:
            responded = not isinstance(error, ImputerUnavailable)
            self._on_failure(rung.name, windows.model)
            log.warning("%s failed to impute %d windows of model %s: %s", rung.name, len(windows), windows.model, error)
            return None
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:  # on other errors too: without a report the breaker would stay half open
            if responded:
                breaker.answered()
            elif not cancelled or breaker.state is State.HALF_OPEN:
                breaker.failed(asyncio.get_running_loop().time())

    async def _trial(self, call: Coroutine[None, None, Imputed | None]) -> Imputed | None:
        """Wait TRIAL_WAIT_S for a call; a slower one goes on for its breaker's sake while the batch goes one rung down.

        Such a call is no longer in the queue of its model, but a breaker admits one trial at a time.
        """
        trial = asyncio.create_task(call)
        self._trials.add(trial)
        trial.add_done_callback(self._trials.discard)
        try:
            await asyncio.wait({trial}, timeout=TRIAL_WAIT_S)
        except asyncio.CancelledError:
            trial.cancel()
            raise
        if trial.done():
            return trial.result()
        trial.add_done_callback(_log_error)
        return None


class _Lane:
    """Breakers, one for each rung, and queue of one model."""

    def __init__(self, breakers: list[Breaker], in_flight: int) -> None:
        self.breakers = breakers
        self.gate = asyncio.Semaphore(in_flight)


def _log_error(trial: asyncio.Task[Imputed | None]) -> None:
    """Log an internal error of a trial for which no batch waits any more."""
    if not trial.cancelled() and trial.exception() is not None:
        log.error("internal error in a trial of an imputer", exc_info=trial.exception())
