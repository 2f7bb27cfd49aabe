"""Cells whose true value is known: the errors of each method, and the interval that was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import GAP_AGES

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class TruthSource(StrEnum):
    """The origin of the true value."""

    HIDDEN = "hidden"  # a reading that was hidden from the methods (windows.probes)
    LATE = "late"  # a reading that came after its cell was filled


class Column(IntEnum):
    """The methods, in the order of the columns of `Cells.errors`."""

    MODEL = 0
    GAUSSIAN = 1
    INTERPOLATION = 2
    LAST_VALUE = 3
    PUBLISHED = 4  # the value that was published, or would have been: the blend of the methods, rounded and limited


COLUMNS = [column.name.lower() for column in Column]


@dataclass(frozen=True, slots=True)
class JudgedCells:
    """n cells of one model, in the order of their steps."""

    step: Ints  # [n] step that decides the stretch
    group: NDArray[np.int32]  # [n] group codes
    sensor: Ints  # [n]
    age: Ints  # [n] class of the gap age, index into GAP_AGE_NAMES
    place: Ints  # [n] Place in the window
    errors: Doubles  # [n, Column] absolute errors, in the sensor's unit; NaN where the method gave no value
    width: Doubles  # [n] width of the interval, NaN without one
    held: NDArray[np.bool_]  # [n] the interval held the true value

    def __len__(self) -> int:
        return len(self.step)

    def where(self, chosen: NDArray[np.bool_] | slice) -> JudgedCells:
        """Some of the cells."""
        return JudgedCells(*(getattr(self, each.name)[chosen] for each in fields(self)))


def joined(parts: Sequence[JudgedCells]) -> JudgedCells:
    """Join cells in their order; `parts` must not be empty."""
    if len(parts) == 1:
        return parts[0]
    return JudgedCells(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(JudgedCells)))


def age_of(gap_age: NDArray[np.int32] | Ints) -> Ints:
    """Class of each gap age in steps, index into GAP_AGE_NAMES."""
    return np.searchsorted(GAP_AGES, gap_age).astype(np.int64)
