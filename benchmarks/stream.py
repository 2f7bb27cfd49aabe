"""The readings per second of one worker process on one core, compared with other engines in the same run.

    python -m benchmarks.stream            about a quarter of an hour
    python -m benchmarks.stream --quick    within two minutes, for a first look; without the model
    python -m benchmarks.stream --equal-loads    the delays of all engines at the same loads, half an hour

All engines read the same topic, filled beforehand; the worker also reads batches and Arrow, and delivers at least once
and exactly once. The engine has one core, the broker the other. Further measurements are the worker's delay at half
load and at a tenth, the cost of a thousand groups, and the whole system with its model behind Triton. Method and
limits: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.bench import Bench, BenchPlan, Result, prepared
from benchmarks.delays import delays, equal_loads
from benchmarks.engines import Engine
from benchmarks.engines.glaim import EXACTLY_ONCE, Glaim
from benchmarks.engines.programs import AIOKAFKA, BYTEWAX, FAUST, QUIX
from benchmarks.load import Shape, TopicLoad
from benchmarks.measure import EngineFailed, Rate, run
from benchmarks.whole import whole
from deploy.errors import DeployError

# Determines the size of the topics: an engine that is faster reaches the end and is measured over less time.
_EXPECTED_PER_S: dict[Shape, int] = {"single": 600_000, "batch": 1_000_000, "arrow": 1_300_000, "wide": 2_000_000}
_TITLES = {
    "single": "glaim-stream worker, one reading per message",
    "single_exactly_once": "glaim-stream worker, one reading per message, exactly once",
    "batch": "glaim-stream worker, JSON batches of 50",
    "arrow": "glaim-stream worker, Arrow of 1,000 rows",
    "wide": "glaim-stream worker, wide Arrow, one step per message",
    "aiokafka": "bare aiokafka loop, nothing decoded",
    "faust": "plain Faust, take(500)",
    "quix": "Quix Streams, the same windows",
    "bytewax": "Bytewax, the same windows",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and append one line to results/stream.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short rounds, within two minutes")
    parser.add_argument("--seconds", type=float, default=8, help="duration of each run (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each engine; the median counts (default: %(default)s)"
    )
    parser.add_argument(
        "--latency-rounds",
        type=int,
        default=5,
        help="runs for each delay; the median and the worst are reported (default: %(default)s)",
    )
    parser.add_argument(
        "--poll-records", type=int, default=20_000, help="largest poll of the worker, in records (default: %(default)s)"
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--without-model", action="store_true", help="skip the runs with a model")
    parts.add_argument("--model-only", action="store_true", help="only the runs with a model")
    parser.add_argument(
        "--every-core", action="store_true", help="with the model: Triton and a single worker share both cores"
    )
    parts.add_argument(
        "--equal-loads",
        action="store_true",
        help="only the delays of all engines at the same loads, appended to results/delay.jsonl; half an hour",
    )
    options = parser.parse_args(arguments)
    plan = BenchPlan(
        options.seconds, 2, options.rounds, 10, options.latency_rounds, not options.without_model, options.every_core
    )
    if options.quick:
        plan = BenchPlan(1, 0.2, 1, 2, 2, whole=False)
    console = Console()
    other = machine.OtherWork()
    part = of_whole if options.model_only else of_equal_loads if options.equal_loads else measure
    try:
        with prepared(console) as bench:
            result = part(bench, plan, options.poll_records)
    except EngineFailed as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    described = machine.describe("python -m benchmarks.stream " + " ".join(sys.argv[1:]))
    cores = other.cores()
    console.print(f"other work used {cores} cores meanwhile")
    if cores > machine.MOST_OTHER_CORES:
        console.print(f"error: expected at most {machine.MOST_OTHER_CORES}; nothing is recorded", style="red")
        return 1
    line = described | result | {"rounds": plan.rounds, "seconds": plan.seconds, "poll_records": options.poll_records}
    line["other_cores"] = cores
    console.print(f"appended to {machine.append('delay' if options.equal_loads else 'stream', line)}")
    return 0


def measure(bench: Bench, plan: BenchPlan, poll_records: int) -> Result:
    """All measurements, as the columns of the result."""
    singles: list[Engine] = [
        Glaim("single", poll_records),
        Glaim("single_exactly_once", poll_records, EXACTLY_ONCE),
        AIOKAFKA,
        FAUST,
        QUIX,
        BYTEWAX,
    ]
    rates = rates_of(bench, plan, "single", singles)
    shapes: list[Shape] = ["batch", "arrow", "wide"]
    for shape in shapes:
        # As many readings per poll as with single messages: a larger poll would only add waiting time.
        poll = max(1, poll_records // TopicLoad.readings_per_message(shape))
        rates |= rates_of(bench, plan, shape, [Glaim(shape, poll)])
    result = columns(rates, bench.console)
    per_s = statistics.median(rate.per_s for rate in rates["single"])
    result |= delays(bench, plan, poll_records, per_s)
    state = state_of(bench)
    result |= {name: round(value, 2) for name, value in state.items()}
    if plan.whole:
        result |= of_whole(bench, plan, poll_records)
    for name in ("latency", "recovery", "mb"):
        for column in [column for column in result if column.startswith(name)]:
            bench.console.print(f"{column}: {result[column]}")
    return result


def of_equal_loads(bench: Bench, plan: BenchPlan, poll_records: int) -> Result:
    """Measure the delays at equal loads, after a first look at the worker's own rate."""
    rate = rates_of(bench, replace(plan, rounds=1), "single", [Glaim("single", poll_records)])["single"][0]
    lines = equal_loads(bench, plan, poll_records, rate.per_s)
    table = Table("shape", "readings/s", "engine", "p50, ms", "p99, ms", "worst p99, ms")
    for line in lines:
        table.add_row(*(str(value) for name, value in line.items() if name != "delay_at_per_s"))
    bench.console.print(table)
    return {"delays": lines}


def of_whole(bench: Bench, plan: BenchPlan, poll_records: int) -> Result:
    """Measure the worker with its model, unless Triton is missing."""
    try:
        found = whole(bench, plan, poll_records)
    except DeployError as error:
        bench.console.print(f"whole: skipped, {error}")
        return {}
    for column, value in found.items():
        bench.console.print(f"{column}: {value}")
    return found


def rates_of(bench: Bench, plan: BenchPlan, shape: Shape, engines: Sequence[Engine]) -> dict[str, list[Rate]]:
    """Run all engines in turn, so that a slower phase of the machine affects all of them; skip absent engines."""
    load = TopicLoad(int((plan.seconds + plan.warm_up_s) * _EXPECTED_PER_S[shape]), shape=shape)
    topic, filled = bench.fill(load)
    rates: dict[str, list[Rate]] = {engine.name: [] for engine in engines}
    for round_ in range(plan.rounds):
        for engine in engines:
            if engine.missing:
                bench.console.print(f"{engine.name}: skipped, {engine.missing}")
                continue
            job = bench.job(load, filled, topic, f"{engine.name}-{round_}")
            rate = run(engine, job, cores=bench.engine_core, warm_up_s=plan.warm_up_s, seconds=plan.seconds)
            rates[engine.name].append(rate)
            bench.console.print(f"{engine.name}: {rate.per_s:,.0f}/s over {rate.seconds:.1f} s")
    return rates


def state_of(bench: Bench) -> dict[str, float]:
    """Measure recovery and memory, in a separate process on the engine's core."""
    command = [sys.executable, "-m", "benchmarks.state", bench.servers]
    with bench.on_engine_core():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailed(f"benchmarks.state ended with status {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def columns(rates: dict[str, list[Rate]], console: Console) -> Result:
    """Print the table; returns the columns `_per_s` and `_per_cpu_s` of each engine."""

    def median(of: Callable[[Rate], float]) -> dict[str, float | None]:
        return {name: statistics.median(map(of, rates[name])) if rates.get(name) else None for name in _TITLES}

    per_s, per_cpu_s = median(lambda rate: rate.per_s), median(lambda rate: rate.per_cpu_s)
    table = Table("engine", "readings/s", "readings per CPU second", "single / this, per CPU second")
    result: Result = {}
    for name, title in _TITLES.items():
        here, cpu, ours = per_s[name], per_cpu_s[name], per_cpu_s["single"]
        table.add_row(
            title,
            f"{here:,.0f}" if here else "not measured",
            f"{cpu:,.0f}" if cpu else "",
            f"{ours / cpu:.1f}" if cpu and ours else "",
        )
        result |= {f"{name}_per_s": here and round(here), f"{name}_per_cpu_s": cpu and round(cpu)}
    console.print(table)
    return result


if __name__ == "__main__":
    raise SystemExit(main())
