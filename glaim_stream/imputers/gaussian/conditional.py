"""Conditional mean and variance of the missing cells of many windows, each with its own pattern of holes.

A window is a vector x of D = C * T cells with mean 0 and covariance K. Of P = inverse(K), the precision form needs the
missing cells q alone (o are the observed ones):

    mean = -inverse(P[q, q]) P[q, o] x[o],    variance = diagonal of inverse(P[q, q]),

which is cheap where little is missing. Where more is missing than observed, the covariance form is the cheaper one:

    mean = K[q, o] inverse(K[o, o]) x[o],    variance = diagonal of K[q, q] - K[q, o] inverse(K[o, o]) K[o, q].
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from glaim_stream.imputers.gaussian.inverse import inverse_of_covariance, solved_with_diagonal

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_PADDING = 4  # windows are solved together where their numbers of cells agree after rounding up to a multiple of this
_CACHED_NUMBERS = 1 << 16  # of gathered ones: 512 kB, which stay in the processor's cache
_BLOCK_NUMBERS = 1 << 22  # of the systems that are solved at a time: 32 MB
_TILE = 16  # the matrices' sizes are multiples of it, so that a product of matrices has no edges
_DENSE_CELLS = 512  # D from which a product with the whole precision matrix can be the cheaper one ...
_DENSE_MISSING = 48  # ... for windows with at least so many missing cells
_DENSE_WINDOWS = 256  # of a product
_DENSE_STEP = 8  # the number of windows of a product is a multiple of it


class Conditional:
    """The distribution of missing cells given the observed ones, for a fixed covariance."""

    def __init__(self, covariance: Doubles) -> None:
        """Invert the covariance.

        Args:
            covariance: float64 [D, D], symmetric and positive definite.

        Raises:
            ValueError: it is not.
        """
        try:
            precision = inverse_of_covariance(covariance)
        except np.linalg.LinAlgError as error:
            raise ValueError("expected a positive definite covariance") from error
        # Cells at the end, which depend on nothing, pad systems of different sizes.
        self._cells = len(covariance)
        self._covariance = _with_padding(covariance)
        self._precision = _with_padding(precision)

    @property
    def cells(self) -> int:
        """D."""
        return self._cells

    def fill(
        self, values: Doubles, observed: Bools, wanted: Bools | None = None, *, with_variance: bool = True
    ) -> tuple[Doubles, Doubles]:
        """Return the mean and the variance of every cell; observed cells keep their value, with variance 0.

        Args:
            values: float64 [n, D]; ignored where not observed.
            observed: bool [n, D].
            wanted: bool [D], cells whose mean and variance are needed; others may be 0. Fewer cost less.
            with_variance: False leaves all variances 0, which costs less.
        """
        mean = np.zeros((len(values), len(self._precision)))
        np.copyto(mean[:, : self.cells], values, where=observed)
        variance = np.zeros(values.shape)
        missing = self.cells - observed.sum(axis=1)
        asked = np.ones(self.cells, np.bool_) if wanted is None else wanted
        needed = missing > 0 if wanted is None else (~observed[:, asked]).any(axis=1)
        few = missing <= self.cells // 2
        asked = asked & with_variance
        columns = missing if asked.all() else (asked & ~observed).sum(axis=1)
        dense = few & needed & (missing >= _DENSE_MISSING) & (self.cells >= _DENSE_CELLS)
        products = self._all_products(mean, np.flatnonzero(dense)) if dense.any() else mean
        for group in (dense, few & needed & ~dense):
            for rows in _batches(np.where(group, missing, 0), columns):
                found = products[rows] if group is dense else None
                self._by_precision(mean, variance, observed, rows, asked, found)
        for rows in _batches(np.where(few | ~needed, 0, self.cells - missing)):
            self._by_covariance(mean, variance, observed, rows)
        nothing = np.flatnonzero(missing == self.cells)
        variance[nothing] = np.diagonal(self._covariance)[: self.cells]
        return mean[:, : self.cells], variance

    def weights(self, observed: Bools, cell: int) -> Doubles:
        """Return the weights of the observed cells in the mean of a cell that is not; 0 at all others.

        Args:
            observed: bool [D].
            cell: index of a cell that is not observed.
        """
        out = np.zeros(self.cells)
        seen, hole = np.flatnonzero(observed), np.flatnonzero(~observed)
        if not len(seen):
            return out
        if len(hole) <= self.cells // 2:
            row = np.linalg.solve(self._precision[np.ix_(hole, hole)], (hole == cell).astype(np.float64))
            out[seen] = -row @ self._precision[np.ix_(hole, seen)]
        else:
            out[seen] = np.linalg.solve(self._covariance[np.ix_(seen, seen)], self._covariance[seen, cell])
        return out

    def _by_precision(
        self,
        mean: Doubles,
        variance: Doubles,
        observed: Bools,
        rows: NDArray[np.int64],
        wanted: Bools,
        products: Doubles | None,
    ) -> None:
        """Fill rows of about the same size; `products` has the precision matrix times their observed values."""
        hole = ~observed[rows]
        cells, real = _places(hole)
        if products is None:
            right = -_products(self._precision, cells, mean[rows])
        else:
            right = -np.take_along_axis(products, cells, axis=1)
        if wanted.all():
            place, real_wanted = cells, real
        else:
            place, real_wanted = _places(np.pad(wanted, (0, _PADDING))[cells] & real)
        if place.shape[1] < cells.shape[1] // 2:  # solve for these cells alone
            unit = np.zeros((*cells.shape, place.shape[1] + 1))
            window, column = np.nonzero(real_wanted)
            unit[window, place[window, column], column] = 1.0
            unit[:, :, -1] = right
            solution = np.linalg.solve(_parts(self._precision, cells, cells), unit)
            solved, spread = solution[:, :, -1], np.zeros(cells.shape)
            at = place[window, column]
            spread[window, at] = solution[window, at, column]
        else:
            half = cells.shape[1] // 2
            first, rest = cells[:, :half], cells[:, half:]
            solved, spread = solved_with_diagonal(
                _parts(self._precision, first, first),
                _parts(self._precision, first, rest),
                _parts(self._precision, rest, rest),
                right,
            )
        window, _ = np.nonzero(real)
        found = cells[real]
        mean[rows[window], found] = solved[real]
        variance[rows[window], found] = np.maximum(spread[real], 0.0)

    def _all_products(self, vectors: Doubles, rows: NDArray[np.int64]) -> Doubles:
        """The precision matrix times some of the vectors, [n, D + padding]; other rows have no meaning.

        In a product of matrices whose sizes are multiples of the processor's tiles, each number is the same sum in the
        same order, whichever other windows there are.
        """
        out = np.empty_like(vectors)
        for start in range(0, len(rows), _DENSE_WINDOWS):
            part = rows[start : start + _DENSE_WINDOWS]
            padded = np.zeros((-(-len(part) // _DENSE_STEP) * _DENSE_STEP, vectors.shape[1]))
            padded[: len(part)] = vectors[part]
            out[part] = (padded @ self._precision)[: len(part)]
        return out

    def _by_covariance(self, mean: Doubles, variance: Doubles, observed: Bools, rows: NDArray[np.int64]) -> None:
        cells, _ = _places(observed[rows])
        known = np.take_along_axis(mean[rows], cells, axis=1)
        system = self._covariance[cells[:, :, None], cells[:, None, :]]
        across = self._covariance[cells, : self.cells]  # [n, o, D]; 0 for padding
        weights = np.linalg.solve(system, across)
        filled = np.einsum("noc,no->nc", weights, known)
        spread = np.diagonal(self._covariance)[: self.cells] - np.einsum("noc,noc->nc", weights, across)
        hole = ~observed[rows]
        mean[rows, : self.cells] = np.where(hole, filled, mean[rows, : self.cells])
        variance[rows] = np.where(hole, np.maximum(spread, 0.0), 0.0)


def _with_padding(matrix: Doubles) -> Doubles:
    size = len(matrix)
    padded = np.eye(-(-(size + _PADDING) // _TILE) * _TILE)
    padded[:size, :size] = matrix
    return padded


def _products(matrix: Doubles, cells: NDArray[np.int64], vectors: Doubles) -> Doubles:
    """Each window's rows [n, k] of the matrix times its vector [n, D].

    One product a window: in a product of matrices the last bits would depend on the number of windows.
    """
    out = np.empty(cells.shape)
    at_a_time = max(1, _CACHED_NUMBERS // (cells.shape[1] * len(matrix)))
    for start in range(0, len(cells), at_a_time):
        part = slice(start, start + at_a_time)
        out[part] = (matrix[cells[part]] @ vectors[part, :, None])[:, :, 0]
    return out


def _parts(matrix: Doubles, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Doubles:
    """Each window's rows [n, k] and columns [n, m] of the matrix, [n, k, m]."""
    out = np.empty((*rows.shape, columns.shape[1]))
    at_a_time = max(1, _CACHED_NUMBERS // (4 * rows.shape[1] * columns.shape[1]))
    for start in range(0, len(rows), at_a_time):
        part = slice(start, start + at_a_time)
        place = rows[part, :, None] * len(matrix) + columns[part, None, :]
        np.take(matrix, place, out=out[part], mode="clip")  # the default mode needs a copy of the output
    return out


def _batches(sizes: NDArray[np.int64], columns: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.int64]]:
    """Yield rows whose systems have about the same size, some at a time; rows of size 0 are left out.

    The shapes of a row's matrices follow from its own cells, so its answer has the same bits in every batch.

    Args:
        sizes: int64 [n], of the systems.
        columns: int64 [n], of their right-hand sides; None: they follow from the sizes.
    """
    rounded, width = (-(-each // _PADDING) * _PADDING for each in (sizes, sizes if columns is None else columns))
    for size, column in np.unique(np.stack([rounded, width])[:, rounded > 0], axis=1).T.tolist():
        rows = np.flatnonzero((rounded == size) & (width == column))
        at_a_time = max(1, _BLOCK_NUMBERS // size**2)
        yield from (rows[start : start + at_a_time] for start in range(0, len(rows), at_a_time))


def _places(wanted: Bools) -> tuple[NDArray[np.int64], Bools]:
    """The wanted cells of each row [n, k], followed by padding where a row has fewer; and which of them are real."""
    counts = wanted.sum(axis=1)
    width = -(-int(counts.max()) // _PADDING) * _PADDING
    beyond = np.arange(width) - counts[:, None]
    cells, real = wanted.shape[1] + beyond, beyond < 0
    cells[real] = np.nonzero(wanted)[1]
    return cells, real
