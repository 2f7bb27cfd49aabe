"""What is measured: one module an engine, each with an `Engine` of this shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.load import Load


@dataclass(frozen=True)
class Job:
    """Where one run of one engine reads and writes."""

    servers: str
    input_topic: str
    output_topic: str
    consumer_group: str
    load: Load
    through: Sequence[Sequence[int]]  # by input partition and offset: readings up to and with that record
    directory: Path  # for files of the run


class Engine(Protocol):
    """A stream processor that is started as a process of its own."""

    name: str  # the prefix of its columns in the results

    @property
    def missing(self) -> str | None:
        """What has to be installed before it can run; None when nothing."""
        ...

    def command(self, job: Job) -> list[str]:
        """The process to start."""
        ...

    def environment(self, job: Job) -> Mapping[str, str]:
        """Environment variables over the inherited ones."""
        ...

    def readings_after(self, job: Job, outputs: Sequence[Any]) -> list[int]:
        """Readings consumed once each output message was out; outputs are in order of arrival at the broker."""
        ...


def counted(outputs: Sequence[Any]) -> list[int]:
    """`readings_after` of an engine whose every message says in a header how many readings it holds."""
    counts: list[int] = np.cumsum([int(dict(output.headers)["readings"]) for output in outputs]).tolist()
    return counts


def job_environment(job: Job) -> dict[str, str]:
    """The job as the programs of the plain engines read it."""
    return {
        "BENCH_KAFKA": job.servers,
        "BENCH_INPUT": job.input_topic,
        "BENCH_OUTPUT": job.output_topic,
        "BENCH_GROUP": job.consumer_group,
        "BENCH_STEP_MS": str(job.load.step_ms),
        "BENCH_PARTITIONS": str(job.load.partitions),
        "BENCH_DIRECTORY": str(job.directory),
    }
