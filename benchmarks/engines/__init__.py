"""What is measured: one module an engine, each with an `Engine` of this shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.load import Load


@dataclass(frozen=True)
class Job:
    """Where one run of one engine reads and writes."""

    servers: str
    input_topic: str
    output_topic: str
    consumer_group: str
    load: Load
    directory: Path  # for files of the run


class Engine(Protocol):
    """A stream processor that is started as a process of its own."""

    name: str

    def command(self, job: Job) -> list[str]:
        """The process to start."""
        ...

    def environment(self, job: Job) -> Mapping[str, str]:
        """Environment variables over the inherited ones."""
        ...

    def readings_after(self, outputs: Sequence[Any]) -> list[int]:
        """Readings consumed once each output message was out; outputs are in order of arrival at the broker."""
        ...
