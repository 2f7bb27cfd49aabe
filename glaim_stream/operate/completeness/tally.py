"""Counts the cells of one sensor by day, as they come in order of time."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import FIGURES, FILLED_BY, Figures

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NAMES = {Method.OBSERVED: "arrived", Method.NONE: "null"}
_BY_METHOD = [(_NAMES.get(method, METHODS[method]), int(method)) for method in Method]


@dataclass(frozen=True, slots=True)
class Cells:
    """The known cells of one sensor, each once, ascending; columns of length n.

    The other cells of its span have no row.
    """

    cell: Ints
    method: NDArray[np.int8]  # Method; NONE for a null cell
    good: Bools  # True for a reading of good quality
    late: Bools
    too_late: Bools
    has_row: Bools  # False for a cell that is only known to be late
    delay_ms: NDArray[np.float64]  # NaN where it is unknown

    def where(self, keep: Bools) -> Cells:
        """The cells at `keep`."""
        return Cells(*(getattr(self, column.name)[keep] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class Span:
    """Cells `first` to `end - 1`; cell k begins at `origin_ms + k * cell_ms`."""

    origin_ms: int
    cell_ms: int
    first: int
    end: int

    @classmethod
    def between(cls, first_ms: int, end_ms: int, cell_ms: int, *, origin_ms: int = 0) -> Span:
        """The cells that lie completely in a stretch of time."""
        first = -((origin_ms - first_ms) // cell_ms)
        return cls(origin_ms, cell_ms, first, max(first, (end_ms - origin_ms) // cell_ms))


class Tally:
    """The sums of one sensor. Memory holds a row of figures for each day of its span."""

    def __init__(self, days: Days, span: Span) -> None:
        self._span = span
        # The first cell of each day is the first that begins in it: a step across midnight counts where it begins.
        begins = -((span.origin_ms - days.starts_ms) // span.cell_ms)
        begins = np.clip(begins, span.first, span.end)
        expected = np.diff(begins)
        due = np.flatnonzero(expected)
        self._begins = begins[np.append(due, len(expected))] if len(due) else begins[:1]
        self._figures = np.zeros(len(due), FIGURES)
        self._figures["day"] = due
        self._figures["expected"] = expected[due]
        self._last_arrived = span.first - 1
        self.longest_gap = 0
        self.outside = 0  # late cells that lie before or after the span

    def add(self, cells: Cells) -> None:
        """Add cells that follow those of earlier calls."""
        inside = (cells.cell >= self._span.first) & (cells.cell < self._span.end)
        if not inside.all():
            self.outside += int((cells.late & ~inside).sum())
            cells = cells.where(inside)
        if not len(cells.cell):
            return
        figures = self._figures
        place = np.searchsorted(self._begins, cells.cell, side="right") - 1

        def count(name: str, chosen: Bools) -> None:
            figures[name] += np.bincount(place[chosen], minlength=len(figures)).astype(np.int32)

        arrived = cells.method == Method.OBSERVED
        with_row = place[cells.has_row] * len(Method) + cells.method[cells.has_row]
        by_method = np.bincount(with_row, minlength=len(figures) * len(Method)).reshape(-1, len(Method))
        for name, code in _BY_METHOD:
            figures[name] += by_method[:, code].astype(np.int32)
        count("good", arrived & cells.good)
        if cells.late.any():
            count("late", cells.late)
            count("too_late", cells.too_late)
        known = arrived & ~np.isnan(cells.delay_ms)
        if known.any():
            count("delays", known)
            figures["delay_ms"] += np.bincount(place[known], cells.delay_ms[known], len(figures))
        self._gaps(cells.cell[arrived])

    def finish(self) -> Figures:
        """Count the cells without a row, and return the figures, [days]."""
        self._gaps(np.array([self._span.end], np.int64))
        figures = self._figures
        with_row = figures["arrived"] + figures["null"]
        for name in FILLED_BY:
            with_row = with_row + figures[name]
        figures["without_row"] = figures["expected"] - with_row
        figures["null"] += figures["without_row"]
        return figures

    def _gaps(self, arrived: Ints) -> None:
        """Measure the gaps that end at these cells; int64 [n], ascending, later than those before."""
        if not len(arrived):
            return
        before = np.concatenate([[self._last_arrived], arrived[:-1]])
        self._last_arrived = int(arrived[-1])
        length = arrived - before - 1
        gaps = np.flatnonzero(length)
        if not len(gaps):
            return
        self.longest_gap = max(self.longest_gap, int(length[gaps].max()))
        first, last = before[gaps] + 1, arrived[gaps] - 1
        begin = np.searchsorted(self._begins, first, side="right") - 1
        end = np.searchsorted(self._begins, last, side="right") - 1
        longest = self._figures["longest_gap"]
        within = begin == end
        np.maximum.at(longest, begin[within], length[gaps][within])
        for gap in np.flatnonzero(~within).tolist():  # a gap across midnight: each day has its part
            days = slice(int(begin[gap]), int(end[gap]) + 1)
            from_, until = self._begins[days], self._begins[days.start + 1 : days.stop + 1]
            part = np.minimum(until, last[gap] + 1) - np.maximum(from_, first[gap])
            longest[days] = np.maximum(longest[days], part)
