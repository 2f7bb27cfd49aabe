"""`glaim-stream worker`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from glaim_stream.commands.flags import expand_flags
from glaim_stream.commands.options import StreamFlags, Text
from glaim_stream.core.choices import LogLevel


@expand_flags
def worker(
    *,
    stream: StreamFlags,
    instance_id: Text = None,
    metrics_port: Annotated[int | None, typer.Option()] = None,
    log_level: Annotated[LogLevel | None, typer.Option()] = None,
) -> None:
    """Fill the holes of the input topic, live, until SIGTERM or Ctrl-C.

    Every other setting is an environment variable: `glaim-stream settings` and docs/settings.md list all of them with
    their values, defaults and units, and what gets worse in each direction.
    """
    # OpenBLAS reads it as numpy is imported. The closed form's matrices are small: two threads take twice the processor
    # time, which Triton and the event loop need, for the same wall time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from glaim_stream.worker import run_worker

    run_worker(stream.settings(instance_id=instance_id, metrics_port=metrics_port, log_level=log_level))
