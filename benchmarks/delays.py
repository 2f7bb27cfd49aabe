"""The delays of a worker, and of other engines at equal loads, in rounds that take turns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks import latency
from benchmarks.bench import Bench, BenchPlan, Result
from benchmarks.engines import Engine
from benchmarks.engines.glaim import EXACTLY_ONCE, Glaim
from benchmarks.engines.programs import AIOKAFKA, BYTEWAX, QUIX
from benchmarks.load import TopicLoad

# The share of the rate that single readings reach at least once, and settings of the worker.
_LOADS: dict[str, tuple[float, Mapping[str, str]]] = {
    "latency": (0.5, {}),
    "latency_exactly_once": (0.5, EXACTLY_ONCE),
    "latency_tenth": (0.1, {}),
    "latency_tenth_exactly_once": (0.1, EXACTLY_ONCE),
}


_EQUAL_PER_S = (5_000, 10_000, 20_000, 40_000)
_PADDED_PER_S = 10_000


@dataclass(frozen=True)
class Rounds:
    """Delays of several rounds, each with a new process. The delay differs more between them than within one."""

    rounds: Sequence[latency.Latency]

    def columns(self, name: str) -> dict[str, float]:
        """The columns of the result: medians over the rounds, and the worst round."""
        p99 = [each.p99_ms for each in self.rounds]
        return {
            f"{name}_ms_p50": round(statistics.median(each.p50_ms for each in self.rounds), 1),
            f"{name}_ms_p99": round(statistics.median(p99), 1),
            f"{name}_ms_p99_worst": round(max(p99), 1),
            f"{name}_at_per_s": round(statistics.median(each.per_s for each in self.rounds)),
        }


def delays(bench: Bench, plan: BenchPlan, poll_records: int, per_s: float) -> Result:
    """Measure the delay at each load, in turn, so that a slower phase of the machine affects all of them."""
    rounds: dict[str, list[latency.Latency]] = {name: [] for name in _LOADS}
    for round_ in range(plan.latency_rounds):
        for name, (share, settings) in _LOADS.items():
            engine = Glaim("delay", poll_records, settings)
            delay = delay_of(bench, plan, engine, TopicLoad(0), share * per_s, f"{name}-{round_}")
            rounds[name].append(delay)
            bench.console.print(f"{name}: p50 {delay.p50_ms:.0f} ms, p99 {delay.p99_ms:.0f} ms")
    columns: Result = {}
    for name, found in rounds.items():
        columns |= Rounds(found).columns(name)
    return columns


def equal_loads(bench: Bench, plan: BenchPlan, poll_records: int, per_s: float) -> list[dict[str, object]]:
    """Measure the delay of every engine at the same loads, and of ours beside the bare loop at half of `per_s`.

    Returns:
        A line for each load and engine: shape, readings per second, engine, p50, p99 and the worst p99 in ms.
    """
    ours: list[Engine] = [Glaim("at_least_once", poll_records), Glaim("exactly_once", poll_records, EXACTLY_ONCE)]
    loads = [(TopicLoad(0), float(rate), [*ours, AIOKAFKA, QUIX, BYTEWAX]) for rate in _EQUAL_PER_S]
    loads.append((TopicLoad(0, shape="padded"), float(_PADDED_PER_S), [*ours, AIOKAFKA, QUIX, BYTEWAX]))
    loads.append((TopicLoad(0), per_s / 2, [*ours, AIOKAFKA]))
    found: dict[tuple[str, float, str], list[latency.Latency]] = {}
    for round_ in range(plan.latency_rounds):
        for number, (load, rate, engines) in enumerate(loads):
            for engine in engines:
                if engine.missing:
                    bench.console.print(f"{engine.name}: skipped, {engine.missing}")
                    continue
                delay = delay_of(bench, plan, engine, load, rate, f"{engine.name}-{number}-{round_}")
                found.setdefault((load.shape, rate, engine.name), []).append(delay)
                bench.console.print(
                    f"{load.shape}, {rate:,.0f}/s, {engine.name}: p50 {delay.p50_ms:.0f} ms, p99 {delay.p99_ms:.0f} ms"
                )
    return [
        {"shape": shape, "per_s": round(rate), "engine": name, "samples": sum(each.samples for each in rounds)}
        | Rounds(rounds).columns("delay")
        for (shape, rate, name), rounds in found.items()
    ]


def delay_of(
    bench: Bench, plan: BenchPlan, engine: Engine, load: TopicLoad, per_s: float, name: str, *, from_step: int = 0,
    cores: set[int] | None = None,
) -> latency.Latency:  # fmt: skip
    """Measure the delay from the reading that closes a step to its rows, at a steady rate.

    The start, the first second and the steps before `from_step`, is measured apart.
    """
    warm_up_s = max(1.0, from_step * load.readings_per_step / per_s)
    load = replace(load, readings=int(per_s * (plan.latency_s + warm_up_s + 2) + 3 * load.readings_per_step))
    job = bench.job(load, None, f"{bench.name}-{name}", f"{name}-out")
    cores = cores or bench.engine_core
    return latency.run(engine, job, per_s=per_s, seconds=plan.latency_s, warm_up_s=warm_up_s, cores=cores)
