"""The size of an installation: the arithmetic of docs/operations.md, from measured numbers.

Rates are those of one core of an AMD EPYC (2026-11-21, benchmarks/results); another machine has others, and the page
describes how to measure them. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from glaim_stream.core.budget import BATCHES_IN_FLIGHT, DEFAULT
from glaim_stream.windows import FEWEST_WINDOWS, MOST_COPIES, MOST_WINDOWS, history_steps

Shape = Literal["single", "batch", "arrow"]

# benchmarks/results/stream.jsonl, `python -m benchmarks.stream --rounds 2 --seconds 6`; memory: `benchmarks.state`
READINGS_A_CORE_S: dict[Shape, int] = {"single": 265_220, "batch": 517_805, "arrow": 614_761}
WINDOW_BYTES_PER_SENSOR = 18.01e6 / 11_000
# benchmarks/results/wire.jsonl, `python -m benchmarks.wire`: key and value, without Kafka's own 20 bytes or so
BYTES_A_READING: dict[Shape, float] = {"single": 98.9, "batch": 64.9, "arrow": 45.6}
BYTES_A_ROW = ((8.0, 456.3), (81.0, 57.2), (810.3, 10.3), (8094.0, 5.6))  # rows of a message -> bytes of each
# The worker's own CPU time for one more window (benchmarks/README.md, Earlier measurements)
WINDOW_CORE_S = (0.59 - 0.39) / 3547
# whole_closed_form_per_cpu_s of benchmarks/results/stream.jsonl, with messages and probes (Intel Xeon, 2026-11-26)
CLOSED_FORM_READINGS_A_CORE_S = 48_082
# docs/faults.md: a running worker, without its windows
WORKER_BASE_BYTES = 316e6
WORKER_MOST_BYTES = 0.75 * 2**31  # three quarters of the chart's limit of 2 GiB

WINDOW_CELL_BYTES = 9  # a value of 64 bits and whether it was observed
ROW_BYTES = 64  # bytes of a row in the columns of a closed step
SLICE_COPIES = 2  # the windows of a slice, and the imputer's stack of them
DECODED_READING_BYTES = 400  # upper bound while a batch is decoded and put into windows
WAITING_SLICES = 3  # slices beside BATCHES_IN_FLIGHT: one is made, one handed over, one published

LEAST_REQUEST_CORES = 0.1  # an idle worker's polls, pages and health checks

WINDOW, REVISE_AFTER = 96, 8  # steps, the catalogue's defaults
EMITTED = REVISE_AFTER + 1  # newest steps that a model fills
HISTORY = history_steps(WINDOW, scored=True)


@dataclass(frozen=True)
class Load:
    """The load of an installation.

    missing: share of the readings that do not arrive, independently of each other: 0.05 is one in twenty. Silence in
        one piece needs fewer windows than the same share scattered.
    growth: partitions suffice for this many times today's workers; partitions cannot be added later without moving
        groups between them.
    rebuild_s: longest time for which a starting worker may read the topic again before it continues, seconds.
    outage_h: longest absence of workers or Triton before input is lost, hours.
    windows_a_gpu_s: windows per second of one GPU, by `python -m benchmarks.serving`; None without a measurement.
    network: False where the closed form fills alone, in the workers.
    """

    groups: int
    sensors: int
    step_s: float
    missing: float = 0.05
    shape: Shape = "single"
    lateness_s: float = 0.0
    growth: int = 4
    rebuild_s: float = 120.0
    outage_h: float = 24.0
    replication: int = 3
    windows_a_gpu_s: float | None = None
    network: bool = True


@dataclass(frozen=True)
class Sizing:
    """The resources for a load; rates are per second."""

    readings_s: float
    rows_s: float
    windows_s: float
    cores: float
    worker_cores: float  # the request of one worker: twice its share of the work while another one is away
    workers: int
    partitions: int
    worker_bytes: float
    peak_bytes: float
    partition_groups: int
    rebuild_s: float
    gpus: int | None  # None: not measured
    retention_h: float
    input_bytes: float
    in_bytes_s: float
    out_bytes_s: float
    triton_bytes_s: float


def size(load: Load) -> Sizing:
    """Size an installation, in the order of docs/operations.md."""
    cells_s = load.groups * load.sensors / load.step_s
    readings_s = cells_s * (1 - load.missing)
    # A hole has a first estimate and a final one; every other cell has one row.
    rows_s = cells_s + cells_s * load.missing
    # All holes of a group's step share a window, which is imputed twice.
    group_steps_s = load.groups / load.step_s
    hole_windows_s = 2 * group_steps_s * (1 - (1 - load.missing) ** load.sensors)

    # A worker that starts reads the windows again, and before them the steps whose errors the blend remembers. It
    # publishes nothing meanwhile, so it is faster than this (1,000 groups of `step` records: 0.73 s per window).
    sensors = load.groups * load.sensors
    rebuild_all_s = sensors * (1 - load.missing) * HISTORY / READINGS_A_CORE_S[load.shape]
    read_cores = readings_s / READINGS_A_CORE_S[load.shape]
    if not load.network:
        hole_windows_s, read_cores = 0.0, max(read_cores, readings_s / CLOSED_FORM_READINGS_A_CORE_S)
    workers = max(
        2,
        # Half a core each: the backlog of an outage is worked off in the time that the outage took.
        math.ceil(2 * (read_cores + hole_windows_s * WINDOW_CORE_S)),
        # One may be away, and the others then hold its groups.
        1 + math.ceil(sensors * WINDOW_BYTES_PER_SENSOR / (WORKER_MOST_BYTES - WORKER_BASE_BYTES)),
        1 + math.ceil(rebuild_all_s / load.rebuild_s),
    )
    partitions = workers * load.growth
    # A partition's probe windows are a share of its groups, 4 to 32, and as many copies of recent holes, 8 at most.
    probes = min(MOST_WINDOWS, max(FEWEST_WINDOWS, 0.05 * load.groups / partitions))
    probes += min(MOST_COPIES, probes)
    windows_s = hole_windows_s + probes * partitions / load.step_s if load.network else 0.0
    cores = read_cores + windows_s * WINDOW_CORE_S
    if load.windows_a_gpu_s is None:
        gpus = None if load.network else 0
    else:
        gpus = max(2, math.ceil(2 * windows_s / load.windows_a_gpu_s)) if load.network else 0

    retention_h = (HISTORY * load.step_s + load.lateness_s) / 3600 + load.outage_h
    in_bytes_s = readings_s * BYTES_A_READING[load.shape]
    rows_a_message = sensors / partitions
    groups_a_partition = math.ceil(load.groups / partitions)
    worker_bytes = WORKER_BASE_BYTES + sensors / (workers - 1) * WINDOW_BYTES_PER_SENSOR
    return Sizing(
        readings_s=readings_s,
        rows_s=rows_s,
        windows_s=windows_s,
        cores=cores,
        worker_cores=max(LEAST_REQUEST_CORES, math.ceil(20 * cores / (workers - 1)) / 10),
        workers=workers,
        partitions=partitions,
        worker_bytes=worker_bytes,
        peak_bytes=worker_bytes + _burst_bytes(load, groups_a_partition, math.ceil(partitions / (workers - 1))),
        partition_groups=max(DEFAULT.groups, 2 * groups_a_partition),
        rebuild_s=rebuild_all_s / (workers - 1),
        gpus=gpus,
        retention_h=retention_h,
        input_bytes=in_bytes_s * retention_h * 3600 * load.replication,
        in_bytes_s=in_bytes_s,
        out_bytes_s=rows_s * bytes_a_row(rows_a_message),
        # values float32 and observed bool of a window in, float32 of the emitted steps out
        triton_bytes_s=windows_s * load.sensors * (WINDOW * 5 + EMITTED * 4),
    )


def _burst_bytes(load: Load, groups: int, partitions: int) -> float:
    """Memory that the default limits allow beside the windows, for decoding and for slices that wait.

    Args:
        load: load of the installation.
        groups: number of groups of a partition.
        partitions: number of partitions of a worker; after a silence all may close a window of steps at once.
    """
    decoding = DEFAULT.batch_bytes + DEFAULT.batch_readings * DECODED_READING_BYTES
    step = groups * load.sensors * (WINDOW * WINDOW_CELL_BYTES + ROW_BYTES)
    waiting = min((BATCHES_IN_FLIGHT + WAITING_SLICES) * max(DEFAULT.slice_bytes, step), WINDOW * step)
    return decoding + SLICE_COPIES * partitions * waiting


def bytes_a_row(rows_a_message: float) -> float:
    """Bytes of an output row by the rows of its message; linear between the logarithms of the measured values."""
    rows = [math.log(point[0]) for point in BYTES_A_ROW]
    sizes = [math.log(point[1]) for point in BYTES_A_ROW]
    at = min(max(math.log(max(rows_a_message, 1)), rows[0]), rows[-1])
    right = next(number for number in range(1, len(rows)) if at <= rows[number])
    share = (at - rows[right - 1]) / (rows[right] - rows[right - 1])
    return math.exp(sizes[right - 1] + share * (sizes[right] - sizes[right - 1]))
