"""Restores a partition's windows after they were lost or left half changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from glaim_stream.core.readings import InputRecord
from glaim_stream.windows import PartitionWindows, Probes


@dataclass(frozen=True, slots=True)
class Restored:
    """Windows as they were before a batch.

    `probes` are the probes of the newest steps: querying the imputer for them again gives the errors that the blending
    weights are made of.
    """

    windows: PartitionWindows
    probes: list[Probes] = field(default_factory=list)


class Restore(ABC):
    """A way to restore the windows of one partition.

    The live worker reads the topic again (glaim_stream.worker.restore). A replay, which may read a file and cannot go
    back in it, keeps a copy and the batches since (glaim_stream.feed.replay.partition).
    """

    @abstractmethod
    async def before(self, offset: int) -> Restored:
        """Return the windows as they were before the record at this offset."""

    def note_applied(self, records: Sequence[InputRecord], windows: PartitionWindows) -> None:  # noqa: B027
        """Note a batch that was applied to the windows without an error."""

    def note_isolated(self, windows: PartitionWindows) -> None:  # noqa: B027
        """Note the windows after a batch of which some records could not be applied."""
