"""Data frames, lazy frames and series of polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from glaim_stream.core.times import NO_TIME
from glaim_stream.tables.frame import Fill, Number, Times, WithoutIndex, cast, require_milliseconds, unknown

_NUMPY = {
    pl.Float32: np.float32, pl.Float64: np.float64, pl.Int8: np.int8, pl.Int16: np.int16, pl.Int32: np.int32,
    pl.Int64: np.int64, pl.UInt8: np.uint8, pl.UInt16: np.uint16, pl.UInt32: np.uint32, pl.UInt64: np.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class PolarsFrame(WithoutIndex):
    """A data frame; a lazy frame is collected, and made lazy again after the fill."""

    table: Any
    kind: type

    @classmethod
    def of(cls, table: Any) -> PolarsFrame:
        """See `frame_of`."""
        if isinstance(table, pl.LazyFrame):
            return cls(table.collect(), pl.LazyFrame)
        if isinstance(table, pl.Series):
            return cls(table.to_frame(), pl.Series)
        if not isinstance(table, pl.DataFrame):
            raise unknown(table)
        return cls(table, pl.DataFrame)

    @property
    def names(self) -> Sequence[Any]:
        """See `Frame`."""
        return list(self.table.columns)

    @property
    def rows(self) -> int:
        """See `Frame`."""
        return int(self.table.height)

    def number(self, name: Any) -> Number | None:
        """See `Frame`."""
        column = self.table[name]
        kind = column.dtype.base_type()
        if kind not in _NUMPY:
            return None
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return Number(np.array(values, np.float64), np.dtype(_NUMPY[kind]).kind != "f")

    def times(self, name: Any) -> Times | None:
        """See `Frame`."""
        column = self.table[name]
        if column.dtype.base_type() not in (pl.Datetime, pl.Date):
            return None
        zone = getattr(column.dtype, "time_zone", None)
        if column.dtype.base_type() is pl.Date:
            column = column.cast(pl.Datetime("ms"))
        require_milliseconds(column.drop_nulls().dt.epoch("ns").to_numpy(), f"column {name!r}")
        return Times(column.dt.epoch("ms").fill_null(NO_TIME).to_numpy().astype(np.int64), zone)

    def texts(self, name: Any) -> list[Any] | None:
        """See `Frame`."""
        column = self.table[name]
        return column.to_list() if column.dtype.base_type() is pl.String else None

    def labels(self, name: Any) -> Sequence[Any]:
        """See `Frame`."""
        found: Sequence[Any] = self.table[name].to_list()
        return found

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """See `Frame`."""
        columns = []
        for name, fill in fills.items():
            before = self.table[name]
            dtype = _NUMPY[before.dtype.base_type()]
            values = np.zeros(self.rows, dtype)
            values[fill.made] = cast(fill.values[fill.made], dtype, name)
            columns.append(pl.Series(name, values, before.dtype).zip_with(pl.Series(fill.made), before))
        out = self.table.with_columns(columns) if columns else self.table.clone()
        if self.kind is pl.LazyFrame:
            return out.lazy()
        return out.to_series() if self.kind is pl.Series else out
