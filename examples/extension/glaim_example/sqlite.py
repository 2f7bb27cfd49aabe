"""An output: rows and the offsets of their records in one SQLite file, committed together."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from glaim_stream.core.settings import Settings
from glaim_stream.output import Output

_TABLES = """
CREATE TABLE IF NOT EXISTS filled (
    "group" TEXT, sensor TEXT, ts TEXT, value REAL, method TEXT, revision INTEGER, PRIMARY KEY ("group", sensor, ts));
CREATE TABLE IF NOT EXISTS offsets (partition INTEGER PRIMARY KEY, next INTEGER);
"""
_ROW = """
INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET value = excluded.value, method = excluded.method, revision = excluded.revision
WHERE excluded.revision >= filled.revision
"""


class SqliteSink:
    """A table `filled` with the newest row of each group, sensor and time."""

    guarantee = "exactly once: rows and offsets commit together, and a run that begins before them is refused"

    def __init__(self, where: str, settings: Settings) -> None:
        """Prepare; `where` is the path of the file."""
        self._path = where

    async def open(self, offsets: Mapping[int, int]) -> Mapping[int, int]:
        """Make the tables, and return the offsets that are stored."""
        self._file = sqlite3.connect(self._path)
        self._file.executescript(_TABLES)
        return dict(offsets) | dict(self._file.execute("SELECT partition, next FROM offsets"))

    async def write(self, outputs: Sequence[Output]) -> None:
        """Write rows and offsets in one transaction."""
        with self._file:
            for output in outputs:
                for message in output.messages:
                    self._file.executemany(_ROW, map(_columns, message.table().to_pylist()))
                offset = output.partition, output.origin.offset + 1
                self._file.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?)", offset)

    async def close(self, *, complete: bool) -> None:
        """Close the file; everything written is committed."""
        self._file.close()


def _columns(row: dict[str, Any]) -> tuple[object, ...]:
    return row["group"], row["sensor"], row["ts"].isoformat(), row["value"], row["method"], row["revision"]
