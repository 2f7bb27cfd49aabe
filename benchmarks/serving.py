"""The number of windows per second that a Triton imputes, from which the number of GPUs follows.

    python -m benchmarks.serving                                    the local Triton, on the CPU
    python -m benchmarks.serving --triton triton:8001 --model mine  any other Triton, with the worker's client
    python -m benchmarks.serving --history 16                       groups that began to send 16 steps ago
    python -m benchmarks.serving --sheet                            every batch by calls in flight, then the module

The windows contain noise around each sensor's mean, with 5 % missing. Their values do not affect the time; how many are
missing does, where the network contains a closed form. Each batch size runs with as many calls in flight as the worker
uses (`triton.client.batch` and `.inFlight` in the chart).

The sheet shows a card, or a CPU, within some minutes: batches of 1 to 1,024 with 1 to 16 calls in flight through
Triton, and the same module alone in this process (on the GPU where PyTorch finds one), one call at a time. The share of
the peak compares the network's operations a second with those of a product of large matrices, measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from deploy.cache import CHECKOUT
from deploy.triton import triton_from_environment
from glaim_stream.core.contract import Contract, read_contract
from glaim_stream.core.errors import ImputerError
from glaim_stream.imputers import Windows
from glaim_stream.imputers.remote import TritonImputer

BATCHES = (8, 64, 256)
SHEET_BATCHES, SHEET_IN_FLIGHT = (1, 8, 64, 256, 1024), (1, 4, 16)
Line = dict[str, float | str]
_PEAK_SIZE = 4096  # rows and columns of the matrices of the peak: 137 GFLOP a multiplication
_MISSING = 0.05
_WARM_UP_S = 1.0


def windows_of(contract: Contract, count: int, history: int) -> Windows:
    """`count` windows with the means and deviations of the model's training data, observed in the newest steps."""
    random = np.random.default_rng(7)
    shape = (count, len(contract.sensors), contract.window)
    means = np.array([sensor.mean for sensor in contract.sensors])[:, None]
    spreads = np.array([sensor.std for sensor in contract.sensors])[:, None]
    observed = random.random(shape) >= _MISSING
    observed[:, :, : contract.window - history] = False
    values = (means + spreads * random.standard_normal(shape)) * observed
    return Windows(contract.name, values.astype(np.float32), observed, contract.emitted_steps)


async def measure(address: str, contract: Contract, windows: Windows, in_flight: int, seconds: float) -> Line:
    """Windows per second and the duration of a call with these windows, after a second of warm-up."""
    client = TritonImputer(address, {contract.name: contract}, deadline_s=60)
    batch = len(windows.values)
    begin = time.perf_counter() + _WARM_UP_S
    took_s: list[float] = []

    async def call() -> None:
        while (start := time.perf_counter()) < begin + seconds:
            await client.impute(windows)
            if start >= begin:
                took_s.append(time.perf_counter() - start)

    await asyncio.gather(*(call() for _ in range(in_flight)))
    spent_s = time.perf_counter() - begin
    await client.close()
    return {"batch": batch, "in_flight": in_flight} | _figures(took_s, batch, spent_s)


def device() -> torch.device:
    """The GPU where PyTorch finds one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def timed(call: Callable[[], object], seconds: float) -> list[float]:
    """The duration of each call within `seconds`, after a warm-up, in s."""
    took_s: list[float] = []
    begin = time.perf_counter() + _WARM_UP_S
    while (start := time.perf_counter()) < begin + seconds or not took_s:
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if start >= begin:
            took_s.append(time.perf_counter() - start)
    return took_s


def peak_flops(seconds: float) -> float:
    """Floating-point operations a second of the device in float32, in the precision that PyTorch takes for a matrix."""
    one, other = (torch.rand(_PEAK_SIZE, _PEAK_SIZE, device=device()) for _ in range(2))
    return 2 * _PEAK_SIZE**3 / min(timed(lambda: one @ other, seconds))


def flops_of(module: torch.jit.ScriptModule, inputs: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Floating-point operations of a call: matrix products and convolutions, which are nearly all of them."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.inference_mode(), torch.jit.optimized_execution(False), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return float(counter.get_total_flops())


def plain_lines(repository: Path, contract: Contract, history: int, seconds: float) -> Iterator[Line]:
    """The module of the newest version in this process, one call at a time."""
    versions = [int(path.parent.name) for path in (repository / contract.name).glob("*/model.pt")]
    module = torch.jit.load(repository / contract.name / str(max(versions)) / "model.pt", map_location=device())
    peak = peak_flops(seconds / 2)
    for batch in SHEET_BATCHES:
        windows = windows_of(contract, batch, history)
        inputs = torch.from_numpy(windows.values).to(device()), torch.from_numpy(windows.observed).to(device())
        with torch.inference_mode():
            took_s = timed(lambda: module(*inputs), seconds)  # noqa: B023  it is called within the iteration
        share = round(flops_of(module, inputs) / float(np.median(took_s)) / peak, 3)
        line: Line = {"way": f"plain, {device().type}", "batch": batch, "in_flight": 1}
        yield line | _figures(took_s, batch, sum(took_s)) | {"share_of_peak": share}


def served_lines(address: str, contract: Contract, history: int, seconds: float) -> Iterator[Line]:
    """Triton, every batch by calls in flight; a batch that it refuses, because it is above its largest, has no line."""
    for batch in SHEET_BATCHES:
        windows = windows_of(contract, batch, history)
        for in_flight in SHEET_IN_FLIGHT:
            try:
                line = asyncio.run(measure(address, contract, windows, in_flight, seconds))
            except ImputerError as error:
                Console().print(f"{batch} windows a call: {error}", markup=False)
                break
            yield {"way": "triton", **line}


def _figures(took_s: list[float], batch: int, spent_s: float) -> Line:
    return {
        "windows_per_s": round(len(took_s) * batch / spent_s),
        "call_ms_p50": round(float(np.percentile(took_s, 50)) * 1000, 2),
        "call_ms_p99": round(float(np.percentile(took_s, 99)) * 1000, 2),
    }


def main() -> None:
    """Measure, print, and append one line to results/serving.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__.splitlines()[0])
    parser.add_argument("--triton", help="host:port of a gRPC endpoint (default: start a local Triton)")
    parser.add_argument("--model", default="plant-pump", help="name of the model (default: %(default)s)")
    parser.add_argument(
        "--repository", type=Path, default=CHECKOUT / "model_repo", help="directory of the models and contracts"
    )
    parser.add_argument("--in-flight", type=int, default=8, help="concurrent calls (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="duration for each batch size (default: %(default)s)")
    parser.add_argument("--history", type=int, help="newest steps with readings (default: the whole window)")
    parser.add_argument("--sheet", action="store_true", help="every batch by calls in flight, beside the plain module")
    given = parser.parse_args()
    contract = read_contract(given.repository / given.model)
    history = contract.window if given.history is None else given.history
    if not 0 <= history <= contract.window:
        parser.error(f"expected --history in 0..{contract.window}, found {history}")
    with ExitStack() as stack:
        address = given.triton or stack.enter_context(triton_from_environment(given.repository)).grpc_url
        sizes: list[Line] = []
        if given.sheet:
            for part in (
                served_lines(address, contract, history, given.seconds),
                plain_lines(given.repository, contract, history, given.seconds),
            ):
                for line in part:
                    sizes.append(line)
                    Console().print(", ".join(f"{name} {value}" for name, value in line.items()))
        for batch in () if given.sheet else BATCHES:
            windows = windows_of(contract, batch, history)
            sizes.append(asyncio.run(measure(address, contract, windows, given.in_flight, given.seconds)))
    command = f"python -m benchmarks.serving --model {given.model}"
    command += " --sheet" if given.sheet else f" --in-flight {given.in_flight}"
    if given.history is not None:
        command += f" --history {history}"
    where = "external" if given.triton else "Triton on this machine's CPU"
    result = machine.describe(command) | {
        "model": given.model,
        "triton": where,
        "history": history,
        "sizes": sizes,
    }
    names = ["windows per call", "calls in flight", "windows/s", "call, ms (p50)", "call, ms (p99)"]
    table = Table(*(["way", *names, "share of the peak"] if given.sheet else names))
    for line in sizes:
        table.add_row(*map(str, line.values()))
    Console().print(table)
    print(f"appended to {machine.append('serving', result)}")


if __name__ == "__main__":
    main()
