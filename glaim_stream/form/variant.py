"""One variant of the closed form: a transformation, a covariance in its units, and the sensors' long-run levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glaim_stream.form.conditional import Conditional
from glaim_stream.form.levels import Levels
from glaim_stream.form.moments import with_free_levels
from glaim_stream.form.transform import Transform

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Variant:
    """A conditional distribution of windows of C sensors and L steps.

    covariance: float64 [C * L, C * L], transformed units, covariance of windows less their levels.
    level_variance: float64 [C], variance of the free levels that are added to the covariance.
    recent: number of the L steps from which the newest ones are filled; None: all L.
    """

    name: str
    transform: Transform
    levels: Levels
    covariance: Doubles
    level_variance: Doubles
    recent: int | None = None

    @cached_property
    def conditional(self) -> Conditional:
        """The distribution of transformed windows less their levels.

        Raises:
            LinAlgError: the covariance is not positive definite.
        """
        return Conditional(with_free_levels(self.covariance, self.level_variance))

    @cached_property
    def conditional_of_recent(self) -> Conditional:
        """The same distribution for the `recent` steps only, whatever came before them.

        Raises:
            LinAlgError: the covariance is not positive definite.
        """
        steps = len(self.covariance) // len(self.level_variance)
        cells = np.arange(len(self.covariance)).reshape(-1, steps)[:, steps - (self.recent or steps) :].ravel()
        return Conditional(with_free_levels(self.covariance, self.level_variance)[np.ix_(cells, cells)])

    def inverted(self) -> Self:
        """Return the variant itself, with its covariance inverted now instead of at the first window.

        Raises:
            LinAlgError: the covariance is not positive definite.
        """
        _ = self.conditional, self.recent and self.conditional_of_recent
        return self

    def filled_from(self, recent: int | None) -> Self:
        """Return the variant with another number of recent steps; an inverted covariance is kept."""
        other = replace(self, recent=recent)
        if "conditional" in vars(self):
            vars(other)["conditional"] = self.conditional
        return other

    def enough(self, observed: Bools, newest: int) -> Bools:
        """Return the windows, bool [n], in which the recent steps are enough to fill the newest ones.

        Each sensor must have been observed in the newer half of the recent steps, or never in the window: otherwise
        its last reading may lie further back.

        Args:
            observed: bool [n, C, L].
            newest: number of steps that are filled.
        """
        if self.recent is None or newest > self.recent // 2:
            return np.zeros(len(observed), np.bool_)
        recently = observed[:, :, observed.shape[2] - self.recent // 2 :].any(axis=2)
        never = ~observed.any(axis=2)
        return np.asarray(np.all(recently | never, axis=1), np.bool_)

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
        """Return means and deviations [n, C, newest] in sensor units; values at observed cells have no meaning.

        A mean is NaN where a silent sensor's level is declined.

        Args:
            values: float64 [n, C, L], sensor units; ignored where not observed.
            observed: bool [n, C, L].
            bins: int64 [n, L], phases of the steps; None without a profile.
            newest: number of steps that are needed, all by default.
            asked: bool [newest], newest steps whose answers are needed, all by default; others have no meaning.
            with_deviation: False returns deviations without meaning, which costs less.
        """
        steps = values.shape[2]
        kept = slice(steps - (newest or steps), steps)
        moved, scale = self.transform.forward(values, observed, bins)
        seen = observed.sum(axis=2)
        known = seen > 0
        level = moved.sum(axis=2) / np.maximum(seen, 1)
        level, level_variance = self.levels.complete(level, known)
        moved -= level[:, :, None]
        mean, variance = self._of_newest(moved, observed, steps - kept.start, asked, with_deviation=with_deviation)
        silent = np.flatnonzero(~known.all(axis=1))
        if len(silent):  # a silent sensor's level is not free: its own variance takes the place of the large one
            excess = np.where(known[silent], 0.0, self.level_variance)[:, :, None]
            variance[silent] = np.maximum(variance[silent] - excess, 0.0) + level_variance[silent][:, :, None]
        mean = mean + level[:, :, None]  # contiguous in memory from here on
        return self.transform.back(mean, np.sqrt(variance, out=variance), scale, bins, kept)

    def _of_newest(
        self, moved: Doubles, observed: Bools, newest: int, asked: Bools | None, *, with_deviation: bool
    ) -> tuple[Doubles, Doubles]:
        """Means and variances [n, C, newest] of windows [n, C, L], from the recent steps if those are enough."""
        enough = self.enough(observed, newest)
        if not enough.any():  # whole windows are filled, for example: nothing is copied
            return _newest(self.conditional, moved, observed, newest, asked, with_deviation=with_deviation)
        mean, variance = np.empty((2, *moved.shape[:2], newest))
        for rows, recent in ((enough, self.recent), (~enough, None)):
            if rows.any():
                part = slice(moved.shape[2] - (recent or moved.shape[2]), None)
                mean[rows], variance[rows] = _newest(
                    self.conditional if recent is None else self.conditional_of_recent,
                    moved[rows, :, part],
                    observed[rows, :, part],
                    newest,
                    asked,
                    with_deviation=with_deviation,
                )
        return mean, variance

    def weights(self, observed: Bools, sensor: int, step: int, newest: int) -> Doubles:
        """Return the weights [C, L] of the observed cells in the transformed mean of a missing cell.

        Args:
            observed: bool [C, L].
            sensor: index of the missing cell's sensor.
            step: index of its step, 0..L - 1.
            newest: number of newest steps that are filled.
        """
        steps = observed.shape[1]
        first, conditional = 0, self.conditional
        if self.recent is not None and self.enough(observed[None], newest)[0]:
            first, conditional = steps - self.recent, self.conditional_of_recent
        out = np.zeros(observed.shape)
        part = out[:, first:]
        part += conditional.weights(observed[:, first:].ravel(), sensor * part.shape[1] + step - first).reshape(
            part.shape
        )
        return out

    def least_deviation(self, values: Doubles, observed: Bools, newest: int) -> Doubles:
        """Return lower bounds [n, C, newest], sensor units, of the deviations of a variant without logarithms.

        A variance is least when all other cells are known. It is 0 for silent sensors, whose level's variance is
        replaced.

        Args:
            values: float64 [n, C, L], sensor units; 0 where not observed.
            observed: bool [n, C, L].
            newest: number of steps that are needed.
        """
        scale = self.transform.scales(values, observed)
        least = np.sqrt(self.conditional.least_variance).reshape(values.shape[1:])[:, values.shape[2] - newest :]
        return np.where(observed.any(axis=2), scale, 0.0)[:, :, None] * least


def _newest(
    conditional: Conditional,
    moved: Doubles,
    observed: Bools,
    newest: int,
    asked: Bools | None,
    *,
    with_deviation: bool,
) -> tuple[Doubles, Doubles]:
    """Means and variances [n, C, newest] of the newest steps of windows [n, C, k]; arguments as for `Variant.fill`."""
    count, sensors, steps = moved.shape
    wanted = np.zeros((sensors, steps), np.bool_)
    wanted[:, steps - newest :] = True if asked is None else asked
    found = conditional.fill(
        moved.reshape(count, -1),
        observed.reshape(count, -1),
        None if wanted.all() else wanted.ravel(),
        with_variance=with_deviation,
    )
    mean, variance = (each.reshape(moved.shape)[:, :, steps - newest :] for each in found)
    return mean, variance
