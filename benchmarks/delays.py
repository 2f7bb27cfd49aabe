"""The delays of a worker at several loads and with both kinds of delivery, in rounds that take turns."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks import latency
from benchmarks.bench import Bench, BenchPlan, Result
from benchmarks.engines import Engine
from benchmarks.engines.glaim import EXACTLY_ONCE, Glaim
from benchmarks.load import TopicLoad

# The share of the rate that single readings reach at least once, and settings of the worker.
_LOADS: dict[str, tuple[float, Mapping[str, str]]] = {
    "latency": (0.5, {}),
    "latency_exactly_once": (0.5, EXACTLY_ONCE),
    "latency_tenth": (0.1, {}),
    "latency_tenth_exactly_once": (0.1, EXACTLY_ONCE),
}


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
