"""Parquet and Arrow files whose columns are replaced; the rest of the table and its metadata is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.arrow_input import arrow_input
from glaim_stream.core.errors import SettingsError
from glaim_stream.files import is_number, is_text
from glaim_stream.tables.columns import FilledColumn, NewRows, beside

_WIDTH = {8: 2**7, 16: 2**15, 32: 2**31, 64: 2**63}


class ArrowTable:
    """A table of a Parquet file, or of an Arrow file or stream."""

    def __init__(self, raw: bytes, kind: str) -> None:
        """Read a table.

        Args:
            raw: the whole file.
            kind: parquet, arrow (a file) or stream.

        Raises:
            SettingsError: the file cannot be read.
        """
        import pyarrow.parquet as pq

        self._kind = kind
        self._options: dict[str, Any] = {}
        try:
            if kind == "parquet":
                file = pq.ParquetFile(arrow_input(raw))
                if file.metadata.num_row_groups:
                    group = file.metadata.row_group(0)
                    self._options["row_group_size"] = max(1, group.num_rows)
                    if group.num_columns:
                        self._options["compression"] = _codec(group.column(0).compression)
                self.table = file.read()
            else:
                open_ = pa.ipc.open_file if kind == "arrow" else pa.ipc.open_stream
                self.table = open_(arrow_input(raw)).read_all()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SettingsError(f"expected a {kind} file that can be read: {error}") from error
        self.names = list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def holds_text(self, place: int) -> bool:
        """Whether a column of numbers holds them as text."""
        return bool(is_text(self.table.schema.field(place).type))

    def texts(self, place: int, rows: Iterable[int]) -> list[str]:
        """The text of a column's cells in some rows; empty where one is null."""
        return [text or "" for text in self.table.column(place).take(pa.array(rows, pa.int64())).to_pylist()]

    def filled(
        self,
        columns: Sequence[FilledColumn],
        texts: Mapping[int, Mapping[int, str]],
        *,
        flags: bool,
        new: NewRows | None = None,
        keys: dict[int, Any],
    ) -> pa.Table:
        """Return the table with filled columns.

        Args:
            columns: columns with their filled cells.
            texts: texts of these cells by place and row, in columns that hold text.
            flags: add columns of method and bounds.
            new: rows to insert.
            keys: Arrow arrays with the values of new rows, by the place of a column such as the time.
        """
        table = self.table
        for each in columns:
            field = table.schema.field(each.place)
            table = table.set_column(
                each.place, field, replaced(table.column(each.place), each, texts.get(each.place, {}))
            )
        if flags:
            for each in sorted(columns, key=lambda each: -each.place):
                names = beside(each.name, self.names)
                added = (pa.array(each.methods(), pa.string()), _nullable(each.lower), _nullable(each.upper))
                for name, column in zip(reversed(names), reversed(added), strict=True):
                    table = table.add_column(each.place + 1, name, column)
        if new is not None and len(new.below):
            table = self._with_rows(table, columns, new, keys)
        return table

    def write(self, table: pa.Table, out: IO[bytes]) -> None:
        """Write a table in the file's own kind."""
        import pyarrow.parquet as pq

        if self._kind == "parquet":
            pq.write_table(table, out, **self._options)
            return
        make = pa.ipc.new_file if self._kind == "arrow" else pa.ipc.new_stream
        with make(out, table.schema) as writer:
            writer.write_table(table)

    def _with_rows(
        self, table: pa.Table, columns: Sequence[FilledColumn], new: NewRows, keys: dict[int, Any]
    ) -> pa.Table:
        rows, count = table.num_rows, len(new.below)
        position = np.concatenate([np.arange(rows, dtype=np.float64), new.below + 0.5])
        order = np.argsort(position, kind="stable")
        by_name = {self.names[place]: array for place, array in keys.items()}
        for place, each in enumerate(columns):
            by_name[each.name] = _fitting(new.values[place], table.schema.field(each.name))
        added = [
            pc.cast(by_name[field.name], field.type, safe=False)
            if field.name in by_name
            else pa.nulls(count, field.type)
            for field in table.schema
        ]
        more = pa.table(added, schema=pa.schema([field.with_nullable(True) for field in table.schema]))
        both = pa.concat_tables([table, more.cast(table.schema)])
        return both.take(pa.array(order))


def replaced(column: Any, filled: FilledColumn, texts: Mapping[int, str]) -> Any:
    """The column with its filled cells, in its own type.

    Raises:
        SettingsError: the column's type cannot hold the values.
    """
    rows = filled.rows
    if not len(rows):
        return column
    kind = column.type
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    if is_text(kind):
        values = pa.array([texts[row] for row in rows.tolist()], kind)
    else:
        values = _fitting(filled.value[rows], pa.field(filled.name, kind))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    return pc.replace_with_mask(column, pa.array(mask), values)


def _fitting(values: NDArray[np.float64], field: Any) -> Any:
    kind = field.type
    known = np.isfinite(values)
    try:
        if pa.types.is_integer(kind):
            half = _WIDTH[kind.bit_width]
            low, high = (0, 2 * half - 1) if pa.types.is_unsigned_integer(kind) else (-half, half - 1)
            whole = [min(max(round(value), low), high) if ok else None for value, ok in zip(values, known, strict=True)]
            return pa.array(whole, kind)
        if pa.types.is_decimal(kind):
            return pc.round(pa.array(values, mask=~known), kind.scale).cast(kind, safe=False)
        if is_number(kind) and not pa.types.is_null(kind):
            return pa.array(values, mask=~known).cast(kind, safe=False)
    except pa.ArrowException as error:
        raise SettingsError(f"column {field.name!r} of type {kind} cannot hold the filled values: {error}") from error
    raise SettingsError(f"column {field.name!r}: its type {kind} cannot hold filled values")


def _nullable(values: NDArray[np.float64]) -> Any:
    return pa.array(values, mask=~np.isfinite(values))


def _codec(name: str) -> str:
    return "none" if name == "UNCOMPRESSED" else name
