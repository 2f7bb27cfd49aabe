"""Applied batches that wait to be published, and the choice of those that share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from glaim_stream.output import Output
from glaim_stream.pipeline import Pending
from glaim_stream.worker.batches import Batch


class UnpublishedQueue:
    """Batches and slices in order.

    Without transactions each is published by itself. A transaction holds whole batches, because it holds exactly the
    output of the offsets that it commits: the outputs of a batch's slices wait for its last one.
    """

    def __init__(self, most: int, *, transactions: bool) -> None:
        """Start empty; at `most` batches and slices, `put` waits."""
        self._queue: asyncio.Queue[Batch] = asyncio.Queue(most)
        self._transactions = transactions
        self._following: Batch | None = None  # taken from the queue, and not returned yet

    def empty(self) -> bool:
        """Whether everything was taken."""
        return self._following is None and self._queue.empty()

    def clear(self) -> None:
        """Drop everything."""
        self._following = None
        while not self._queue.empty():
            self._queue.get_nowait()

    async def put(self, applied: Batch) -> None:
        """Add a batch or a slice; wait for room."""
        await self._queue.put(applied)

    async def next_to_publish(
        self, output_of: Callable[[Pending], Awaitable[Output]]
    ) -> tuple[list[Batch], list[Output]]:
        """Wait for what is published next.

        Args:
            output_of: waits for the imputer and makes the output; called in order.

        Returns:
            The slice or the whole batches to answer afterwards, and the outputs.
        """
        outputs: list[Output] = []
        together = [await self._last_slice(output_of, outputs)]
        while self._transactions and not self._queue.empty():  # ready batches share a transaction
            following = self._queue.get_nowait()
            if following.more or (following.pending is not None and not following.pending.ready):
                self._following = following
                break
            together.append(following)
        outputs += [await output_of(applied.pending) for applied in together if applied.pending is not None]
        return together, outputs

    async def _last_slice(self, output_of: Callable[[Pending], Awaitable[Output]], outputs: list[Output]) -> Batch:
        """Return the last slice of the next batch; add the outputs that share a transaction with it to `outputs`.

        Outputs of a record that could not be applied are left out: the last slice makes its rows again.
        """
        applied = await self._next()
        complete = 0  # outputs up to the last complete record
        while applied.more and self._transactions:
            assert applied.pending is not None
            outputs.append(await output_of(applied.pending))
            if applied.pending.records:
                complete = len(outputs)
            applied = await self._next()
        if applied.pending is not None and applied.pending.repeats:
            del outputs[complete:]
        return applied

    async def _next(self) -> Batch:
        following, self._following = self._following, None
        return following or await self._queue.get()
