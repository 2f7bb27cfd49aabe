"""Judges the numbers of columns: readings, missing values, or neither, by statements, marks of quality and shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.errors import SettingsError, unknown_name
from glaim_stream.files.form import Sentinel
from glaim_stream.files.quality import QualityMarks, note
from glaim_stream.files.sentinels import sentinels

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Told:
    """Stated missing values, by column or sensor; "" for all."""

    numbers: dict[str, list[float]]
    words: dict[str, list[str]]
    texts: dict[str, list[str]]  # all values of columns, as text

    @classmethod
    def of(cls, missing: Sequence[str]) -> Told:
        """Divide the statements, each a value or `COLUMN=VALUE`."""
        told = cls({}, {}, {})
        for text in missing:
            column, _, value = text.rpartition("=")
            if column:
                told.texts.setdefault(column, []).append(value)
            try:
                told.numbers.setdefault(column, []).append(float(value))
            except ValueError:
                told.words.setdefault(column, []).append(value)
        return told

    def require(self, name: str, columns: Collection[str]) -> None:
        """Require that the stated columns and sensors exist.

        Raises:
            SettingsError: one does not.
        """
        for column in (*self.numbers, *self.words):
            if column and column not in columns:
                raise SettingsError(
                    f"{name}: {unknown_name('a column or sensor, as in COLUMN=VALUE', column, columns)}"
                )

    def take_out(self, kept: NDArray[np.bool_], cells: Any, sensors: Sequence[str], rows: NDArray[np.int64]) -> None:
        """Make holes of the cells of a long file that hold a word stated for their sensor."""
        for sensor, words in self.words.items():
            if sensor in sensors:
                said = pc.is_in(cells, pa.array(words, cells.type)).to_numpy(zero_copy_only=False)
                kept[(rows == list(sensors).index(sensor)) & said] = False


@dataclass(frozen=True, slots=True)
class JudgedReadings:
    """Readings by column, float64 [R] with NaN where missing; those of a long file are parts of the column `value`."""

    columns: dict[str, NDArray[np.float64]]
    sensors: tuple[str, ...]
    sensor_of_row: NDArray[np.int64] | None
    value: str

    def parts(self) -> dict[str, NDArray[np.float64]]:
        """The readings of each sensor."""
        if self.sensor_of_row is None:
            return self.columns
        column = self.columns[self.value]
        return {each: column[self.sensor_of_row == place] for place, each in enumerate(self.sensors)}

    def take_out(self, found: Sequence[Sentinel]) -> None:
        """Replace numbers that mean a missing value by holes."""
        for each in found:
            if each.taken:
                column = self.columns[self.value or each.column]
                rows = self.sensor_of_row
                mine = slice(None) if rows is None else rows == self.sensors.index(each.column)
                column[mine] = np.where(column[mine] == each.value, np.nan, column[mine])

    def holds(self, sentinel: Sentinel) -> bool:
        """Whether a number is still among the readings."""
        return bool((self.parts()[sentinel.column] == sentinel.value).any())

    def doubted(self, column: str, found: Sequence[Sentinel]) -> NDArray[np.bool_]:
        """Readings of a column that may mean a missing value, bool [R]."""
        values, out = self.columns[column], np.zeros(len(self.columns[column]), np.bool_)
        for each in found:
            if not each.taken and not each.amid and each.column in (column, *(self.sensors if self.value else ())):
                rows = self.sensor_of_row
                out |= (values == each.value) & (True if rows is None else rows == self.sensors.index(each.column))
        return out

    def judge(
        self, kept: Mapping[str, Bools], marks: Sequence[QualityMarks], told: Told, *,
        taken: Mapping[str, Sequence[float]] | None = None, only_missing: bool = False,
    ) -> tuple[tuple[Sentinel, ...], list[str]]:  # fmt: skip
        """Take out numbers that mean a missing value, and readings that are marked as bad; return the former and notes.

        Args:
            kept: cells of each column that hold something else than a usable reading, bool [R]; changed in place.
            marks: columns of quality.
            told: stated missing values.
            taken: numbers that an earlier file had in place of missing values, by column.
            only_missing: take no other number than the stated ones for missing.
        """
        parts = self.parts()
        only_told = parts if only_missing else {column for column, texts in told.texts.items() if "" in texts}
        told_of = {**(taken or {}), **told.numbers}
        found = sentinels(parts, told.numbers.get("", ()), told_of, only_told=only_told)
        self.take_out(found)
        notes = []
        for mark in marks:
            bad = {each: mark.bad & np.isfinite(self.columns[each]) for each in mark.judges if each in self.columns}
            for each, cells in bad.items():
                kept[each][cells] = True
                self.columns[each][cells] = np.nan
            if (count := sum(int(cells.sum()) for cells in bad.values())) > 0:
                notes.append(note(mark, count))
        return tuple(each for each in found if each.taken or each.amid or self.holds(each)), notes
