"""Detects the kind of a file by its bytes, not its name, and reads the kinds that carry their own types."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glaim_stream.core.arrow_input import arrow_input
from glaim_stream.core.errors import SettingsError, listed

_DEEPEST = 100  # levels of nested objects and lists
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OTHERS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook: unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save the sheet as CSV",
    b"BZh": "compressed by bzip2: unpack it, or use gzip",
    b"\xfd7zXZ": "compressed by xz: unpack it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it, or use gzip",
    b"\x89HDF": "HDF5",
    b"CDF": "NetCDF",
}


def content_of(source: Path | bytes, name: str) -> tuple[bytes, str, str]:
    """The uncompressed bytes of a file, their kind (csv, jsonl, parquet, arrow) and compression (gzip or "").

    Raises:
        SettingsError: the file is absent or of an unsupported kind.
    """
    if isinstance(source, bytes):
        data = source
    else:
        if not source.is_file():
            raise SettingsError(f"expected a data file at {source}, found none")
        try:
            data = source.read_bytes()
        except OSError as error:
            raise SettingsError(f"{source} cannot be read: {error.strerror}") from error
    compression = ""
    while data.startswith(b"\x1f\x8b"):
        try:
            data, compression = gzip.decompress(data), "gzip"
        except (OSError, EOFError, zlib.error) as error:
            raise SettingsError(f"{name} cannot be read: gzip inside, {error}") from error
    for start, reason in _OTHERS.items():
        if data.startswith(start):
            raise SettingsError(f"{name}: expected CSV, JSON lines, Parquet or Arrow, found {reason}")
    return data, _kind(data), compression


def _kind(data: bytes) -> str:
    if data.startswith(b"PAR1"):
        return "parquet"
    if data.startswith((b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "jsonl" if data.lstrip()[:1] in (b"{", b"[") and data.lstrip()[1:2] != b"" else "csv"


def typed_table(data: bytes, kind: str, name: str) -> pa.Table:
    """The table of Parquet, Arrow or JSON lines; nested columns become `outer.inner`, or `inner` if there is one outer.

    Raises:
        SettingsError: the file is damaged.
    """
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(arrow_input(data))
        elif kind == "jsonl":
            table = _json(data)
        elif data.startswith(b"ARROW1"):
            table = pa.ipc.open_file(arrow_input(data)).read_all()
        elif data.startswith(b"FEA1"):
            import pyarrow.feather as feather

            table = feather.read_table(arrow_input(data))
        else:
            table = pa.ipc.open_stream(arrow_input(data)).read_all()
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise SettingsError(f"{name} cannot be read: {error}") from error
    if table.schema.pandas_metadata:
        table = _without_index(table)
    while any(pa.types.is_struct(each.type) for each in table.schema):
        outer = [each.name for each in table.schema if pa.types.is_struct(each.type)]
        table = table.flatten()
        if len(outer) == 1:
            plain = [each.removeprefix(f"{outer[0]}.") for each in table.column_names]
            table = table.rename_columns(plain) if len(set(plain)) == len(plain) else table
    lists = [each.name for each in table.schema if pa.types.is_list(each.type)]
    if kind == "jsonl" and table.num_rows == 1 and lists:
        raise SettingsError(
            f"{name}: expected an object for each row, found one object in which {listed(lists)} are whole columns"
        )
    return table


def _without_index(table: pa.Table) -> pa.Table:
    """The table, with the unnamed index of pandas renamed to `index`."""
    names = [("index" if each.startswith("__index_level_") else each) for each in table.column_names]
    return table.rename_columns(names) if len(set(names)) == len(names) else table


def _depth(line: bytes) -> int:
    """The nesting depth of objects and lists in a line of JSON; 0 where it is certainly shallow.

    Arrow's reader takes a stack frame for each level, and a full stack ends the process.
    """
    if line.count(b"{") + line.count(b"[") <= _DEEPEST:
        return 0
    brackets = np.frombuffer(_STRING.sub(b"", line), np.uint8)
    steps = np.isin(brackets, list(b"{[")).astype(np.int64) - np.isin(brackets, list(b"}]"))
    return int(steps.cumsum().max(initial=0))


def _json(data: bytes) -> pa.Table:
    for number, line in enumerate(data.splitlines(), 1):
        if _depth(line) > _DEEPEST:
            raise ValueError(f"line {number} has objects or lists inside one another more than {_DEEPEST} times")
    if data.lstrip().startswith(b"["):
        return pa.Table.from_pylist(json.loads(data))
    from pyarrow import json as lines

    try:
        block = max(1 << 20, min(len(data) + 1, 1 << 30))
        return lines.read_json(arrow_input(data), read_options=lines.ReadOptions(block_size=block))
    except pa.ArrowInvalid:
        rows: list[Any] = [json.loads(line) for line in data.splitlines() if line.strip()]
        return pa.Table.from_pylist(rows)


def plain(column: Any) -> Any:
    """A column as one array, with dictionaries and large text as text, without blanks around the cells."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if pa.types.is_large_string(column.type) or str(column.type) == "string_view":
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
    if pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float64())
    return column
