"""Half-widths of the intervals of cells: from the contract or the closed form, and times the factor of recent errors.

Both sides of an interval count apart, [n, 2]: below the value and above it. Arithmetic only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.leader import awake_mixtures, mixture_errors
from glaim_stream.blend.reach import levels
from glaim_stream.blend.scores import Answers, Expert
from glaim_stream.output.repair import BAND, residuals_at
from glaim_stream.output.sensor_tables import SensorTable

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HalfWidths:
    """Half-widths [n, 2] of the 90 % intervals of n cells, NaN where they are not known."""

    of_model: Doubles  # of values in which the model has a part: the residuals of its validation
    of_form: Doubles  # of the others: the closed form's deviation
    span: Doubles  # [n] from the least to the largest reading of the training, infinite where they are not known

    def of(self, weights: Doubles) -> Doubles:
        """Half-widths [n, 2] of the values that are mixed by weights of the experts, [n, experts] or [experts]."""
        by_model = (weights[..., Expert.MODEL] > 0)[..., None]
        own, other = np.where(by_model, (self.of_model, self.of_form), (self.of_form, self.of_model))
        found: Doubles = np.where(np.isfinite(own), own, other)
        return found

    def levels(self, weights: Doubles) -> Ints:
        """The levels [n] of the same half-widths (blend.reach)."""
        return levels(self.of(weights), self.span)

    def adapted(self, weights: Doubles, factors: Doubles) -> Doubles:
        """The same half-widths times the factors [n]."""
        return self.of(weights) * factors[:, None]


NO_WIDTHS = HalfWidths(np.empty((0, 2)), np.empty((0, 2)), np.empty(0))  # of no cell


def half_widths(
    sensor: Ints | NDArray[np.int32],
    gap_age: Ints | NDArray[np.int32],
    newest: NDArray[np.bool_],
    table: SensorTable,
    table_of: Callable[[str], SensorTable],
    *,
    version: Sequence[str],
    deviation: Doubles | None = None,
    form_range: tuple[Doubles, Doubles] | None = None,
) -> HalfWidths:
    """Collect the half-widths of cells [n].

    Args:
        sensor: [n].
        gap_age: [n], steps.
        newest: [n], True at the window's newest step.
        table: the model's sensors.
        table_of: the sensors with the intervals of a version.
        version: of the model that answered for each cell, length n; "" where none did.
        deviation: [n], the closed form's; None: the model has none.
        form_range: least and largest reading that the closed form was fitted to, [C].
    """
    of_model, of_form = np.full((2, len(sensor), 2), np.nan)
    versions = set(version)
    for name in versions:
        rows = np.arange(len(sensor)) if len(versions) == 1 else np.flatnonzero([each == name for each in version])
        below, above = residuals_at(sensor[rows], gap_age[rows], newest[rows], table_of(name) if name else table)
        of_model[rows] = np.maximum(np.stack([-below, above], axis=1), 0.0)
    if deviation is not None:
        of_form[:] = BAND * deviation[:, None]
    ranges = [each for each in (table.trained_range, form_range) if each is not None]
    span = np.max([most - least for least, most in ranges], axis=0)[sensor] if ranges else np.full(len(sensor), np.inf)
    return HalfWidths(of_model, of_form, span)


def scores_of(
    mixtures: Doubles, cells: Answers, truth: Doubles, widths: HalfWidths, resolution: Doubles
) -> tuple[Doubles, Ints]:
    """Errors of probe cells [n] in shares of their half-widths, and the levels of these, both [n, mixtures].

    Half a resolution is taken off an error, because the bounds are rounded as the values are. A score is NaN where an
    expert of the mixture gave no value or the half-width is not known.

    Args:
        mixtures: [mixtures, experts].
        cells: the experts' answers for the probes.
        truth: [n], the hidden values.
        widths: of the cells.
        resolution: [C].
    """
    if len(cells) == 0:
        return np.empty((0, len(mixtures))), np.empty((0, len(mixtures)), np.int64)
    with np.errstate(over="ignore"):
        errors = cells.values - truth[:, None]
    awake = np.isfinite(errors)
    errors = mixture_errors(np.where(awake, errors, 0.0), mixtures)
    size = np.maximum(np.abs(errors) - resolution[cells.sensor][:, None] / 2, 0.0)
    side = (errors < 0).astype(np.int64)  # 1: the truth lies above the value
    kind = (mixtures[:, Expert.MODEL] == 0).astype(np.int64)
    kinds = np.eye(mixtures.shape[1])[[Expert.MODEL, Expert.BASELINE]]  # with the model, and without it
    half = np.stack([widths.of(each) for each in kinds])[kind, np.arange(len(cells))[:, None], side]
    known = awake_mixtures(mixtures, awake) & np.isfinite(half)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scores = np.where(known, np.where(size > 0, size / half, 0.0), np.nan)
    return scores, np.stack([widths.levels(each) for each in kinds], axis=1)[:, kind]
