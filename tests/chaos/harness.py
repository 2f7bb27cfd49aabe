"""One scenario: topics of its own, a steady stream, workers to hurt, and at the end the same audit for all of them."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from deploy.demo.topic import read_topic
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.audit import AuditReport, audit
from glaim_stream.feed.produce import produce
from glaim_stream.feed.sources import Source
from glaim_stream.kafka.topics import ensure_topics
from glaim_stream.records import read_rows
from glaim_stream.settings import Settings
from tests.chaos.stream import Row, Sent, recomputed, rows_of, send_steadily
from tests.integration.worker_process import WorkerProcess, wait_until_committed

PATIENCE_S = 600.0  # the machine may do much else; nothing here depends on how long things take

UP = "[^-WorkerApp]: Starting"  # what Faust's log says once it has taken the signals over

Key = tuple[str, str, int, int]


@dataclass
class Scenario:
    """A fault in the making; `end` audits and writes its line of the table."""

    family: str
    fault: str
    settings: Settings
    directory: Path
    results: Path
    workers: list[WorkerProcess] = field(default_factory=list)
    restarts: int = 0
    sent: int = 0  # messages of all streams, when they end
    more: dict[str, Any] = field(default_factory=dict)  # what a line says beside the counts
    start_s: float = field(default_factory=time.monotonic)

    def worker(self, number: int = 0, **changes: Any) -> WorkerProcess:
        """A worker that runs, with settings of its own."""
        own = {"instance_id": f"worker-{number}", "metrics_port": choose_port()}
        settings = self.settings.model_copy(update=own | changes)
        ensure_topics(settings)
        worker = WorkerProcess(settings, self.directory / f"worker-{number}.log")
        self.workers.append(worker)
        return worker.start()

    def again(self, worker: WorkerProcess, **changes: Any) -> None:
        """Start a worker again that has ended."""
        worker.settings = worker.settings.model_copy(update=changes)
        self.restarts += 1
        worker.start()

    @contextmanager
    def streaming(self, sent: Sent, *, rate_per_s: float = 900) -> Iterator[None]:
        """Produces while the test does what it does; a wait that fails shows the workers' logs."""
        ensure_topics(self.settings)
        self.sent += len(sent)
        with self._watched():
            stream = Thread(target=send_steadily, args=(self.settings, sent), kwargs={"rate_per_s": rate_per_s})
            stream.start()
            try:
                yield
            finally:
                stream.join()

    @contextmanager
    def replaying(self, source: Source, *, speed: float | None = None) -> Iterator[None]:
        """The same with readings of a source, at a multiple of real time."""
        ensure_topics(self.settings)
        self.sent += len(source)
        with self._watched(), ThreadPoolExecutor(1) as pool:
            report = pool.submit(produce, self.settings, source, speed=speed)
            yield
            assert report.result().failed_messages == 0

    def wait(
        self, *, more: int | None = None, all_of: int | None = None, patience_s: float = PATIENCE_S
    ) -> dict[int, str | None]:
        """Wait for commits; see wait_until_committed. For `more`, at most until all of what the streams send."""
        return wait_until_committed(
            self.settings, more=more, all_of=all_of, at_most=self.sent or None, deadline_s=patience_s
        )

    def supervise(self, worker: WorkerProcess, all_of: int) -> None:
        """Wait until all of it is committed, and start a worker again that ends by itself: some faults are that bad."""

        def done() -> bool:
            if not worker.running:
                self.again(worker)
            try:
                wait_until_committed(self.settings, all_of=all_of, deadline_s=2)
            except TimeoutError:
                return False
            return True

        wait_for(done, f"{all_of} records to be committed", self.workers)

    def stop(self, *workers: WorkerProcess) -> None:
        """SIGTERM, and an end in order."""
        for worker in workers or [worker for worker in self.workers if worker.running]:
            # While it is still importing, SIGTERM ends it as any process: there is nothing to end in order.
            wait_for(partial(is_up, worker), "the worker to be up", [worker])
            status = worker.stop(PATIENCE_S)
            assert status == 0, f"exit status {status}\n{worker.log.read_text()[-4000:]}"

    def end(
        self, *, recompute: bool = False, lossless: bool = True, from_offset: dict[int, int] | None = None
    ) -> AuditReport:
        """Audit; 0 problems. With `recompute`, also hold every row against an uninterrupted worker's.

        Args:
            recompute: for scenarios whose whole output is a function of the topic.
            lossless: False where the audit itself cannot know the beginning: its problems but not losses are allowed.
            from_offset: judge the input from here, by partition.
        """
        report = self.audited(lossless=lossless, from_offset=from_offset)
        if recompute:
            with self._watched():
                self._hold_against_an_uninterrupted_worker()
        self._write(report)
        return report

    def audited(self, *, lossless: bool = True, from_offset: dict[int, int] | None = None) -> AuditReport:
        """An audit with 0 problems; see `end`."""
        with self._watched():
            report = audit(self.settings, from_offset=from_offset)
            problems = {name: finding for name, finding in report.problems.items() if finding.count}
            assert report.lost == 0, problems
            assert report.clean or not lossless, problems
        return report

    def published(self) -> list[dict[Key, Row]]:
        """Rows of each output message, partition by partition, in order."""
        return [
            rows_of(record.value)
            for part in read_topic(self.settings, self.settings.output_topic).values()
            for record in part
        ]

    def letters(self) -> list[dict[str, bytes]]:
        """Headers of each dead letter."""
        records = read_topic(self.settings, self.settings.dlq_topic).values()
        return [dict(record.headers) for part in records for record in part]

    def methods(self, partition: int = 0) -> list[set[str]]:
        """Who made the values of each message of a partition, in order."""
        records = read_topic(self.settings, self.settings.output_topic)[partition]
        return [set(read_rows(record.value)["method"].to_pylist()) for record in records]

    def measured(self, worker: WorkerProcess, name: str) -> float:
        """A counter of a worker, without labels."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{worker.settings.metrics_port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))

    def said(self, text: str) -> int:
        """How often the workers' logs say something."""
        return sum(worker.log.read_text().count(text) for worker in self.workers)

    def _hold_against_an_uninterrupted_worker(self) -> None:
        records = read_topic(self.settings, self.settings.input_topic)
        expected = asyncio.run(recomputed(self.settings, records))
        found: dict[Key, Row] = {}
        for message in self.published():
            for key, row in message.items():
                assert found.setdefault(key, row) == row, f"{key} came twice with different content"
        different = [
            (key, expected.get(key), found.get(key))
            for key in expected.keys() | found.keys()
            if expected.get(key) != found.get(key)
        ]
        assert not different, f"{len(different)} rows, the first: {different[:3]}"

    @contextmanager
    def _watched(self) -> Iterator[None]:
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
            "fault": self.fault,
            "readings": counts["readings"],
            "rows": counts["rows"],
            "lost": report.lost,
            "identical_duplicates": counts["identical_duplicates"],
            "other_duplicates": counts["closed_by_clock_duplicates"] + counts["other_method_duplicates"],
            "dead_letters": report.dead_letters,
            "restarts": self.restarts,
            "seconds": round(time.monotonic() - self.start_s, 1),
        } | self.more
        print(f"\n  {self.fault}: {json.dumps({name: line[name] for name in list(line)[2:]})}")
        with self.results.open("a") as file:
            file.write(json.dumps(line) + "\n")


def is_up(worker: WorkerProcess) -> bool:
    """Whether the worker, since it was started last, has taken the signals over."""
    return worker.log.read_text().count(UP) >= worker.starts


def wait_for(condition: Callable[[], bool], what: str, workers: Sequence[WorkerProcess] = ()) -> None:
    """Wait until something has come about.

    Raises:
        AssertionError: it has not after a long time; with the ends of the workers' logs.
    """
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end_s:
            logs = "\n".join(worker.log.read_text()[-3000:] for worker in workers)
            raise AssertionError(f"waited {PATIENCE_S:.0f} s in vain for {what}\n{logs}")
        time.sleep(0.1)
