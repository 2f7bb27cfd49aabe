"""Deletes outdated records from the quality topic; those of an earlier worker are read once, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from glaim_stream.core.retry import QUALITY_KEYS
from glaim_stream.output import Output
from glaim_stream.output.quality import KeptKeys

log = logging.getLogger(__name__)

ReadTopic = Callable[[], AsyncIterator[tuple[bytes, bytes | None]]]


class QualityKeys:
    """The keys of one partition of the quality topic, while this worker owns it."""

    def __init__(self, new: Callable[[], KeptKeys], read: ReadTopic) -> None:
        """Prepare.

        Args:
            new: makes the memory of this partition's keys.
            read: yields key and value of the records that the topic holds.
        """
        self._new, self._read = new, read
        self._kept = new()
        self._task: asyncio.Task[None] | None = None

    def complete(self, output: Output) -> Output:
        """Add the tombstones that belong to an output."""
        if self._task is None:
            self._task = asyncio.create_task(self._find(self._kept))
        if not output.quality:
            return output
        return replace(output, quality=[*output.quality, *self._kept.published(output.quality)])

    async def restart(self) -> None:
        """Forget everything: pending output may not have been published, and the partition may have moved."""
        await self.close()
        self._kept, self._task = self._new(), None

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _find(self, kept: KeptKeys) -> None:
        async def read() -> None:
            async for key, value in self._read():
                kept.found(key, value)
            kept.found_all()

        await QUALITY_KEYS.until_done(
            read, Exception,
            lambda error, pause_s: log.warning("cannot read the quality topic, retrying in %.1f s: %r", pause_s, error),
        )  # fmt: skip
