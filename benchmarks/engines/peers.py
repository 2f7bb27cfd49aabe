"""Engines that the product does not know: they run in an interpreter that has the extra `benchmarks`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from benchmarks.engines import Job, counted, job_environment

PYTHON = os.environ.get("GLAIM_BENCH_PYTHON", sys.executable)


class Peer:
    """A program of this package that needs a library which may be absent."""

    def __init__(self, name: str, library: str, program: str) -> None:
        self.name = name
        self._library = library
        self._program = program

    @cached_property
    def missing(self) -> str | None:
        """See Engine."""
        found = subprocess.run([PYTHON, "-c", f"import {self._library}"], capture_output=True, check=False)
        return None if found.returncode == 0 else f"{self._library}: install the extra `benchmarks`, see README.md"

    def command(self, job: Job) -> list[str]:
        """See Engine."""
        return [PYTHON, "-m", f"benchmarks.engines.{self._program}"]

    def environment(self, job: Job) -> Mapping[str, str]:
        """See Engine."""
        return job_environment(job)

    def readings_after(self, job: Job, outputs: Sequence[Any]) -> list[int]:
        """See Engine."""
        return counted(outputs)


QUIX = Peer("quix", "quixstreams", "quix_app")
BYTEWAX = Peer("bytewax", "bytewax", "bytewax_flow")
