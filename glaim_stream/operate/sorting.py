"""Sorts more rows than memory holds: sorted runs on disk, merged block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError

RUN_ROWS = 1 << 17  # rows that are sorted at once: some 8 MB
_BLOCK_ROWS = 4096  # rows of a run that are in memory while it is merged
_FAN = 16  # runs that are merged at once

Rows = NDArray[np.void]  # structured
Place = tuple[int, int]  # values of the two columns by which rows are sorted


class SortedFile:
    """Rows in a folder, added in any order and read back by two integer columns; equal rows keep the order of adding.

    Memory holds RUN_ROWS rows while they are added, and 16 blocks of 4096 while they are read, however many there are.
    """

    def __init__(
        self, folder: Path, name: str, dtype: np.dtype[np.void], by: tuple[str, str], *, run_rows: int = RUN_ROWS
    ) -> None:
        self._folder, self._name, self.dtype, self._by = folder, name, dtype, by
        self._run_rows = run_rows
        self._waiting: list[Rows] = []
        self._waiting_rows = 0
        self._levels: list[list[Path]] = [[]]  # a run of a level is merged from _FAN runs of the one below
        self._written = 0

    def add(self, rows: Rows) -> None:
        """Add rows.

        Raises:
            SettingsError: the folder takes no more data.
        """
        for start in range(0, len(rows), self._run_rows):
            part = rows[start : start + self._run_rows]
            self._waiting.append(part)
            self._waiting_rows += len(part)
            if self._waiting_rows >= self._run_rows:
                self._write_run()

    def blocks(self) -> Iterator[Rows]:
        """All rows in order, some thousands at a time."""
        self._write_run()
        while sum(map(len, self._levels)) > _FAN:
            level = next(
                level for level, runs in enumerate(self._levels) if len(runs) > 1 or level + 1 == len(self._levels)
            )
            self._merge_level(level)
        oldest_first = [run for runs in reversed(self._levels) for run in runs]
        return merged([_Run(path, self.dtype) for path in oldest_first], self._by)

    def _write_run(self) -> None:
        if not self._waiting_rows:
            return
        rows = np.concatenate(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        major, minor = self._by
        rows = rows[np.lexsort((rows[minor], rows[major]))]
        self._levels[0].append(self._write([rows]))
        level = 0
        while len(self._levels[level]) == _FAN:
            self._merge_level(level)
            level += 1

    def _merge_level(self, level: int) -> None:
        """Merge the runs of a level to one of the next."""
        if level + 1 == len(self._levels):
            self._levels.append([])
        runs, self._levels[level] = self._levels[level], []
        self._levels[level + 1].append(self._write(merged([_Run(path, self.dtype) for path in runs], self._by)))
        for path in runs:
            path.unlink()

    def _write(self, blocks: Any) -> Path:
        path = self._folder / f"{self._name}-{self._written}"
        self._written += 1
        try:
            with path.open("wb") as file:
                for block in blocks:
                    file.write(block.tobytes())
        except OSError as error:
            raise SettingsError(
                f"expected room in {self._folder} to sort the {self._name}, found: {error.strerror}. --temp-folder "
                f"names another folder"
            ) from error
        return path


class _Run:
    """A sorted file that is read block by block."""

    def __init__(self, path: Path, dtype: np.dtype[np.void]) -> None:
        self._path, self._dtype = path, dtype
        self._done = 0
        self._rows = path.stat().st_size // dtype.itemsize
        self.block: Rows = np.empty(0, dtype)

    def fill(self) -> None:
        """Read the next block if nothing is left of the last one."""
        if not len(self.block) and self.more:
            count = min(_BLOCK_ROWS, self._rows - self._done)
            offset = self._done * self._dtype.itemsize
            self.block = np.fromfile(self._path, self._dtype, count=count, offset=offset)
            self._done += count

    @property
    def more(self) -> bool:
        """Whether rows follow the block."""
        return self._done < self._rows

    def take(self, count: int) -> Rows:
        """Remove the first rows of the block."""
        out, self.block = self.block[:count], self.block[count:]
        return out


def merged(runs: Sequence[_Run], by: tuple[str, str]) -> Iterator[Rows]:
    """The rows of sorted runs in order; equal ones in the order of the runs."""
    while True:
        for run in runs:
            run.fill()
        runs = [run for run in runs if len(run.block)]
        if not runs:
            return
        # What lies below the end of every block that has a successor is complete.
        ends = [place_of(run.block[-1], by) for run in runs if run.more]
        limit = min(ends, default=None)
        parts = [run.take(len(run.block) if limit is None else count_below(run.block, limit, by)) for run in runs]
        whole = np.concatenate(parts)
        if len(whole):
            yield whole[np.lexsort((whole[by[1]], whole[by[0]]))]
            continue
        assert limit is not None
        after = limit[0], limit[1] + 1
        for run in runs:  # a block and more of equal rows: run after run
            while len(run.block) and (count := count_below(run.block, after, by)):
                yield run.take(count)
                run.fill()


def place_of(row: Any, by: tuple[str, str]) -> Place:
    """The values by which a row is sorted."""
    return int(row[by[0]]), int(row[by[1]])


def count_below(rows: Rows, place: Place, by: tuple[str, str]) -> int:
    """Number of sorted rows that lie before a place."""
    major = rows[by[0]]
    start, stop = np.searchsorted(major, [place[0], place[0] + 1]).tolist()
    within: int = np.searchsorted(rows[by[1]][start:stop], place[1]).item()
    return int(start) + within


@contextmanager
def temporary_folder(parent: Path | None) -> Iterator[Path]:
    """A folder for sorted files, removed at the end.

    Args:
        parent: folder in which to make it; None for the system's.

    Raises:
        SettingsError: there is no such folder, or it cannot be written.
    """
    try:
        folder = TemporaryDirectory(prefix="glaim-", dir=parent)
    except OSError as error:
        raise SettingsError(f"expected a folder for temporary files in {parent or gettempdir()}: {error}") from error
    with folder as name:
        yield Path(name)
