"""The interface of a fill to tables of any library."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glaim_stream.tables.errors import TableError, TableTypeError

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Times:
    """Times of rows, int64 [rows] in epoch ms or NO_TIME, and the name of their zone if stated."""

    ms: Ints
    zone: str | None = None


@dataclass(frozen=True)
class Number:
    """A column of numbers.

    values: float64 [rows], NaN where missing.
    whole: True if the column's type holds only whole numbers.
    """

    values: Doubles
    whole: bool


@dataclass(frozen=True)
class Fill:
    """Values [rows] for the cells of a column marked by `made` [rows]."""

    made: Bools
    values: Doubles


class Frame(Protocol):
    """A table of a certain library."""

    @property
    def names(self) -> Sequence[Any]:
        """Names of the columns, in order."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def number(self, name: Any) -> Number | None:
        """Return a column of numbers; None if it has another type. Booleans are not numbers."""

    def times(self, name: Any) -> Times | None:
        """Return a column of times; None if it has another type."""

    def texts(self, name: Any) -> list[Any] | None:
        """Return the cells of a column of text, None where missing; None if it has another type."""

    def labels(self, name: Any) -> Sequence[Any]:
        """Return the cells of any column or level of the index."""

    def index_times(self) -> Times | None:
        """Return the times in the index; None if it has none."""

    def index_groups(self) -> list[Any]:
        """Return the names of the index levels other than its times, for `labels`."""

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """Return a table of the same kind with some cells filled; the original is unchanged."""


class WithoutIndex:
    """The part of a `Frame` whose library has no index."""

    def index_times(self) -> Times | None:
        """See `Frame`: there is no index."""
        return None

    def index_groups(self) -> list[Any]:
        """See `Frame`: there is no index."""
        return []


def frame_of(table: Any) -> Frame:
    """Return the frame of a table of pandas, polars, pyarrow or numpy.

    Raises:
        TableTypeError: the table is something else.
    """
    library = ""
    for base in type(table).__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("pandas", "polars", "pyarrow", "numpy"):
            break
    if library == "pandas":
        from glaim_stream.tables.pandas_frame import PandasFrame

        return PandasFrame.of(table)
    if library == "polars":
        from glaim_stream.tables.polars_frame import PolarsFrame

        return PolarsFrame.of(table)
    if library == "pyarrow":
        from glaim_stream.tables.arrow_frame import ArrowFrame

        return ArrowFrame.of(table)
    if library == "numpy":
        from glaim_stream.tables.numpy_frame import NumpyFrame

        return NumpyFrame.of(table)
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(table):
        raise TableTypeError("sparse data was passed, but dense data is required: a sparse table has no missing cells")
    raise unknown(table)


def unknown(table: Any) -> TableTypeError:
    """The error for an object that is not a table."""
    kind = f"{type(table).__module__}.{type(table).__qualname__}".removeprefix("builtins.")
    return TableTypeError(f"expected a table of pandas, polars, pyarrow or numpy, found {kind}")


def cast(values: Doubles, dtype: Any, name: Any) -> NDArray[Any]:
    """Convert filled values to the type of their column; whole numbers are rounded.

    Raises:
        TableTypeError: the type cannot hold the values.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            out = values.astype(dtype)
        if np.isfinite(out).all():
            return out
        raise TableTypeError(f"column {name!r}: its type {dtype} cannot hold the filled value {values.max():g}")
    rounded, limits = np.rint(values), np.iinfo(dtype)
    outside = (rounded < limits.min) | (rounded > limits.max)
    if outside.any():
        raise TableTypeError(f"column {name!r}: its type {dtype} cannot hold the filled value {rounded[outside][0]:g}")
    return rounded.astype(dtype)


def require_unique(names: Sequence[Any]) -> None:
    """Require that column names differ as text.

    Raises:
        TableError: two names are the same text.
    """
    seen: set[str] = set()
    for name in names:
        if str(name) in seen:
            raise TableError(f"expected columns of different names, found {str(name)!r} twice")
        seen.add(str(name))


def require_milliseconds(times_ns: Ints, what: str) -> None:
    """Require that successive times usually differ by a millisecond or more.

    Raises:
        TableError: most times are closer.
    """
    differences = np.diff(np.unique(times_ns))
    if len(differences) and np.median(differences) < 1_000_000:
        raise TableError(f"{what} has steps of less than a millisecond: pass time=False to take the rows as even steps")
