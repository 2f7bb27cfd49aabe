"""The number of windows per second that a Triton imputes, from which the number of GPUs follows.

    python -m benchmarks.serving                                    the local Triton, on the CPU
    python -m benchmarks.serving --triton triton:8001 --model mine  any other Triton, with the worker's client
    python -m benchmarks.serving --history 16                       groups that began to send 16 steps ago

The windows contain noise around each sensor's mean, with 5 % missing. Their values do not affect the time; how many are
missing does, where the network contains a closed form. Each batch size runs with as many calls in flight as the worker
uses (`triton.client.batch` and `.inFlight` in the chart).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from deploy.cache import CHECKOUT
from deploy.triton import triton_from_environment
from glaim_stream.core.contract import Contract, read_contract
from glaim_stream.imputers import Windows
from glaim_stream.imputers.remote import TritonImputer

BATCHES = (8, 64, 256)
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


async def measure(
    address: str, contract: Contract, windows: Windows, in_flight: int, seconds: float
) -> dict[str, float]:
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
    return {
        "batch": batch,
        "in_flight": in_flight,
        "windows_per_s": round(len(took_s) * batch / spent_s),
        "call_ms_p50": round(float(np.percentile(took_s, 50)) * 1000, 1),
        "call_ms_p99": round(float(np.percentile(took_s, 99)) * 1000, 1),
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
    given = parser.parse_args()
    contract = read_contract(given.repository / given.model)
    history = contract.window if given.history is None else given.history
    if not 0 <= history <= contract.window:
        parser.error(f"expected --history in 0..{contract.window}, found {history}")
    with ExitStack() as stack:
        address = given.triton or stack.enter_context(triton_from_environment(given.repository)).grpc_url
        sizes = []
        for batch in BATCHES:
            windows = windows_of(contract, batch, history)
            sizes.append(asyncio.run(measure(address, contract, windows, given.in_flight, given.seconds)))
    command = f"python -m benchmarks.serving --model {given.model} --in-flight {given.in_flight}"
    if given.history is not None:
        command += f" --history {history}"
    where = "external" if given.triton else "Triton on this machine's CPU"
    result = machine.describe(command) | {
        "model": given.model,
        "triton": where,
        "history": history,
        "sizes": sizes,
    }
    table = Table("windows per call", "calls in flight", "windows/s", "call, ms (p50)", "call, ms (p99)")
    for line in sizes:
        table.add_row(*map(str, line.values()))
    Console().print(table)
    print(f"appended to {machine.append('serving', result)}")


if __name__ == "__main__":
    main()
