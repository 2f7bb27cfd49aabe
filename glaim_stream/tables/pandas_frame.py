"""Data frames and series of pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from glaim_stream.core.times import NO_TIME
from glaim_stream.tables.errors import TableError
from glaim_stream.tables.frame import Fill, Number, Times, cast, require_milliseconds, unknown


@dataclass(frozen=True)
class PandasFrame:
    """A data frame, or a series as a frame of one column."""

    table: Any
    series: Any = None

    @classmethod
    def of(cls, table: Any) -> PandasFrame:
        """See `frame_of`."""
        if isinstance(table, pd.Series):
            return cls(table.to_frame(), table)
        if not isinstance(table, pd.DataFrame):
            raise unknown(table)
        return cls(table)

    @property
    def names(self) -> Sequence[Any]:
        """See `Frame`."""
        return list(self.table.columns)

    @property
    def rows(self) -> int:
        """See `Frame`."""
        return len(self.table)

    def _column(self, name: Any) -> Any:
        return self.table.iloc[:, self.names.index(name)]

    def number(self, name: Any) -> Number | None:
        """See `Frame`."""
        column = self._column(name)
        if column.dtype == object and _numbers(column):
            return Number(pd.to_numeric(column).to_numpy(np.float64, na_value=np.nan), whole=False)
        whole = bool(pd.api.types.is_integer_dtype(column.dtype))
        if not (whole or pd.api.types.is_float_dtype(column.dtype)) or isinstance(column.dtype, pd.SparseDtype):
            return None
        return Number(column.to_numpy(np.float64, na_value=np.nan), whole)

    def times(self, name: Any) -> Times | None:
        """See `Frame`."""
        column = self._column(name)
        if not pd.api.types.is_datetime64_any_dtype(column.dtype):
            return None
        return _times(pd.DatetimeIndex(column), f"column {name!r}")

    def texts(self, name: Any) -> list[Any] | None:
        """See `Frame`."""
        column = self._column(name)
        if not (pd.api.types.is_string_dtype(column.dtype) or pd.api.types.is_object_dtype(column.dtype)):
            return None
        return [None if missing else cell for cell, missing in zip(column.tolist(), column.isna(), strict=True)]

    def labels(self, name: Any) -> Sequence[Any]:
        """See `Frame`."""
        cells = self._column(name) if name in self.names else self.table.index.get_level_values(name)
        found: Sequence[Any] = cells.tolist()
        return found

    def index_times(self) -> Times | None:
        """See `Frame`."""
        index = self.table.index
        if isinstance(index, pd.MultiIndex):
            timed = [level for level in range(index.nlevels) if _is_time(index.levels[level])]
            if len(timed) > 1:
                raise TableError("expected one level of times in the index, found more: state one by `time`")
            if not timed:
                return None
            index = index.get_level_values(timed[0])
        if isinstance(index, pd.PeriodIndex):
            index = index.to_timestamp()
        if isinstance(index, pd.TimedeltaIndex):
            index = pd.DatetimeIndex(index + pd.Timestamp(0))
        return _times(index, "the index") if isinstance(index, pd.DatetimeIndex) else None

    def index_groups(self) -> list[Any]:
        """See `Frame`."""
        index = self.table.index
        if not isinstance(index, pd.MultiIndex):
            return []
        others = [level for level in range(index.nlevels) if not _is_time(index.levels[level])]
        return [index.names[level] if index.names[level] is not None else level for level in others]

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """See `Frame`."""
        out = self.table.copy()
        for name, fill in fills.items():
            place = self.names.index(name)
            cells = self.table.iloc[:, place].array.copy()
            values = fill.values[fill.made]
            dtype = getattr(cells.dtype, "numpy_dtype", cells.dtype)
            cells[fill.made] = values if cells.dtype.kind == "O" else cast(values, dtype, name)
            out.isetitem(place, cells)
        if self.series is None:
            return out
        column = out.iloc[:, 0].rename(self.series.name)
        column.attrs = dict(self.series.attrs)
        return column


def _numbers(column: Any) -> bool:
    """Whether the objects of a column are numbers, None or NaN."""
    return pd.api.types.infer_dtype(column, skipna=True) in ("floating", "mixed-integer-float")


def _is_time(index: Any) -> bool:
    return isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex, pd.TimedeltaIndex))


def _times(index: Any, what: str) -> Times:
    zone = None if index.tz is None else str(index.tz)
    index = index if index.tz is None else index.tz_convert("UTC").tz_localize(None)
    missing = np.asarray(index.isna())
    fine = index.as_unit("ns").asi8[~missing] if len(index) else np.zeros(0, np.int64)
    require_milliseconds(fine, what)
    ms = np.array(index.as_unit("ms").asi8, np.int64)
    ms[missing] = NO_TIME
    return Times(ms, zone)
