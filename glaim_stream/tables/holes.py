"""The holes of a group, and their distance from readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form import nearest
from glaim_stream.tables.groups import Group, usable
from glaim_stream.tables.lines import gap_lengths
from glaim_stream.tables.long_gaps import LONGEST_GAP

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Holes:
    """The holes of a group, all arrays [C, N].

    values: believed readings in sensor units; NaN elsewhere.
    missing: cells to fill. A doubted reading is neither believed nor missing.
    short: cells of gaps of up to `longest` steps.
    long: cells of gaps of more than `LONGEST_GAP` steps that may be filled.
    distance: steps to the nearest believed reading of the sensor.
    longest: longest gap in steps that is filled in full.
    stated: True if the user set the limit; longer gaps then stay empty.
    """

    values: Doubles
    missing: Bools
    short: Bools
    long: Bools
    distance: Doubles
    longest: int
    stated: bool

    @classmethod
    def of(cls, group: Group, max_gap: int | None) -> Self:
        """Find the holes of a group; `max_gap` is the longest gap in steps if the user set it."""
        values = group.believed
        longest = LONGEST_GAP if max_gap is None else max_gap
        missing = np.isnan(group.values)
        short = gap_lengths(np.isnan(usable(group.values))) <= longest
        long = missing & (gap_lengths(np.isnan(values)) > LONGEST_GAP)
        return cls(
            values=values,
            missing=missing,
            short=short,
            long=long if max_gap is None else long & short,
            distance=nearest(~np.isnan(values)),
            longest=longest,
            stated=max_gap is not None,
        )

    @property
    def observed(self) -> Bools:
        """Cells with a believed reading."""
        return ~np.isnan(self.values)

    @property
    def wanted(self) -> Bools:
        """Missing cells that a form may fill."""
        return self.missing & self.short if self.stated else self.missing
