"""Tables of any library in memory: their columns, and the same table with some cells filled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError
from glaim_stream.files import plain

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


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


@dataclass(frozen=True)
class Frame:
    """A table with named columns.

    table: the table, without an index of pandas.
    same_kind: returns a table as the kind that was passed.
    index_times: times in the index of pandas; None without any.
    index_groups: labels of the other levels of the index, by name.
    """

    table: nw.DataFrame[Any]
    same_kind: Callable[[Any], Any] = lambda table: table
    index_times: Any = None
    index_groups: Mapping[Any, Sequence[Any]] = field(default_factory=dict)

    @property
    def names(self) -> Sequence[Any]:
        """Names of the columns, in order."""
        return self.table.columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.table.shape[0]

    @cached_property
    def numbers(self) -> dict[Any, Number]:
        """Columns of numbers by name. Booleans are not numbers."""
        found = {}
        for name in self.names:
            column = self.table.get_column(name)
            kind = column.dtype
            if kind.is_integer() or kind.is_float() or (kind == nw.Object and _holds_numbers(column)):
                values = pc.cast(column.to_arrow(), pa.float64(), safe=False).to_numpy(zero_copy_only=False)
                found[name] = Number(np.array(values, np.float64), kind.is_integer())
        return found

    def arrow(self, name: Any) -> Any:
        """Return the cells of a column as an Arrow array, see `plain`; as text if they have several types."""
        column = self.table.get_column(name)
        try:
            return plain(column.to_arrow())
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array([None if _is_missing(cell) else str(cell) for cell in column.to_list()], pa.string())

    def labels(self, name: Any) -> list[str]:
        """Return the cells of any column or level of the index as text, "" where missing."""
        cells = self.index_groups[name] if name in self.index_groups else self.table.get_column(name).to_list()
        return ["" if _is_missing(cell) else str(cell) for cell in cells]

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """Return a table of the same kind with some cells filled; the original is unchanged.

        Raises:
            TableTypeError: the type of a column cannot hold the values.
        """
        columns = []
        for name, fill in fills.items():
            column = self.table.get_column(name)
            values = fill.values[fill.made]
            if column.dtype != nw.Object:
                values = cast(values, np.dtype(str(column.dtype).lower()), name)
            columns.append(column.scatter(np.flatnonzero(fill.made).tolist(), values.tolist()))
        table = self.table.clone() if self.table.implementation.is_pandas_like() else self.table
        return self.same_kind(table.with_columns(*columns).to_native() if columns else table.to_native())


@dataclass(frozen=True)
class ArrayFrame(Frame):
    """An array of numpy [rows, columns], or [rows] for a single column: x0, x1, ... as scikit-learn names them."""

    array: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def rows(self) -> int:
        """Number of rows; an array without columns has rows, too."""
        return len(self.array)

    @cached_property
    def numbers(self) -> dict[Any, Number]:
        """See `Frame`. All columns share the array's type, so it tells nothing about a single one."""
        if self.array.dtype.kind == "b":
            return {}
        try:
            return {name: Number(self._column(self.array, name).astype(np.float64), whole=False) for name in self.names}
        except (TypeError, ValueError) as error:
            raise TableTypeError(f"expected columns of numbers: {error}") from error

    def arrow(self, name: Any) -> Any:
        """See `Frame`."""
        return pa.array(self._column(self.array, name))

    def labels(self, name: Any) -> list[str]:
        """See `Frame`."""
        return ["" if _is_missing(cell) else str(cell) for cell in self._column(self.array, name).tolist()]

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """See `Frame`."""
        out = np.array(self.array, order="K", subok=True)
        for name, fill in fills.items():
            values = fill.values[fill.made]
            self._column(out, name)[fill.made] = values if out.dtype == object else cast(values, out.dtype, name)
        return out

    def _column(self, array: NDArray[Any], name: str) -> NDArray[Any]:
        return array[:, int(name.removeprefix("x"))] if array.ndim == 2 else array


def frame_of(table: Any) -> Frame:
    """Return the frame of a table of pandas, polars, pyarrow or numpy, or of another library that narwhals knows.

    Lazy frames are collected; those of polars come back lazy. A table of an unknown library that exports Arrow's stream
    of batches comes back as a table of pyarrow.

    Raises:
        TableError, TableTypeError: the table is something else, or has two columns of one name.
    """
    if isinstance(table, np.ndarray):
        return _of_array(table)
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(table):
        raise TableTypeError("sparse data was passed, but dense data is required: a sparse table has no missing cells")
    if isinstance(table, pa.RecordBatch):
        return Frame(nw.from_native(pa.Table.from_batches([table]), eager_only=True), _as_batch)
    try:
        found = nw.from_native(table, allow_series=True)
    except nw.exceptions.DuplicateError:
        require_unique(list(table.columns))
        raise
    except TypeError as error:
        if not hasattr(table, "__arrow_c_stream__"):
            kind = f"{type(table).__module__}.{type(table).__qualname__}".removeprefix("builtins.")
            raise TableTypeError(f"expected a table of pandas, polars, pyarrow or numpy, found {kind}") from error
        found = nw.from_native(pa.table(table), eager_only=True)
    if isinstance(found, nw.LazyFrame):
        lazy = found.implementation.is_polars()
        return Frame(found.collect(), (lambda filled: filled.lazy()) if lazy else _unchanged)
    same_kind: Callable[[Any], Any] = _unchanged
    if isinstance(found, nw.Series):
        found, same_kind = found.to_frame(), _as_series_like(table)
    require_unique(found.columns)
    if not found.implementation.is_pandas_like():
        return Frame(found, same_kind)
    return Frame(found, same_kind, *_index_of(found.to_native().index))


def _unchanged(table: Any) -> Any:
    return table


def _of_array(array: NDArray[Any]) -> ArrayFrame:
    if isinstance(array, np.ma.MaskedArray):
        raise TableTypeError(f"expected a plain numpy array with NaN where missing, found {type(array).__name__}")
    if array.dtype.kind == "c":
        raise TableError("Complex data not supported: expected real numbers")
    if array.dtype.kind not in "fiubO":
        raise TableTypeError(f"expected an array of numbers, found one of {array.dtype}")
    if array.ndim not in (1, 2):
        raise TableError(f"expected an array of rows and columns, found {array.ndim} dimensions")
    columns = [f"x{place}" for place in range(array.shape[1] if array.ndim == 2 else 1)]
    return ArrayFrame(nw.from_native(pa.table({name: pa.nulls(0) for name in columns}), eager_only=True), array=array)


def _as_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _as_series_like(series: Any) -> Callable[[Any], Any]:
    """Returns the only column of a table; a series of pandas keeps its name and attributes."""

    def same_kind(table: Any) -> Any:
        column = nw.from_native(table, eager_only=True)[:, 0].to_native()
        if hasattr(series, "attrs"):
            column = column.rename(series.name)
            column.attrs = dict(series.attrs)
        return column

    return same_kind


def _index_of(index: Any) -> tuple[Any, dict[Any, Sequence[Any]]]:
    """The times in an index of pandas as Arrow timestamps or None, and the labels of the other levels by name.

    Raises:
        TableError: two levels hold times.
    """
    if index.nlevels == 1:
        return _index_times(index), {}
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    times = [_index_times(each) for each in levels]
    timed = [each for each in times if each is not None]
    if len(timed) > 1:
        raise TableError("expected one level of times in the index, found more: state one by `time`")
    names = [level if name is None else name for level, name in enumerate(index.names)]
    others = {name: each.tolist() for name, each, time in zip(names, levels, times, strict=True) if time is None}
    return timed[0] if timed else None, others


def _index_times(index: Any) -> Any:
    kind = type(index).__name__
    if kind == "PeriodIndex":
        index = index.to_timestamp()
    elif kind == "TimedeltaIndex":
        index = index + np.datetime64(0, "ns")
    elif kind != "DatetimeIndex":
        return None
    return pa.Array.from_pandas(index)


def _holds_numbers(column: nw.Series[Any]) -> bool:
    """Whether the objects of a column are numbers, some of them fractions, None or NaN."""
    cells = [cell for cell in column.to_list() if not _is_missing(cell)]
    numbers = all(isinstance(cell, Real) and not isinstance(cell, (bool, np.bool_)) for cell in cells)
    return numbers and any(isinstance(cell, (float, np.floating)) for cell in cells)


def _is_missing(cell: Any) -> bool:
    return cell is None or str(cell) in ("NaT", "<NA>") or bool(cell != cell)


def cast(values: Doubles, dtype: Any, name: Any) -> NDArray[Any]:
    """Convert filled values to the type of their column; whole numbers are rounded.

    Raises:
        TableTypeError: the type cannot hold the values.
    """
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


class TableError(SettingsError, ValueError):
    """A table cannot be filled as asked."""


class TableTypeError(SettingsError, TypeError):
    """A table, or one of its columns, has a type that cannot be filled."""
