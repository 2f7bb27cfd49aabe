"""The scores of a partition, and the live accuracy that is summed up beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Scores
from glaim_stream.output.quality import PartitionQuality


class PartitionScores(Scores):
    """Scores that belong to the partition's windows and are replaced together with them."""

    def __init__(self, sensors: Sequence[int], *, quality: PartitionQuality | None = None) -> None:
        """Start without errors.

        Args:
            sensors: number of sensors of each model.
            quality: sums up the live accuracy; None where it is not published.
        """
        super().__init__(sensors)
        self.quality = quality

    def group_codes(self) -> list[NDArray[np.int32]]:
        """Codes of the groups that wait for an upgrade, or are in the live accuracy."""
        return super().group_codes() + ([] if self.quality is None else self.quality.group_codes())
