"""The number format of a text column: decimal sign, thousands separator, decimals, exponents."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.files import NumberForm

_MOST_DECIMALS = 17
_SHARE = 0.95  # share of the cells that the decimals must suffice for; the rest are rounding errors of a program
_EXACT = 15  # significant digits of a double; a cell with more shows rounding errors
_EXPONENT = re.compile(r"[+-]?\d+(?:\D(?P<decimals>\d*))?(?P<letter>[eE])(?P<sign>[+-]?)(?P<digits>\d+)")
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_STYLED = 20_000  # cells that the format of a column is found from
_LEAST_STYLED = 200  # least cells that the format of a series is found from, if it has so many
_SHARE_OF_BAND = 0.1  # most rounding as a share of half of a value's band, if the series has such fine cells


@dataclass(frozen=True)
class Style:
    """A format for numbers.

    exponent: pattern such as `E+02`: an E, always a sign, two digits; None: no exponents.
    width: digits of all numbers, padded with zeros on the left; 0: as many as needed.
    suffix: unit after every number, with the blank before it.
    most: decimals of the finest cell; a number may have as many where fewer would be too coarse.
    zero: text of zero; empty: like any other number.
    """

    decimal: str = "."
    decimals: int = 0
    thousands: str = ""
    exponent: tuple[str, bool, int] | None = None
    width: int = 0
    suffix: str = ""
    most: int = 0
    zero: str = ""

    def text(self, value: float, within: float = math.inf) -> str:
        """Format a number; never as minus zero.

        Args:
            value: number to format.
            within: largest difference between text and number. If the usual decimals miss it, the text has more, but
                never more than the finest cell of the column.
        """
        return self._number(value, self._enough(value, within)) + self.suffix

    def band(self, value: float, lower: float, upper: float, within: float) -> tuple[str, str]:
        """Format the ends of a number's band to the same precision; the number's text lies between them."""
        decimals = self._enough(value, within)
        shown = self._rounded(value, decimals)
        decimals = max(decimals, self._enough(lower, within), self._enough(upper, within))
        ends = (min(self._rounded(lower, decimals), shown), max(self._rounded(upper, decimals), shown))
        low, high = (self._number(each, decimals) + self.suffix for each in ends)
        return low, high

    def _enough(self, value: float, within: float) -> int:
        """The number of decimals that brings the text within the limit, if a cell has so many."""
        fitting = (
            decimals
            for decimals in range(self.decimals, self.most)
            if not abs(self._rounded(value, decimals) - value) > within
        )
        return next(fitting, max(self.decimals, self.most))

    def _rounded(self, value: float, decimals: int) -> float:
        return float(f"{value:.{decimals}{'f' if self.exponent is None else 'e'}}")

    def _number(self, value: float, decimals: int) -> str:
        if self.zero and not self._rounded(value, decimals):
            return self.zero
        if self.exponent is not None:
            letter, signed, digits = self.exponent
            mantissa, power = f"{value:.{decimals}e}".split("e")
            sign = "-" if int(power) < 0 else "+" if signed else ""
            return mantissa.replace(".", self.decimal) + letter + sign + str(abs(int(power))).zfill(digits)
        text = f"{value:,.{decimals}f}" if self.thousands else f"{value:.{decimals}f}"
        if text.startswith("-") and not re.search("[1-9]", text):
            text = text[1:]
        return text.translate({ord(","): self.thousands, ord("."): self.decimal}).zfill(self.width)


def style_of(cells: Iterable[str], *, decimal: str = ".", thousands: str = "", suffix: str = "") -> Style:
    """The style of a column's observed cells.

    Zeros do not count towards the number of decimals if there are other cells: a sensor that mostly rests may write
    `0` then, and `0.3204` when it moves.
    """
    decimals, zeros, zero_texts = Counter[int](), Counter[int](), Counter[str]()
    exponents: Counter[tuple[int, str, bool, int]] = Counter()
    grouped, padded, lengths = 0, False, set[int]()
    most, digits = 0, 0
    for cell in cells:
        bare = cell.strip().removesuffix(suffix)
        match = _EXPONENT.fullmatch(bare)
        if match:
            fraction, power = len(match["decimals"] or ""), int(match["sign"] + match["digits"])
            exponents[fraction, match["letter"], match["sign"] == "+", len(match["digits"])] += 1
        else:
            fraction, power = len(bare.partition(decimal)[2]), 0
            if re.search("[1-9]", bare):
                decimals[fraction] += 1
            else:
                zeros[fraction] += 1
                zero_texts[bare.lstrip("+-\u2212")] += 1
            grouped += bool(thousands) and thousands in bare
            padded |= len(bare) > 1 and bare[0] == "0" and bare[1].isdigit()
            lengths.add(len(bare))
        significant = len(re.sub(r"\D", "", re.split("[eE]", bare)[0]).lstrip("0"))
        if significant <= _EXACT:
            most, digits = max(most, fraction - power), max(digits, significant)
    zero = zero_texts.most_common(1)[0][0] if zero_texts else ""
    if exponents.total() > decimals.total():
        fraction, letter, _, places = exponents.most_common(1)[0][0]
        signed = any(each[2] for each in exponents)
        usual = max((each[0] for each in exponents), default=fraction)
        return Style(decimal, usual, "", (letter, signed, places), suffix=suffix, most=digits - 1, zero=zero)
    width = lengths.pop() if padded and len(lengths) == 1 else 0
    usual = _enough(decimals or zeros)
    most = min(most, _MOST_DECIMALS)
    return Style(decimal, usual, thousands if grouped else "", None, width, suffix, most, zero)


def _enough(decimals: Counter[int]) -> int:
    wanted, seen = _SHARE * decimals.total(), 0
    for number in sorted(decimals):
        seen += decimals[number]
        if seen >= wanted:
            return min(number, _MOST_DECIMALS)
    return 0


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
    return _SHARE_OF_BAND * half if half > 0.0 else math.inf
