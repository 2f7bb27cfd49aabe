"""The same job in idiomatic Faust: `stream.take`, JSON by Faust's codec, numpy ring windows, Arrow out by the batch.

It keeps the windows and writes what it read; it closes no steps, imputes nothing and has neither dead letters nor a
rebuild. So it does less than the worker that it is compared with, never more.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import faust
import numpy as np
import pyarrow as pa

from benchmarks.engines import Job, counted, job_environment

BATCH = 500
WITHIN_S = 0.1
WINDOW = 96


class PlainFaust:
    """The app below, as a process."""

    name = "faust"
    missing = None

    def command(self, job: Job) -> list[str]:
        """See Engine."""
        return [sys.executable, "-m", "benchmarks.engines.plain_faust"]

    def environment(self, job: Job) -> Mapping[str, str]:
        """See Engine."""
        return job_environment(job)

    def readings_after(self, job: Job, outputs: Sequence[Any]) -> list[int]:
        """See Engine."""
        return counted(outputs)


def create_app(environment: Mapping[str, str]) -> faust.App:
    """The app, tuned as far as settings go: linger, commit interval, a quiet log."""
    step_ms = int(environment["BENCH_STEP_MS"])
    app = faust.App(
        environment["BENCH_GROUP"],
        broker=f"kafka://{environment['BENCH_KAFKA']}",
        broker_commit_interval=0.5,
        consumer_auto_offset_reset="earliest",
        producer_linger=0.02,
        store="memory://",
        topic_disable_leader=True,
        web_enabled=False,
    )
    source = app.topic(environment["BENCH_INPUT"], value_serializer="json")
    sink = app.topic(environment["BENCH_OUTPUT"], value_serializer="raw")
    windows: dict[str, np.ndarray] = {}
    rows: dict[str, int] = {}

    @app.agent(source)  # type: ignore[untyped-decorator]
    async def collect(stream: Any) -> None:
        async for batch in stream.take(BATCH, within=WITHIN_S):
            for reading in batch:
                window = windows.get(reading["group"])
                if window is None:
                    window = windows[reading["group"]] = np.full((64, WINDOW), np.nan, np.float32)
                row = rows.setdefault(reading["sensor"], len(rows))
                window[row, reading["ts"] // step_ms % WINDOW] = reading["value"]
            await sink.send(value=arrow(batch), headers={"readings": str(len(batch)).encode()})

    @app.task  # type: ignore[untyped-decorator]
    async def quiet() -> None:
        logging.getLogger().setLevel(logging.WARNING)  # Faust leaves the root logger at DEBUG, which costs 14 %

    return app


def arrow(batch: Sequence[Mapping[str, Any]]) -> bytes:
    """One IPC stream of the readings."""
    record_batch = pa.record_batch(
        {
            "group": pa.array([reading["group"] for reading in batch]).dictionary_encode(),
            "sensor": pa.array([reading["sensor"] for reading in batch]).dictionary_encode(),
            "ts": pa.array([reading["ts"] for reading in batch], pa.timestamp("ms", "UTC")),
            "value": pa.array([reading["value"] for reading in batch], pa.float32()),
        }
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, record_batch.schema, options=options) as writer:
        writer.write_batch(record_batch)
    return bytes(sink.getvalue().to_pybytes())


if __name__ == "__main__":
    faust.Worker(create_app(os.environ), loglevel="WARNING", quiet=True).execute_from_commandline()
