"""The engines that are modules of this package, each started in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from benchmarks.engines import EngineOutput, Job, counted, job_environment, named_step

# An interpreter with the extra `benchmarks`, for engines whose libraries the product does not need.
PEER_PYTHON = os.environ.get("GLAIM_BENCH_PYTHON", sys.executable)


class Program:
    """An `Engine` that runs a module of this package.

    Args:
        name: Prefix of its columns in the results.
        module: Module in `benchmarks.engines`.
        python: The interpreter.
        library: A library that may be absent from that interpreter, or None.
    """

    def __init__(self, name: str, module: str, *, python: str = sys.executable, library: str | None = None) -> None:
        self.name = name
        self._module = module
        self._python = python
        self._library = library

    @cached_property
    def missing(self) -> str | None:
        """See Engine."""
        if self._library is None:
            return None
        found = subprocess.run([self._python, "-c", f"import {self._library}"], capture_output=True, check=False)
        return None if found.returncode == 0 else f"{self._library}: install the extra `benchmarks`, see README.md"

    def command(self, job: Job) -> list[str]:
        """See Engine."""
        return [self._python, "-m", f"benchmarks.engines.{self._module}"]

    def environment(self, job: Job) -> Mapping[str, str]:
        """See Engine."""
        return job_environment(job)

    def readings_after(self, job: Job, outputs: Sequence[EngineOutput]) -> list[int]:
        """See Engine."""
        return counted(outputs)

    def closed_in(self, job: Job, output: EngineOutput) -> Iterable[tuple[int, int]]:
        """See Engine."""
        return named_step(job, output)


AIOKAFKA = Program("aiokafka", "bare_aiokafka")
FAUST = Program("faust", "plain_faust")
QUIX = Program("quix", "quix_app", python=PEER_PYTHON, library="quixstreams")
BYTEWAX = Program("bytewax", "bytewax_flow", python=PEER_PYTHON, library="bytewax")
