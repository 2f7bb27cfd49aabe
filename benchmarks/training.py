"""The training iterations per second of the network, compared with a plain implementation of it in the same run.

    python -m benchmarks.training              a quarter of an hour on one core
    python -m benchmarks.training --quick      seven sensors, two rounds
    python -m benchmarks.training --losses     compares the losses: a small network, 60 iterations, four times each

An iteration includes forward with dropout, the loss over the hidden cells, backward and Adam. On a CPU the plain
network, ours in fp32 and ours in bf16 take turns; `--compile` (minutes) adds compiled ones. If there is a GPU, all
variants run there, and the compiled ones use CUDA graphs. Method and limits: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import machine
from benchmarks.plain_glaim import copied
from training.fit import hidden_loss
from training.network import GLAIMConfig, build_network
from training.runtime import keep_memory

_BATCH = 16  # as in the paper
_LEARNING_RATE = 1e-3
_DRAWS = 4  # dropout seeds in a comparison of losses
Windows = tuple[Tensor, Tensor, Tensor]  # truth and values, float [B, C, T]; observed, bool [B, C, T]


@dataclass(frozen=True)
class NetworkVariant:
    """A way to train the same network from the same weights."""

    name: str
    title: str
    plain: bool = False
    bf16: bool = False
    compiled: bool = False


PLAIN = NetworkVariant("plain", "plain eager", plain=True)
VARIANTS = (PLAIN, NetworkVariant("fp32", "ours"), NetworkVariant("bf16", "ours, bf16", bf16=True))
COMPILED = (
    NetworkVariant("compiled", "ours, compiled", compiled=True),
    NetworkVariant("compiled_bf16", "ours, compiled, bf16", bf16=True, compiled=True),
)


@dataclass(frozen=True)
class Cost:
    """The wall time and the CPU time of one iteration."""

    wall_s: float
    cpu_s: float


def windows(config: GLAIMConfig, batch: int, device: torch.device, seed: int) -> Windows:
    """Windows of sensors that mix three slow waves, with noise; three cells in ten are hidden."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.arange(config.window, dtype=torch.float32)
    period = torch.tensor([12.0, 31.0, 77.0]).view(3, 1)
    phase = 6.28 * torch.rand(batch, 3, 1, generator=generator)
    waves = torch.sin(6.28 * steps / period + phase)  # (B, 3, T)
    mixing = torch.randn(config.num_variables, 3, generator=torch.Generator().manual_seed(0))
    truth = torch.einsum("cw,bwt->bct", mixing, waves)
    truth = truth + 0.1 * torch.randn(truth.shape, generator=generator)
    observed = torch.rand(truth.shape, generator=generator) > 0.3
    return truth.to(device), torch.where(observed, truth, 0.0).to(device), observed.to(device)


def iterations(
    variant: NetworkVariant, config: GLAIMConfig, device: torch.device, seed: int = 2021
) -> Callable[[Windows], Tensor]:
    """A function that trains a new network; each call runs one iteration and returns its loss without synchronising."""
    torch.manual_seed(seed)
    ours = build_network(config)
    network: nn.Module = (copied(ours, config) if variant.plain else ours).to(device).train()
    optimiser = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
    graphs = variant.compiled and device.type == "cuda"
    call: Callable[..., Tensor] = network
    if variant.compiled:
        call = torch.compile(network, mode="reduce-overhead" if graphs else "default", dynamic=False)

    def iterate(batch: Windows) -> Tensor:
        truth, values, observed = batch
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(device.type, torch.bfloat16, enabled=variant.bf16):
            filled = call(values, observed)
        loss = hidden_loss(filled.float(), truth, ~observed)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        return loss.detach().clone()

    return iterate


def measure(
    variants: Sequence[NetworkVariant],
    config: GLAIMConfig,
    device: torch.device,
    rounds: int,
    each: int,
    console: Console,
) -> dict[str, list[Cost]]:
    """Run `rounds` rounds in which each variant makes `each` iterations in turn, after two or three unmeasured ones."""
    batch = windows(config, _BATCH, device, seed=1)
    running = {variant.name: iterations(variant, config, device) for variant in variants}
    costs: dict[str, list[Cost]] = {variant.name: [] for variant in variants}
    for variant in variants:
        begin = time.perf_counter()
        for _ in range(3 if variant.compiled else 2):
            running[variant.name](batch)
        _settle(device)
        if variant.compiled:
            console.print(f"{variant.title}: compiled in {time.perf_counter() - begin:.0f} s")
    for _ in range(rounds):
        for variant in variants:
            _settle(device)
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(each):
                running[variant.name](batch)
            _settle(device)
            costs[variant.name].append(Cost((time.perf_counter() - wall) / each, (time.process_time() - cpu) / each))
    return costs


def losses(
    variants: Sequence[NetworkVariant], config: GLAIMConfig, device: torch.device, count: int
) -> dict[str, float]:
    """The mean loss of the last third of `count` iterations, by variant, from the same weights on the same batches.

    The variants draw dropout differently, so they agree only within its random variation: each result is the mean over
    several seeds, and "noise" is the standard deviation of the plain network over these seeds.
    """
    batches = [windows(config, _BATCH, device, seed) for seed in range(count)]

    def final(variant: NetworkVariant, dropout_seed: int) -> float:
        iterate = iterations(variant, config, device)
        torch.manual_seed(dropout_seed)
        found = [float(iterate(batch)) for batch in batches]
        return statistics.fmean(found[-(count // 3) :])

    found = {variant.name: [final(variant, seed) for seed in range(_DRAWS)] for variant in variants}
    return {name: statistics.fmean(each) for name, each in found.items()} | {"noise": statistics.stdev(found["plain"])}


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables and append one line per number of sensors to results/training.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="seven sensors, two rounds")
    parser.add_argument("--losses", action="store_true", help="compare losses instead of speed")
    parser.add_argument("--variables", type=int, nargs="+", default=[7, 21], help="numbers of sensors (default: 7 21)")
    parser.add_argument("--d-model", type=int, default=64, help="hidden features (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the median counts (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=3, help="iterations per round (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="add torch.compile; always added on a GPU")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    keep_memory()  # as in every training run; the plain network benefits too
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    variants = (*VARIANTS, *(COMPILED if options.compile or device.type == "cuda" else ()))
    command = "python -m benchmarks.training " + " ".join(sys.argv[1:] if arguments is None else arguments)
    origin = machine.describe(command.strip(), measured="training") | {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "threads": options.threads,
    }
    console = Console()
    if options.losses:
        # Small enough that four times 60 iterations of each variant take a minute, with all parts of the model.
        config = GLAIMConfig(7, window=48, d_model=16, ffn=64, heads=4, d_psi=32, large_kernel=31)
        found = losses(VARIANTS if device.type == "cpu" else variants, config, device, 60)
        result = origin | {"losses": {name: round(loss, 5) for name, loss in found.items()}, "iterations": 60}
        for name, loss in found.items():
            console.print(f"{name}: {loss:.4f}")
        console.print(f"appended to {machine.append('training', result)}")
        return 0
    rounds, each = (2, 1) if options.quick else (options.rounds, options.iterations)
    for variables in [7] if options.quick else options.variables:
        config = GLAIMConfig(variables, d_model=options.d_model)
        costs = measure(variants, config, device, rounds, each, console)
        result = origin | {"variables": variables, "d_model": options.d_model, "batch": _BATCH, "rounds": rounds}
        result |= report(variants, costs, f"{variables} sensors, D = {options.d_model}, batch {_BATCH}", console)
        console.print(f"appended to {machine.append('training', result)}")
    return 0


def report(
    variants: Sequence[NetworkVariant], costs: dict[str, list[Cost]], title: str, console: Console
) -> dict[str, dict[str, float]]:
    """Print the table; returns iterations per second and per CPU second, also as multiples of the plain network's."""
    per_s = {name: 1 / statistics.median(cost.wall_s for cost in each) for name, each in costs.items()}
    per_cpu_s = {name: 1 / statistics.median(cost.cpu_s for cost in each) for name, each in costs.items()}
    table = Table("network", "iterations/s", "times plain", "iterations per CPU second", "times plain", title=title)
    found = {}
    for variant in variants:
        ratio, cpu_ratio = (each[variant.name] / each["plain"] for each in (per_s, per_cpu_s))
        table.add_row(
            variant.title,
            f"{per_s[variant.name]:.2f}",
            f"{ratio:.2f}",
            f"{per_cpu_s[variant.name]:.2f}",
            f"{cpu_ratio:.2f}",
        )
        found[variant.name] = {
            "per_s": round(per_s[variant.name], 3),
            "per_cpu_s": round(per_cpu_s[variant.name], 3),
            "ratio": round(ratio, 2),
            "cpu_ratio": round(cpu_ratio, 2),
        }
    console.print(table)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
