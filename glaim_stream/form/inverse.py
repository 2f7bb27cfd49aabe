"""Inverses of many symmetric positive definite matrices at once, and of a single large one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_LEAF = 12
_TRIANGLE_LEAF = 64


def inverse(matrices: Doubles) -> Doubles:
    """Return the inverses of matrices [n, k, k], by halves.

    With M = [[A, B], [B', D]], W = inverse(A) B and S = D - B' W, the inverse is
    [[inverse(A) + W inverse(S) W', -W inverse(S)], [..., inverse(S)]]. Products of matrices take the place of most of
    the work of `np.linalg.inv`, whose calls for small matrices cost two to three times as much: 32 instead of 62 µs a
    matrix for k = 40, 0.14 instead of 0.37 ms for k = 96.
    """
    size = matrices.shape[-1]
    if size <= _LEAF:
        return np.asarray(np.linalg.inv(matrices), np.float64)
    half = size // 2
    first, across = inverse(matrices[:, :half, :half]), matrices[:, :half, half:]
    weights = first @ across
    rest = inverse(matrices[:, half:, half:] - across.transpose(0, 2, 1) @ weights)
    corner = weights @ rest
    out = np.empty_like(matrices)
    out[:, :half, :half] = first + corner @ weights.transpose(0, 2, 1)
    out[:, :half, half:] = -corner
    out[:, half:, :half] = -corner.transpose(0, 2, 1)
    out[:, half:, half:] = rest
    return out


def solved_with_diagonal(first: Doubles, across: Doubles, rest: Doubles, right: Doubles) -> tuple[Doubles, Doubles]:
    """Return inverse(M) times vectors and the diagonal of inverse(M), for M = [[first, across], [across', rest]].

    Blocks of the inverse that neither result needs are not computed.

    Args:
        first: float64 [n, h, h].
        across: float64 [n, h, k - h].
        rest: float64 [n, k - h, k - h].
        right: float64 [n, k], the vectors.

    Returns:
        Solutions and diagonals, float64 [n, k].
    """
    half = first.shape[1]
    inverted = inverse(first)
    weights = inverted @ across
    remainder = inverse(rest - across.transpose(0, 2, 1) @ weights)
    solution, diagonal = np.empty_like(right), np.empty_like(right)
    above, below = right[:, :half, None], right[:, half:, None]
    last = remainder @ (below - weights.transpose(0, 2, 1) @ above)
    solution[:, :half] = (inverted @ above - weights @ last)[:, :, 0]
    solution[:, half:] = last[:, :, 0]
    diagonal[:, :half] = np.diagonal(inverted, axis1=1, axis2=2) + ((weights @ remainder) * weights).sum(axis=2)
    diagonal[:, half:] = np.diagonal(remainder, axis1=1, axis2=2)
    return solution, diagonal


def inverse_of_covariance(covariance: Doubles) -> Doubles:
    """Return the inverse [D, D] of one symmetric positive definite matrix, itself symmetric to the bit.

    With the factor L of Cholesky the inverse is inverse(L)' inverse(L). For D = 2016 this takes 0.6 s on a busy core; a
    factor and `np.linalg.inv` take 1.1 s. The halves of `inverse` lose all digits of a covariance with free levels.

    Raises:
        LinAlgError: the matrix is not positive definite.
    """
    factor = inverse_of_triangle(np.asarray(np.linalg.cholesky(covariance), np.float64))
    found = factor.T @ factor
    return np.asarray((found + found.T) / 2, np.float64)


def inverse_of_triangle(lower: Doubles) -> Doubles:
    """Return the inverses of lower triangular matrices [..., k, k], by halves."""
    size = lower.shape[-1]
    if size <= _TRIANGLE_LEAF:
        return np.tril(np.linalg.inv(lower))
    half = size // 2
    out = np.zeros_like(lower)
    out[..., :half, :half] = inverse_of_triangle(lower[..., :half, :half])
    out[..., half:, half:] = inverse_of_triangle(lower[..., half:, half:])
    out[..., half:, :half] = -out[..., half:, half:] @ (lower[..., half:, :half] @ out[..., :half, :half])
    return out
