"""The blend that a worker publishes: its experts, fed by its probes, over the test part in the order of time.

All groups lie in one partition. At every step the worker's own `Prober` hides known values, the model and the baseline
fill them, and the errors go to the worker's own `ModelScores`, which pools them over the groups. The weights used at a
step depend on the probes of earlier steps alone, never on the value that they are used for.

Two differences from a worker: values are standardised instead of rounded to what is published (the experts compare
errors within a sensor, so the unit does not matter), and probes begin `HORIZON` steps before the first scored window
of a stretch, which is all that the experts remember.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from glaim_stream.blend.mixture import blend
from glaim_stream.blend.scores import Answers as ProbeAnswers
from glaim_stream.blend.scores import ModelScores
from glaim_stream.catalogue import Model
from glaim_stream.imputers.baselines import interpolation_at
from glaim_stream.settings import Settings
from glaim_stream.windows.history import HORIZON
from glaim_stream.windows.holes import Rules
from glaim_stream.windows.probes import Prober, Probes, Sampling, age_class, joined, places
from glaim_stream.windows.rings import Rings
from training.data.series import Floats
from training.edge.answers import BATCH, Answers, Fill

Weights = NDArray[np.float64]  # of model and interpolation by sensor, age class and place, [C, A, P, 2]

REVISE_AFTER = int(Model.model_fields["revise_after"].default)
MAX_GAP = int(Model.model_fields["max_gap"].default)
_SCORE_SHARE = float(Settings.model_fields["score_share"].default)
_SCORE_LEAST = int(Settings.model_fields["score_least"].default)


def expert_weights(
    values: Floats, window: int, names: tuple[str, ...], fill: Fill, steps: NDArray[np.int64]
) -> dict[int, Weights]:
    """Return the experts' weights at each of `steps`, as a worker with the default settings would use it.

    Args:
        values: [G, C, R], standardised, NaN where nothing was observed.
        window: Steps of a window.
        names: Of the groups; the choice of probes depends on them.
        fill: The model.
        steps: Row numbers, the newest steps of the scored windows.
    """
    scores = ModelScores(values.shape[1])
    wanted = np.unique(steps)
    probes = dict(_probes(values, window, names, wanted))
    answers = _answers(list(probes.values()), fill)
    weights = {}
    for step in sorted({*wanted.tolist(), *probes}):
        if step in probes:
            probed, truth = answers[step]
            if step in wanted:
                weights[step] = scores.weights(step).table()
            scores.walk(ProbeAnswers.none(), probed, truth)
        else:
            weights[step] = scores.weights(step).table()
    return weights


def blended(answers: Answers, weights: Mapping[int, Weights]) -> Floats:
    """Mix the model and interpolation by the experts' weights, float32 [W, C], standardised.

    Where interpolation has no value, the blend is the model's value, as in a worker.
    """
    sensors = np.arange(answers.truth.shape[1])
    mixed = np.empty_like(answers.truth)
    for row, step in enumerate(answers.steps.tolist()):
        share = weights[step][sensors, answers.age[row], answers.place[row]]
        mixed[row] = blend(np.stack([answers.model[row], answers.interpolation[row]], axis=-1), share)
    return mixed


def _probes(
    values: Floats, window: int, names: tuple[str, ...], wanted: NDArray[np.int64]
) -> Iterator[tuple[int, Probes]]:
    """Yield the probe windows of the `HORIZON` steps before every wanted step, by step."""
    groups, sensors, rows = values.shape
    rings = Rings(sensors, window, 1, mean=False)
    row_of_group = rings.rows(np.arange(groups, dtype=np.int32))
    rules = Rules(window, REVISE_AFTER, MAX_GAP, step_ms=1, model_index=0)
    prober = Prober(rings, rules, Sampling(_SCORE_SHARE, _SCORE_LEAST, names))
    needed = np.zeros(rows, np.bool_)
    for step in wanted.tolist():
        needed[max(window - 1, step - HORIZON) : step] = True
    rings.start(0)
    for step in range(int(wanted[-1])):
        group, sensor = np.nonzero(np.isfinite(values[:, :, step]))
        rings.put(
            row_of_group[group], sensor.astype(np.int32), np.full(len(group), step), np.zeros(len(group), np.int32),
            values[group, sensor, step].astype(np.float64), np.zeros(len(group), np.int8),
        )  # fmt: skip
        if needed[step] and (found := prober.probe(step)) is not None:
            yield step, found
        rings.advance(step + 1)


def _answers(probes: list[Probes], fill: Fill) -> dict[int, tuple[ProbeAnswers, NDArray[np.float64]]]:
    """Fill the probe windows by the model and by interpolation; step -> answers and the hidden truth."""
    if not probes:
        return {}
    every = joined(probes)
    filled = np.concatenate(
        [
            fill(every.values[at : at + BATCH].astype(np.float32), every.observed[at : at + BATCH])
            for at in range(0, len(every), BATCH)
        ]
    )
    chosen = every.window, every.sensor
    model = filled[*chosen, filled.shape[2] - 1 - every.lag].astype(np.float64)
    at = every.values.shape[2] - 1 - every.lag
    line = interpolation_at(every.values[chosen], every.observed[chosen], at)
    answers = ProbeAnswers(
        every.step,
        every.sensor,
        age_class(every.gap_age),
        places(every.observed, *chosen, every.lag),
        np.stack([model, line], axis=1),
    )
    found = {}
    for probe in probes:
        step = int(probe.step[0])
        here = slice(*np.searchsorted(every.step, [step, step + 1]).tolist())
        columns = {column.name: getattr(answers, column.name)[here] for column in fields(ProbeAnswers)}
        found[step] = ProbeAnswers(**columns), every.truth[here]
    return found
