"""`glaim-stream size`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shape(StrEnum):
    """How readings are put into messages."""

    SINGLE = "single"
    BATCH = "batch"
    ARROW = "arrow"


def size(
    groups: Annotated[int, typer.Option(min=1, help="Groups, such as pumps or stations.")],
    sensors: Annotated[int, typer.Option(min=1, help="Sensors of a group.")],
    step: Annotated[float, typer.Option(min=0.001, help="Length of a step, seconds.")],
    missing: Annotated[float, typer.Option(min=0, max=1, help="Share of the readings that do not arrive.")] = 0.05,
    shape: Annotated[
        Shape,
        typer.Option("--format", help="What a message holds: one reading, fifty of a gateway, or a thousand in Arrow."),
    ] = Shape.SINGLE,
    lateness: Annotated[float, typer.Option(min=0, help="Allowed lateness, seconds.")] = 0,
    growth: Annotated[int, typer.Option(min=1, help="Provide partitions for this many times today's workers.")] = 4,
    rebuild_within: Annotated[
        float, typer.Option(min=1, help="Seconds in which a worker must have read its windows again.")
    ] = 120,
    outage_hours: Annotated[
        float, typer.Option(min=0, help="Hours that workers may be away before input is lost.")
    ] = 24,
    replication: Annotated[int, typer.Option(min=1, help="Number of replicas of the topics.")] = 3,
    windows_a_gpu: Annotated[
        float | None, typer.Option(min=1, help="Windows per second of one GPU, by `python -m benchmarks.serving`.")
    ] = None,
    closed_form: Annotated[
        bool, typer.Option("--closed-form", help="The closed form fills alone, in the workers: no Triton, no GPU.")
    ] = False,
) -> None:
    """Compute how large an installation has to be, from measured rates (docs/operations.md)."""
    from rich.table import Table

    from glaim_stream.commands.console import result_console
    from glaim_stream.operate.check import Load
    from glaim_stream.operate.check import size as sized

    load = Load(
        groups=groups,
        sensors=sensors,
        step_s=step,
        missing=missing,
        shape=shape.value,
        lateness_s=lateness,
        growth=growth,
        rebuild_s=rebuild_within,
        outage_h=outage_hours,
        replication=replication,
        windows_a_gpu_s=windows_a_gpu,
        network=not closed_form,
    )
    need = sized(load)
    table = Table("", "need", box=None, pad_edge=False)
    for name, value in (
        ("readings/s", f"{need.readings_s:,.0f}"),
        ("rows/s", f"{need.rows_s:,.0f}"),
        ("windows/s of the model", f"{need.windows_s:,.0f}"),
        ("worker cores at work", f"{need.cores:.2f}"),
        ("CPU request of a worker", f"{need.worker_cores:.1f}"),
        ("workers (worker.replicas)", f"{need.workers:,}"),
        ("partitions (kafka.partitions)", f"{need.partitions:,}"),
        ("memory of a worker", f"{need.worker_bytes / 1e6:,.0f} MB"),
        ("with every limit reached", f"{need.peak_bytes / 1e6:,.0f} MB"),
        ("groups of a partition at most", f"{need.partition_groups:,}"),
        ("rebuild after a restart", f"{need.rebuild_s:,.1f} s"),
        ("GPUs (triton.replicas)", "measure first" if need.gpus is None else f"{need.gpus:,}"),
        ("retention of the input", f"{need.retention_h:,.1f} h"),
        ("input on the brokers' disks", f"{need.input_bytes / 1e9:,.1f} GB"),
        ("into the workers", f"{need.in_bytes_s / 1e6:,.2f} MB/s"),
        ("out of the workers", f"{need.out_bytes_s / 1e6:,.2f} MB/s"),
        ("to Triton and back", f"{need.triton_bytes_s / 1e6:,.2f} MB/s"),
    ):
        table.add_row(name, value)
    result_console().print(table)
