"""A chaos scenario: separate topics, a steady stream, workers that the test may kill, and a final audit."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from deploy.demo.topic import read_topic
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.core.settings import Settings
from glaim_stream.feed import Source, produce
from glaim_stream.kafka import ensure_topics
from glaim_stream.operate.audit import AuditReport, AuditRequest, audit
from glaim_stream.output import read_rows
from tests.chaos.stream import Row, Sent, recomputed, rows_of, send_steadily
from tests.integration.worker_process import WorkerProcess, wait_until_committed

TIMEOUT_S = 600.0  # generous, because the machine may be busy; no assertion depends on durations

STARTED = "started; SIGTERM or Ctrl-C ends it"  # logged once the signal handlers are installed

Key = tuple[str, str, int, int]


@dataclass
class Scenario:
    """One fault: its settings, workers and counts. `end` audits the output and writes the fault's line of the table."""

    family: str
    fault: str
    settings: Settings
    directory: Path
    results: Path
    constants: dict[str, float] = field(default_factory=dict)  # of the workers; see tests.constants
    workers: list[WorkerProcess] = field(default_factory=list)
    restarts: int = 0
    sent: int = 0  # messages that all streams send in total
    extra: dict[str, Any] = field(default_factory=dict)  # fields of the result line beside the counts
    start_s: float = field(default_factory=time.monotonic)

    def worker(self, number: int = 0, **changes: Any) -> WorkerProcess:
        """Start a worker; `changes` override the scenario's settings."""
        identity = {"instance_id": f"worker-{number}", "metrics_port": choose_port()}
        settings = self.settings.model_copy(update=identity | changes)
        ensure_topics(settings)
        worker = WorkerProcess(settings, self.directory / f"worker-{number}.log", constants=self.constants)
        self.workers.append(worker)
        return worker.start()

    def restart(self, worker: WorkerProcess, **changes: Any) -> None:
        """Start a worker that has exited again, and count the restart."""
        worker.settings = worker.settings.model_copy(update=changes)
        self.restarts += 1
        worker.start()

    @contextmanager
    def streaming(self, sent: Sent, *, rate_per_s: float = 900) -> Iterator[None]:
        """Produce in the background; if the block fails, the error shows the workers' logs."""
        ensure_topics(self.settings)
        self.sent += len(sent)
        with self._logs_on_failure():
            stream = Thread(target=send_steadily, args=(self.settings, sent), kwargs={"rate_per_s": rate_per_s})
            stream.start()
            try:
                yield
            finally:
                stream.join()

    @contextmanager
    def replaying(self, source: Source, *, speed: float | None = None) -> Iterator[None]:
        """Produce the readings of a source in the background, at `speed` times real time."""
        ensure_topics(self.settings)
        self.sent += len(source)
        with self._logs_on_failure(), ThreadPoolExecutor(1) as pool:
            report = pool.submit(produce, self.settings, source, speed=speed)
            yield
            assert report.result().failed_messages == 0

    def wait(
        self, *, additional: int | None = None, total: int | None = None, timeout_s: float = TIMEOUT_S
    ) -> dict[int, str | None]:
        """Wait for commits; see wait_until_committed. `additional` is limited to what the streams send in total."""
        return wait_until_committed(
            self.settings, additional=additional, total=total, at_most=self.sent or None, deadline_s=timeout_s
        )

    def supervise(self, worker: WorkerProcess, total: int) -> None:
        """Wait until `total` records are committed; restart the worker when it exits, as some faults make it do."""

        def done() -> bool:
            if not worker.running:
                self.restart(worker)
            try:
                wait_until_committed(self.settings, total=total, deadline_s=2)
            except TimeoutError:
                return False
            return True

        wait_for(done, f"{total} records to be committed", self.workers)

    def stop(self, *workers: WorkerProcess) -> None:
        """Send SIGTERM to these workers (default: all that run) and expect exit status 0."""
        for worker in workers or [worker for worker in self.workers if worker.running]:
            # Before Faust has installed its handlers, SIGTERM kills the process outright.
            wait_for(partial(is_up, worker), "the worker to start", [worker])
            status = worker.stop(TIMEOUT_S)
            assert status == 0, f"exit status {status}\n{worker.log.read_text()[-4000:]}"

    def end(
        self,
        *,
        recompute: bool = False,
        lossless: bool = True,
        from_offset: dict[int, int] | None = None,
        offsets_moved_back: bool = False,
    ) -> AuditReport:
        """Audit, expect 0 problems, and write the result line.

        Args:
            recompute: Also compare every row with an uninterrupted worker's. For scenarios whose output depends on
                the topic alone.
            lossless: False where the audit cannot read the beginning of the input: problems are allowed, losses not.
            from_offset: Audit the input from this offset on, by partition.
            offsets_moved_back: An operator has done so: with exactly-once delivery, two transactions then publish
                the same rows, and the audit must report that and nothing else.
        """
        allowed = {"repeated"} if offsets_moved_back and self.settings.delivery == "exactly_once" else set[str]()
        report = self.audited(lossless=lossless, from_offset=from_offset, problems=allowed)
        if recompute:
            with self._logs_on_failure():
                self._compare_with_an_uninterrupted_worker()
        self._write(report)
        return report

    def audited(
        self, *, lossless: bool = True, from_offset: dict[int, int] | None = None, problems: Collection[str] = ()
    ) -> AuditReport:
        """Audit and expect these problems alone; see `end`."""
        with self._logs_on_failure():
            report = audit(self.settings, AuditRequest(from_offset=from_offset))
            found = {name: finding for name, finding in report.problems.items() if finding.count}
            assert report.lost == 0, found
            assert found.keys() == set(problems) or not lossless, found
        return report

    def published(self) -> list[dict[Key, Row]]:
        """The rows of each output message, partition by partition, in order."""
        return [
            rows_of(record.value)
            for part in read_topic(self.settings, self.settings.output_topic).values()
            for record in part
        ]

    def dead_letters(self) -> list[dict[str, bytes]]:
        """The headers of each dead letter."""
        records = read_topic(self.settings, self.settings.dlq_topic).values()
        return [dict(record.headers) for part in records for record in part]

    def methods_by_message(self, partition: int = 0) -> list[set[str]]:
        """The methods that filled the values of each message of a partition, in order."""
        records = read_topic(self.settings, self.settings.output_topic)[partition]
        return [set(read_rows(record.value)["method"].to_pylist()) for record in records]

    def metric(self, worker: WorkerProcess, name: str) -> float:
        """The value of a worker's metric that has no labels."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{worker.settings.metrics_port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))

    def count_in_logs(self, text: str) -> int:
        """How often a text occurs in the workers' logs."""
        return sum(worker.log.read_text().count(text) for worker in self.workers)

    def _compare_with_an_uninterrupted_worker(self) -> None:
        records = read_topic(self.settings, self.settings.input_topic)
        expected = asyncio.run(recomputed(self.settings, records))
        found: dict[Key, Row] = {}
        for message in self.published():
            for key, row in message.items():
                assert found.setdefault(key, row) == row, f"{key} was published twice with different content"
        different = [
            (key, expected.get(key), found.get(key))
            for key in expected.keys() | found.keys()
            if expected.get(key) != found.get(key)
        ]
        assert not different, f"{len(different)} rows differ, the first: {different[:3]}"

    @contextmanager
    def _logs_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            for worker in self.workers:
                error.add_note(f"--- {worker.log.name}\n{worker.log.read_text()[-3000:]}")
                if worker.running:
                    worker.kill()
            raise

    def _write(self, report: AuditReport) -> None:
        counts = report.counts
        line = {
            "family": self.family,
            "delivery": self.settings.delivery,
            "fault": self.fault,
            "readings": counts["readings"],
            "rows": counts["rows"],
            "lost": report.lost,
            "identical_duplicates": counts["identical_duplicates"],
            "other_duplicates": counts["closed_by_clock_duplicates"] + counts["other_method_duplicates"],
            "dead_letters": report.dead_letters,
            "restarts": self.restarts,
            "seconds": round(time.monotonic() - self.start_s, 1),
        } | self.extra
        print(f"\n  {self.fault}: {json.dumps({name: line[name] for name in list(line)[2:]})}")
        with self.results.open("a") as file:
            file.write(json.dumps(line) + "\n")


def is_up(worker: WorkerProcess) -> bool:
    """Whether the worker has installed its signal handlers since its last start."""
    return worker.log.read_text().count(STARTED) >= worker.starts


def wait_for(condition: Callable[[], bool], what: str, workers: Sequence[WorkerProcess] = ()) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: If it does not within TIMEOUT_S; the message ends with the workers' logs.
    """
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end_s:
            logs = "\n".join(worker.log.read_text()[-3000:] for worker in workers)
            raise AssertionError(f"waited {TIMEOUT_S:.0f} s for {what}\n{logs}")
        time.sleep(0.1)


def fill_disk(filler: Path) -> None:
    """Fill the disk that a file is on."""
    with filler.open("wb", buffering=0) as file, suppress(OSError):  # a buffer would be written again at the end
        while True:
            file.write(b"\0" * 65536)
