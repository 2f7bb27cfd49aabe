"""Columns of Arrow tables as numpy arrays and as distinct names, without writing a shared value once per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.budget import OverBudget

_VIEW_BYTES = 16  # bytes of one entry of a view array; its first four bytes are the length of the text
_NUMERAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:nan|inf|infinity)$"
_MOST_VIEWED_BYTES = 64_000_000  # bytes of texts that views refer to, counted once per row


@dataclass(frozen=True, slots=True)
class NameColumn:
    """A column of names: the distinct ones, and the index of each row's name, -1 for null."""

    distinct: Sequence[str | None]
    place: NDArray[np.int64]

    def __getitem__(self, row: int) -> str | None:
        place = int(self.place[row])
        return None if place < 0 else self.distinct[place]


def names(column: pa.ChunkedArray) -> NameColumn:
    """A column of text, of numbers or of a dictionary of these as names."""
    if not pa.types.is_dictionary(column.type):
        _require_viewed(column)
        column = pc.cast(column, pa.string()).dictionary_encode()
    chunk = column.unify_dictionaries().combine_chunks()
    _require_viewed(pa.chunked_array([chunk.dictionary]))
    return NameColumn(pc.cast(chunk.dictionary, pa.string()).to_pylist(), _places(chunk))


def times_ms(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """A column of zoned timestamps or of epoch milliseconds as milliseconds, NaN for null."""
    return _per_entry(column, _times_ms)


def is_timestamp(column: pa.ChunkedArray) -> bool:
    """Whether a column's type states the unit of its times."""
    entry = _entry_type(column)
    timestamp: bool = pa.types.is_timestamp(entry)
    return timestamp


def numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """A column of numbers as floats, NaN for null; an integer that no float equals becomes the nearest one.

    Texts that are numbers are read; NaN stands for other texts and for all entries of a type without numbers.
    """
    return _per_entry(column, _numbers)


def faulty(column: pa.ChunkedArray, number: NDArray[np.float64]) -> NDArray[np.bool_] | Literal[False]:
    """Find the entries that are neither numbers nor null, given `numbers` of the column; False if there are none."""
    entry = _entry_type(column)
    if pa.types.is_integer(entry) or _is_real(entry):
        return False
    null = _per_entry(column, lambda each: each.is_null().to_numpy().astype(np.float64))
    found = np.isnan(number) & (null == 0)
    if _is_text(entry) and found.any():  # "NaN" is the text of a number
        found &= _per_entry(column, _is_other_text) == 1
    return found if found.any() else False


def inexact(column: pa.ChunkedArray) -> NDArray[np.bool_] | bool:
    """Find the numbers of a column that are integers and equal no float of 64 bits; False if the column has none."""
    entry = _entry_type(column)
    if not (pa.types.is_int64(entry) or pa.types.is_uint64(entry)):
        return False
    found = _per_entry(column, _inexact) == 1
    return bool(found.any()) and found


def _entry_type(column: pa.ChunkedArray) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _per_entry(column: pa.ChunkedArray, convert: Any) -> NDArray[np.float64]:
    """Convert a column; each entry of a dictionary once, however many rows refer to it."""
    if not pa.types.is_dictionary(column.type):
        converted: NDArray[np.float64] = convert(column)
        return converted
    chunk = column.unify_dictionaries().combine_chunks()
    entries = np.append(convert(pa.chunked_array([chunk.dictionary])), np.nan)  # index -1, null, selects the NaN
    rows: NDArray[np.float64] = entries[_places(chunk)]
    return rows


def _places(chunk: pa.DictionaryArray) -> NDArray[np.int64]:
    """Index of each row's entry, -1 for null; indices may be unsigned, as polars writes them."""
    places: NDArray[np.int64] = pc.cast(chunk.indices, pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return places


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    if _is_text(column.type):
        column = _plain_text(column)
        column = pc.if_else(_is_numeral(column), column, pa.scalar(None, column.type))
    elif not (pa.types.is_integer(column.type) or _is_real(column.type)):
        return np.full(len(column), np.nan)
    return _floats(pc.cast(column, pa.float64(), safe=not pa.types.is_integer(column.type)))


def _is_real(entry: pa.DataType) -> bool:
    return bool(pa.types.is_floating(entry) or pa.types.is_decimal(entry))


def _is_text(entry: pa.DataType) -> bool:
    return any(is_text(entry) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _is_numeral(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.match_substring_regex(column, _NUMERAL)


def _is_other_text(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """1 where a text is no number, else 0."""
    numeral: NDArray[np.bool_] = pc.fill_null(_is_numeral(_plain_text(column)), False).to_numpy()
    return np.where(numeral, 0.0, 1.0)


def _plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    _require_viewed(column)
    return pc.cast(column, pa.large_string())


def _inexact(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """1 where an integer of 64 bits differs from its float, else 0."""
    integers = column.fill_null(0).to_numpy()
    floats = integers.astype(np.float64)
    low, above = (float(np.iinfo(integers.dtype).min), float(np.iinfo(integers.dtype).max) + 1)
    held = (floats >= low) & (floats < above)  # the nearest float of the largest integers is one beyond the type
    back = np.where(held, floats, 0).astype(integers.dtype)
    return np.where(held & (back == integers), 0.0, 1.0)


def _times_ms(column: pa.ChunkedArray) -> NDArray[np.float64]:
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise ValueError("expected ts as a timestamp with a zone or as epoch milliseconds, found no zone")
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    return _floats(pc.cast(column, pa.int64()))


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    floats: NDArray[np.float64] = column.to_numpy().astype(np.float64, copy=False)
    return floats


def _require_viewed(column: pa.ChunkedArray) -> None:
    """Require that the texts of a column of views fit the memory; any number of views may refer to the same bytes."""
    if not (pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type)):
        return
    viewed_bytes = 0
    for chunk in column.chunks:
        entries = np.frombuffer(chunk.buffers()[1], np.uint32)[:: _VIEW_BYTES // 4][chunk.offset :][: len(chunk)]
        viewed_bytes += int(entries[chunk.is_valid().to_numpy(zero_copy_only=False)].sum(dtype=np.int64))
    if viewed_bytes > _MOST_VIEWED_BYTES:
        raise OverBudget(f"expected at most {_MOST_VIEWED_BYTES} bytes of text, found {viewed_bytes}")
