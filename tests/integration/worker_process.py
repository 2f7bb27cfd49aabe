"""The worker as an operator runs it: a separate process, which tests may kill."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RetriableError,
)
from kafka.structs import OffsetAndMetadata

from deploy.cache import CHECKOUT
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.settings import Settings
from tests.command_line import call
from tests.constants import program as program_with


def plant_settings(kafka: str, prefix: str, **changes: object) -> Settings:
    """Settings for the shipped plant, with separate topics and consumer group for the test."""
    return Settings(
        kafka=kafka,
        catalogue=CHECKOUT / "deploy" / "catalogues" / "plant.yaml",
        model_repository=CHECKOUT / "model_repo",
        input_topic=prefix + "in",
        output_topic=prefix + "out",
        consumer_group=prefix + "worker",
        **changes,  # type: ignore[arg-type]
    )


def without_forms(folder: Path) -> Path:
    """A copy of the shipped models without their closed forms, for tests of the network alone."""
    ignored = shutil.ignore_patterns(FORM_FILE, "__pycache__")
    return Path(shutil.copytree(CHECKOUT / "model_repo", folder / "model_repo", ignore=ignored))


def small_settings(kafka: str, prefix: str, directory: Path, catalogue: str, **changes: object) -> Settings:
    """Settings for a catalogue of the test's own and one partition, with interpolation instead of a model."""
    path = directory / "groups.yaml"
    path.write_text(catalogue)
    given: dict[str, object] = {
        "kafka": kafka,
        "input_topic": prefix + "in",
        "output_topic": prefix + "out",
        "consumer_group": prefix + "worker",
        "catalogue": path,
        "imputer": "interpolation",
        "partitions": 1,
    }
    return Settings(**(given | changes))  # type: ignore[arg-type]


def environment_of(settings: Settings) -> dict[str, str]:
    """This process's environment plus the settings as an operator would give them."""
    return os.environ | settings.environment


def run_command(settings: Settings, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run `glaim-stream` with these arguments in a separate process; the caller checks the exit status."""
    return subprocess.run(
        [sys.executable, "-m", "glaim_stream", *arguments],
        env=environment_of(settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def call_command(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `glaim-stream` with these arguments inside this process, which saves the start of an interpreter."""
    return call(*arguments, environment=environment_of(settings))


class WorkerProcess:
    """A `glaim-stream worker` process with settings from the environment; its log goes to a file."""

    def __init__(
        self,
        settings: Settings,
        log: Path,
        program: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        constants: Mapping[str, float] | None = None,
    ) -> None:
        self.settings = settings
        self.environment = environment or {}  # beside the settings
        self.constants = dict(constants or {})  # see tests.constants
        self.program = program  # arguments of the interpreter; by default those of a worker
        self.log = log
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        self.starts += 1
        environment = {"GLAIM_METRICS_PORT": "0"} | environment_of(self.settings) | dict(self.environment)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *(self.program or [*program_with(self.constants), "worker"])],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self

    def kill(self) -> None:
        """Send SIGKILL: nothing is flushed, committed or closed."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_s: float = 30) -> int:
        """Send SIGTERM and return the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            self.kill()


def wait_until_committed(
    settings: Settings,
    *,
    additional: int | None = None,
    total: int | None = None,
    at_most: int | None = None,
    deadline_s: float = 60,
) -> dict[int, str | None]:
    """Wait until workers have committed all the input, or `total` records, or `additional` ones beyond those of now.

    A stream may end before so many additional records: `at_most` is the number that it sends in total.

    Returns:
        The commits' metadata by partition.
    """
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka)
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    try:
        end_s = time.monotonic() + deadline_s
        ends = _ends(consumer, settings.input_topic, end_s)
        before = _commits(admin, settings.consumer_group)
        wanted = total or sum(ends.values())
        if additional is not None:
            wanted = additional + sum(before[tp].offset for tp in ends if tp in before)
            wanted = wanted if at_most is None else min(wanted, at_most)
        while True:
            commits = _commits(admin, settings.consumer_group)
            done = {tp: commits[tp] for tp in ends if tp in commits and commits[tp].offset > 0}
            committed = sum(commit.offset for commit in done.values())
            if committed >= wanted:
                return {tp.partition: commit.metadata for tp, commit in done.items()}
            if time.monotonic() > end_s:
                raise TimeoutError(f"{committed} of {wanted} records committed after {deadline_s} s")
            time.sleep(0.1)
    finally:
        admin.close()
        consumer.close()


def _ends(consumer: KafkaConsumer, topic: str, end_s: float) -> dict[TopicPartition, int]:
    """The end of each partition; a broker that was paused names no broker until the controller has heard from it."""
    while True:
        try:
            numbers = consumer.partitions_for_topic(topic) or ()
            return consumer.end_offsets([TopicPartition(topic, number) for number in numbers])
        except RetriableError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.1)


def _commits(admin: KafkaAdminClient, consumer_group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    try:
        return admin.list_group_offsets(consumer_group).get(consumer_group, {})
    except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
        return {}  # the broker is still creating the topic that holds the commits
