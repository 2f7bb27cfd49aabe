"""The readings per second of one worker process on one core, compared with other engines in the same run.

    python -m benchmarks.stream            about ten minutes
    python -m benchmarks.stream --quick    within a minute, for a first look; without the model

All engines read the same topic, filled beforehand; the worker also reads batches and Arrow. The engine has one core,
the broker the other. Further measurements are the delay at half load, the cost of a thousand groups, and the whole
system with its model behind Triton. Method and limits: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import latency, machine
from benchmarks.engines import Engine, Job
from benchmarks.engines.glaim import Glaim
from benchmarks.engines.programs import AIOKAFKA, BYTEWAX, FAUST, QUIX
from benchmarks.load import Load, Shape
from benchmarks.measure import EngineFailed, Rate, run
from benchmarks.topics import Filled, fill_topic
from benchmarks.whole import MODEL, whole_load
from deploy.errors import DeployError
from deploy.kafka import kafka_from_environment
from deploy.triton import triton_from_environment

# Determines the size of the topics: an engine that is faster reaches the end and is measured over less time.
_EXPECTED_PER_S: dict[Shape, int] = {"single": 600_000, "batch": 1_000_000, "arrow": 1_300_000, "wide": 1_300_000}
_TITLES = {
    "single": "glaim-stream worker, one reading per message",
    "batch": "glaim-stream worker, JSON batches of 50",
    "arrow": "glaim-stream worker, Arrow of 1,000 rows",
    "wide": "glaim-stream worker, wide Arrow, one step per message",
    "aiokafka": "bare aiokafka loop, nothing decoded",
    "faust": "plain Faust, take(500)",
    "quix": "Quix Streams, the same windows",
    "bytewax": "Bytewax, the same windows",
}


@dataclass(frozen=True)
class Plan:
    """The duration and number of the runs."""

    seconds: float
    warm_up_s: float
    rounds: int
    latency_s: float
    shapes: tuple[Shape, ...]  # in addition to single readings
    whole: bool


@dataclass(frozen=True)
class Bench:
    """The environment of the runs."""

    servers: str
    directory: Path
    broker_core: set[int] | None
    engine_core: set[int] | None
    name: str
    console: Console

    @contextmanager
    def on_engine_core(self) -> Iterator[None]:
        """Run the block on the engine's core, which is idle between runs."""
        self._move(self.engine_core)
        try:
            yield
        finally:
            self._move(self.broker_core)

    def fill(self, load: Load) -> tuple[str, Filled]:
        """Create a topic with the load."""
        topic = f"{self.name}-{load.model}-{load.shape}"
        with self.on_engine_core():
            filled = fill_topic(self.servers, topic, load)
        size = filled.size_bytes / filled.readings
        self.console.print(f"{load.shape}: {filled.readings:,} readings of {size:.0f} bytes")
        return topic, filled

    def job(self, load: Load, filled: Filled | None, topic: str, run_name: str) -> Job:
        """The job of one run of one engine."""
        name = f"{self.name}-{run_name}"
        return Job(self.servers, topic, name, name, load, filled.through if filled else (), self.directory)

    @staticmethod
    def _move(cores: set[int] | None) -> None:
        if cores:
            os.sched_setaffinity(0, cores)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table and append one line to results/stream.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, within a minute")
    parser.add_argument("--seconds", type=float, default=8, help="duration of each run (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each engine; the median counts (default: %(default)s)"
    )
    parser.add_argument(
        "--poll-records", type=int, default=20_000, help="largest poll of the worker, in records (default: %(default)s)"
    )
    parser.add_argument("--without-model", action="store_true", help="skip the run with Triton")
    options = parser.parse_args(arguments)
    plan = (
        Plan(1, 0.2, 1, 1, ("batch", "arrow"), whole=False)
        if options.quick
        else Plan(options.seconds, 2, options.rounds, 15, ("batch", "arrow", "wide"), whole=not options.without_model)
    )
    console = Console()
    try:
        with prepared(console) as bench:
            result = measure(bench, plan, options.poll_records)
    except EngineFailed as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    described = machine.describe("python -m benchmarks.stream " + " ".join(sys.argv[1:]))
    line = described | result | {"rounds": plan.rounds, "seconds": plan.seconds, "poll_records": options.poll_records}
    console.print(f"appended to {machine.append('stream', line).relative_to(Path.cwd())}")
    return 0


@contextmanager
def prepared(console: Console) -> Iterator[Bench]:
    """Run a broker on one core and leave another one free."""
    cores = sorted(os.sched_getaffinity(0))
    broker_core, engine_core = ({cores[0]}, {cores[1]}) if len(cores) > 1 else (None, None)
    if engine_core is None:
        console.print("only one core: the broker shares it with the engine, so all rates are too low")
    elif "GLAIM_KAFKA" in os.environ:
        console.print(f"engine on core {cores[1]}; the broker of GLAIM_KAFKA is not pinned")
    else:
        console.print(f"broker on core {cores[0]}, engine on core {cores[1]}")
    if broker_core:
        os.sched_setaffinity(0, broker_core)  # inherited by the broker, which starts below
    try:
        with kafka_from_environment() as kafka, tempfile.TemporaryDirectory(prefix="glaim-bench-") as directory:
            name = f"bench-{uuid.uuid4().hex[:8]}"
            yield Bench(kafka.bootstrap_servers, Path(directory), broker_core, engine_core, name, console)
    finally:
        os.sched_setaffinity(0, cores)


Result = dict[str, float | str | None]


def measure(bench: Bench, plan: Plan, poll_records: int) -> Result:
    """All measurements, as the columns of the result."""
    singles: list[Engine] = [Glaim("single", poll_records), AIOKAFKA, FAUST, QUIX, BYTEWAX]
    rates = rates_of(bench, plan, "single", singles)
    for shape in plan.shapes:
        # As many readings per poll as with single messages: a larger poll would only add waiting time.
        poll = max(1, poll_records // Load.readings_per_message(shape))
        rates |= rates_of(bench, plan, shape, [Glaim(shape, poll)])
    result = columns(rates, bench.console)
    half = statistics.median(rate.per_s for rate in rates["single"]) / 2
    delay = delay_of(bench, plan, Glaim("delay", poll_records), Load(0), half, "latency")
    state = state_of(bench)
    result |= {
        "latency_ms_p50": delay.p50_ms,
        "latency_ms_p99": delay.p99_ms,
        "latency_at_per_s": round(delay.per_s),
        **{name: round(value, 2) for name, value in state.items()},
        "whole_per_s": None,
        "whole_latency_ms_p50": None,
        "whole_latency_ms_p99": None,
    }
    if plan.whole:
        result |= whole(bench, plan, poll_records)
    for name in ("latency", "recovery", "mb", "whole"):
        for column in [column for column in result if column.startswith(name)]:
            bench.console.print(f"{column}: {result[column]}")
    return result


def rates_of(bench: Bench, plan: Plan, shape: Shape, engines: Sequence[Engine]) -> dict[str, list[Rate]]:
    """Run all engines in turn, so that a slower phase of the machine affects all of them; skip absent engines."""
    load = Load(int((plan.seconds + plan.warm_up_s) * _EXPECTED_PER_S[shape]), shape=shape)
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


def delay_of(bench: Bench, plan: Plan, engine: Engine, load: Load, per_s: float, name: str) -> latency.Latency:
    """Measure the delay from the reading that closes a step to its rows, at a steady rate."""
    load = replace(load, readings=int(per_s * (plan.latency_s + 3) + 3 * load.readings_per_step))
    job = bench.job(load, None, f"{bench.name}-{name}", f"{name}-out")
    return latency.run(engine, job, per_s=per_s, seconds=plan.latency_s, warm_up_s=1, cores=bench.engine_core)


def state_of(bench: Bench) -> dict[str, float]:
    """Measure recovery and memory, in a separate process on the engine's core."""
    command = [sys.executable, "-m", "benchmarks.state", bench.servers]
    with bench.on_engine_core():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailed(f"benchmarks.state ended with status {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def whole(bench: Bench, plan: Plan, poll_records: int) -> Result:
    """Measure the worker with the demo's model behind Triton, which shares the broker's core."""
    repository = Path(__file__).parent.parent / "model_repo"
    load = whole_load(repository)
    try:
        with triton_from_environment(repository, models=[MODEL], environment={"OMP_NUM_THREADS": "1"}) as triton:
            settings = {
                "GLAIM_IMPUTER": "triton",
                "GLAIM_TRITON": triton.grpc_url,
                "GLAIM_MODEL_REPOSITORY": str(repository),
                "GLAIM_TRITON_DEADLINE_S": "60",  # no fallback, to measure the rate of the model
            }
            engine = Glaim("whole", min(poll_records, 2000), settings)
            topic, filled = bench.fill(load)
            job = bench.job(load, filled, topic, "whole-0")
            rate = run(engine, job, cores=bench.engine_core, warm_up_s=plan.warm_up_s, seconds=plan.seconds)
            delay = delay_of(bench, plan, engine, load, rate.per_s / 2, "whole-latency")
    except DeployError as error:
        bench.console.print(f"whole: skipped, {error}")
        return {}
    return {
        "whole_model": MODEL,
        "whole_per_s": round(rate.per_s),
        "whole_latency_ms_p50": delay.p50_ms,
        "whole_latency_ms_p99": delay.p99_ms,
        "whole_latency_at_per_s": round(delay.per_s),
    }


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
