"""The size of an input reading and of an output row, in bytes without Kafka's overhead.

    python -m benchmarks.wire

Input: key and value of the load of benchmarks.stream, in each shape. Output: simulated plants in the worker's pipeline
(with interpolation as imputer, so that only this process is needed), one message for a step of several groups.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.load import Shape, TopicLoad
from benchmarks.record import LoadRecord
from deploy.cache import CHECKOUT
from glaim_stream.build import create_pipeline
from glaim_stream.core.settings import Settings
from glaim_stream.feed.plant import simulate

GROUPS = (1, 10, 100, 1000)  # groups of a partition that close a step together
_STEPS = 24
_READINGS = 50_000
_DROPPED = 0.02  # share of the readings


def bytes_a_reading() -> dict[str, float]:
    """Shape -> bytes of key and value per reading."""
    found = {}
    for shape in get_args(Shape):
        total = readings = 0
        for message in TopicLoad(_READINGS, shape=shape).messages():
            total += len(message.key) + len(message.value)
            readings += message.readings
        found[shape] = round(total / readings, 1)
    return found


def plant_records(groups: int, steps: int) -> list[LoadRecord]:
    """One record per group and step."""
    plant = simulate(steps / 1440, groups=groups, seed=3)
    shown = np.random.default_rng(3).random(plant.values.shape) >= _DROPPED
    out: list[LoadRecord] = []
    for step, ts in enumerate(plant.times_ms.tolist()):
        for row, group in enumerate(plant.groups):
            values = {
                sensor: float(plant.values[row, place, step])
                for place, sensor in enumerate(plant.sensor_ids)
                if shown[row, place, step]
            }
            out.append(LoadRecord(json.dumps({"group": group, "ts": ts, "values": values}).encode(), len(out), ts))
    return out


async def bytes_a_row(groups: int) -> dict[str, float]:
    """The size of output rows if a partition has `groups` groups and each step closes for all of them at once."""
    settings = Settings(
        catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
        model_repository=CHECKOUT / "model_repo",
        imputer="interpolation",
    )
    pipeline, ladder = create_pipeline(settings)
    windows, scores = pipeline.windows(), pipeline.scores()
    records = plant_records(groups, _STEPS)
    sizes: list[tuple[int, int]] = []
    for step in range(_STEPS):
        batch = records[step * groups : (step + 1) * groups]
        applied = pipeline.apply(windows, batch, now_ms=batch[-1].timestamp)
        answered = pipeline.settle(scores, await pipeline.query(applied.closed, applied.probes))
        sizes += [(message.rows, len(message.value)) for message in pipeline.messages(answered)]
    await ladder.close()
    rows = sum(count for count, _ in sizes)
    return {
        "groups": groups,
        "rows_a_message": round(rows / len(sizes), 1),
        "bytes_a_row": round(sum(size for _, size in sizes) / rows, 1),
    }


def main() -> None:
    """Measure, print, and append one line to results/wire.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wire", description=__doc__.splitlines()[0])
    parser.parse_args()
    inputs = bytes_a_reading()
    outputs = [asyncio.run(bytes_a_row(groups)) for groups in GROUPS]
    result = machine.describe("python -m benchmarks.wire") | {"bytes_a_reading": inputs, "output": outputs}
    console = Console()
    table = Table("shape", "bytes per reading")
    for shape, size in inputs.items():
        table.add_row(shape, str(size))
    console.print(table)
    table = Table("groups per partition", "rows per message", "bytes per row")
    for line in outputs:
        table.add_row(*map(str, line.values()))
    console.print(table)
    print(f"appended to {machine.append('wire', result)}")


if __name__ == "__main__":
    main()
