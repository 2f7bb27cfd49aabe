"""The filled cells of a column, the columns beside it, and new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import DOUBTFUL, METHODS, Method

BESIDE = ("method", "lower", "upper")


@dataclass(frozen=True)
class FilledColumn:
    """A column of readings with its holes filled; arrays have one cell per row of the table.

    place: index of the column in the table.
    value: float64, filled values; NaN where the cell of the table stays as it is.
    lower, upper: float64, bounds of filled values.
    method: uint8, codes of glaim_stream.core.vocabulary.Method; NONE in cells that hold no reading and stay so.
    doubted: bool, doubtful readings, which are kept and not used.
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
        """Rows with a filled cell."""
        return np.flatnonzero(np.isfinite(self.value))

    def methods(self) -> list[str]:
        """The name of each row's method, or `doubtful`."""
        names = np.array(METHODS, object)
        return list(np.where(self.doubted, DOUBTFUL, names[self.method]))


@dataclass(frozen=True)
class NewRows:
    """Rows to insert into a table, with filled values in the order of its columns.

    below: int64 [k], row of the table above each new row, ascending; several new rows may follow the same one.
    time_ms: int64 [k], times of the new rows.
    values: float64 [columns, k], filled values.
    half: float64 [columns, k], half of the values' bands; NaN where unknown.
    """

    below: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    half: NDArray[np.float64]


def beside(name: str, taken: Sequence[str]) -> list[str]:
    """Names of the columns of method and bounds beside a sensor's column, different from all names in the table."""
    names = []
    for each in BESIDE:
        new = f"{name}_{each}"
        while new in taken:
            new += "_"
        names.append(new)
    return names


assert METHODS[Method.NONE] == "none"
