"""Files of output rows: Arrow, Parquet and CSV."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby, pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from glaim_stream.core.errors import SettingsError
from glaim_stream.output.records import PLAIN_SCHEMA, newest_revisions

FILE_ENDINGS = (".arrow", ".parquet", ".csv")

_RUN_ROWS = 500_000  # rows that are held and sorted at a time, some 50 MB; more of them go to a file beside the output
_JOINED_ROWS = 250_000
_STRETCHES = 64  # of the order of rows; each is read back at a time


class RowFile:
    """An Arrow, Parquet or CSV file of rows that appears whole when its context is left, or not at all.

    Ctrl-C ends the file: the rows added until then are kept. Any other exception drops it.
    """

    def __init__(self, path: Path, *, newest_only: bool = False, at_ctrl_c: bool = True) -> None:
        """Prepare the file; nothing is written yet.

        Args:
            path: path whose ending selects the format.
            newest_only: keep only the newest revision of each group, sensor and time.
            at_ctrl_c: keep the file at Ctrl-C.

        Raises:
            SettingsError: the path has another ending.
        """
        if path.suffix not in FILE_ENDINGS:
            raise SettingsError(f"expected a file ending in {', '.join(FILE_ENDINGS)}, found {path}")
        self.path = path
        self.rows = 0  # rows written so far
        self._newest_only, self._at_ctrl_c = newest_only, at_ctrl_c
        self._partial = path.with_name(path.name + ".partial")
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._runs: _Runs | None = None
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
        if self._held_rows > _RUN_ROWS:
            self._fold()

    def _fold(self) -> None:
        self._runs = self._runs or _Runs(self.path.with_name(self.path.name + ".runs"))
        self._runs.add(newest_revisions(self._held))
        self._held, self._held_rows = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        complete = kind is None or (self._at_ctrl_c and issubclass(kind, (KeyboardInterrupt, GeneratorExit)))
        try:
            if complete:
                if self._runs is not None:
                    self._fold()
                    for table in self._runs.stretches():
                        self._write(newest_revisions(table))
                self._write(newest_revisions(self._held))  # without any row: makes an empty file whole
                self._writer.close()
                self._partial.replace(self.path)
        finally:
            if self._runs is not None:
                self._runs.close()
            if self._writer is not None:
                with suppress(OSError, pa.ArrowException):  # the disk is full
                    self._writer.close()
            self._partial.unlink(missing_ok=True)

    def _write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = _writer(self._partial, self.path.suffix)
        self._writer.write_table(table.cast(PLAIN_SCHEMA))
        self.rows += table.num_rows


def joined_rows(files: Sequence[Path], *, newest_only: bool) -> Iterator[pa.Table]:
    """The rows of several Arrow files of rows, in tables of some 25 MB.

    Args:
        files: files of a RowFile with the same `newest_only`.
        newest_only: merge the files in the order of groups; else they come one after the other.
    """
    with ExitStack() as stack:
        sources = [stack.enter_context(pa.OSFile(str(path))) for path in files]
        readers = [pa.ipc.open_file(source) for source in sources]
        rows = _merged(readers, files) if newest_only else (each for reader in readers for each in _tables(reader))
        held: list[pa.Table] = []
        count = 0
        for table in rows:
            held.append(table)
            count += table.num_rows
            if count >= _JOINED_ROWS:
                yield pa.concat_tables(held)
                held, count = [], 0
        if held:
            yield pa.concat_tables(held)


def _tables(reader: Any) -> Iterator[pa.Table]:
    for number in range(reader.num_record_batches):
        yield pa.Table.from_batches([reader.get_batch(number)])


def _merged(readers: Sequence[Any], files: Sequence[Path]) -> Iterator[pa.Table]:
    """Rows of sorted files in the order of groups; a group of several files gets its newest rows."""
    in_files = Counter[str]()
    for path in files:
        with pa.OSFile(str(path)) as source:
            groups = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
            in_files.update({group for each in _tables(groups) for group in each["group"].unique().to_pylist()})

    def of_file(number: int, reader: Any) -> Iterator[tuple[str, int, pa.Table]]:
        for table in _tables(reader):
            for group, parts in groupby(_series_of(table), lambda part: part[2][0]):
                mine = list(parts)
                yield group, number, table.slice(mine[0][0], mine[-1][1] - mine[0][0])

    by_group = heapq.merge(*(of_file(*each) for each in enumerate(readers)), key=lambda each: each[:2])
    for group, parts in groupby(by_group, lambda each: each[0]):
        tables = (table for _, _, table in parts)
        yield from tables if in_files[group] == 1 else [newest_revisions(tables)]


class _Runs:
    """A file of sorted runs of rows, each cut at the same rows, so that a stretch of all runs is read alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = pa.ipc.new_file(path, PLAIN_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        self._bounds: list[tuple[str, str]] = []  # first group and sensor of each stretch but the first
        self._batches: list[list[int]] = [[]]  # batches of each stretch, in the order of the runs
        self._written = 0

    def add(self, rows: pa.Table) -> None:
        """Write rows in the order of group and sensor as a run."""
        series = _series_of(rows)
        if not self._written:
            least = -(-len(rows) // _STRETCHES)
            for before, (first, _, key) in pairwise(series):
                if first // least > before[0] // least:
                    self._bounds.append(key)
            self._batches = [[] for _ in range(len(self._bounds) + 1)]
        for stretch, each in groupby(series, lambda part: bisect_right(self._bounds, part[2])):
            parts = list(each)
            table = rows.slice(parts[0][0], parts[-1][1] - parts[0][0]).combine_chunks()
            for batch in table.to_batches():
                self._writer.write_batch(batch)
                self._batches[stretch].append(self._written)
                self._written += 1

    def stretches(self) -> Iterator[list[pa.Table]]:
        """The rows of each stretch, run by run."""
        self._writer.close()
        with pa.memory_map(str(self._path)) as file:
            reader = pa.ipc.open_file(file)
            for batches in self._batches:
                yield [pa.Table.from_batches([reader.get_batch(number)]) for number in batches]

    def close(self) -> None:
        """Remove the file."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._path.unlink(missing_ok=True)


def _series_of(rows: pa.Table) -> list[tuple[int, int, tuple[str, str]]]:
    """First row, end, group and sensor of each run of rows of one sensor."""
    if not rows.num_rows:
        return []
    first = np.zeros(rows.num_rows, np.bool_)
    first[0] = True
    for name in ("group", "sensor"):
        column = rows[name].combine_chunks()
        codes = column.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        first[1:] |= codes[1:] != codes[:-1]
    starts = np.flatnonzero(first)
    names = zip(*(rows[name].take(pa.array(starts)).to_pylist() for name in ("group", "sensor")), strict=True)
    return list(zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], names, strict=True))


def _writer(path: Path, ending: str) -> Any:
    if ending == ".parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(path, PLAIN_SCHEMA, compression="zstd")
    if ending == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(path, PLAIN_SCHEMA)
    return pa.ipc.new_file(path, PLAIN_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd"))
