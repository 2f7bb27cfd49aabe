"""Starts Kafka, Triton and the worker on this machine; all of them end with the demo, even if it is killed."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from deploy.cache import Report
from deploy.demo.scenario import Scenario
from deploy.errors import TritonUnavailable
from deploy.java import find_java
from deploy.kafka import ExternalKafka, kafka_from_environment
from deploy.kafka_artifacts import kafka_jars
from deploy.ports import LOOPBACK, choose_port
from deploy.process import ServerProcess
from deploy.triton import triton_from_environment
from deploy.triton_install import install_triton
from glaim_stream.core.settings import Settings, read_settings
from glaim_stream.kafka import ensure_topics, kafka_options

WORKER_DEADLINE_S = 60.0


@dataclass
class Stage:
    """The running parts and the settings for connecting to them."""

    settings: Settings
    worker: ServerProcess
    kafka: str  # description for the summary
    imputer: str  # description for the summary
    notes: list[str] = field(default_factory=list)  # deviations from the given options

    @property
    def page(self) -> str:
        """Address of the worker's page."""
        return f"http://{self.settings.page}/"


Phase = Callable[[str], object]


def fetch_parts(imputer: str, report: Report) -> str | None:
    """Fetch the missing parts; returns the reason why Triton cannot run here, or None if it can.

    Raises:
        DeployError: A part could not be fetched; the message names it and possible remedies.
    """
    if not os.environ.get("GLAIM_KAFKA"):
        find_java()
        kafka_jars(report)
    if imputer == "triton" and not os.environ.get("GLAIM_TRITON"):
        try:
            install_triton(report)
        except TritonUnavailable as error:
            return str(error)
    return None


@contextmanager
def running_stage(
    scenario: Scenario,
    *,
    imputer: str,
    triton_problem: str | None,
    model_repository: Path,
    folder: Path,
    phase: Phase,
    report: Report,
) -> Iterator[Stage]:
    """Start all parts; when this yields, the worker is ready to consume.

    Args:
        scenario: Supplies the catalogue and the model.
        imputer: `triton`, or `local` for the model inside the worker.
        triton_problem: Why Triton cannot run, or None. If set, the model runs in the worker and a note is added.
        model_repository: Directory of the models.
        folder: Directory for logs.
        phase: Receives the name of each part before it is started.
        report: Receives progress lines.
    """
    notes: list[str] = []
    with ExitStack() as stack:
        phase("Kafka")
        kafka = stack.enter_context(kafka_from_environment(report=report))
        external = isinstance(kafka, ExternalKafka)
        prefix = f"glaim-demo-{uuid.uuid4().hex[:8]}-" if external else ""
        overrides: dict[str, object] = {}
        if imputer == "triton" and triton_problem is None:
            phase("Triton")
            triton = stack.enter_context(
                triton_from_environment(model_repository, models=[scenario.model.name], report=report)
            )
            overrides |= {"imputer": "triton", "triton": triton.grpc_url}
            served = f"Triton at {triton.grpc_url}"
        else:
            overrides |= {"imputer": "local"}
            served = "the same TorchScript inside the worker"
            if triton_problem is not None:
                notes.append(f"No Triton: {triton_problem}. The worker runs the same TorchScript itself.")
        settings = read_settings(
            kafka=kafka.bootstrap_servers,
            input_topic=prefix + "sensor-readings",
            output_topic=prefix + "imputed-readings",
            quality_topic=prefix + "imputation-quality",
            health_topic=prefix + "sensor-health",
            consumer_group=prefix + "glaim-stream",
            catalogue=scenario.catalogue_path,
            model_repository=model_repository,
            metrics_host=LOOPBACK,
            metrics_port=choose_port(),
            page=f"{LOOPBACK}:{choose_port()}",
            # Hours pass in a minute here: the probe windows of more partitions would outnumber the holes.
            partitions=2,
            **overrides,
        )
        if external:
            # Registered before the worker, so that it runs after the worker has ended.
            stack.callback(_remove_topics, settings)
        ensure_topics(settings)
        phase("worker")
        worker = stack.enter_context(_running_worker(settings, folder))
        where = "at " + kafka.bootstrap_servers
        version = f"Kafka {where}" if external else f"Apache Kafka {where}"
        yield Stage(settings, worker, version, served, notes)


@contextmanager
def _running_worker(settings: Settings, folder: Path) -> Iterator[ServerProcess]:
    # Those that are not given here come from the inherited environment, from which they were read too.
    environment = os.environ | settings.environment
    log = folder / "worker.log"
    log.unlink(missing_ok=True)
    worker = ServerProcess(
        "the worker",
        [sys.executable, "-m", "glaim_stream", "worker"],
        environment=environment,
        log=log,
    )
    try:
        worker.start()
        worker.wait_ready(lambda: _worker_missing(settings), WORKER_DEADLINE_S)
        yield worker
    finally:
        worker.stop()


def _worker_missing(settings: Settings) -> str | None:
    """None once the worker has joined its consumer group and owns all partitions, otherwise what is missing."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{settings.metrics_port}/metrics", timeout=2):
            pass
    except (urllib.error.URLError, OSError) as error:
        return f"its metrics do not respond ({error})"
    try:
        admin = KafkaAdminClient(**kafka_options(settings))
    except KafkaError as error:
        return f"Kafka does not respond ({error})"
    try:
        state = str(admin.describe_groups([settings.consumer_group])[settings.consumer_group]["group_state"])
    except (KafkaError, KeyError) as error:
        return f"its consumer group does not exist yet ({error!r})"
    finally:
        admin.close()
    return None if state.lower() == "stable" else f"its consumer group is {state}"


def _remove_topics(settings: Settings) -> None:
    """Delete the topics on an external Kafka; failures are ignored, because the topic names are unique to this run."""
    try:
        admin = KafkaAdminClient(**kafka_options(settings))
    except KafkaError:
        return
    try:
        # The consumer group is left to the broker, which drops it when it is empty, after a session timeout.
        admin.delete_topics(list(settings.topics))
    except KafkaError:
        return
    finally:
        admin.close()
