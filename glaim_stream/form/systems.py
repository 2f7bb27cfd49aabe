"""Linear systems of many windows, each with its own cells of one matrix, in batches of about the same size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_LEAST_STEP = 4  # numbers of cells are rounded up to multiples of it
_TWICE_FROM = (32, 256, 512)  # numbers of cells above which the multiple doubles
SPARE = _LEAST_STEP << len(_TWICE_FROM)  # cells of padding that rounding up may need
_KEY_BITS = 32
_CACHED_NUMBERS = 1 << 16  # gathered numbers: 512 kB, which stay in the processor's cache
_BLOCK_NUMBERS = 1 << 18  # numbers in the systems that are solved at a time: 2 MB
_BY_ROWS = 32  # cells from which a part of the matrix is gathered by whole rows
_LEAST_ROWS = 16  # least number of whole rows at a time


def batches(sizes: NDArray[np.int64], columns: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.int64]]:
    """Yield rows whose systems have about the same size, some at a time, without rows of size 0.

    The shapes of a row's matrices follow from its own cells, so its answer has the same bits in every batch.

    Args:
        sizes: int64 [n], sizes of the systems, rounded up.
        columns: int64 [n], numbers of right-hand sides, rounded up; None: they follow from the sizes.
    """
    key = sizes if columns is None else np.where(sizes > 0, sizes << _KEY_BITS | columns, 0)
    order = np.argsort(key, kind="stable")
    order = order[np.searchsorted(key[order], 1) :]
    edges = np.flatnonzero(np.diff(key[order])) + 1
    for rows in np.split(order, edges) if len(order) else ():
        size = int(sizes[rows[0]])
        at_a_time = max(1, _BLOCK_NUMBERS // size**2)
        yield from (rows[start : start + at_a_time] for start in range(0, len(rows), at_a_time))


def rounded(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers of cells, rounded up so that windows of about the same size are solved together."""
    step = _LEAST_STEP << np.searchsorted(_TWICE_FROM, counts)
    numbers: NDArray[np.int64] = -(-counts // step) * step
    return numbers


def systems(matrix: Doubles, cells: NDArray[np.int64], vectors: Doubles) -> tuple[Doubles, Doubles]:
    """Return each window's rows and columns of the precision matrix [n, k, k], and its right-hand side [n, k].

    Large systems are taken from whole rows of the matrix, which the right-hand side needs too. For k = 100 of D = 768
    cells that takes 45 µs; k² numbers one by one and the rows take 70 µs, and a product of all D rows with many
    windows at once, instead of the k rows, takes 60 µs. As many rows are taken at a time as the cache holds: for
    k = 100 of D = 2016 that takes 140 instead of 210 µs (a core of a Xeon with 2 MB of cache).

    Args:
        matrix: float64 [D + padding, D + padding], the precision.
        cells: int64 [n, k], cells of each window.
        vectors: float64 [n, D + padding], the windows.
    """
    if cells.shape[1] < _BY_ROWS:
        return parts(matrix, cells, cells), -_products(matrix, cells, vectors)
    size = cells.shape[1]
    system, right = np.empty((*cells.shape, size)), np.empty(cells.shape)
    at_a_time = min(size, max(_LEAST_ROWS, _CACHED_NUMBERS // len(matrix)))
    taken = np.empty((at_a_time, len(matrix)))
    for place, chosen in enumerate(cells):
        for start in range(0, size, at_a_time):
            part = slice(start, start + at_a_time)
            matrix_rows = taken[: len(chosen[part])]
            matrix.take(chosen[part], axis=0, out=matrix_rows, mode="clip")
            matrix_rows.take(chosen, axis=1, out=system[place, part], mode="clip")
            np.matmul(matrix_rows, vectors[place], out=right[place, part])
    return system, np.negative(right, out=right)


def parts(matrix: Doubles, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Doubles:
    """Return each window's rows [n, k] and columns [n, m] of the matrix, [n, k, m]."""
    out = np.empty((*rows.shape, columns.shape[1]))
    at_a_time = max(1, _CACHED_NUMBERS // (4 * rows.shape[1] * columns.shape[1]))
    for start in range(0, len(rows), at_a_time):
        part = slice(start, start + at_a_time)
        place = rows[part, :, None] * len(matrix) + columns[part, None, :]
        np.take(matrix, place, out=out[part], mode="clip")  # the default mode needs a copy of the output
    return out


def _products(matrix: Doubles, cells: NDArray[np.int64], vectors: Doubles) -> Doubles:
    """Each window's rows [n, k] of the matrix times its vector [n, D].

    Each window has its own product: in a product of matrices the last bits would depend on the number of windows.
    """
    out = np.empty(cells.shape)
    at_a_time = max(1, _CACHED_NUMBERS // (cells.shape[1] * len(matrix)))
    for start in range(0, len(cells), at_a_time):
        part = slice(start, start + at_a_time)
        out[part] = (matrix[cells[part]] @ vectors[part, :, None])[:, :, 0]
    return out
