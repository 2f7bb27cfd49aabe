"""What is written into a column of a table, and beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import DOUBTFUL, METHODS, Method

BESIDE = ("method", "lower", "upper")


@dataclass(frozen=True)
class FilledColumn:
    """A column of readings with its holes filled; arrays have a cell for each row of the table.

    place: of the column in the table.
    value: float64, NaN where nothing is filled in; a cell with a number here is replaced.
    lower, upper: float64, bounds of the filled values.
    method: uint8, glaim_stream.core.vocabulary.Method; NONE in cells that are no reading and remain so.
    doubted: bool, readings that stand apart from those around them; they are kept, and used for nothing.
    """

    place: int
    name: str
    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    method: NDArray[np.uint8]
    doubted: NDArray[np.bool_]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows whose cell is filled."""
        return np.flatnonzero(np.isfinite(self.value))

    def methods(self) -> list[str]:
        """The name of each row's method, or `doubtful`."""
        names = np.array(METHODS, object)
        return list(np.where(self.doubted, DOUBTFUL, names[self.method]))


@dataclass(frozen=True)
class NewRows:
    """Rows to insert: each below a row of the table, with its time, and the filled values in the order of the columns.

    below: int64 [k], rows of the table, ascending; several new rows may follow the same one.
    time_ms: int64 [k].
    values: float64 [columns, k].
    half: float64 [columns, k], half of their bands; NaN where that is unknown.
    """

    below: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    half: NDArray[np.float64]


def beside(name: str, taken: Sequence[str]) -> list[str]:
    """Names of the columns of method and bounds beside a sensor's, different from those that the table has."""
    names = []
    for each in BESIDE:
        new = f"{name}_{each}"
        while new in taken:
            new += "_"
        names.append(new)
    return names


assert METHODS[Method.NONE] == "none"
