"""Records of one reading each whose readings are known as columns, as those of a file, so that none is decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.readings import InputRecord
from glaim_stream.decode.exact import LARGEST_EXACT
from glaim_stream.decode.groups import GroupIndex
from glaim_stream.decode.parsed import Parsed, Said

_READING_BYTES = 20  # cell, time and value


@dataclass(frozen=True, slots=True)
class ReadingRecords(Sequence[InputRecord]):
    """Consecutive records of a partition; a record is made when it is looked at."""

    cells: Sequence[tuple[str, str]]  # group and sensor by cell code
    cell: NDArray[np.int32]  # [n]
    time_ms: NDArray[np.int64]  # [n]
    value: NDArray[np.float64]  # [n] as a decoder reads the record, finite
    offset: int  # of the first record
    make: Callable[[int], InputRecord]  # the record at an offset

    def __len__(self) -> int:
        return len(self.cell)

    @overload
    def __getitem__(self, at: int) -> InputRecord: ...
    @overload
    def __getitem__(self, at: slice) -> ReadingRecords: ...
    def __getitem__(self, at: int | slice) -> InputRecord | ReadingRecords:
        """A record, or some that follow each other."""
        if not isinstance(at, slice):
            return self.make(self.offset + range(len(self))[at])
        first, _, _ = at.indices(len(self))
        return replace(
            self, cell=self.cell[at], time_ms=self.time_ms[at], value=self.value[at], offset=self.offset + first
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of the columns."""
        return len(self) * _READING_BYTES

    @property
    def exact(self) -> bool:
        """Whether no value may be an integer that a float cannot hold, which only the record tells."""
        return bool((np.abs(self.value) < LARGEST_EXACT).all())

    def parsed(self, index: GroupIndex) -> Parsed:
        """The readings, as the formats of records parse them."""
        used, place = np.unique(self.cell, return_inverse=True)
        names = [self.cells[cell] for cell in used.tolist()]
        groups, sensors = index.groups([group for group, _ in names]), index.sensors([sensor for _, sensor in names])
        return Parsed(
            groups[place],
            sensors[place],
            self.time_ms.astype(np.float64),
            self.value,
            np.arange(len(self)),
            np.zeros(len(self), np.int64),
            None,
            self._said,
        )

    def _said(self, row: int) -> Said:
        group, sensor = self.cells[self.cell[row]]
        return Said(group, sensor, int(self.time_ms[row]))
