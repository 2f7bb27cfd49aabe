"""Half-widths of the intervals of cells: from the contract or the closed form, and times the factor of recent errors.

The two sides of an interval are separate, [n, 2]: below the value and above it. Arithmetic only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import Expert, levels
from glaim_stream.output import BAND, SensorTable, residuals_at

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HalfWidths:
    """Half-widths of the 90 % intervals of n cells, NaN where they are not known.

    A value in which the model has a part has the geometric mean of the residuals of its validation and of the closed
    form's deviation: only the former knows the model, and only the latter which cells around the hole are missing.
    Any other value has the deviation. Where one of them is not known, the other stands in.
    """

    half: Doubles  # [n, 2, 2] for values with a part of the model, and for the others; below and above the value
    level: Ints  # [n, 2] levels of blend.reach

    @classmethod
    def of(
        cls, by_model: Doubles, by_form: Doubles, span: Doubles, gap_age: Ints | NDArray[np.int32], silent: Bools
    ) -> HalfWidths:
        """Combine half-widths [n, 2] of both kinds, spans [n] of the sensors' readings in training, and gap ages.

        `silent` [n] tells where the whole group was silent.
        """
        of_form = np.where(np.isnan(by_form), by_model, by_form)
        of_model = np.sqrt(np.where(np.isnan(by_model), by_form, by_model)) * np.sqrt(of_form)
        half = np.stack([of_model, of_form], axis=1)
        return cls(half, levels(half, span, gap_age, silent))

    def where(self, rows: slice) -> HalfWidths:
        """Some of the cells."""
        return HalfWidths(self.half[rows], self.level[rows])

    def published(self, weights: Doubles) -> tuple[Doubles, Ints]:
        """Half-widths [n, 2] and levels [n] of the values that are mixed by weights of the experts [n, experts]."""
        at = np.arange(len(weights)), (weights[:, Expert.MODEL] == 0).astype(np.int64)
        return self.half[at], self.level[at]


NO_WIDTHS = HalfWidths.of(
    np.empty((0, 2)), np.empty((0, 2)), np.empty(0), np.empty(0, np.int64), np.empty(0, np.bool_)
)  # widths of no cell


def half_widths(
    sensor: Ints | NDArray[np.int32],
    gap_age: Ints | NDArray[np.int32],
    newest: Bools,
    silent: Bools,
    table: SensorTable,
    table_of: Callable[[str], SensorTable],
    *,
    version: Sequence[str],
    deviation: Doubles | None = None,
    form_range: tuple[Doubles, Doubles] | None = None,
) -> HalfWidths:
    """Collect the half-widths of cells [n].

    Args:
        sensor: [n].
        gap_age: [n], steps.
        newest: [n], True at the window's newest step.
        silent: [n], True where no sensor of the group was observed at the cell's step.
        table: the model's sensors.
        table_of: the sensors with the intervals of a version.
        version: version of the model that answered for each cell, length n; "" where none did.
        deviation: [n], deviation of the closed form; None: the model has none.
        form_range: least and largest reading that the closed form was fitted to, [C].
    """
    by_model, by_form = np.full((2, len(sensor), 2), np.nan)
    versions = set(version)
    for name in versions:
        rows = slice(None) if len(versions) == 1 else np.flatnonzero([each == name for each in version])
        below, above = residuals_at(sensor[rows], gap_age[rows], newest[rows], table_of(name) if name else table)
        by_model[rows, 0], by_model[rows, 1] = np.maximum(-below, 0.0), np.maximum(above, 0.0)
    if deviation is not None:
        by_form[:] = BAND * deviation[:, None]
    ranges = [each for each in (table.trained_range, form_range) if each is not None]
    span = np.max([most - least for least, most in ranges], axis=0)[sensor] if ranges else np.full(len(sensor), np.inf)
    return HalfWidths.of(by_model, by_form, span, gap_age, silent)
