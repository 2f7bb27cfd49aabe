"""The cost of probe windows at several shares: number of windows, CPU time of the worker, and total time.

    python -m benchmarks.scores --groups 200
    python -m benchmarks.scores --imputer gaussian    # the closed form, without a network

A simulated plant with holes goes through the worker's pipeline with a real Triton behind it. CPU time is that of this
process: decoding, windows, probe windows, calls, blending, encoding and the closed form; it excludes Triton.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.record import Record
from deploy.cache import CHECKOUT
from deploy.triton import triton_from_environment
from glaim_stream.build import create_pipeline
from glaim_stream.core import metrics
from glaim_stream.core.settings import Settings, read_settings
from glaim_stream.feed.plant import simulate

SHARES = (0.0, 0.05, 0.1, 0.25)
_MODEL = "plant-pump"
_BATCH = 2_000
_DROPPED = 0.02  # share of the readings; each hole needs a window twice


class Cost(TypedDict):
    """The cost of one pass."""

    share: float
    cpu_s: float
    wall_s: float
    hole_windows: int
    side_windows: int


def plant_records(groups: int, steps: int) -> list[Record]:
    """One record per group and step."""
    plant = simulate(steps / 1440, groups=groups, seed=3)
    shown = np.random.default_rng(3).random(plant.values.shape) >= _DROPPED
    out: list[Record] = []
    for step, ts in enumerate(plant.times_ms.tolist()):
        for row, group in enumerate(plant.groups):
            values = {
                sensor: float(plant.values[row, place, step])
                for place, sensor in enumerate(plant.sensor_ids)
                if shown[row, place, step]
            }
            out.append(Record(json.dumps({"group": group, "ts": ts, "values": values}).encode(), len(out), ts))
    return out


async def run(settings: Settings, records: list[Record]) -> Cost:
    """Process all records once, batch by batch."""
    pipeline, ladder = create_pipeline(settings)
    windows, scores = pipeline.windows(), pipeline.scores()
    holes, sides = metrics.windows._value.get(), metrics.side_windows._value.get()
    start, cpu = time.perf_counter(), time.process_time()
    for at in range(0, len(records), _BATCH):
        batch = records[at : at + _BATCH]
        applied = pipeline.apply(windows, batch, now_ms=batch[-1].timestamp)
        pipeline.messages(pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes)))
    cost: Cost = {
        "share": settings.probed_share,
        "cpu_s": round(time.process_time() - cpu, 2),
        "wall_s": round(time.perf_counter() - start, 2),
        "hole_windows": int(metrics.windows._value.get() - holes),
        "side_windows": int(metrics.side_windows._value.get() - sides),
    }
    await ladder.close()
    return cost


@contextmanager
def _settings(imputer: str) -> Iterator[Settings]:
    """Settings of the plant, and where the imputer needs it a Triton that runs meanwhile."""
    settings = read_settings(
        catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
        model_repository=CHECKOUT / "model_repo",
        imputer=imputer,
        triton_deadline_s=60,
    )
    if imputer != "triton":
        yield settings
        return
    with triton_from_environment(CHECKOUT / "model_repo", models=[_MODEL]) as triton:
        yield settings.model_copy(update={"triton": triton.grpc_url})


def main(arguments: list[str] | None = None) -> None:
    """Measure each share and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scores", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=200, help="groups of one partition (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps of one minute (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="passes per share; the fastest counts (default: %(default)s)"
    )
    parser.add_argument("--imputer", choices=("triton", "gaussian"), default="triton", help="default: %(default)s")
    given = parser.parse_args(arguments)
    records = plant_records(given.groups, given.steps)
    best: dict[float, Cost] = {}
    with _settings(given.imputer) as of_imputer:
        for _ in range(given.rounds):
            for share in SHARES:
                found = asyncio.run(run(of_imputer.model_copy(update={"score_share": share}), records))
                if share not in best or found["cpu_s"] < best[share]["cpu_s"]:
                    best[share] = found
    command = f"python -m benchmarks.scores --groups {given.groups} --steps {given.steps} --rounds {given.rounds}"
    command += " --imputer gaussian" * (given.imputer == "gaussian")
    result = machine.describe(command) | {"groups": given.groups, "imputer": given.imputer}
    result |= {"shares": list(best.values())}
    machine.append("scores", result)
    table = Table("share", "windows for holes", "probe windows", "worker CPU, s", "total, s", title=command)
    for each in best.values():
        numbers = (each["share"], each["hole_windows"], each["side_windows"], each["cpu_s"], each["wall_s"])
        table.add_row(*(f"{number:,}" for number in numbers))
    Console().print(table)


if __name__ == "__main__":
    main()
