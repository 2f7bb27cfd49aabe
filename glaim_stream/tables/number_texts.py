"""Formats a column's filled numbers, each like the readings of its sensor and group.

If each row holds one reading, all sensors share one column: counts of thousands beside a fraction of 0.0013.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.files import NumberForm
from glaim_stream.tables.decimals import Style, style_of

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_STYLED = 20_000  # cells that the format of a column is found from
_LEAST_STYLED = 200  # least cells that the format of a series is found from, if it has so many
_SHARE = 0.1  # most rounding as a share of half of a value's band, if the series has such fine cells


@dataclass(frozen=True)
class NumberTexts:
    """The styles of a column's numbers.

    column: style of the whole column, for series without a reading.
    own: styles by code of series (a sensor in a group); empty where there is only one.
    """

    column: Style
    own: dict[int, Style]

    @classmethod
    def of(cls, texts: Callable[[list[int]], Sequence[str]], observed: Bools, series: Ints, form: NumberForm) -> Self:
        """Find the styles of a column.

        Args:
            texts: function that returns the cells of the column in some rows.
            observed: bool [rows], cells that are readings.
            series: int64 [rows], codes of their series.
            form: form of the column's numbers.
        """

        def style(rows: Ints, most: int) -> Style:
            rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64)]
            cells = [text for text in texts(rows.tolist()) if text]
            return style_of(cells, decimal=form.decimal, thousands=form.thousands, suffix=form.suffix)

        rows = np.flatnonzero(observed)
        column = style(rows, _STYLED)
        rows = rows[np.argsort(series[rows], kind="stable")]
        codes, starts = np.unique(series[rows], return_index=True)
        if len(codes) < 2:
            return cls(column, {})
        most = max(_LEAST_STYLED, _STYLED // len(codes))
        parts = zip(codes.tolist(), np.split(rows, starts[1:]), strict=True)
        return cls(column, {code: replace(style(part, most), thousands=column.thousands) for code, part in parts})

    def cell(self, code: int, value: float, half: float) -> str:
        """The text of a value of a series; `half` is half of its band, NaN if unknown."""
        return self._style(code).text(value, _within(half))

    def band(self, code: int, value: float, lower: float, upper: float) -> tuple[str, str]:
        """The texts of the ends of a value's band, with the text of the value between them; empty if unknown."""
        low, high = self._style(code).band(value, lower, upper, _within((upper - lower) / 2))
        return low if math.isfinite(lower) else "", high if math.isfinite(upper) else ""

    def _style(self, code: int) -> Style:
        return self.own.get(code, self.column)


def _within(half: float) -> float:
    """The largest rounding of a text; unlimited for a band without a width."""
    return _SHARE * half if half > 0.0 else math.inf
