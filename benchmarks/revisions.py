"""How much better the final value of a hole is than its provisional one, measured on withheld readings.

Readings of real stations are withheld in the manner of `produce --drop`. The rest goes through the worker's pipeline
with the model in this process. Both revisions of each withheld cell are compared with the truth, and so are last value
and interpolation on the same windows.

    GLAIM_DATA=... python -m benchmarks.revisions --groups 3 --hours 500
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks import data_sets
from benchmarks.machine import append, describe
from deploy.cache import CHECKOUT
from deploy.demo.summary import KIND_LABELS
from glaim_stream.build import create_pipeline
from glaim_stream.core.contract import read_contract
from glaim_stream.core.settings import Settings
from glaim_stream.feed.dropouts import KINDS, Hidden, hide
from glaim_stream.feed.formats import InputFormat
from glaim_stream.feed.messages import plan_messages
from glaim_stream.feed.replay.files import Dealer, planned
from glaim_stream.feed.replay.partition import Counts, PartitionReplay
from glaim_stream.feed.sources import Source, read_source
from glaim_stream.output.messages import Output
from glaim_stream.output.records import read_rows

HOUR_MS = 3_600_000
CATALOGUE = CHECKOUT / "deploy" / "catalogues" / "beijing.yaml"
MODEL = "beijing-air"
AGES = ((1, 1), (2, 3), (4, 8), (9, 24))
Cell = tuple[str, str, int]  # group, sensor, step


@dataclass
class Revisions:
    """A publisher that keeps both estimates of each cell: (value, gap age) by cell and revision."""

    estimates: dict[tuple[Cell, int], tuple[float, int]] = field(default_factory=dict)

    async def publish(self, output: Output) -> None:
        """See output.Publisher."""
        for message in output.messages:
            table = read_rows(message.value)
            rows = zip(
                table["group"].to_pylist(),
                table["sensor"].to_pylist(),
                table["ts"].cast("int64").to_pylist(),
                table["revision"].to_pylist(),
                table["value"].to_pylist(),
                table["gap_age"].to_pylist(),
                table["observed"].to_pylist(),
                strict=True,
            )
            for group, sensor, ts, revision, value, gap_age, observed in rows:
                if not observed and value is not None and revision < 2:
                    self.estimates[(group, sensor, ts), revision] = value, gap_age


Imputer = Literal["local", "last_value", "interpolation"]
IMPUTERS: tuple[Imputer, ...] = ("local", "last_value", "interpolation")


async def streamed(source: Source, imputer: Imputer) -> Revisions:
    """Both revisions of all filled cells."""
    settings = Settings(catalogue=CATALOGUE, model_repository=CHECKOUT / "model_repo", imputer=imputer)
    pipeline, ladder = create_pipeline(settings)
    kept = Revisions()
    replay = PartitionReplay(pipeline, kept, Counts(), topic="readings", partition=0, in_flight=4)
    messages = planned(plan_messages(source, InputFormat.STEP))
    for _, records, _ in Dealer(1, time.time_ns() // 1_000_000).deal(messages, 2000):
        await replay.take(records)
    await replay.finish(close=False)
    await ladder.close()
    return kept


Errors = dict[str, dict[str, float]]  # by row and column of the table


def table(source: Source, hidden: Hidden, answers: Mapping[Imputer, Revisions]) -> tuple[list[str], Errors]:
    """Mean absolute errors in standard deviations of each sensor, on the cells for which all columns have a value.

    Returns:
        The lines of a Markdown table, and the errors.
    """
    std = {sensor.id: sensor.std for sensor in read_contract(CHECKOUT / "model_repo" / MODEL).sensors}
    columns: list[tuple[str, Imputer, int]] = [
        ("provisional", "local", 0),
        ("final", "local", 1),
        ("last value", "last_value", 0),
        ("interpolation", "interpolation", 1),
    ]
    errors, ages, kinds = [], [], []
    for row in np.flatnonzero(hidden.mask).tolist():
        group, sensor = source.cells[source.cell[row]]
        cell = (group, sensor, int(source.time_ms[row]) // HOUR_MS * HOUR_MS)
        found = [answers[imputer].estimates.get((cell, revision)) for _, imputer, revision in columns]
        estimates = [each for each in found if each is not None]
        if len(estimates) == len(columns):
            truth = float(source.value[row])
            errors.append([abs(value - truth) / std[sensor] for value, _ in estimates])
            ages.append(estimates[0][1])
            kinds.append(int(hidden.kind[row]))
    error, age, kind = np.array(errors), np.array(ages), np.array(kinds)
    result: Errors = {}
    lines = [
        "| hidden | cells | " + " | ".join(name for name, _, _ in columns) + " | final less provisional |",
        "|---|" + "---|" * (len(columns) + 2),
    ]
    chosen: list[tuple[str, NDArray[np.bool_]]] = [("all", np.ones(len(age), np.bool_))]
    chosen += [(text, kind == KINDS.index(name)) for name, text in KIND_LABELS.items()]
    chosen += [
        (f"silent for {low} h" if low == high else f"silent for {low} to {high} h", (age >= low) & (age <= high))
        for low, high in AGES
    ]
    for name, rows in chosen:
        if rows.any():
            mean = error[rows].mean(0)
            gain = 100 * (1 - mean[1] / mean[0])
            numbers = " | ".join(f"{each:.3f}" for each in mean)
            result[name] = {"cells": int(rows.sum())} | {
                column: round(float(each), 4) for (column, _, _), each in zip(columns, mean, strict=True)
            }
            lines.append(f"| {name} | {int(rows.sum()):,} | {numbers} | {-gain:+.0f} % |")
    return lines, result


def main() -> None:
    """Measure, print the table, and append one line to results/revisions.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--groups", type=int, default=3, help="number of stations (default: %(default)s)")
    parser.add_argument(
        "--hours", type=int, default=500, help="last hours of the data, the model's test part (default: %(default)s)"
    )
    parser.add_argument(
        "--drop", type=float, default=0.15, help="share of the readings to withhold (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of the withheld readings (default: 0)")
    parser.add_argument("--look", action="store_true", help="do not append to the results")
    given = parser.parse_args()
    path = data_sets.folder(parser) / "beijing_multisite.parquet"
    source = read_source(path)
    source = source.between(int(source.time_ms[-1]) - given.hours * HOUR_MS, None)
    chosen = set(source.groups[: given.groups])
    source = source.where(np.array([group in chosen for group, _ in source.cells])[source.cell])
    hidden = hide(source, given.drop, seed=given.seed)
    start_s = time.monotonic()
    sent = source.where(~hidden.mask)
    answers = {each: asyncio.run(streamed(sent, each)) for each in IMPUTERS}
    rows, result = table(source, hidden, answers)
    print("\n".join(rows))
    print(f"\n{len(sent):,} readings, {int(hidden.mask.sum()):,} hidden, {time.monotonic() - start_s:.0f} s")
    command = f"python -m benchmarks.revisions --groups {given.groups} --hours {given.hours} --drop {given.drop}"
    if not given.look:
        print(append("revisions", describe(f"{command} --seed {given.seed}") | {"mae": result}))


if __name__ == "__main__":
    main()
