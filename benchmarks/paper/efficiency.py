"""Parameters, FLOPs, memory and time of a training iteration, as in the paper's efficiency table: D = 64, batch 16.

FLOPs are those of one forward pass, two for each multiply-add, counted by torch.utils.flop_counter with dropout
on. Memory is the peak of all tensors alive in one training iteration, Adam's states included: torch's own tracker on
a CPU, the allocator's peak on a GPU. Time is the median of some iterations, with one thread on a CPU; the processor
time beside it shows how much of it was waiting on a busy machine.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.paper import lines, published
from benchmarks.paper.cells import PaperCell
from benchmarks.paper.datasets import DATASETS
from benchmarks.paper.lines import Line
from benchmarks.paper.tables import grid
from training.fit import hidden_loss
from training.network import GLAIM, build_network, count_parameters
from training.runtime import machine

FILE = "efficiency.jsonl"
IDENTITY = ("dataset", "d_model", "batch", "device")
MEASURED = ("ETTh1", "Weather")
WIDTH, BATCH, RATE = 64, 16, 0.3
MIB = 2**20


def measure(dataset: str, *, width: int = WIDTH, batch: int = BATCH, device: str = "cpu", iterations: int = 7) -> Line:
    """Measure one row of the efficiency table; of the data only its number of sensors is needed.

    Args:
        dataset: The data set's name.
        width: The hidden dimension.
        batch: Windows in an iteration.
        device: As torch names it.
        iterations: Timed iterations, after two untimed ones.
    """
    torch.manual_seed(0)
    sensors = DATASETS[dataset].sensors
    sizes = dataclasses.replace(PaperCell(dataset, "random", RATE, d_model=width).sizes, num_variables=sensors)
    model = build_network(sizes).to(device).train()
    truth = torch.randn(batch, sensors, sizes.window, device=device)
    observed = torch.rand(truth.shape, device=device) >= RATE
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def iteration() -> None:
        loss = hidden_loss(model(truth, observed), truth, ~observed)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    with FlopCounterMode(display=False) as counter:
        model(truth, observed)
    iteration()
    memory = _peak(iteration, model, optimiser, device)
    wall, processor = [], []
    for number in range(iterations + 1):
        began, spent = time.perf_counter(), time.process_time()
        iteration()
        if device != "cpu":
            torch.cuda.synchronize()
        if number:
            wall.append(time.perf_counter() - began)
            processor.append(time.process_time() - spent)
    printed = (
        published.figures()["efficiency"].get(dataset, {}).get(published.OURS, {})
        if (width, batch) == (WIDTH, BATCH)
        else {}
    )
    return {
        "dataset": dataset,
        "sensors": sensors,
        "d_model": width,
        "batch": batch,
        "device": device,
        "parameters": count_parameters(model),
        "gflops": counter.get_total_flops() / 1e9,
        "memory_mib": memory / MIB,
        "ms_per_iteration": 1000 * statistics.median(wall),
        "processor_ms_per_iteration": 1000 * statistics.median(processor),
        **{f"paper_{name}": printed.get(name) for name in ("parameters_m", "gflops", "memory_mib", "ms_per_iteration")},
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": "python -m benchmarks.paper --tables efficiency",
    }


def _peak(iteration: Callable[[], None], model: GLAIM, optimiser: torch.optim.Optimizer, device: str) -> float:
    """Return the peak of the bytes of all tensors in an iteration."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        iteration()
        return float(torch.cuda.max_memory_allocated())
    from torch.distributed._tools.mem_tracker import MemTracker  # two seconds, which only this measurement needs

    tracker = MemTracker()
    tracker.track_external(model, optimiser)
    with tracker:
        iteration()
    peak = tracker.get_tracker_snapshot("peak")
    return float(sum(sizes["Total"] for sizes in peak.values()))


def section(results: Path) -> str:
    """Return the table: our measurements, the paper's GLAIM and its lightest and heaviest baselines."""
    found = {(line["dataset"], line["device"]): line for line in lines.read(results / FILE)}
    if not found:
        return ""
    rows = []
    for (dataset, device), line in found.items():
        printed = published.figures()["efficiency"].get(dataset, {})
        for model in (published.OURS, "ImputeFormer", "SAITS"):
            figure = printed.get(model)
            if figure:
                names = ("parameters_m", "gflops", "memory_mib", "ms_per_iteration")
                rows.append([dataset, f"paper, {model}", *(f"{figure[name]:g}" for name in names), "", "RTX 4090"])
        sizes = [f"{line['parameters'] / 1e6:.3f}", f"{line['gflops']:.3f}", f"{line['memory_mib']:.1f}"]
        times = [f"{line['ms_per_iteration']:.0f}", f"{line['processor_ms_per_iteration']:.0f}"]
        rows.append([dataset, f"ours, {device}", *sizes, *times, f"{line['machine']}, {line['date']}"])
    header = ["data set", "whose", "parameters, M", "GFLOPs", "memory, MiB", "ms/iteration", "processor ms", "where"]
    note = (
        f"D = {WIDTH}, batches of {BATCH}; FLOPs of a forward pass, memory and time of a training iteration, on a CPU\n"
        "with one thread. The parameters are the paper's to the digit. Our FLOPs are fewer because products are\n"
        "folded where they can be (`training/network/model.py` names each), and because attention over a dozen\n"
        "sensors is written without matrix products, which alone the counter sees (1 % at 7 sensors, 2.5 % at\n"
        "21). Memory on a CPU is that of the tensors alone.\n"
    )
    return f"{grid(header, rows)}\n{note}"
