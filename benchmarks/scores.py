"""What the probe windows cost: windows asked, the worker's own CPU, and the time of the whole, at several shares.

    python -m benchmarks.scores --groups 200

A simulated plant with holes goes through the pipeline as the worker drives it, with the real Triton behind it. The CPU
is this process's: decoding, windows, probe windows, the calls, blending and encoding; Triton's is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from deploy.cache import CHECKOUT
from deploy.triton import triton_from_environment
from glaim_stream import metrics
from glaim_stream.build import create_pipeline
from glaim_stream.feed.plant import simulate
from glaim_stream.settings import Settings

SHARES = (0.0, 0.05, 0.1, 0.25)
_MODEL = "plant-pump"
_BATCH = 2_000
_DROPPED = 0.02  # of the readings; each hole asks for a window twice


@dataclass(frozen=True)
class _Record:
    value: bytes
    offset: int
    timestamp: int
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def plant_records(groups: int, steps: int) -> list[_Record]:
    """One record a group and step."""
    plant = simulate(steps / 1440, groups=groups, seed=3)
    shown = np.random.default_rng(3).random(plant.values.shape) >= _DROPPED
    out = []
    for step, ts in enumerate(plant.times_ms.tolist()):
        for row, group in enumerate(plant.groups):
            values = {
                sensor: float(plant.values[row, place, step])
                for place, sensor in enumerate(plant.sensor_ids)
                if shown[row, place, step]
            }
            out.append(_Record(json.dumps({"group": group, "ts": ts, "values": values}).encode(), len(out), ts))
    return out


async def run(settings: Settings, records: list[_Record]) -> dict[str, Any]:
    """One pass over the records, one batch after the other."""
    pipeline, ladder = create_pipeline(settings)
    windows, scores = pipeline.windows(), pipeline.scores()
    holes, sides = metrics.windows._value.get(), metrics.side_windows._value.get()
    start, cpu = time.perf_counter(), time.process_time()
    for at in range(0, len(records), _BATCH):
        batch = records[at : at + _BATCH]
        applied = pipeline.apply(windows, batch, now_ms=batch[-1].timestamp)
        pipeline.messages(pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes)))
    out = {
        "share": settings.score_share,
        "cpu_s": round(time.process_time() - cpu, 2),
        "wall_s": round(time.perf_counter() - start, 2),
        "hole_windows": int(metrics.windows._value.get() - holes),
        "side_windows": int(metrics.side_windows._value.get() - sides),
    }
    await ladder.close()
    return out


def main(arguments: list[str] | None = None) -> None:
    """Measure each share and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scores", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=200, help="groups of one partition (default 200)")
    parser.add_argument("--steps", type=int, default=200, help="steps of a minute (default 200)")
    parser.add_argument("--rounds", type=int, default=3, help="passes of each share; the quickest counts (default 3)")
    given = parser.parse_args(arguments)
    records = plant_records(given.groups, given.steps)
    best: dict[float, dict[str, Any]] = {}
    with triton_from_environment(CHECKOUT / "model_repo", models=[_MODEL]) as triton:
        for _ in range(given.rounds):
            for share in SHARES:
                settings = Settings(
                    catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
                    model_repository=CHECKOUT / "model_repo",
                    triton=triton.grpc_url,
                    triton_deadline_s=60,
                    score_share=share,
                )
                found = asyncio.run(run(settings, records))
                if share not in best or found["cpu_s"] < best[share]["cpu_s"]:
                    best[share] = found
    command = f"python -m benchmarks.scores --groups {given.groups} --steps {given.steps} --rounds {given.rounds}"
    result = machine.describe(command) | {"groups": given.groups, "shares": list(best.values())}
    machine.append("scores", result)
    table = Table("share", "windows for holes", "probe windows", "worker CPU, s", "whole, s", title=command)
    for each in best.values():
        columns = ("share", "hole_windows", "side_windows", "cpu_s", "wall_s")
        table.add_row(*(f"{each[name]:,}" for name in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
