"""One variant of the closed form: a transformation, a covariance in its units, and the sensors' long-run levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.imputers.gaussian.conditional import Conditional
from glaim_stream.imputers.gaussian.levels import Levels
from glaim_stream.imputers.gaussian.moments import with_free_levels
from glaim_stream.imputers.gaussian.transform import Transform

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Variant:
    """A conditional distribution of windows of C sensors and L steps.

    covariance: float64 [C * L, C * L], transformed units, of windows less their levels.
    level_variance: float64 [C], of the free levels that are added to it.
    """

    name: str
    transform: Transform
    levels: Levels
    covariance: Doubles
    level_variance: Doubles

    @cached_property
    def conditional(self) -> Conditional:
        """The distribution of transformed windows less their levels.

        Raises:
            ValueError: the covariance is not positive definite.
        """
        return Conditional(with_free_levels(self.covariance, self.level_variance))

    def inverted(self) -> Self:
        """Return the variant itself, with its covariance inverted now instead of at the first window.

        Raises:
            ValueError: the covariance is not positive definite.
        """
        _ = self.conditional
        return self

    def fill(
        self,
        values: Doubles,
        observed: Bools,
        bins: Ints | None,
        newest: int | None = None,
        *,
        asked: Bools | None = None,
        with_deviation: bool = True,
    ) -> tuple[Doubles, Doubles]:
        """Return means and deviations [n, C, newest] in sensor units; those of observed cells have no meaning.

        A mean is NaN where a silent sensor's level is declined.

        Args:
            values: float64 [n, C, L], sensor units; ignored where not observed.
            observed: bool [n, C, L].
            bins: int64 [n, L], phases of the steps, or None without a profile.
            newest: number of steps that are needed, all by default.
            asked: bool [newest], those of them whose answers are needed, all by default; others have no meaning.
            with_deviation: False returns deviations without meaning, which costs less.
        """
        count, sensors, steps = values.shape
        kept = slice(steps - (newest or steps), steps)
        moved, scale = self.transform.forward(values, observed, bins)
        seen = observed.sum(axis=2)
        known = seen > 0
        level = moved.sum(axis=2) / np.maximum(seen, 1)
        level, level_variance = self.levels.complete(level, known)
        moved -= level[:, :, None]
        wanted = np.zeros((sensors, steps), np.bool_)
        wanted[:, kept] = True if asked is None else asked
        mean, variance = self.conditional.fill(
            moved.reshape(count, -1),
            observed.reshape(count, -1),
            None if wanted.all() else wanted.ravel(),
            with_variance=with_deviation,
        )
        mean = mean.reshape(values.shape)[:, :, kept]
        variance = variance.reshape(values.shape)[:, :, kept]
        silent = np.flatnonzero(~known.all(axis=1))
        if len(silent):  # a silent sensor's level is not free: its own variance takes the place of the large one
            excess = np.where(known[silent], 0.0, self.level_variance)[:, :, None]
            variance[silent] = np.maximum(variance[silent] - excess, 0.0) + level_variance[silent][:, :, None]
        mean = mean + level[:, :, None]
        return self.transform.back(mean, np.sqrt(variance), scale, bins, kept)

    def least_deviation(self, values: Doubles, observed: Bools, newest: int) -> Doubles:
        """Return deviations [n, C, newest], sensor units, that no answer of a variant without logarithms is below.

        A variance is the least where all other cells are known. It is 0 for silent sensors, whose level's variance is
        replaced.

        Args:
            values: float64 [n, C, L], sensor units; 0 where not observed.
            observed: bool [n, C, L].
            newest: number of steps that are needed.
        """
        scale = self.transform.scales(values, observed)
        least = np.sqrt(self.conditional.least_variance).reshape(values.shape[1:])[:, values.shape[2] - newest :]
        return np.where(observed.any(axis=2), scale, 0.0)[:, :, None] * least
