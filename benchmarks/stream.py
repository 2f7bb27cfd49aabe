"""How many readings a second one worker process on one core takes, beside plain Faust in the same run.

    python -m benchmarks.stream            about three minutes
    python -m benchmarks.stream --quick    under a minute, for a first look

Both engines read the same topic, filled beforehand with one JSON document a reading. The engine has one core, the
broker the other. Method and limits: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.engines import Engine, Job
from benchmarks.engines.glaim import Glaim
from benchmarks.engines.plain_faust import PlainFaust
from benchmarks.load import Load, fill_topic
from benchmarks.measure import EngineFailed, Rate, run
from deploy.kafka import kafka_from_environment

_EXPECTED_PER_S = 350_000  # sizes the topic: a faster engine reaches its end and is measured over less time


@dataclass(frozen=True)
class Plan:
    """How long and how often."""

    seconds: float
    warm_up_s: float
    rounds: int

    @property
    def readings(self) -> int:
        """How many the topic needs."""
        return int((self.seconds + self.warm_up_s) * _EXPECTED_PER_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, append a line to results/stream.jsonl."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, under a minute")
    parser.add_argument("--seconds", type=float, default=10, help="measured time of each run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each engine; the median counts (default: 3)")
    parser.add_argument("--poll-records", type=int, default=20_000, help="most records of a poll of the worker")
    parser.add_argument("--readings", type=int, help="size of the topic (default: from --seconds)")
    options = parser.parse_args(arguments)
    plan = Plan(3, 1, 1) if options.quick else Plan(options.seconds, 2, options.rounds)
    load = Load(options.readings or plan.readings)
    console = Console()
    engines: list[Engine] = [Glaim(options.poll_records), PlainFaust()]
    try:
        rates = measure(engines, load, plan, console)
    except EngineFailed as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    report(rates, load, plan, options.poll_records, console)
    return 0


def measure(engines: list[Engine], load: Load, plan: Plan, console: Console) -> dict[str, list[Rate]]:
    """Every engine in turn, so that a machine that slows down slows all of them."""
    cores = sorted(os.sched_getaffinity(0))
    broker_core, engine_core = ({cores[0]}, {cores[1]}) if len(cores) > 1 else (None, None)
    if engine_core is None:
        console.print("only one core: the broker shares it with the engine, so every rate is too low")
    elif "GLAIM_KAFKA" in os.environ:
        console.print(f"engine on core {cores[1]}; the broker of GLAIM_KAFKA runs wherever it does")
    else:
        console.print(f"broker on core {cores[0]}, engine on core {cores[1]}")
    rates: dict[str, list[Rate]] = {engine.name: [] for engine in engines}
    if broker_core:
        os.sched_setaffinity(0, broker_core)  # a broker that starts now inherits it
    with kafka_from_environment() as kafka, tempfile.TemporaryDirectory(prefix="glaim-bench-") as directory:
        servers, name = kafka.bootstrap_servers, f"bench-{uuid.uuid4().hex[:8]}"
        if engine_core:
            os.sched_setaffinity(0, engine_core)  # nothing runs there while the topic is filled
        start_s = time.perf_counter()
        size_bytes = fill_topic(servers, name, load)
        console.print(
            f"{load.readings:,} readings of {size_bytes / load.readings:.0f} bytes in {load.partitions} partitions, "
            f"written in {time.perf_counter() - start_s:.0f} s"
        )
        if broker_core:
            os.sched_setaffinity(0, broker_core)
        for round_ in range(plan.rounds):
            for engine in engines:
                run_name = f"{name}-{engine.name}-{round_}"
                job = Job(servers, name, run_name, run_name, load, Path(directory))
                rate = run(engine, job, cores=engine_core, warm_up_s=plan.warm_up_s, seconds=plan.seconds)
                rates[engine.name].append(rate)
                console.print(f"{engine.name}: {rate.per_s:,.0f}/s over {rate.seconds:.1f} s")
    os.sched_setaffinity(0, cores)
    return rates


def report(rates: dict[str, list[Rate]], load: Load, plan: Plan, poll_records: int, console: Console) -> None:
    """The table and the line."""
    per_s = {name: statistics.median(rate.per_s for rate in each) for name, each in rates.items()}
    per_cpu_s = {name: statistics.median(rate.per_cpu_s for rate in each) for name, each in rates.items()}
    table = Table("engine", "readings/s", "times Faust", "readings per CPU second", "times Faust")
    for name, title in (("single", "glaim-stream worker, echo imputer"), ("faust", "plain Faust, take(500)")):
        table.add_row(
            title,
            *(f"{each[name]:,.0f}" if plain else f"{each[name] / each['faust']:.1f}"
              for each in (per_s, per_cpu_s) for plain in (True, False)),
        )  # fmt: skip
    console.print(table)
    result = machine.describe("python -m benchmarks.stream " + " ".join(sys.argv[1:])) | {
        "single_per_s": round(per_s["single"]),
        "faust_per_s": round(per_s["faust"]),
        "ratio": round(per_s["single"] / per_s["faust"], 2),
        "cpu_ratio": round(per_cpu_s["single"] / per_cpu_s["faust"], 2),
        "single_per_cpu_s": round(per_cpu_s["single"]),
        "faust_per_cpu_s": round(per_cpu_s["faust"]),
        "poll_records": poll_records,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "readings": load.readings,
        "groups": load.groups,
        "sensors": load.sensors,
        "partitions": load.partitions,
        "missing": load.missing,
    }
    console.print(f"appended to {machine.append('stream', result).relative_to(Path.cwd())}")


if __name__ == "__main__":
    raise SystemExit(main())
