"""Counts the CPU time that the page takes from its worker."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

from glaim_stream.core import metrics

T = TypeVar("T")


class ThreadCost:
    """A counter of the CPU time of the thread that created it."""

    def __init__(self) -> None:
        self._booked_s = time.thread_time()

    def book(self) -> None:
        """Add the CPU time since the last call."""
        now_s = time.thread_time()
        metrics.page_cpu_seconds.inc(now_s - self._booked_s)
        self._booked_s = now_s


async def booked(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, and count the CPU time of its own turns in the event loop."""
    return await _Turns(work)


class _Turns(Generic[T]):
    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._turns = work.__await__()

    def __await__(self) -> Generator[Any, Any, T]:
        while True:
            cost = ThreadCost()
            try:
                turn = next(self._turns)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                cost.book()
            yield turn
