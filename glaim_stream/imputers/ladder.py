"""The ladder: calls the best imputer that is available, for batches of windows with several calls in flight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from glaim_stream.errors import ImputerError, ImputerUnavailable
from glaim_stream.imputers.breaker import Breaker, State
from glaim_stream.imputers.protocol import Imputed, Rung, Windows
from glaim_stream.vocabulary import Method

log = logging.getLogger(__name__)


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
        on_failure: Callable[[str], None] = lambda rung: None,
        on_state: Callable[[str, State], None] = lambda rung, state: None,
    ) -> None:
        """Build a ladder.

        Args:
            rungs: best first.
            batch: most windows in one call; larger batches use the accelerator better and wait longer.
            in_flight: most calls at a time; more calls hide latency and hold more memory.
            rest_s: how long a rung is skipped after it was unavailable, before one batch tries it again, so that an
                imputer that is down does not delay every batch (see Breaker).
            on_failure: called with the name of a rung that failed.
            on_state: called with the name of a rung and the new state of its breaker.
        """
        self.rungs = list(rungs)
        self._batch = batch
        self._gate = asyncio.Semaphore(in_flight)
        self._breakers = [Breaker(rest_s, partial(on_state, rung.name)) for rung in self.rungs]
        self._on_failure = on_failure

    async def impute(self, windows: Windows) -> Imputed:
        """Impute; windows that no rung could impute get NaN with method NONE."""
        starts = range(0, len(windows), self._batch)
        answers = await asyncio.gather(*(self._answer(windows.slice(start, start + self._batch)) for start in starts))
        return Imputed(
            np.concatenate([answer.values for answer in answers]),
            np.concatenate([answer.method for answer in answers]),
            [version for answer in answers for version in answer.version],
        )

    async def close(self) -> None:
        """Release every rung."""
        for rung in self.rungs:
            await rung.close()

    async def _answer(self, windows: Windows) -> Imputed:
        async with self._gate:
            for rung, breaker in zip(self.rungs, self._breakers, strict=True):
                if not breaker.admits(asyncio.get_running_loop().time()):
                    continue
                responded = False
                try:
                    answer = await rung.impute(windows)
                    responded = True
                    return answer
                except ImputerError as error:
                    responded = not isinstance(error, ImputerUnavailable)
                    self._on_failure(rung.name)
                    log.warning(
                        "%s failed to impute %d windows of model %s: %s", rung.name, len(windows), windows.model, error
                    )
                finally:  # also when cancelled or on another error: without a report the breaker would stay half open
                    if responded:
                        breaker.answered()
                    else:
                        breaker.failed(asyncio.get_running_loop().time())
        shape = (*windows.values.shape[:2], windows.steps)
        nothing = np.full(shape, np.nan, np.float32)
        return Imputed(nothing, np.full(shape, Method.NONE, np.int8), [""] * len(windows))
