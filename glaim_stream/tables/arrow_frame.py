"""Tables and record batches of pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.core.times import NO_TIME
from glaim_stream.tables.frame import Fill, Number, Times, WithoutIndex, cast, require_milliseconds, unknown


@dataclass(frozen=True)
class ArrowFrame(WithoutIndex):
    """A table, or a record batch as a table of one chunk."""

    table: Any
    batch: bool = False

    @classmethod
    def of(cls, table: Any) -> ArrowFrame:
        """See `frame_of`."""
        if isinstance(table, pa.RecordBatch):
            return cls(pa.Table.from_batches([table]), batch=True)
        if not isinstance(table, pa.Table):
            raise unknown(table)
        return cls(table)

    @property
    def names(self) -> Sequence[Any]:
        """See `Frame`."""
        return list(self.table.column_names)

    @property
    def rows(self) -> int:
        """See `Frame`."""
        return int(self.table.num_rows)

    def _column(self, name: Any) -> Any:
        return self.table.column(self.names.index(name))

    def number(self, name: Any) -> Number | None:
        """See `Frame`."""
        column = self._column(name)
        whole = pa.types.is_integer(column.type)
        if not (whole or pa.types.is_floating(column.type)):
            return None
        values = pc.cast(column, pa.float64(), safe=False).to_numpy()
        return Number(np.array(values, np.float64), whole)

    def times(self, name: Any) -> Times | None:
        """See `Frame`."""
        column = self._column(name)
        if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
            return None
        zone = getattr(column.type, "tz", None)
        if pa.types.is_date(column.type):
            column = pc.cast(column, pa.timestamp("ms"))
        if column.type.unit in ("us", "ns"):
            fine = pc.cast(pc.drop_null(column), pa.int64()).to_numpy()
            require_milliseconds(fine * (1_000 if column.type.unit == "us" else 1), f"column {name!r}")
        ms = pc.cast(pc.cast(column, pa.timestamp("ms", zone), safe=False), pa.int64())
        return Times(np.array(pc.fill_null(ms, NO_TIME).to_numpy(), np.int64), zone)

    def texts(self, name: Any) -> list[Any] | None:
        """See `Frame`."""
        column = self._column(name)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        return column.to_pylist() if text else None

    def labels(self, name: Any) -> Sequence[Any]:
        """See `Frame`."""
        found: Sequence[Any] = self._column(name).to_pylist()
        return found

    def filled(self, fills: Mapping[Any, Fill]) -> Any:
        """See `Frame`; the chunks stay as they are."""
        out = self.table
        for name, fill in fills.items():
            place = self.names.index(name)
            field, at, chunks = self.table.schema.field(place), 0, []
            for chunk in self._column(name).chunks:
                here = slice(at, at + len(chunk))
                chunks.append(_with(chunk, fill.made[here], fill.values[here], name))
                at += len(chunk)
            out = out.set_column(place, field, pa.chunked_array(chunks, type=field.type))
        if not self.batch:
            return out
        batches = out.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=out.schema)


def _with(chunk: Any, made: Any, values: Any, name: Any) -> Any:
    dtype = np.dtype(chunk.type.to_pandas_dtype())
    new = np.zeros(len(chunk), dtype)
    new[made] = cast(values[made], dtype, name)
    if dtype == np.float16:  # if_else knows no half floats
        old = chunk.to_numpy(zero_copy_only=False)
        return pa.array(np.where(made, new, old).astype(dtype), mask=np.asarray(chunk.is_null()) & ~made)
    return pc.if_else(pa.array(made), pa.array(new, chunk.type), chunk)
