"""The blend that a worker publishes: its experts, fed by its probes, over the test part in the order of time.

All groups lie in one partition. At every step the worker's own `Prober` hides known values; the model, the baseline
and, where there is one, the closed form fill them, and the errors go to the worker's own `ModelScores`, which pools
them over the groups. The weights used at a step depend on the probes of earlier steps alone, never on the value that
they are used for.

Three differences from a worker: values are standardised instead of rounded to what is published (the experts compare
errors within a sensor, so the unit does not matter); probes begin `HORIZON` steps before the first scored window of a
stretch, which is all that the experts remember; and where the closed form declines, its value is the baseline's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.edge.answers import BATCH, EdgeAnswers, Fill
from glaim_stream.blend import WITHOUT_FORM, Expert, ModelScores, Predictions, blend
from glaim_stream.core.catalogue import Model
from glaim_stream.core.settings import PROBED_SHARE
from glaim_stream.form import interpolation_at
from glaim_stream.windows import (
    FEWEST_WINDOWS,
    HORIZON,
    Prober,
    Probes,
    Rings,
    Rules,
    Sampling,
    age_class,
    joined,
    places,
)
from training.closed_form import TimedFill
from training.data import Bools, Floats

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class EdgeWeights(Protocol):
    """The experts' weights of one step; see glaim_stream.blend.experts.Weights."""

    def of(self, sensor: Ints, age: Ints, place: Ints, awake: Bools) -> Doubles:
        """Return the weights of cells [n], float64 [n, experts]; `awake` [n, experts]: which experts have a value."""
        ...


REVISE_AFTER = int(Model.model_fields["revise_after"].default)
MAX_GAP = int(Model.model_fields["max_gap"].default)
_SCORE_LEAST = FEWEST_WINDOWS


def expert_weights(
    values: Floats,
    window: int,
    names: tuple[str, ...],
    fill: Fill | None,
    steps: Ints,
    closed: TimedFill | None = None,
    times_ms: Ints | None = None,
    first: int = 0,
) -> dict[int, EdgeWeights]:
    """Return the experts' weights at each of `steps`, as a worker with the default settings would use it.

    Args:
        values: [G, C, R], standardised, NaN where nothing was observed.
        window: Steps of a window.
        names: Of the groups; the choice of probes depends on them.
        fill: The model; None: it never has a value, as in a worker that has the closed form alone.
        steps: Row numbers, the newest steps of the scored windows.
        closed: The closed form, a third expert if there is one.
        times_ms: [R], of the rows; needed with `closed`.
        first: Row of the first probes.
    """
    experts = WITHOUT_FORM if closed is None else len(Expert)
    scores = ModelScores(values.shape[1], experts)
    wanted = np.unique(steps)
    probes = dict(_probes(values, window, names, wanted, first))
    answers = _answers(list(probes.values()), fill, closed, times_ms)
    weights: dict[int, EdgeWeights] = {}
    for step in sorted({*wanted.tolist(), *probes}):
        if step in probes:
            probed, truth = answers[step]
            if step in wanted:
                weights[step] = scores.weights(step)
            scores.walk(Predictions.none(experts), probed, truth)
        else:
            weights[step] = scores.weights(step)
    return weights


def blended(answers: EdgeAnswers, weights: Mapping[int, EdgeWeights]) -> Floats:
    """Mix the experts by their weights, float32 [W, C], standardised.

    Where interpolation has no value, model and closed form share the weight, as in a worker.
    """
    experts = [answers.model, answers.interpolation]
    experts += [] if answers.gaussian is None else [answers.gaussian]
    every = np.stack(experts, axis=-1)  # in the order of `Expert`, [W, C, experts]
    sensors = np.arange(answers.truth.shape[1])
    mixed = np.empty_like(answers.truth)
    for row, step in enumerate(answers.steps.tolist()):
        share = weights[step].of(sensors, answers.age[row], answers.place[row], np.isfinite(every[row]))
        mixed[row] = blend(every[row], share)
    return mixed


def _probes(
    values: Floats, window: int, names: tuple[str, ...], wanted: Ints, first: int
) -> Iterator[tuple[int, Probes]]:
    """Yield the probe windows of the `HORIZON` steps before every wanted step, by step; none before row `first`."""
    groups, sensors, rows = values.shape
    rings = Rings(sensors, window, 1, mean=False)
    row_of_group = rings.rows(np.arange(groups, dtype=np.int32))
    rules = Rules(window, REVISE_AFTER, MAX_GAP, step_ms=1, model_index=0)
    prober = Prober(rings, rules, Sampling(PROBED_SHARE, _SCORE_LEAST, names))
    needed = np.zeros(rows, np.bool_)
    for step in wanted.tolist():
        needed[max(window - 1, first, step - HORIZON) : step] = True
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


def _answers(
    probes: list[Probes], fill: Fill | None, closed: TimedFill | None, times_ms: Ints | None
) -> dict[int, tuple[Predictions, Doubles]]:
    """Fill the probe windows by every expert; step -> answers and the hidden truth."""
    if not probes:
        return {}
    every = joined(probes)
    values, chosen = every.values.astype(np.float32), (every.window, every.sensor)
    parts = [slice(at, at + BATCH) for at in range(0, len(every), BATCH)]

    def cells(filled: list[Floats]) -> Doubles:
        together = np.concatenate(filled)
        found: Doubles = together[*chosen, together.shape[2] - 1 - every.lag].astype(np.float64)
        return found

    at = every.values.shape[2] - 1 - every.lag
    baseline = interpolation_at(every.values[chosen], every.observed[chosen], at)
    model = None if fill is None else cells([fill(values[part], every.observed[part]) for part in parts])
    experts = [np.full_like(baseline, np.nan) if model is None else model, baseline]
    if closed is not None and times_ms is not None:
        ends_ms = times_ms[every.window_ends_ms(1)]  # the probes count steps of 1 ms
        experts.append(cells([closed(values[part], every.observed[part], ends_ms[part]) for part in parts]))
    answers = Predictions(
        every.step,
        every.sensor,
        age_class(every.gap_age),
        places(every.observed, *chosen, every.lag),
        np.stack(experts, axis=1),
    )
    found = {}
    for probe in probes:
        step = int(probe.step[0])
        start, stop = np.searchsorted(every.step, [step, step + 1]).tolist()
        found[step] = answers.slice(start, stop), every.truth[start:stop]
    return found
