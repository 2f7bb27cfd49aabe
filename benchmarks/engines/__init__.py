"""The stream processors that are compared, and the protocol that they share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.load import TopicLoad


@dataclass(frozen=True)
class Job:
    """The input and output of one run of one engine."""

    servers: str
    input_topic: str
    output_topic: str
    consumer_group: str
    load: TopicLoad
    through: Sequence[Sequence[int]]  # by input partition and offset: readings up to and including that record
    directory: Path  # for files of the run


class EngineOutput(Protocol):
    """A message read back from the output topic."""

    partition: int
    offset: int
    timestamp: int  # the broker's time in milliseconds
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]]


class Engine(Protocol):
    """A stream processor that runs in its own process."""

    name: str  # the prefix of its columns in the results

    @property
    def missing(self) -> str | None:
        """The missing requirement as a message, or None if the engine can run."""
        ...

    def command(self, job: Job) -> list[str]:
        """The command that starts it."""
        ...

    def environment(self, job: Job) -> Mapping[str, str]:
        """Environment variables to add to the inherited ones."""
        ...

    def readings_after(self, job: Job, outputs: Sequence[EngineOutput]) -> list[int]:
        """Number of readings consumed up to each output message; outputs are in order of arrival at the broker."""
        ...

    def closed_in(self, job: Job, output: EngineOutput) -> Iterable[tuple[int, int]]:
        """The steps that an output message shows as closed: input partition, and start of the step in epoch ms."""
        ...


def counted(outputs: Sequence[EngineOutput]) -> list[int]:
    """`readings_after` of an engine that writes the number of readings into a header of each message."""
    counts: list[int] = np.cumsum([int(dict(output.headers)["readings"]) for output in outputs]).tolist()
    return counts


def named_step(job: Job, output: EngineOutput) -> list[tuple[int, int]]:
    """`closed_in` of an engine that writes one message for each step and group, or partition, as JSON with `ts`."""
    partition = job.load.partition_of(output.key.decode()) if output.key else output.partition
    return [(partition, json.loads(output.value)["ts"])]


def job_environment(job: Job) -> dict[str, str]:
    """The job as environment variables for the programs of this package."""
    return {
        "BENCH_KAFKA": job.servers,
        "BENCH_INPUT": job.input_topic,
        "BENCH_OUTPUT": job.output_topic,
        "BENCH_GROUP": job.consumer_group,
        "BENCH_STEP_MS": str(job.load.step_ms),
        "BENCH_PARTITIONS": str(job.load.partitions),
        "BENCH_DIRECTORY": str(job.directory),
    }
