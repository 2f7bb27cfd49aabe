"""The output side of a partition: publishes the output and commits the input that it answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from glaim_stream.kafka import Commit, OwnLoop, TransactionalPublisher
from glaim_stream.output import Output, Publisher

log = logging.getLogger(__name__)

T = TypeVar("T")


class Outlet(Protocol):
    """The output side of one partition."""

    exactly_once: bool

    async def begin(self, first_offset: int | None, seeks: int) -> tuple[int, int]:
        """Become the only publisher of the partition.

        Args:
            first_offset: first offset of the batch at hand; None while the partition is quiet.
            seeks: number of times the position had been moved before the poll that gave the batch.

        Returns:
            The offset from which the partition continues, and the lowest `seeks` of the batches that count: those
            with fewer began elsewhere.

        Raises:
            OwnershipLost: the partition belongs to another worker.
        """
        ...

    def continue_at(self, offset: int, seeks: int) -> int:
        """Have the records from `offset` on delivered, after a `begin` without a batch and before the first one.

        Returns:
            The lowest `seeks` of the batches that count.
        """
        ...

    async def publish(self, outputs: Sequence[Output], commit: Commit | None) -> None:
        """Publish outputs in order; return when the broker has acknowledged all of them.

        Raises:
            OwnershipLost: the partition may belong to another worker.
        """
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class AtLeastOnce:
    """At-least-once output: the consumer may commit offsets once their output is acknowledged."""

    exactly_once = False

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def begin(self, first_offset: int | None, seeks: int) -> tuple[int, int]:
        """See Outlet. The consumer's position counts."""
        return first_offset or 0, seeks

    def continue_at(self, offset: int, seeks: int) -> int:
        """See Outlet. The consumer's position counts."""
        return seeks

    async def publish(self, outputs: Sequence[Output], commit: Commit | None) -> None:
        """See Outlet."""
        for output in outputs:
            await self._publisher.publish(output)

    async def close(self) -> None:
        """See Outlet. The publisher is shared with the other partitions."""


class ExactlyOnce:
    """Output that commits together with its offsets, in transactions."""

    exactly_once = True

    def __init__(
        self, publisher: TransactionalPublisher, continue_from: Callable[[int], int], there: OwnLoop | None = None
    ) -> None:
        """Prepare.

        Args:
            publisher: publisher of this partition alone.
            there: the loop in which the publisher works; None: that of the caller.
            continue_from: moves the consumer to an offset before its next poll, and returns the number that batches
                carry from then on.
        """
        self._publisher = publisher
        self._continue_from = continue_from
        self._there = there

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return await (work if self._there is None else self._there.run(work))

    async def begin(self, first_offset: int | None, seeks: int) -> tuple[int, int]:
        """See Outlet.

        The consumer may have fetched its position before the last owner's commit was visible, so the commit is read
        after that owner is fenced, and the consumer goes there. Where nothing is committed, it goes to the beginning:
        batches before the one at hand may have been dropped in a rebalance.
        """
        committed = await self._run(self._publisher.begin())
        start = 0 if committed is None else committed
        self._publisher.once_from = start
        log.info("%s: exactly once from offset %d", self._publisher.transactional_id, start)
        if first_offset in (start, None):
            return start, seeks
        return start, self._continue_from(start)

    def continue_at(self, offset: int, seeks: int) -> int:
        """See Outlet."""
        return self._continue_from(offset)

    async def publish(self, outputs: Sequence[Output], commit: Commit | None) -> None:
        """See Outlet."""
        assert commit is not None
        await self._run(self._publisher.publish(outputs, commit))

    async def close(self) -> None:
        """See Outlet."""
        await self._run(self._publisher.close())
