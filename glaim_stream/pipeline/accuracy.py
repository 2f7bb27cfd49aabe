"""Live accuracy: errors on the probes, as counters whose rates PromQL divides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glaim_stream import metrics
from glaim_stream.blend.scores import Answers, Expert
from glaim_stream.output.repair import bands, intervals, reaching
from glaim_stream.output.sensor_tables import SensorTable
from glaim_stream.windows.probes import Place, Probes


def count_accuracy(
    model: str,
    sensor_ids: Sequence[str],
    table: SensorTable,
    probes: Probes,
    answers: Answers,
    blended: NDArray[np.float64],
    deviation: NDArray[np.float64] | None = None,
    half_widths: NDArray[np.float64] | None = None,
) -> None:
    """Add the errors on probes that the model answered, and count the intervals that hold the true value.

    Args:
        model: its name.
        sensor_ids: of its sensors, by row.
        table: of its sensors.
        probes: known values that were hidden.
        answers: of the experts.
        blended: [probe] the values that would have been published.
        deviation: [probe] of the closed form where its band would have been published, NaN elsewhere; None: nowhere.
        half_widths: [probe, 2] of the intervals that would have been published; NaN, or None for all: as the contract
            or the deviation has them.
    """
    experts = list(Expert)[: answers.values.shape[1]]
    answered = np.isfinite(answers.values[:, Expert.MODEL])
    if Expert.GAUSSIAN in experts:
        by_form = np.isfinite(answers.values[:, Expert.GAUSSIAN])
        if by_form.any():  # the errors of all methods must be those of the same probes
            answered &= by_form
        else:
            experts.remove(Expert.GAUSSIAN)
    known = np.flatnonzero(answered)
    if len(known) == 0:
        return
    truth = probes.truth[known]
    shape = (len(sensor_ids), len(Place))
    key = answers.sensor[known] * len(Place) + answers.place[known]
    counts = np.bincount(key, minlength=shape[0] * shape[1])
    probed = np.flatnonzero(counts)
    labels = [(sensor_ids[each // len(Place)], Place(each % len(Place)).name.lower()) for each in probed.tolist()]
    methods = [(expert.name.lower(), answers.values[:, expert]) for expert in experts]
    for method, values in [*methods, ("blend", blended)]:
        errors = np.bincount(key, weights=np.abs(values[known] - truth), minlength=len(counts))
        for (sensor, position), error in zip(labels, errors[probed].tolist(), strict=True):
            metrics.score_error.labels(model, sensor, method, position).inc(error)
    for (sensor, position), count in zip(labels, counts[probed].tolist(), strict=True):
        metrics.score_questions.labels(model, sensor, position).inc(count)
    lower, upper = intervals(
        blended[known], answers.sensor[known], probes.gap_age[known], probes.lag[known] == 0, table
    )
    if deviation is not None:
        of_form = np.flatnonzero(np.isfinite(deviation[known]))
        lower[of_form], upper[of_form] = bands(
            blended[known][of_form], deviation[known][of_form], answers.sensor[known][of_form], table
        )
    if half_widths is not None:
        adapted = np.flatnonzero(np.isfinite(half_widths[known]).all(axis=1))
        cell = known[adapted]
        lower[adapted], upper[adapted] = reaching(blended[cell], half_widths[cell], answers.sensor[cell], table)
    drawn = np.isfinite(lower)
    for place in Place:
        here = drawn & (answers.place[known] == place)
        if here.any():
            position = place.name.lower()
            metrics.score_intervals.labels(model, position).inc(int(here.sum()))
            holding = here & (lower <= truth) & (truth <= upper)
            metrics.score_intervals_holding.labels(model, position).inc(int(holding.sum()))
