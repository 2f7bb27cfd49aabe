"""Half-widths of the intervals of an answer's cells, times the factors of recent errors."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend import ModelScores, Predictions, Reaching, Scored
from glaim_stream.output import SensorTables
from glaim_stream.pipeline.predictions import HolePredictions
from glaim_stream.pipeline.querying import Answer
from glaim_stream.pipeline.widths import NO_WIDTHS, HalfWidths, half_widths
from glaim_stream.windows import Closed, Place, Probes

Ints = NDArray[np.int64] | NDArray[np.int32]
Doubles = NDArray[np.float64]


def adapted(
    tables: SensorTables,
    of_model: ModelScores,
    answer: Answer,
    holes: HolePredictions,
    hole_weight: Doubles,
    probed: Predictions,
    probe_weight: Doubles,
    truth: Doubles,
) -> tuple[Doubles | None, Doubles]:
    """Half-widths [n, 2] of the closed steps' rows and of the probe cells, times the factors of recent errors."""
    cells, table = holes.cells, tables[answer.model_index]
    of_holes, of_probes = _half_widths(tables, answer, cells, holes.row, holes.window, probed)
    (half, level), (probe_half, probe_level) = of_holes.published(hole_weight), of_probes.published(probe_weight)
    slack = table.resolution[probed.sensor] / 2
    factors = of_model.reached(
        Reaching(cells.step, cells.sensor, hole_weight, level),
        Reaching(probed.step, probed.sensor, probe_weight, probe_level),
        Scored(probed.sensor, probed.errors(truth), of_probes.half, of_probes.level, slack),
    )
    return _by_row(answer.closed, holes.row, half * factors[0][:, None]), probe_half * factors[1][:, None]


def latest(
    tables: SensorTables, of_model: ModelScores, answer: Answer, holes: HolePredictions, weights: Doubles
) -> Doubles | None:
    """Half-widths [n, 2] of rows that are filled again, times the newest factors; no probe belongs to them."""
    widths = _half_widths(tables, answer, holes.cells, holes.row, holes.window, Predictions.none())[0]
    half, level = widths.published(weights)
    factors = of_model.reach.latest(weights, holes.cells.sensor, level)
    return _by_row(answer.closed, holes.row, half * factors[:, None])


def _half_widths(
    tables: SensorTables, answer: Answer, cells: Predictions, row: Ints, window: Ints, probed: Predictions
) -> tuple[HalfWidths, HalfWidths]:
    """The half-widths of the intervals of holes and of probe cells, before any factor.

    Args:
        tables: tables of the models' sensors.
        answer: answer for holes and probes.
        cells: the holes, with their rows and windows.
        row: [holes], rows of the answer's closed steps.
        window: [holes], windows of the answer.
        probed: all probe cells of the answer, or none.
    """
    parts: list[tuple[Ints, Ints, Ints, Ints, Doubles]] = []
    version: list[str] = []
    form_range = None
    for imputed, form, of, at, gap_age, lag in (
        (answer.imputed, answer.form, cells, window, *_columns(answer.closed, row)),
        (answer.probe_imputed, answer.probe_form, probed, *_probe_columns(answer.probes, probed)),
    ):
        if len(at) and imputed is not None:
            deviation = np.full(len(at), np.nan)
            if form is not None and form.deviation is not None:
                deviation = form.deviation[at, of.sensor, form.values.shape[2] - 1 - lag]
                form_range = form.trained_range
            parts.append((of.sensor, of.place, gap_age, lag, deviation))
            version += [imputed.version[each] for each in at.tolist()]
    if not parts:
        return NO_WIDTHS, NO_WIDTHS
    sensor, place, gap_age, lag, deviation = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = half_widths(
        sensor,
        gap_age,
        lag == 0,
        place >= Place.ROW_EDGE,
        tables[answer.model_index],
        partial(tables.for_version, answer.model_index),
        version=version,
        deviation=deviation,
        form_range=form_range,
    )
    return found.where(slice(0, len(cells))), found.where(slice(len(cells), None))


def _columns(closed: Closed | None, row: Ints) -> tuple[Ints, Ints]:
    """Gap age and lag of some rows."""
    return (row, row) if closed is None else (closed.gap_age[row], closed.lag[row])


def _probe_columns(probes: Probes | None, cells: Predictions) -> tuple[Ints, Ints, Ints]:
    """Window, gap age and lag of the probe cells, or of none."""
    if probes is None or len(cells) == 0:
        return (cells.sensor[:0],) * 3
    return probes.window, probes.gap_age, probes.lag


def _by_row(closed: Closed | None, row: Ints, half: Doubles) -> Doubles | None:
    """Spread half-widths [n, 2] of some rows over all rows, [rows, 2], NaN elsewhere."""
    if closed is None or len(half) == 0:
        return None
    of_row = np.full((len(closed), 2), np.nan)
    of_row[row] = half
    return of_row
