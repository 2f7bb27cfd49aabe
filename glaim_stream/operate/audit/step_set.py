"""A set of steps, with one bit for each step of its range of event time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from glaim_stream.operate.audit.keys import Bools, Ints

_PAGE = 1 << 15  # steps of a page: 4 kB


class StepSet:
    """A set of steps."""

    def __init__(self) -> None:
        self._pages: dict[int, NDArray[np.uint8]] = {}

    def add(self, steps: Ints) -> None:
        """Add steps."""
        page = steps // _PAGE
        for number in np.unique(page).tolist():
            bits = np.unpackbits(self._page(number))
            bits[steps[page == number] - number * _PAGE] = 1
            self._pages[number] = np.packbits(bits)

    def any_between(self, first: Ints, last: Ints) -> Bools:
        """True where the set has a step of `[first, last]`; bool [n], and no interval is longer than a page."""
        out = np.zeros(len(first), np.bool_)
        page = first // _PAGE
        for number in np.unique(page).tolist():
            here = page == number
            bits = np.unpackbits(np.concatenate([self._page(number), self._page(number + 1)]))
            until = np.append(0, np.cumsum(bits, dtype=np.int64))  # number of steps of the set before each step
            start = number * _PAGE
            out[here] = until[last[here] - start + 1] > until[first[here] - start]
        return out

    def _page(self, number: int) -> NDArray[np.uint8]:
        return self._pages.get(number, np.zeros(_PAGE // 8, np.uint8))
