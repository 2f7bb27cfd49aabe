"""Walks through several sorted tables side by side: group after group, and within a group step after step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.operate.audit.keys import Ints
from glaim_stream.operate.sorting import Place, Rows, SortedFile, count_below, place_of

BY = ("group", "step")
CHUNK_ROWS = 1 << 15  # rows of each table in a chunk
_FIRST, _LAST = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True)
class Bounds:
    """Places (group, step) between which a chunk holds everything; `upper` is outside."""

    lower: Place = (-1, _FIRST)
    upper: Place = (_LAST, _LAST)

    def first_step(self, group: NDArray[Any]) -> Ints:
        """First step of the chunk for each group, int64 [n]."""
        return np.where(group == self.lower[0], self.lower[1], _FIRST)

    def end_step(self, group: NDArray[Any]) -> Ints:
        """The step after the last one of the chunk for each group, int64 [n]."""
        return np.where(group == self.upper[0], self.upper[1], _LAST)


class _Cursor:
    """A sorted table, read from the front."""

    def __init__(self, table: SortedFile, rows: int) -> None:
        self._blocks = _cut(table.blocks(), rows)
        self._next = next(self._blocks, None)
        self._held: Rows | None = None

    @property
    def more(self) -> bool:
        """Whether rows follow the rows in memory."""
        return self._next is not None

    @property
    def end(self) -> Place:
        """Place of the last row in memory."""
        assert self._held is not None
        return place_of(self._held[-1], BY)

    def fill(self, *, longer: bool = False) -> None:
        """Read until at least one row is in memory, or more than now, as far as there are any."""
        if self._next is not None and (longer or self._held is None or not len(self._held)):
            self._held = self._next if self._held is None else np.concatenate([self._held, self._next])
            self._next = next(self._blocks, None)

    def count(self, limit: Place | None) -> int:
        """Number of rows in memory that lie before a place; all for None."""
        if self._held is None:
            return 0
        return len(self._held) if limit is None else count_below(self._held, limit, BY)

    def take(self, count: int, dtype: np.dtype[np.void]) -> Rows:
        """Remove the first rows."""
        if self._held is None:
            return np.empty(0, dtype)
        out, self._held = self._held[:count], self._held[count:]
        return out


def chunks(tables: Sequence[SortedFile], *, rows: int = CHUNK_ROWS) -> Iterator[tuple[Bounds, list[Rows]]]:
    """Cut tables that are sorted by `BY` at the same places.

    A chunk has at most `rows` rows of each table, unless one step of one group has more: a step is never cut.

    Args:
        tables: tables sorted by group and step.
        rows: most rows of each table in a chunk.
    """
    cursors = [_Cursor(table, rows) for table in tables]
    lower = Bounds().lower
    while True:
        for cursor in cursors:
            cursor.fill()
        going_on = [cursor for cursor in cursors if cursor.more]
        limit = min((cursor.end for cursor in going_on), default=None)
        counts = [cursor.count(limit) for cursor in cursors]
        if limit is not None and not any(counts):
            for cursor in going_on:
                if cursor.end == limit:
                    cursor.fill(longer=True)
            continue
        upper = Bounds().upper if limit is None else limit
        taken = [cursor.take(count, table.dtype) for cursor, table, count in zip(cursors, tables, counts, strict=True)]
        yield Bounds(lower, upper), taken
        if limit is None:
            return
        lower = upper


def _cut(blocks: Iterator[Rows], rows: int) -> Iterator[Rows]:
    for block in blocks:
        for start in range(0, len(block), rows):
            yield block[start : start + rows]
