"""A worker's health pages while a real Kafka and a real Triton start and stop, and while its loop is blocked."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import LocalTriton
from deploy.triton_install import unsupported_reason
from glaim_stream.core.settings import Settings
from glaim_stream.feed import plant_source, produce
from glaim_stream.kafka import ensure_topics
from tests.integration.worker_process import WorkerProcess, environment_of, plant_settings, wait_until_committed
from tests.worker.test_health import get

TIMEOUT_S = 60.0
SILENCE_S = 2.0


class Pages:
    """The health pages of one worker."""

    def __init__(self, settings: Settings) -> None:
        self._port = settings.metrics_port

    def status(self, page: str) -> int:
        """The HTTP status of a page; 0 while nothing listens."""
        try:
            return get(self._port, f"/health/{page}")[0]
        except OSError:
            return 0

    @property
    def statuses(self) -> tuple[int, int, int]:
        return self.status("live"), self.status("started"), self.status("ready")

    @property
    def all(self) -> Any:
        return get(self._port, "/health")[1]

    def why_not(self, page: str) -> list[str]:
        try:
            why_not: list[str] = get(self._port, f"/health/{page}")[1]["why_not"]
        except OSError as error:
            return [repr(error)]
        return why_not

    def wait(self, *statuses: int) -> None:
        wait_for(lambda: self.statuses == statuses, lambda: self.all)


def wait_for(condition: Callable[[], bool], found: Callable[[], object]) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, f"waited {TIMEOUT_S} s, found {found()}"
        time.sleep(0.1)


def health_settings(kafka: str, prefix: str, **more: object) -> Settings:
    return plant_settings(
        kafka,
        prefix,
        kafka_extra={"session_timeout_ms": 6000, "auto_commit_interval_ms": 200},
        metrics_host=LOOPBACK,
        metrics_port=choose_port(),
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.slow  # quicker: each page and its causes in tests/worker/test_health.py
def test_health_pages_follow_the_state_of_kafka_and_triton(topic_prefix: str, tmp_path: Path) -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    triton = LocalTriton(CHECKOUT / "model_repo", models=["plant-pump"], grpc_port=choose_port())
    address = f"{LOOPBACK}:{triton._requested_ports[0]}"
    with LocalKafka(jvm_options=QUICK_START) as kafka:
        settings = health_settings(
            kafka.bootstrap_servers, topic_prefix, partitions=1, triton=address, triton_deadline_s=0.5
        )
        spare = settings.model_copy(update={"metrics_port": choose_port()})
        ensure_topics(settings)
        source = plant_source(groups=2, days=30 / 1440, seed=3)
        both = [Pages(settings), Pages(spare)]
        with WorkerProcess(settings, tmp_path / "worker.log"), WorkerProcess(spare, tmp_path / "spare.log"):
            try:
                for pages in both:  # without a Triton they join the group and report what they wait for
                    wait_for(partial(waits_only_for_triton, pages, address), partial(pages.why_not, "started"))
                    assert pages.statuses == (200, 503, 503)
                triton.start()
                for pages in both:  # one partition, two workers: the idle worker is ready too
                    pages.wait(200, 200, 200)
                assert sorted(len(pages.all["partitions"]) for pages in both) == [0, 1]
                assert produce(settings, source).failed_messages == 0
                wait_until_committed(settings, total=len(source))
                triton.kill()
                assert produce(settings, source).failed_messages == 0  # the same readings again: no new rows, but work
                wait_until_committed(settings, total=2 * len(source))
                for pages in both:
                    assert pages.statuses == (200, 200, 200), pages.all
                kafka.kill()
                until_s = time.monotonic() + 2 * SILENCE_S + 1
                while time.monotonic() < until_s:
                    assert [pages.status("live") for pages in both] == [200, 200]
                    time.sleep(0.2)
            finally:
                triton.stop()


def waits_only_for_triton(pages: Pages, address: str) -> bool:
    why_not = pages.why_not("started")
    return (
        len(why_not) == 1
        and why_not[0].startswith("model plant-pump: triton has not answered yet")
        and address in why_not[0]
    )


BLOCKING_WORKER = """
import sys, time
from pathlib import Path
from importlib import import_module
worker = import_module("glaim_stream.worker.run")
from glaim_stream.core.settings import read_settings

built = worker.create_app
def create_app(*given):
    app = built(*given)
    @app.task
    async def block():
        while not Path(sys.argv[1]).exists():
            await app.sleep(0.1)
        time.sleep(float(sys.argv[2]))  # blocks the event loop
        while not Path(sys.argv[3]).exists():
            await app.sleep(0.1)
        for agent in app.agents.values():  # stops the agent and the supervisor that would restart it
            await agent.supervisor.stop()
    return app
worker.create_app = create_app
worker.LOOP_SILENCE_S = float(sys.argv[2]) / 2.5
worker.run_worker(read_settings())
"""


@pytest.mark.slow  # quicker: tests/worker/test_health.py
def test_live_fails_while_the_loop_is_blocked_and_after_the_agent_died(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = health_settings(kafka.bootstrap_servers, topic_prefix, imputer="interpolation")
    pages, now, dead = Pages(settings), tmp_path / "now", tmp_path / "dead"
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", BLOCKING_WORKER, str(now), str(2.5 * SILENCE_S), str(dead)],
            env=environment_of(settings),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: pages.statuses == (200, 200, 200), (tmp_path / "worker.log").read_text)
        now.touch()
        pages.wait(503, 200, 200)
        (why_not,) = pages.why_not("live")
        assert why_not.startswith("the event loop has not run for ")
        assert why_not.endswith("2 s are allowed")
        pages.wait(200, 200, 200)
        dead.touch()
        pages.wait(503, 200, 200)
        (why_not,) = pages.why_not("live")
        assert why_not.startswith("no agent has been at work for ")
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow  # quicker: tests/worker/test_health.py
def test_a_worker_reports_in_one_line_that_its_port_is_taken(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = health_settings(kafka.bootstrap_servers, topic_prefix, imputer="interpolation")
    with WorkerProcess(settings, tmp_path / "first.log"), WorkerProcess(settings, tmp_path / "second.log"):
        logs = [tmp_path / "first.log", tmp_path / "second.log"]
        sentence = f"error: GLAIM_METRICS_HOST, GLAIM_METRICS_PORT: expected an address to listen on, '{LOOPBACK}' port"
        wait_for(lambda: any(sentence in log.read_text() for log in logs), lambda: [log.read_text() for log in logs])
