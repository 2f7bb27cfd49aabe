"""Arrays of numpy as tables: rows of even steps, columns x0, x1, ... as scikit-learn names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.errors import TableError, TableTypeError
from glaim_stream.tables.frame import Fill, Number, Times, WithoutIndex, cast


@dataclass(frozen=True)
class NumpyFrame(WithoutIndex):
    """An array [rows, columns], or [rows] for a single column."""

    array: NDArray[Any]

    @classmethod
    def of(cls, array: Any) -> NumpyFrame:
        """See `frame_of`."""
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TableTypeError(f"expected a plain numpy array with NaN where missing, found {type(array).__name__}")
        if array.dtype.kind == "c":
            raise TableError("Complex data not supported: expected real numbers")
        if array.dtype.kind not in "fiubO":
            raise TableTypeError(f"expected an array of numbers, found one of {array.dtype}")
        if array.ndim not in (1, 2):
            raise TableError(f"expected an array of rows and columns, found {array.ndim} dimensions")
        return cls(array)

    @property
    def names(self) -> Sequence[str]:
        """See `Frame`."""
        return [f"x{number}" for number in range(self._matrix.shape[1])]

    @property
    def rows(self) -> int:
        """See `Frame`."""
        return len(self.array)

    @property
    def _matrix(self) -> NDArray[Any]:
        return self.array if self.array.ndim == 2 else self.array[:, None]

    def _column(self, name: str) -> int:
        return int(name.removeprefix("x"))

    def number(self, name: Any) -> Number | None:
        """See `Frame`."""
        column = self._matrix[:, self._column(name)]
        if column.dtype.kind == "b":
            return None
        try:
            # All columns share the array's type, so it tells nothing about a single one.
            return Number(column.astype(np.float64), whole=False)
        except (TypeError, ValueError) as error:
            raise TableTypeError(f"column {name}: expected numbers: {error}") from error

    def times(self, name: Any) -> Times | None:
        """See `Frame`: an array of numbers has none."""
        return None

    def texts(self, name: Any) -> list[Any] | None:
        """See `Frame`: an array of numbers has none."""
        return None

    def labels(self, name: Any) -> Sequence[Any]:
        """See `Frame`."""
        found: Sequence[Any] = self._matrix[:, self._column(name)].tolist()
        return found

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """See `Frame`."""
        out = np.array(self.array, order="K", subok=True)
        matrix = out if out.ndim == 2 else out[:, None]
        for name, fill in fills.items():
            values = fill.values[fill.made]
            matrix[fill.made, self._column(name)] = values if out.dtype == object else cast(values, out.dtype, name)
        return out
