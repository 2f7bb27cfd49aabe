"""The regret of a stretch: the error that the best single method in hindsight would have saved.

Errors of sensors in different units are added as shares of the baseline's: an error is divided by the mean absolute
error of interpolation and last value on the same cells of its sensor, of all groups. Only cells for which every
method gave a value are compared, so that all answer the same questions. Cells at whose step the whole group is silent
are left out: they are more frequent among probes than among holes, and no method knows more than the others there.

Source: Hyndman and Koehler (2006), Another look at measures of forecast accuracy, scaled errors. Ours differs: the
baseline's errors are those of the stretch itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.output.quality.cells import Column, JudgedCells
from glaim_stream.windows import Place

Doubles = NDArray[np.float64]

METHODS = ("model", "gaussian", "baseline", "published")


@dataclass(frozen=True, slots=True)
class Comparison:
    """n cells on which the methods are compared."""

    cell: NDArray[np.int64]  # [n] index into the cells
    scaled: Doubles  # [n, METHODS] errors as shares of the baseline's; NaN in the column of an absent method

    @classmethod
    def of(cls, cells: JudgedCells, sensors: int) -> Comparison:
        """Compare the methods of a stretch's cells.

        Args:
            cells: cells of hidden readings.
            sensors: number of sensors of the model.
        """
        inner, last = cells.errors[:, Column.INTERPOLATION], cells.errors[:, Column.LAST_VALUE]
        baseline = np.where(np.isnan(inner), last, inner)
        model, form, published = (cells.errors[:, each] for each in (Column.MODEL, Column.GAUSSIAN, Column.PUBLISHED))
        errors = np.stack([model, form, baseline, published], axis=1)
        known = np.isfinite(errors)
        there = known.any(axis=0)
        alone = cells.place < Place.ROW_EDGE
        cell = np.flatnonzero((known | ~there).all(axis=1) & there[2] & alone)
        sensor, errors = cells.sensor[cell], errors[cell]
        count = np.bincount(sensor, minlength=sensors)
        scale = np.bincount(sensor, errors[:, 2], minlength=sensors) / np.maximum(count, 1)
        usable = scale[sensor] > 0  # a sensor that the baseline always knows has no share
        return cls(cell[usable], errors[usable] / scale[sensor[usable], None])

    def where(self, chosen: NDArray[np.bool_]) -> Comparison:
        """Some of the cells."""
        return Comparison(self.cell[chosen], self.scaled[chosen])

    def regret(self) -> dict[str, object] | None:
        """The regret as a document, None without a cell; negative where what was published beat every method."""
        if len(self.cell) == 0:
            return None
        means = {
            name: float(mean) for name, mean in zip(METHODS, self.scaled.mean(axis=0), strict=True) if mean == mean
        }
        published = means["published"]
        best = min((name for name in means if name != "published"), key=lambda name: means[name])
        share = (published - means[best]) / published if published > 0 else 0.0
        return {"count": len(self.cell), "scaled_mae": means, "best": best, "share": share}
