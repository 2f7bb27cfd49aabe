"""Scores the output: the model, its closed form and both baselines on the same hidden cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deploy.demo.baselines import replay
from deploy.demo.grid import Bools, Floats, Grid, Layer, Outcome, outcome
from deploy.demo.score import Score, coverage, score
from deploy.demo.topic import Records
from glaim_stream.core.catalogue import Catalogue, Model
from glaim_stream.core.contract import FORM_FILE, Contract
from glaim_stream.feed import KINDS
from glaim_stream.imputers import ClosedFormImputer, Interpolation, LastValue, WindowImputer
from glaim_stream.output import Method


@dataclass(frozen=True)
class Measured:
    """The results for the report and the summary, with arrays [G, C, T]."""

    grid: Grid
    truth: Floats  # NaN where nothing was hidden
    result: Outcome
    contenders: Mapping[str, Outcome]  # `result` as "model", and the others
    final: Score
    provisional: Score
    by_kind: Mapping[str, Score]  # final scores by kind of dropout: a reading, a sensor, a whole group
    interval_coverage: Mapping[str, float]  # share of hidden values inside their interval, final and provisional
    interval_level: float | None  # the nominal share


def measure(
    grid: Grid,
    model: Model,
    contract: Contract,
    tables: Sequence[pa.Table],
    hidden: pa.Table,
    others: Mapping[str, Outcome],
) -> Measured:
    """Score the output.

    Every filled cell counts, whether the worker chose the model, a baseline or a blend of both for it; the summary's
    `filled` counts each method. Cells in gaps longer than `max_gap`, which stay empty, do not count.

    Args:
        grid: Groups, sensors and steps.
        model: The model's entry in the catalogue.
        contract: Standard deviations of the training data, and the levels of the interval.
        tables: Output rows.
        hidden: Group, sensor, ts, value and kind of every withheld reading.
        others: Outcome of the other contenders on the same records.
    """
    truth = grid.values(hidden)
    kind = _kinds(grid, hidden)
    result = outcome(grid, tables)
    contenders = {"model": result, **others}
    deviation = np.array([sensor.std for sensor in contract.sensors])

    def scored(estimate: Literal["final", "provisional"], among: Bools) -> Score:
        layers: dict[str, Layer] = {name: getattr(each, estimate) for name, each in contenders.items()}
        return score(
            truth,
            {name: layer.value for name, layer in layers.items()},
            eligible=filled(layers["model"]) & among,
            sensors=grid.sensors,
            units=[sensor.unit for sensor in model.sensors],
            deviation=deviation,
        )

    everywhere = np.ones(grid.shape, np.bool_)
    quantiles = contract.residual_quantiles
    return Measured(
        grid,
        truth,
        result,
        contenders,
        scored("final", everywhere),
        scored("provisional", everywhere),
        {name: scored("final", kind == code) for code, name in enumerate(KINDS)},
        {
            "final": coverage(truth, result.final.lower, result.final.upper),
            "provisional": coverage(truth, result.provisional.lower, result.provisional.upper),
        },
        round(quantiles.levels[1] - quantiles.levels[0], 3) if quantiles else None,
    )


def others(grid: Grid, catalogue: Catalogue, records: Records, model_repository: Path) -> dict[str, Outcome]:
    """Outcome of each baseline, and of the closed form where the model has one, on the records of the input topic."""
    imputers: dict[str, WindowImputer] = {"interpolation": Interpolation(), "last_value": LastValue()}
    if all((model_repository / model.name / FORM_FILE).is_file() for model in catalogue.models):
        imputers["gaussian"] = ClosedFormImputer(model_repository, catalogue.models)
    return {name: outcome(grid, replay(catalogue, imputer, records)) for name, imputer in imputers.items()}


def filled(layer: Layer) -> Bools:
    """Cells without a reading that got a value."""
    methods = (Method.MODEL, Method.BLEND, Method.GAUSSIAN, Method.INTERPOLATION, Method.LAST_VALUE)
    return np.isin(layer.method, methods)


def _kinds(grid: Grid, hidden: pa.Table) -> NDArray[np.int8]:
    """Index in KINDS of the dropout that hid each cell; -1 for other cells."""
    places, inside = grid.places(hidden)
    kind = np.full(grid.shape, -1, np.int8)
    codes = np.array([KINDS.index(name) for name in hidden["kind"].to_pylist()], np.int8)
    kind[tuple(place[inside] for place in places)] = codes[inside]
    return kind
