"""Walks through sorted tables side by side: group after group, and within a group step after step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.operate.audit.keys import Ints
from glaim_stream.operate.database import Columns, Database

CHUNK_ROWS = 1 << 16  # rows of all tables in a chunk
_FIRST, _LAST = -(1 << 62), 1 << 62

Place = tuple[int, int]  # group and step


@dataclass(frozen=True, slots=True)
class Bounds:
    """Places between which a chunk holds everything; `upper` is outside."""

    lower: Place = (-1, _FIRST)
    upper: Place = (1 << 31, _LAST)

    def first_step(self, group: NDArray[Any]) -> Ints:
        """First step of the chunk for each group, int64 [n]."""
        return np.where(group == self.lower[0], self.lower[1], _FIRST)

    def end_step(self, group: NDArray[Any]) -> Ints:
        """The step after the last one of the chunk for each group, int64 [n]."""
        return np.where(group == self.upper[0], self.upper[1], _LAST)

    def __str__(self) -> str:
        """A condition of SQL."""
        (first, first_step), (last, end_step) = self.lower, self.upper
        if first == last:
            return f'"group" = {first} AND step >= {first_step} AND step < {end_step}'
        return (
            f'"group" BETWEEN {first} AND {last} AND ("group" > {first} OR step >= {first_step}) '
            f'AND ("group" < {last} OR step < {end_step})'
        )


def chunks(
    database: Database, tables: Sequence[str], *, rows: int = CHUNK_ROWS
) -> Iterator[tuple[Bounds, list[Columns]]]:
    """Sort tables by group, step and order of arrival, and cut them at the same places.

    A chunk has at most `rows` rows, and those of one more step: a step is never cut.

    Args:
        database: tables with the columns `group` and `step`.
        tables: their names.
        rows: most rows of a chunk.
    """
    for name in tables:
        database.run(
            f'CREATE TABLE sorted_{name} AS SELECT * FROM {name} ORDER BY "group", step, rowid', f"DROP TABLE {name}"
        )
    lower = Bounds().lower
    for upper in [*_cuts(database, tables, rows), Bounds().upper]:
        bounds = Bounds(lower, upper)
        yield bounds, [database.read(f"SELECT * FROM sorted_{name} WHERE {bounds}") for name in tables]
        lower = upper


def _cuts(database: Database, tables: Sequence[str], rows: int) -> list[Place]:
    """The first place of each chunk after the first one."""
    places = " UNION ALL ".join(f'SELECT "group", step FROM sorted_{name}' for name in tables)
    out: list[Place] = []
    before = last = 0
    for part in database.parts(f'SELECT "group", step, count(*) AS rows FROM ({places}) GROUP BY ALL ORDER BY ALL'):
        until = before + np.cumsum(part["rows"])
        chunk = np.append(last, (until - part["rows"]) // rows)
        at = np.flatnonzero(np.diff(chunk))
        out += zip(part["group"][at].tolist(), part["step"][at].tolist(), strict=True)
        before, last = int(until[-1]), int(chunk[-1])
    return out
