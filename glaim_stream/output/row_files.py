"""Files of output rows: Arrow, Parquet and CSV."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from glaim_stream.core.errors import SettingsError
from glaim_stream.output.records import PLAIN_SCHEMA, newest_revisions

FILE_ENDINGS = (".arrow", ".parquet", ".csv")

_FOLD_ROWS = 2_000_000  # superseded revisions are dropped whenever this many rows were added, which bounds the memory


class RowFile:
    """An Arrow, Parquet or CSV file of rows that appears whole when its context is left, or not at all.

    Ctrl-C ends the file: the rows added until then are kept. Any other exception drops it.
    """

    def __init__(self, path: Path, *, newest_only: bool = False) -> None:
        """Prepare the file; nothing is written yet.

        Args:
            path: path whose ending selects the format.
            newest_only: keep only the newest revision of each group, sensor and time.

        Raises:
            SettingsError: the path has another ending.
        """
        if path.suffix not in FILE_ENDINGS:
            raise SettingsError(f"expected a file ending in {', '.join(FILE_ENDINGS)}, found {path}")
        self.path = path
        self.rows = 0  # rows written so far
        self._newest_only = newest_only
        self._partial = path.with_name(path.name + ".partial")
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._writer: Any = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def add(self, table: pa.Table) -> None:
        """Add rows; with `newest_only` they are held back until the end."""
        if not self._newest_only:
            self._write(table)
            return
        self._held.append(table)
        self._held_rows += table.num_rows
        if self._held_rows > _FOLD_ROWS:
            self._held = [newest_revisions(self._held)]
            self._held_rows = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, (KeyboardInterrupt, GeneratorExit)):
            self._write(newest_revisions(self._held))  # without newest_only no rows are held: makes an empty file whole
            self._writer.close()
            self._partial.replace(self.path)
        elif self._writer is not None:
            self._writer.close()
            self._partial.unlink()

    def _write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = _writer(self._partial, self.path.suffix)
        self._writer.write_table(table.cast(PLAIN_SCHEMA))
        self.rows += table.num_rows


def _writer(path: Path, ending: str) -> Any:
    if ending == ".parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(path, PLAIN_SCHEMA, compression="zstd")
    if ending == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(path, PLAIN_SCHEMA)
    return pa.ipc.new_file(path, PLAIN_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd"))
