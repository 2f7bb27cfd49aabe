"""What is tried again, with which pauses, and what gives up: one policy for each loop that does so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

JITTER = 0.25  # share of a pause; enough that workers which failed together do not all come back together

_Result = TypeVar("_Result")
_Failure = TypeVar("_Failure", bound=Exception)


def pauses_s(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield the length of each pause in seconds, without end: doubled each time, up to `longest_s`, less the jitter."""
    pause_s = first_s
    while True:
        yield pause_s * (1 - JITTER * random.random())  # noqa: S311 - no secret depends on it
        pause_s = min(2 * pause_s, longest_s)


@dataclass(frozen=True, slots=True)
class Retry:
    """Lengths of the first and of the longest pause, in seconds; those between are doubled."""

    first_s: float = 0.1
    longest_s: float = 10.0

    def pauses(self, *, most_s: float | None = None) -> Iterator[float]:
        """The pauses after one failed attempt after the other, up to `most_s`; new ones begin after a success."""
        return pauses_s(self.first_s, self.longest_s if most_s is None else most_s)

    async def until_done(
        self,
        attempt: Callable[[], Awaitable[_Result]],
        after: type[_Failure],
        failed: Callable[[_Failure, float], object],
    ) -> _Result:
        """Await an attempt again and again until it returns.

        Args:
            attempt: makes the awaitable of an attempt.
            after: kind of error after which it is tried again; others are raised.
            failed: called with the error and the length of the pause, seconds.
        """
        pauses = self.pauses()
        while True:
            try:
                return await attempt()
            except after as error:
                pause_s = next(pauses)
                failed(error, pause_s)
            await asyncio.sleep(pause_s)


PUBLISH = Retry()  # a message or transaction without acknowledgement: until it has one or another worker takes over
OWNERSHIP = Retry()  # whether a partition is this worker's, and how its transactions begin: until the broker tells
MARKERS = Retry(0.002, 0.02)  # the broker writes the markers of the transaction before, some milliseconds
READ_COMMIT = Retry()  # any error of Kafka, without end
REBUILD = Retry()  # any error while windows are read again, without end
QUALITY_KEYS = Retry()  # any error while the quality topic is read, without end
LOST_OFFSETS = Retry()  # any error of the watch over offsets, without end
CREATE_TOPIC = Retry()  # brokers that the controller has fenced, for a minute
PREREQUISITES = Retry(0.5)  # `BrokerUnready` and models that are not there: a worker waits for them without end
FIRST_ANSWER = Retry(0.5, 5.0)  # any error of an imputer that has not answered since the start, without end
TRITON = Retry(0.05)  # Triton is away, loads, refuses a token, or a process behind a model died: until the deadline
MODEL_STORE = Retry(1.0, 30.0)  # errors of network and disk, as often as `models fetch --tries` says
