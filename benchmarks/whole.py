"""The worker with the demo's model: the network asked, and never asked, by one worker or two.

The readings are those of the simulated plant, because the errors depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench import Bench, BenchPlan, Result
from benchmarks.delays import delay_of
from benchmarks.engines.glaim import Glaim
from benchmarks.left_out import Estimates, common, estimates, mean_error
from benchmarks.load import FIRST_STEP_MS, Step, TopicLoad
from benchmarks.measure import run
from benchmarks.topics import read_topic
from deploy.triton import triton_from_environment
from glaim_stream.feed.plant import SENSORS, STEP_MS, STEPS_PER_DAY, simulate

MODEL = "plant-pump"
PLANTS = 40
WINDOW = 96  # steps; estimates count from the first whole window on
STEADY = 200  # steps; delays before are those of the start, whose windows are half empty
REPOSITORY = Path(__file__).parent.parent / "model_repo"
_JOINING_S = 8.0  # two workers have shared the partitions and made their windows by then
_QUIET_S = 30.0  # the network may take seconds for the windows of a poll
_NETWORK = {"GLAIM_IMPUTER": "triton", "GLAIM_TRITON_DEADLINE_S": "60"}  # no rung below it


class Way(NamedTuple):
    """A configuration of the worker, and the readings per second for which its topic is filled."""

    settings: Mapping[str, str]
    expected_per_s: int
    most_records: int = (
        2_000  # records of a poll, some 26 steps; with more, rows come in bursts longer than a short run
    )
    workers: int = 1  # one has a core of its own; two share both cores with the broker


WAYS = {
    "whole": Way(_NETWORK, 30_000),
    "whole_closed_form": Way({"GLAIM_IMPUTER": "gaussian"}, 160_000, most_records=20_000),
    "whole_two_workers": Way({"GLAIM_IMPUTER": "gaussian"}, 200_000, most_records=20_000, workers=2),
}


@dataclass(frozen=True)
class PlantLoad(TopicLoad):
    """Readings of the simulated plant."""

    groups: int = PLANTS
    sensors: tuple[str, ...] = tuple(sensor.id for sensor in SENSORS)
    model: str = MODEL
    step_ms: int = STEP_MS

    @property
    def names(self) -> list[str]:
        """The groups."""
        return [f"station-{group:04d}" for group in range(self.groups)]

    def truth(self, steps: int) -> NDArray[np.float64]:
        """The readings of the first steps, including those left out, [groups, sensors, steps]."""
        plant = simulate(steps / STEPS_PER_DAY, groups=self.groups, seed=7)
        return plant.values.astype(np.float64).round(3)

    def _steps(self) -> Iterator[Step]:
        random = np.random.default_rng(7)
        steps = int(self.readings / self.readings_per_step * 1.02) + 8  # by chance fewer may be missing
        names, truth = self.names, self.truth(steps)
        for step in range(steps):
            values = truth[:, :, step]
            present = (random.random(values.shape) >= self.missing).tolist()
            rows = [
                (name, list(compress(zip(self.sensors, row, strict=True), seen)))
                for name, row, seen in zip(names, values.tolist(), present, strict=True)
            ]
            yield step, FIRST_STEP_MS + step * self.step_ms, rows


def whole(bench: Bench, plan: BenchPlan, poll_records: int) -> Result:
    """Measure the rate that each way sustains, the errors of its rows, and a single worker's delay at half of the rate.

    Triton shares the broker's core, or both with the worker.
    """
    result: Result = {"whole_model": MODEL, "whole_every_core": plan.every_core}
    found: dict[str, Estimates] = {}
    cores = bench.every_core if plan.every_core else bench.broker_core
    with (
        bench.on(cores),
        triton_from_environment(REPOSITORY, models=[MODEL], environment={"OMP_NUM_THREADS": "1"}) as triton,
    ):
        for name, way in WAYS.items():
            measured, found[name] = _measured(bench, plan, name, way, triton.grpc_url, poll_records)
            result |= measured
    return result | _errors(found)


def _measured(
    bench: Bench, plan: BenchPlan, name: str, way: Way, triton: str, poll_records: int
) -> tuple[Result, Estimates]:
    alone = way.workers == 1
    cores = bench.engine_core if alone and not plan.every_core else bench.every_core
    settings = {
        "GLAIM_TRITON": triton,
        "GLAIM_MODEL_REPOSITORY": str(REPOSITORY),
        **way.settings,
    }
    engine = Glaim(name, min(poll_records, way.most_records), settings)
    warm_up_s = plan.warm_up_s if alone else max(plan.warm_up_s, _JOINING_S)
    load = PlantLoad(int((plan.seconds + warm_up_s) * way.expected_per_s))
    topic, filled = bench.fill(load, f"{name}-readings")
    job = bench.job(load, filled, topic, name)
    rate = run(
        engine,
        job,
        cores=cores,
        warm_up_s=warm_up_s,
        seconds=plan.seconds,
        processes=way.workers,
        quiet_s=_QUIET_S,
    )
    bench.console.print(f"{name}: {rate.per_s:,.0f}/s over {rate.seconds:.1f} s")
    result: Result = {f"{name}_per_s": round(rate.per_s), f"{name}_per_cpu_s": round(rate.per_cpu_s)}
    output = (each.value for each in read_topic(job.servers, job.output_topic, load.partitions))
    found = estimates(output, step_ms=load.step_ms, from_step=WINDOW)
    if alone:
        delay = delay_of(
            bench, plan, engine, load, rate.per_s / 2, f"{name}-latency", from_step=STEADY, cores=cores
        )  # fmt: skip
        result |= {
            f"{name}_start_ms_p50": delay.start_p50_ms,
            f"{name}_start_ms_p99": delay.start_p99_ms,
            f"{name}_latency_ms_p50": delay.p50_ms,
            f"{name}_latency_ms_p99": delay.p99_ms,
            f"{name}_latency_at_per_s": round(delay.per_s),
        }
    return result, found


def _errors(found: Mapping[str, Estimates]) -> Result:
    """The errors of each way on the estimates made by all ways, and their number."""
    keys, load = common(found.values()), PlantLoad(0)
    truth = load.truth(max((key[2] for key in keys), default=0) + 1)
    errors = {name: mean_error(way, keys, truth, load.names, list(load.sensors)) for name, way in found.items()}
    return {"whole_estimates": len(keys)} | {
        f"{name}_error": None if error is None else round(error, 4) for name, error in errors.items()
    }
