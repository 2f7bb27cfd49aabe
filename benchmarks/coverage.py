"""How often the intervals of filled values hold the truth, on streams that drift: `python -m benchmarks.coverage`.

Readings of six drifting plants, and with GLAIM_DATA of stations in Beijing, are withheld and go through the worker's
pipeline with the model in this process, twice: with the half-widths of contract and closed form as they are ("fixed"),
and with these times the factors of recent errors. Both estimates of each withheld cell count, the first and the final.

A stretch is `STRETCH` consecutive steps, from any step on; its coverage is the share of all its withheld cells, of all
groups and sensors, whose interval holds the truth. Steps count from the WARM_UP-th on.

    python -m benchmarks.coverage --steps 2400
    python -m benchmarks.coverage --without-model     # the closed form and interpolation alone
    python -m benchmarks.coverage --development       # the streams on which the constants were chosen
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks import data_sets, machine
from benchmarks.drifting import DEVELOPMENT, SCORED, DriftingStream, beijing, plant
from benchmarks.record import LoadRecord
from deploy.cache import CHECKOUT
from glaim_stream.core.catalogue import Catalogue, Model, read_catalogue
from glaim_stream.core.contract import read_contract
from glaim_stream.imputers import BlendedRung, ClosedFormImputer, Imputed, Interpolation, Ladder, WindowImputer, Windows
from glaim_stream.pipeline import Pipeline

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64] | NDArray[np.int32]

STRETCH, WARM_UP = 500, 100  # steps
AROUND = 50  # steps after a sudden change that count as its neighbourhood
MOST_EVERYTHING = 0.01  # share of intervals that may say nothing but the sensor's limits
AGES = (1, 2, 4, 8, 16, 48)  # upper bounds of the classes of gap ages in the results
_REPOSITORY = CHECKOUT / "model_repo"
_BATCH_STEPS = 8


@dataclass(frozen=True)
class Covered:
    """Cells [n] that were withheld and filled, and their intervals; NaN without one."""

    step: Ints
    sensor: Ints
    age: Ints
    truth: Floats
    value: Floats
    lower: Floats
    upper: Floats
    late: Bools

    def where(self, keep: Bools) -> Covered:
        """The chosen cells."""
        return Covered(*(getattr(self, each.name)[keep] for each in fields(self)))

    @property
    def holding(self) -> Bools:
        """Whether the interval holds the truth."""
        return (self.lower <= self.truth) & (self.truth <= self.upper)


class Remembering:
    """An imputer that answers the windows of the last batches from memory, because both runs ask the same."""

    def __init__(self, imputer: WindowImputer) -> None:
        self._imputer, self._known = imputer, dict[bytes, Imputed]()

    async def impute(self, windows: Windows) -> Imputed:
        """See Imputer."""
        key = hashlib.blake2b(windows.values.tobytes() + windows.observed.tobytes()).digest()
        if key not in self._known:
            self._known[key] = await self._imputer.impute(windows)
        return self._known[key]


def records(stream: DriftingStream, model: Model) -> list[list[LoadRecord]]:
    """One record for each group and step, in batches of `_BATCH_STEPS` steps; late readings have their own."""
    arrives = arrivals(stream)
    out: list[list[LoadRecord]] = []
    offset = 0
    for step in range(stream.values.shape[2]):
        if step % _BATCH_STEPS == 0:
            out.append([])
        now_ms = stream.start_ms + step * model.step_ms
        for of in np.flatnonzero((arrives == step).any(axis=(0, 1))).tolist():
            for row, group in enumerate(stream.groups):
                places = np.flatnonzero(arrives[row, :, of] == step).tolist()
                if places:
                    values = {model.sensor_ids[place]: float(stream.values[row, place, of]) for place in places}
                    ts = stream.start_ms + of * model.step_ms
                    value = json.dumps({"group": group, "ts": ts, "values": values}).encode()
                    out[-1].append(LoadRecord(value, offset, now_ms))
                    offset += 1
    return [batch for batch in out if batch]


def arrivals(stream: DriftingStream) -> NDArray[np.int64]:
    """The step at which each reading [G, C, T] arrives: its own, the first after its stretch, or -1."""
    steps = stream.values.shape[2]
    after = np.full((*stream.values.shape[:2], steps + 1), steps)
    for step in reversed(range(steps)):
        after[:, :, step] = np.where(stream.late[:, :, step], after[:, :, step + 1], step)
    shown = np.isfinite(stream.values) & (~stream.hidden | stream.late)
    return np.where(shown & (after[:, :, :-1] < steps), after[:, :, :-1], -1)


def _factors_of_one(_: object, weights: Floats, sensor: Ints, level: Ints) -> Floats:
    return np.ones(len(sensor))


async def filled(stream: DriftingStream, imputer: WindowImputer, *, adaptive: bool) -> Covered:
    """Stream the readings through a pipeline and collect the withheld cells."""
    catalogue: Catalogue = read_catalogue(stream.catalogue)
    model = catalogue.models[0]
    contracts = {model.name: read_contract(_REPOSITORY / model.name)}
    form = BlendedRung(ClosedFormImputer(_REPOSITORY, catalogue.models))
    pipeline = Pipeline(catalogue, contracts, imputer, form_expert=form, score_share=0.05)
    windows, scores = pipeline.windows(), pipeline.scores()
    places = {name: row for row, name in enumerate(stream.groups)}
    parts: list[Covered] = []
    for batch in records(stream, model):
        applied = pipeline.apply(windows, batch, now_ms=batch[-1].timestamp)
        answers = await pipeline.query(applied.closed, applied.probes)
        with nullcontext() if adaptive else patch.object(type(scores.models[0].reach), "latest", _factors_of_one):
            settled = pipeline.settle(scores, answers)
        for _, rows in settled:
            group = np.array([places[pipeline.index.names[code]] for code in rows.group.tolist()], np.int64)
            step = (rows.ts_ms - stream.start_ms) // model.step_ms
            keep = ~rows.observed & stream.hidden[group, rows.sensor, step] & np.isfinite(rows.value)
            truth = stream.values[group, rows.sensor, step]
            late = stream.late[group, rows.sensor, step]
            cells = Covered(step, rows.sensor, rows.gap_age, truth, rows.value, rows.lower, rows.upper, late)
            parts.append(cells.where(keep & (step >= WARM_UP)))
    return Covered(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Covered)))


# Results --------------------------------------------------------------------------------------------------------------


def problems(found: Covered, low: Floats, high: Floats) -> list[str]:
    """Count intervals that are infinite, empty, or wider than the range of their sensor.

    Args:
        found: the cells.
        low: least possible value of each sensor, [C].
        high: the largest one.
    """
    drawn = found.where(~(np.isnan(found.lower) & np.isnan(found.upper)))
    checks = {
        "not finite": ~np.isfinite(drawn.lower) | ~np.isfinite(drawn.upper),
        "empty": ~(drawn.lower <= drawn.upper),
        "without their own value": ~((drawn.lower <= drawn.value) & (drawn.value <= drawn.upper)),
        "of no width": drawn.lower == drawn.upper,
        "outside the sensor's limits": (drawn.lower < low[drawn.sensor]) | (drawn.upper > high[drawn.sensor]),
        "wider than the sensor's limits": (drawn.upper - drawn.lower) > (high - low)[drawn.sensor],
    }
    everything = (drawn.upper - drawn.lower) >= (high - low)[drawn.sensor]
    if everything.mean() > MOST_EVERYTHING:
        checks["as wide as the sensor's limits"] = everything
    return [
        f"{int(wrong.sum())} of {len(drawn.step)} intervals are {what}" for what, wrong in checks.items() if wrong.any()
    ]


def stretches(found: Covered) -> tuple[Floats, NDArray[np.int64]]:
    """The coverage of every stretch, and its number of cells."""
    steps = np.arange(WARM_UP, int(found.step.max()) + 2)
    count, holding = (
        np.concatenate([[0], np.cumsum(np.bincount(found.step - WARM_UP, each, minlength=len(steps) - 1))])
        for each in (None, found.holding)
    )
    cells = (count[STRETCH:] - count[:-STRETCH]).astype(np.int64)
    return (holding[STRETCH:] - holding[:-STRETCH]) / np.maximum(cells, 1), cells


def line(stream: DriftingStream, fixed: Covered, adapted: Covered, unit: Floats) -> dict[str, object]:
    """The line of one stream; `unit` is each sensor's deviation in training, [C]."""

    def width(found: Covered) -> Floats:
        return (found.upper - found.lower) / unit[found.sensor]

    both = np.isfinite(fixed.lower) & np.isfinite(adapted.lower)
    out: dict[str, object] = {"stream": stream.name, "cells": len(adapted.step)}
    for name, found in (("", adapted), ("fixed_", fixed)):
        drawn = np.isfinite(found.lower)
        known = found.where(drawn)
        of_stretch, cells = stretches(known)
        wide = width(known)
        near = np.zeros(len(known.step), np.bool_)
        for jump in stream.jumps:
            near |= (known.step >= jump) & (known.step < jump + AROUND)
        age = np.searchsorted(AGES, known.age)
        out |= {
            f"{name}coverage": round(float(known.holding.mean()), 4),
            f"{name}coverage_min_500": round(float(of_stretch.min()), 4),
            f"{name}coverage_max_500": round(float(of_stretch.max()), 4),
            f"{name}cells_min_500": int(cells.min()),
            f"{name}with_interval": round(float(drawn.mean()), 4),
            f"{name}width_p50": round(float(np.median(wide)), 4),
            f"{name}width_p99": round(float(np.quantile(wide, 0.99)), 4),
            f"{name}coverage_calm": round(float(known.holding[~near].mean()), 4),
            f"{name}coverage_after_jump": round(float(known.holding[near].mean()), 4) if near.any() else None,
            f"{name}cells_late": int(known.late.sum()),
            f"{name}coverage_late": round(float(known.holding[known.late].mean()), 4),
            f"{name}coverage_by_age": {
                str(AGES[each]): round(float(known.holding[age == each].mean()), 4) for each in np.unique(age).tolist()
            },
            f"{name}coverage_by_sensor": [
                round(float(known.holding[known.sensor == each].mean()), 4) for each in range(len(unit))
            ],
        }
    ratio = width(adapted)[both].mean() / width(fixed)[both].mean()
    stretch = stretched(fixed.where(both), float(adapted.where(both).holding.mean()))
    return out | {"width_ratio": round(float(ratio), 4), "width_ratio_stretched": round(float(ratio / stretch), 4)}


def stretched(found: Covered, coverage: float) -> float:
    """The factor on all widths at which the intervals hold this share."""
    error = np.abs(found.truth - found.value)
    room = np.where(found.truth > found.value, found.upper - found.value, found.value - found.lower)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.quantile(np.where(error > 0, error / room, 0.0), coverage, method="higher"))


def network(name: str) -> WindowImputer:
    """The shipped network, in this process."""
    from glaim_stream.imputers.local import LocalImputer

    local = LocalImputer(_REPOSITORY, {name: read_contract(_REPOSITORY / name)})
    return Remembering(Ladder([local, Interpolation()], batch=64))


def measured(stream: DriftingStream, *, without_model: bool) -> tuple[dict[str, object], list[str]]:
    """The line of a stream, and the problems of its adapted intervals."""
    model = read_catalogue(stream.catalogue).models[0]
    imputer = Ladder([Interpolation()]) if without_model else network(model.name)
    with asyncio.Runner() as runner:  # an imputer's lock belongs to one loop
        fixed, adapted = (runner.run(filled(stream, imputer, adaptive=each)) for each in (False, True))
    unit = np.array([sensor.std for sensor in read_contract(_REPOSITORY / model.name).sensors])
    low, high = np.array([sensor.limits for sensor in model.sensors]).T
    return line(stream, fixed, adapted, unit), problems(adapted, low, high)


def shown(lines: Sequence[Mapping[str, object]], title: str) -> Table:
    """The results as a table."""
    names = (
        "coverage",
        "coverage_min_500",
        "coverage_max_500",
        "coverage_calm",
        "coverage_after_jump",
        "coverage_late",
    )
    table = Table("stream", "cells", *names, "width_ratio", "stretched", "with_interval", "p50", "p99", title=title)
    for each in lines:
        numbers = [f"{each[name]} ({each[f'fixed_{name}']})" for name in (*names,)]
        ratios = [str(each[name]) for name in ("width_ratio", "width_ratio_stretched")]
        rest = [f"{each[name]} ({each[f'fixed_{name}']})" for name in ("with_interval", "width_p50", "width_p99")]
        table.add_row(str(each["stream"]), str(each["cells"]), *numbers, *ratios, *rest)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure every stream and print a table; fail where intervals are nonsense."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=2400, help="steps of each stream (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=4, help="pumps, or stations (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=21, help="of plant, drift and gaps (default: %(default)s)")
    parser.add_argument("--without-model", action="store_true", help="closed form and interpolation alone")
    parser.add_argument("--development", action="store_true", help="the streams on which the constants were chosen")
    parser.add_argument("--only", nargs="+", help="names of streams")
    parser.add_argument("--look", action="store_true", help="do not append to the results")
    given = parser.parse_args(arguments)
    seed = given.seed + 1000 if given.development else given.seed
    makers: dict[str, Callable[[], DriftingStream]] = {
        change.__name__: lambda change=change: plant(change, given.steps, given.groups, seed)  # type: ignore[misc]
        for change in (DEVELOPMENT if given.development else SCORED)
    }
    if folder := data_sets.named_folder():
        before = given.steps if given.development else 0
        makers["beijing_before" if before else "beijing"] = lambda: beijing(
            folder, given.steps, given.groups, seed, before=before
        )
    lines, wrong = [], []
    flags = [f"--steps {given.steps} --groups {given.groups} --seed {given.seed}"]
    flags += ["--without-model"] * given.without_model + ["--development"] * given.development
    command = f"python -m benchmarks.coverage {' '.join(flags)}"
    for name, make in makers.items():
        if given.only is None or name in given.only:
            start_s = time.monotonic()
            found, problem = measured(make(), without_model=given.without_model)
            found["seconds"] = round(time.monotonic() - start_s)
            lines.append(found)
            wrong += [f"{name}: {each}" for each in problem]
            if not given.look:
                machine.append("coverage", machine.describe(command) | found)
    Console(width=200).print(shown(lines, f"{command}: adapted (fixed)"))
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
