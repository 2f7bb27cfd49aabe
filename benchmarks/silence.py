"""Memory and pauses when thousands of groups are heard again after an hour: `python -m benchmarks.silence`.

One reading then closes sixty steps of every group. The worker makes and publishes their windows in slices; this run
shows the peak of the process above its memory at rest, and the longest time for which the event loop stood still.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.record import LoadRecord
from glaim_stream.core.catalogue import Catalogue, parse_catalogue
from glaim_stream.core.readings import InputRecord
from glaim_stream.decode import ARROW_CONTENT_TYPE
from glaim_stream.imputers import Interpolation, Ladder
from glaim_stream.kafka import Commit, OffsetLedger
from glaim_stream.output import Output
from glaim_stream.pipeline import Pipeline
from glaim_stream.windows import Applied, PartitionWindows
from glaim_stream.worker import Batch, PartitionWorker

STEP_MS, START_MS = 60_000, 1_700_000_040_000
STEPS_BEFORE = 100
MISSING = 0.05


class Counting:
    """An outlet that counts rows, as fast as a broker takes them or slower."""

    def __init__(self, delay_s: float, *, exactly_once: bool) -> None:
        self.rows = 0
        self.exactly_once = exactly_once
        self._delay_s = delay_s

    async def begin(self, first_offset: int | None, seeks: int) -> tuple[int, int]:
        """See Outlet."""
        return first_offset or 0, seeks

    def continue_at(self, offset: int, seeks: int) -> int:
        """See Outlet."""
        return seeks

    async def publish(self, outputs: Sequence[Output], commit: Commit | None) -> None:
        """Count the rows of the outputs."""
        await asyncio.sleep(self._delay_s)
        self.rows += sum(message.rows for output in outputs for message in output.messages)

    async def close(self) -> None:
        """See Outlet."""


class NoRebuild:
    """A rebuilder of windows that were empty."""

    async def rebuild(
        self,
        topic: str,
        partition: int,
        next_offset: int,
        apply: Callable[[Sequence[InputRecord]], Awaitable[None]],
        recall: Callable[[Commit], None],
    ) -> None:
        """Read nothing."""


def catalogue(sensors: int) -> Catalogue:
    """Groups of some sensors by a pattern, steps of a minute."""
    model = {"name": "m", "sensors": [{"id": f"s{number}"} for number in range(sensors)], "step_s": STEP_MS / 1000}
    return parse_catalogue({"models": [model], "groups": [{"model": "m", "pattern": "*"}]}, source="benchmark")


def record(offset: int, step: int, groups: int, sensors: int) -> LoadRecord:
    """One step of all groups, of which some readings are missing."""
    rng = np.random.default_rng(step)
    ts_ms = START_MS + step * STEP_MS
    columns = {"group": [f"group-{number}" for number in range(groups)], "ts": np.full(groups, ts_ms)}
    for sensor in range(sensors):
        values = rng.normal(size=groups)
        values[rng.random(groups) < MISSING] = np.nan
        columns[f"s{sensor}"] = pa.array(values, from_pandas=True)
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return LoadRecord(sink.getvalue().to_pybytes(), offset, ts_ms, headers=(("content-type", ARROW_CONTENT_TYPE),))


def peak_mb() -> float:
    """Highest resident memory of the process since the last `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    """Reset the peak."""
    Path("/proc/self/clear_refs").write_text("5")


async def longest_stall(stalls_s: list[float]) -> None:
    """Record the CPU time of each round of the event loop, which excludes other processes."""
    while True:
        before_s = time.process_time()
        await asyncio.sleep(0)
        stalls_s.append(time.process_time() - before_s)


class Timed(Pipeline):
    """A pipeline that notes the CPU time of every slice that it applies."""

    longest_s = applied_s = 0.0

    def slices(self, windows: PartitionWindows, records: Sequence[InputRecord], *, now_ms: int) -> Iterator[Applied]:
        """See Pipeline."""
        slices = super().slices(windows, records, now_ms=now_ms)
        while True:
            start_s = time.thread_time()
            applied = next(slices, None)
            slice_s = time.thread_time() - start_s
            self.longest_s = max(self.longest_s, slice_s)
            self.applied_s += slice_s
            if applied is None:
                return
            yield applied


async def run(groups: int, sensors: int, silent: int, delay_s: float, *, exactly_once: bool) -> dict[str, float]:
    """Fill the windows, stop sending, and resume."""
    pipeline = Timed(catalogue(sensors), {}, Ladder([Interpolation()]))
    outlet, ledger = Counting(delay_s, exactly_once=exactly_once), OffsetLedger()
    done = asyncio.Event()
    worker = PartitionWorker(
        "in", 0, pipeline, outlet, NoRebuild(), batches_in_flight=4, now_ms=lambda: START_MS + 200 * STEP_MS
    )
    for number in range(STEPS_BEFORE + 1):
        done.clear()
        last = number == STEPS_BEFORE
        step = number + silent if last else number
        sent = record(number, step, 1 if last else groups, sensors)
        if last:
            gc.collect()
            forget_peak()
            rest_mb, rows_before, stalls_s = peak_mb(), outlet.rows, list[float]()
            pipeline.longest_s = pipeline.applied_s = 0.0
            watch = asyncio.create_task(longest_stall(stalls_s))
            start_s = time.perf_counter()
        await worker.submit(Batch([sent], ledger.deliver(number, number + 1), done=done.set))
        await done.wait()
    watch.cancel()
    await worker.stop()
    return {
        "groups": groups,
        "rows": outlet.rows - rows_before,
        "seconds": round(time.perf_counter() - start_s, 2),
        "rest_mb": round(rest_mb),
        "above_rest_mb": round(peak_mb() - rest_mb),
        "applied_ms": round(pipeline.applied_s * 1000),
        "longest_apply_ms": round(pipeline.longest_s * 1000),
        "longest_stall_ms": round(max(stalls_s) * 1000),
    }


def main() -> None:
    """Print one run as a line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=4000)
    parser.add_argument("--sensors", type=int, default=7)
    parser.add_argument("--silent", type=int, default=60, help="steps of a minute")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds that the broker takes for each output")
    parser.add_argument("--delivery", choices=["exactly_once", "at_least_once"], default="exactly_once")
    given = parser.parse_args()
    exactly_once = given.delivery == "exactly_once"
    found = asyncio.run(run(given.groups, given.sensors, given.silent, given.delay, exactly_once=exactly_once))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
