"""An event loop in a thread of its own, for requests that follow each other while the main loop decodes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class OwnLoop:
    """A loop that runs in a daemon thread until `close`, or until the process ends."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and return its result, from the loop of the caller.

        A caller that is cancelled waits until the coroutine has ended too, as if it ran here.
        """
        here = asyncio.get_running_loop()
        done: asyncio.Future[None] = here.create_future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(lambda _: here.call_soon_threadsafe(_set_done, done))

        self._loop.call_soon_threadsafe(begin)
        cancelled: asyncio.CancelledError | None = None
        while not done.done():
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError as error:
                cancelled = error
                self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        if cancelled is not None:
            tasks[0].cancelled() or tasks[0].exception()  # retrieved: it is not reported as forgotten
            raise cancelled
        return tasks[0].result()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
