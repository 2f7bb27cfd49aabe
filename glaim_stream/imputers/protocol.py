"""What an imputer takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from glaim_stream.errors import WindowShapeError


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many groups of one model, stacked.

    values: float32 [n, C, window], sensor units, 0 where not observed.
    observed: bool [n, C, window], True where a reading arrived.
    steps: how many of the newest steps are asked for.
    """

    model: str
    values: NDArray[np.float32]
    observed: NDArray[np.bool_]
    steps: int

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.values.shape != self.observed.shape:
            raise WindowShapeError(
                f"windows must be [n, sensor, step] with observed alike, found {self.values.shape} and "
                f"{self.observed.shape}"
            )
        if not 1 <= self.steps <= self.values.shape[2]:
            raise WindowShapeError(f"steps must lie in 1..{self.values.shape[2]}, found {self.steps}")

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Windows:
        """Windows `[start, stop)`."""
        return Windows(self.model, self.values[start:stop], self.observed[start:stop], self.steps)

    def padded(self, count: int | None) -> Windows:
        """The same windows, the last of them repeated until there are `count`; None: as they are.

        A model computes the last bits of its answer by kernels that it chooses for the shape of the batch. In a batch
        of one fixed size each window gets the same bytes whoever travels with it.

        Raises:
            WindowShapeError: there are more than `count`.
        """
        if count is None or len(self) == count:
            return self
        if not 0 < len(self) < count:
            raise WindowShapeError(f"expected 1 to {count} windows for a fixed batch, found {len(self)}")
        rows = np.minimum(np.arange(count), len(self) - 1)
        return Windows(self.model, self.values[rows], self.observed[rows], self.steps)


@dataclass(frozen=True, slots=True)
class Imputed:
    """The answer for the newest `steps` of each window.

    values: float32 [n, C, steps], sensor units; NaN where the imputer knows nothing.
    method: int8 [n, C, steps], a records.Method.
    version: which version of a model answered for each window, "" for none; length n.
    """

    values: NDArray[np.float32]
    method: NDArray[np.int8]
    version: list[str]

    def slice(self, start: int, stop: int) -> Imputed:
        """Answers for the windows `[start, stop)`."""
        return Imputed(self.values[start:stop], self.method[start:stop], self.version[start:stop])


class Imputer(Protocol):
    """Fills windows; always answers."""

    async def impute(self, windows: Windows) -> Imputed:
        """Impute the newest steps of each window."""
        ...


class Rung(Protocol):
    """One imputer of the ladder; it may fail, and then the next one is asked."""

    @property
    def name(self) -> str:
        """Short name for metrics and logs."""
        ...

    async def impute(self, windows: Windows) -> Imputed:
        """Impute the newest steps of each window.

        Raises:
            ImputerError: it cannot answer.
        """
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...
