"""The shared environment of a benchmark's runs: a broker, the cores, and the durations."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.engines import Job
from benchmarks.load import TopicLoad
from benchmarks.topics import FilledTopic, fill_topic
from deploy.kafka import kafka_from_environment

Result = dict[str, float | str | list[dict[str, object]] | None]  # the columns of a line of results


@dataclass(frozen=True)
class BenchPlan:
    """The duration and number of the runs."""

    seconds: float
    warm_up_s: float
    rounds: int
    latency_s: float
    latency_rounds: int
    whole: bool
    every_core: bool = False  # of the whole: Triton and a single worker have both cores, as two workers do


@dataclass(frozen=True)
class Bench:
    """The environment of the runs."""

    servers: str
    directory: Path
    broker_core: set[int] | None
    engine_core: set[int] | None
    name: str
    console: Console

    @property
    def every_core(self) -> set[int] | None:
        """The cores of broker and engine."""
        return self.broker_core | self.engine_core if self.broker_core and self.engine_core else None

    @contextmanager
    def on_engine_core(self) -> Iterator[None]:
        """Run the block on the engine's core, which is idle between runs."""
        with self.on(self.engine_core):
            yield

    @contextmanager
    def on(self, cores: set[int] | None) -> Iterator[None]:
        """Run the block, and what it starts, on these cores."""
        self._move(cores)
        try:
            yield
        finally:
            self._move(self.broker_core)

    def fill(self, load: TopicLoad, name: str = "") -> tuple[str, FilledTopic]:
        """Create a topic with the load, named by it or by `name`."""
        topic = f"{self.name}-{name or f'{load.model}-{load.shape}'}"
        with self.on_engine_core():
            filled = fill_topic(self.servers, topic, load)
        size = filled.size_bytes / filled.readings
        self.console.print(f"{load.shape}: {filled.readings:,} readings of {size:.0f} bytes")
        return topic, filled

    def job(self, load: TopicLoad, filled: FilledTopic | None, topic: str, run_name: str) -> Job:
        """The job of one run of one engine."""
        name = f"{self.name}-{run_name}"
        return Job(self.servers, topic, name, name, load, filled.through if filled else (), self.directory)

    @staticmethod
    def _move(cores: set[int] | None) -> None:
        if cores:
            os.sched_setaffinity(0, cores)


@contextmanager
def prepared(console: Console) -> Iterator[Bench]:
    """Run a broker on one core and leave another one free."""
    cores = sorted(os.sched_getaffinity(0))
    broker_core, engine_core = ({cores[0]}, {cores[1]}) if len(cores) > 1 else (None, None)
    if engine_core is None:
        console.print("only one core: the broker shares it with the engine, so all rates are too low")
    elif "GLAIM_KAFKA" in os.environ:
        console.print(f"engine on core {cores[1]}; the broker of GLAIM_KAFKA is not pinned")
    else:
        console.print(f"broker on core {cores[0]}, engine on core {cores[1]}")
    if broker_core:
        os.sched_setaffinity(0, broker_core)  # inherited by the broker, which starts below
    try:
        with kafka_from_environment() as kafka, tempfile.TemporaryDirectory(prefix="glaim-bench-") as directory:
            name = f"bench-{uuid.uuid4().hex[:8]}"
            yield Bench(kafka.bootstrap_servers, Path(directory), broker_core, engine_core, name, console)
    finally:
        os.sched_setaffinity(0, cores)
