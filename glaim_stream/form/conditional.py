"""Conditional mean and variance of the missing cells of many windows, each with its own pattern of holes.

A window is a vector x of D = C * T cells with mean 0 and covariance K. The precision form takes only the rows of
P = inverse(K) of the missing cells q (o are the observed ones):

    mean = -inverse(P[q, q]) P[q, o] x[o],    variance = diagonal of inverse(P[q, q]),

and is cheap where few cells are missing. Where more are missing, the covariance form is the cheaper one:

    mean = K[q, o] inverse(K[o, o]) x[o],    variance = diagonal of K[q, q] - K[q, o] inverse(K[o, o]) K[o, q].

A window of D = 2016 cells (21 sensors) takes 37 ms by the first and 57 ms by the second form with 55 % missing, 78 and
26 ms with 70 %, and 123 and 8 ms with 85 %. Means alone take 17, 6 and 1 ms by the second form (one core of an AMD
EPYC, 2026-11-25).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.inverse import inverse_of_covariance, inverse_of_triangle, solved_with_diagonal
from glaim_stream.form.systems import SPARE, batches, parts, rounded, systems

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

_LEAST_WIDTH = 8  # least width of the asked cells' factors; widths are rounded up to powers of 2
_BORDER = 1e300  # a diagonal number that keeps a bordered matrix positive
_MOST_BY_PRECISION, _MOST_OF_MEANS = 0.6, 0.5  # shares of missing cells: with variances, for means alone


class Conditional:
    """The distribution of missing cells given the observed ones, for a fixed covariance."""

    def __init__(self, covariance: Doubles) -> None:
        """Invert the covariance.

        Args:
            covariance: float64 [D, D], symmetric and positive definite.

        Raises:
            LinAlgError: the covariance is not positive definite.
        """
        try:
            precision = inverse_of_covariance(covariance)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError("expected a positive definite covariance") from error
        # Independent cells at the end pad systems of different sizes.
        self._cells = len(covariance)
        self._covariance = _with_padding(covariance)
        self._precision = _with_padding(precision)
        self._rounded = rounded(np.arange(self._cells + 1))  # a table, which costs less for a few windows

    @property
    def cells(self) -> int:
        """D."""
        return self._cells

    @property
    def least_variance(self) -> Doubles:
        """The variance [D] of each cell when all others are known."""
        return 1.0 / np.diagonal(self._precision)[: self.cells]

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
        few = missing <= int((_MOST_BY_PRECISION if with_variance else _MOST_OF_MEANS) * self.cells)
        columns = missing if wanted is None else (asked & ~observed).sum(axis=1)
        sizes = np.where(few & needed, self._rounded[missing], 0)
        some = with_variance & (columns > 0) & (2 * columns < missing)
        rows = np.flatnonzero((sizes > 0) & some)
        if len(rows):
            self._of_some(mean, variance, observed, rows, asked)
        for rows in batches(np.where(some, 0, sizes)):
            self._of_all(mean, variance, observed, rows, with_variance=with_variance)
        seen = np.where(few | ~needed, 0, self._rounded[self.cells - missing])
        for rows in batches(seen, self._rounded[columns]):
            self._by_covariance(mean, variance, observed, rows, wanted, with_variance=with_variance)
        nothing = np.flatnonzero(missing == self.cells)
        variance[nothing] = np.diagonal(self._covariance)[: self.cells]
        return mean[:, : self.cells], variance

    def weights(self, observed: Bools, cell: int) -> Doubles:
        """Return the weights of the observed cells in the mean of a missing cell; 0 at all others.

        Args:
            observed: bool [D].
            cell: index of the missing cell.
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

    def _of_some(
        self,
        mean: Doubles,
        variance: Doubles,
        observed: Bools,
        rows: NDArray[np.int64],
        asked: Bools,
    ) -> None:
        """Fill the asked cells of rows of about the same size, by one factor of Cholesky.

        With the asked cells a last, L of P[q, q] = L L' ends with a factor of the precision of a alone, given the
        observed cells: its inverse W has the variances, the diagonal of W' W. The right-hand side r goes along as
        one more row, with a number on the diagonal that keeps the whole positive; that row of L is z = inverse(L) r,
        and the mean is W' z of the asked cells. So only the asked cells are solved for, and the factor is half as
        large as that of `np.linalg.solve`.

        Args:
            mean: float64 [N, D + padding], filled in place.
            variance: float64 [N, D], filled in place.
            observed: bool [N, D].
            rows: int64 [n], rows to fill.
            asked: bool [D].
        """
        hole = ~observed[rows]
        cells, sizes, counts = self._asked_last(hole & ~asked, hole & asked)
        widths = np.minimum(_widths(counts), sizes)
        most = int(widths.max())
        solved, spread = np.empty((2, len(rows), most))
        for part in batches(sizes):
            size = int(sizes[part[0]])
            chosen = cells[part, cells.shape[1] - 1 - size :]
            which = rows[part]
            for some, lower in self._factors(chosen, mean[which]):
                if lower is None:
                    self._of_all(mean, variance, observed, which[some], with_variance=True)
                    counts[part[some]] = 0  # the answer to this row is complete
                    continue
                of_part = widths[part[some]]
                for width in sorted(set(of_part.tolist())):
                    alike = np.flatnonzero(of_part == width)
                    end = slice(size - width, size)
                    inverted = np.linalg.inv(lower[alike, end, end])
                    to = part[some][alike]
                    solved[to, most - width :] = (lower[alike, size:, end] @ inverted)[:, 0]
                    spread[to, most - width :] = (inverted**2).sum(axis=1)
        real = np.arange(most) >= most - counts[:, None]
        window, found = rows[np.nonzero(real)[0]], cells[:, -1 - most : -1][real]
        mean[window, found], variance[window, found] = solved[real], spread[real]

    def _factors(
        self, cells: NDArray[np.int64], vectors: Doubles
    ) -> Iterator[tuple[NDArray[np.int64], Doubles | None]]:
        """Yield indices of windows, and their factors [n, k + 1, k + 1] with the right-hand sides as last row.

        A window whose matrix is not positive definite in double precision comes alone, with None.

        Args:
            cells: int64 [n, k + 1], cells of each window, with one of padding at the end.
            vectors: float64 [n, D + padding], the windows.
        """
        system, right = systems(self._precision, cells, vectors)
        system[:, -1] = right  # only the lower triangle is read
        system[:, -1, -1] = _BORDER
        every = np.arange(len(cells))
        lower = _factor(system)
        if lower is not None or len(cells) == 1:
            yield every, lower
        else:
            yield from ((each, _factor(system[each])) for each in every[:, None])

    def _asked_last(self, rest: Bools, asked: Bools) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Cells [n, k + 1] of each row: padding, the other missing cells, the asked ones, and one of padding.

        Also the numbers [n] of missing cells, rounded up, and of asked cells.
        """
        counts = asked.sum(axis=1)
        missing = rest.sum(axis=1) + counts
        sizes = self._rounded[missing]
        most = int(sizes.max())
        at, start, end = np.arange(most), (most - missing)[:, None], (most - counts)[:, None]
        cells = np.empty((len(rest), most + 1), np.int64)
        cells[:, :-1] = self.cells + at % (SPARE - 1)  # each row needs fewer of them
        cells[:, -1] = self.cells + SPARE - 1
        cells[:, :-1][(at >= start) & (at < end)] = _columns_of(rest)
        cells[:, :-1][at >= end] = _columns_of(asked)
        return cells, sizes, counts

    def _of_all(
        self,
        mean: Doubles,
        variance: Doubles,
        observed: Bools,
        rows: NDArray[np.int64],
        *,
        with_variance: bool,
    ) -> None:
        """Fill all missing cells of rows of about the same size; arguments as for `_of_some`."""
        cells, real = self._places(~observed[rows])
        system, right = systems(self._precision, cells, mean[rows])
        if with_variance:
            half = cells.shape[1] // 2
            solved, spread = solved_with_diagonal(
                system[:, :half, :half], system[:, :half, half:], system[:, half:, half:], right
            )
        else:
            solved = np.asarray(np.linalg.solve(system, right[:, :, None])[:, :, 0], np.float64)
            spread = np.zeros(cells.shape)
        window, place = rows[np.nonzero(real)[0]], cells[real]
        mean[window, place], variance[window, place] = solved[real], np.maximum(spread[real], 0.0)

    def _by_covariance(
        self,
        mean: Doubles,
        variance: Doubles,
        observed: Bools,
        rows: NDArray[np.int64],
        wanted: Bools | None,
        *,
        with_variance: bool,
    ) -> None:
        """Fill the wanted cells from the covariance of the observed ones; arguments as for `_of_all`."""
        hole = ~observed[rows]
        cells, _ = self._places(~hole)
        targets, real = self._places(hole if wanted is None else hole & wanted)
        known = np.take_along_axis(mean[rows], cells, axis=1)
        system = parts(self._covariance, cells, cells)
        across = parts(self._covariance, cells, targets)
        if with_variance:
            filled, explained = _explained(system, across, known)
            spread = np.diagonal(self._covariance)[targets] - explained
        else:
            filled = (np.linalg.solve(system, known[:, :, None]).transpose(0, 2, 1) @ across)[:, 0]
            spread = np.zeros(targets.shape)
        window, found = rows[np.nonzero(real)[0]], targets[real]
        mean[window, found], variance[window, found] = filled[real], np.maximum(spread[real], 0.0)

    def _places(self, wanted: Bools) -> tuple[NDArray[np.int64], Bools]:
        """The wanted cells of each row [n, k], followed by padding in rows with fewer; and True for the real ones."""
        counts = wanted.sum(axis=1)
        width = int(self._rounded[counts.max()])
        beyond = np.arange(width) - counts[:, None]
        cells, real = self.cells + beyond, beyond < 0
        cells[real] = _columns_of(wanted)
        return cells, real


def _explained(system: Doubles, across: Doubles, known: Doubles) -> tuple[Doubles, Doubles]:
    """Return A' inverse(M) x and the diagonal of A' inverse(M) A, [n, c] each.

    With many columns, the inverse W of the factor of Cholesky pays: with V = W A the results are V' W x and the sums
    of the squares of V, and as W is triangular, the upper half of V needs half of A.

    Args:
        system: M, float64 [n, o, o].
        across: A, float64 [n, o, c].
        known: x, float64 [n, o].
    """
    many = 2 * across.shape[2] > system.shape[1]
    factor = _factor(system) if many else None
    if factor is None and many and len(system) > 1:  # a matrix without a factor must not change the bits of others
        each = (_explained(system[row], across[row], known[row]) for row in np.arange(len(system))[:, None])
        filled, explained = (np.concatenate(parts) for parts in zip(*each, strict=True))
        return filled, explained
    if factor is None:
        weights = np.linalg.solve(system, across)
        return np.einsum("noc,no->nc", weights, known), np.einsum("noc,noc->nc", weights, across)
    inverted, half = inverse_of_triangle(factor), system.shape[1] // 2
    upper, lower = inverted[:, :half, :half] @ across[:, :half], inverted[:, half:] @ across
    moved = (inverted @ known[:, :, None]).transpose(0, 2, 1)
    filled = (moved[:, :, :half] @ upper + moved[:, :, half:] @ lower)[:, 0]
    return filled, np.einsum("noc,noc->nc", upper, upper) + np.einsum("noc,noc->nc", lower, lower)


def _factor(matrices: Doubles) -> Doubles | None:
    """The factors of Cholesky [n, k, k]; None where a matrix is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(matrices), np.float64)
    except np.linalg.LinAlgError:
        return None


def _columns_of(chosen: Bools) -> NDArray[np.int64]:
    """The columns of all chosen cells [n, D], row by row; `np.nonzero` takes three times as long."""
    columns: NDArray[np.int64] = np.flatnonzero(chosen) % chosen.shape[1]
    return columns


def _with_padding(matrix: Doubles) -> Doubles:
    size = len(matrix)
    padded = np.eye(size + SPARE)
    padded[:size, :size] = matrix
    return padded


def _widths(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of asked cells, rounded up to powers of 2."""
    widths: NDArray[np.int64] = np.maximum(1 << np.frexp(counts - 1)[1].astype(np.int64), _LEAST_WIDTH)
    return widths
