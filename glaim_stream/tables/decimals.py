"""How a column of a text file writes its numbers: decimal sign, thousands separator, decimals, exponents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

_MOST_DECIMALS = 17
_SHARE = 0.95  # of the cells have so many decimals or fewer; the others are rounding errors of a program
_EXPONENT = re.compile(r"[+-]?\d+(?:\D(?P<decimals>\d*))?(?P<letter>[eE])(?P<sign>[+-]?)(?P<digits>\d+)")


@dataclass(frozen=True)
class Style:
    """The way to write a number.

    exponent: `E+02` is an E, a sign always, two digits; None: no exponents.
    width: of all numbers, filled with zeros on the left; 0: as many digits as are needed.
    suffix: the unit behind every number, with the blank before it.
    """

    decimal: str = "."
    decimals: int = 0
    thousands: str = ""
    exponent: tuple[str, bool, int] | None = None
    width: int = 0
    suffix: str = ""

    def text(self, value: float) -> str:
        """Write a number; never as minus zero."""
        return self._number(value) + self.suffix

    def _number(self, value: float) -> str:
        if self.exponent is not None:
            letter, signed, digits = self.exponent
            mantissa, power = f"{value:.{self.decimals}e}".split("e")
            sign = "-" if int(power) < 0 else "+" if signed else ""
            return mantissa.replace(".", self.decimal) + letter + sign + str(abs(int(power))).zfill(digits)
        text = f"{value:,.{self.decimals}f}" if self.thousands else f"{value:.{self.decimals}f}"
        if text.startswith("-") and not re.search("[1-9]", text):
            text = text[1:]
        return text.translate({ord(","): self.thousands, ord("."): self.decimal}).zfill(self.width)


def style_of(cells: Iterable[str], *, decimal: str = ".", thousands: str = "", suffix: str = "") -> Style:
    """The style of a column's observed cells."""
    decimals: Counter[int] = Counter()
    exponents: Counter[tuple[int, str, bool, int]] = Counter()
    grouped, padded, lengths = 0, False, set[int]()
    for cell in cells:
        bare = cell.strip().removesuffix(suffix)
        match = _EXPONENT.fullmatch(bare)
        if match:
            fraction = len(match["decimals"] or "")
            exponents[fraction, match["letter"], match["sign"] == "+", len(match["digits"])] += 1
        else:
            decimals[len(bare.partition(decimal)[2])] += 1
            grouped += bool(thousands) and thousands in bare
            padded |= len(bare) > 1 and bare[0] == "0" and bare[1].isdigit()
            lengths.add(len(bare))
    if exponents.total() > decimals.total():
        fraction, letter, _, digits = exponents.most_common(1)[0][0]
        signed = any(each[2] for each in exponents)
        most = max((each[0] for each in exponents), default=fraction)
        return Style(decimal, most, "", (letter, signed, digits), suffix=suffix)
    width = lengths.pop() if padded and len(lengths) == 1 else 0
    return Style(decimal, _enough(decimals), thousands if grouped else "", None, width, suffix)


def _enough(decimals: Counter[int]) -> int:
    wanted, seen = _SHARE * decimals.total(), 0
    for number in sorted(decimals):
        seen += decimals[number]
        if seen >= wanted:
            return min(number, _MOST_DECIMALS)
    return 0
