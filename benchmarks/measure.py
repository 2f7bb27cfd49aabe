"""Runs one engine on a topic that is already full, and derives its rate from the output."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from benchmarks.engines import Engine, EngineOutput, Job
from benchmarks.topics import make_topic, read_topic

_START_S = 60.0  # time limit for the first output
_QUIET_S = 3.0  # after this time without new output the engine has reached the end, if a run states no other
_PAUSE_S = 0.25
_MIN_S = 0.05  # the broker's times are in milliseconds: over a shorter time a rate would be off by more than 2 %
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class EngineFailed(Exception):
    """An engine exited or produced no output."""


@dataclass(frozen=True)
class Rate:
    """The measurement between the end of the warm-up and the last output."""

    readings: int
    seconds: float
    cpu_s: float  # processor time of the engine in that time

    @property
    def per_s(self) -> float:
        """Readings per second."""
        return self.readings / self.seconds

    @property
    def per_cpu_s(self) -> float:
        """Readings per second of the engine's CPU time, which depends least on other load of the machine."""
        return self.readings / self.cpu_s


def run(
    engine: Engine,
    job: Job,
    *,
    cores: set[int] | None,
    warm_up_s: float,
    seconds: float,
    processes: int = 1,
    at_end: Callable[[], object] = lambda: None,
    quiet_s: float = _QUIET_S,
) -> Rate:
    """Run the engine on `cores` for `seconds` after its warm-up, or until the end of the topic.

    Several processes share the partitions. `at_end` is called while they are still there.
    """
    make_topic(job.servers, job.output_topic, job.load.partitions)
    with ExitStack() as stack:
        running = [stack.enter_context(started(engine, job, cores, number)) for number in range(processes)]
        cpu = _watch(running, job, warm_up_s + seconds, quiet_s)
        at_end()
    outputs = read_topic(job.servers, job.output_topic, job.load.partitions)
    return _rate(engine, engine.readings_after(job, outputs), outputs, cpu, warm_up_s)


@contextmanager
def started(engine: Engine, job: Job, cores: set[int] | None, number: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of the engine on `cores` during the block; an EngineFailed includes the end of its log."""
    log_path = job.directory / f"{engine.name}-{number}.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            engine.command(job),
            env=os.environ | engine.environment(job),
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
        )
        try:
            yield process
        except EngineFailed as error:
            raise EngineFailed(f"{engine.name}: {error}\n{log_path.read_text(errors='replace')[-2000:]}") from error
        finally:
            process.kill()  # later output does not count, and a graceful shutdown takes some seconds
            process.wait()


def _watch(
    processes: Sequence[subprocess.Popen[bytes]], job: Job, seconds: float, quiet_s: float
) -> list[tuple[float, float]]:
    """Wait until the engine is done; returns a sample (wall time, its CPU seconds) for every half second."""
    consumer = KafkaConsumer(bootstrap_servers=job.servers)
    partitions = [TopicPartition(job.output_topic, number) for number in range(job.load.partitions)]
    samples: list[tuple[float, float]] = []
    started, first, grown, seen = time.time(), 0.0, 0.0, 0
    try:
        while True:
            time.sleep(0.5)
            for process in processes:
                if process.poll() is not None:
                    raise EngineFailed(f"ended with status {process.returncode}")
            now = time.time()
            samples.append((now, sum(_cpu_s(process.pid) for process in processes)))
            count = sum(consumer.end_offsets(partitions).values())
            if count > seen:
                seen, grown, first = count, now, first or now
            if not first and now - started > _START_S:
                raise EngineFailed(f"no output within {_START_S:.0f} s")
            if first and (now - first > seconds or now - grown > quiet_s):
                return samples
    finally:
        consumer.close()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S  # user and system time


def _rate(
    engine: Engine,
    counts: Sequence[int],
    outputs: Sequence[EngineOutput],
    cpu: list[tuple[float, float]],
    warm_up_s: float,
) -> Rate:
    at_s = [output.timestamp / 1000 for output in outputs]
    begin = next((n for n, time_s in enumerate(at_s) if time_s >= at_s[0] + warm_up_s), len(at_s) - 1)
    end = len(at_s) - 1
    # An engine that writes in bursts is measured from the end of one burst to the end of another.
    burst_ends = [n for n in range(begin, end) if at_s[n + 1] - at_s[n] > _PAUSE_S]
    if len(burst_ends) > 1:
        begin, end = burst_ends[0], burst_ends[-1]
    seconds, readings = at_s[end] - at_s[begin], counts[end] - counts[begin]
    if seconds < _MIN_S or readings <= 0:
        raise EngineFailed(
            f"{engine.name}: the end of the topic was reached after {at_s[-1] - at_s[0]:.1f} s; use more readings"
        )
    return Rate(readings, seconds, _interpolated(cpu, at_s[end]) - _interpolated(cpu, at_s[begin]))


def _interpolated(samples: list[tuple[float, float]], time_s: float) -> float:
    before = max((sample for sample in samples if sample[0] <= time_s), default=samples[0])
    after = min((sample for sample in samples if sample[0] > time_s), default=samples[-1])
    span_s = after[0] - before[0]
    share = (time_s - before[0]) / span_s if span_s > 0 else 0.0
    return before[1] + share * (after[1] - before[1])
