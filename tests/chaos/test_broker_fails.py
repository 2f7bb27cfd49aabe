"""A broker that is killed, cut off, slow or out of disk space: the worker waits, and afterwards no row is missing."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.kafka import QUICK_START, LocalKafka
from deploy.ports import choose_port
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import fill_disk, wait_for
from tests.chaos.proxy import Proxy
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

DISK_MB = 96


def test_no_row_is_lost_when_the_broker_is_killed_and_restarted(scenario: MakeScenario, tmp_path: Path) -> None:
    with LocalKafka(tmp_path / "kafka", jvm_options=QUICK_START) as broker:
        run = scenario(broker.bootstrap_servers, "broker killed, restarted 2 s later")
        sent = messages(steps=150, seed=11)
        run.worker()
        with run.streaming(sent):
            run.wait(additional=len(sent) // 4)
            broker.kill()
            time.sleep(2)
            broker.restart()
            run.wait(total=len(sent))
        run.stop()
        run.end(recompute=True)


@pytest.fixture(scope="module")
def broker_behind_proxy() -> Iterator[tuple[LocalKafka, Proxy]]:
    """A broker that advertises the proxy's address, so that all traffic of the worker passes the proxy."""
    port = choose_port()
    with Proxy(port) as proxy, LocalKafka(by_proxies=[(port, proxy.port)], jvm_options=QUICK_START) as broker:
        yield broker, proxy


def held_for(seconds: float) -> Callable[[Proxy], None]:
    def hold(proxy: Proxy) -> None:
        proxy.hold()
        time.sleep(seconds)
        proxy.heal()

    return hold


def reset_often(proxy: Proxy) -> None:
    for _ in range(12):
        proxy.reset()
        time.sleep(0.5)


def slow(proxy: Proxy) -> None:
    proxy.delay(0.5)
    time.sleep(6)
    proxy.heal()


@pytest.mark.parametrize(
    ("what_happens", "break_network"),
    [
        ("no data for 3 s", held_for(3)),
        ("no data for 15 s, session timeout 6 s", held_for(15)),
        ("connections reset 12 times in 6 s", reset_often),
        ("0.5 s delay per packet for 6 s", slow),
    ],
    ids=["held", "held-beyond-the-session", "reset", "slow"],
)
def test_no_row_is_lost_when_the_network_between_worker_and_broker_fails_and_recovers(
    what_happens: str,
    break_network: Callable[[Proxy], None],
    broker_behind_proxy: tuple[LocalKafka, Proxy],
    scenario: MakeScenario,
) -> None:
    broker, proxy = broker_behind_proxy
    run = scenario(broker.bootstrap_servers, f"network between worker and broker: {what_happens}")
    sent = messages(steps=150, seed=12)
    worker = run.worker(kafka=proxy.address)
    with run.streaming(sent):
        run.wait(additional=len(sent) // 4)
        break_network(proxy)
        run.supervise(worker, len(sent))
    run.stop()
    run.end(recompute=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of DISK_MB megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs, the disk that fills up, needs root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_broker_that_exits_on_a_full_disk_loses_nothing_that_it_acknowledged(
    scenario: MakeScenario, small_disk: Path
) -> None:
    # Kafka allocates a segment's indexes at full size, which by default would fill the disk.
    properties = {"log.index.size.max.bytes": "65536", "log.segment.bytes": "1048576"}
    with LocalKafka(small_disk / "kafka", properties=properties, jvm_options=QUICK_START) as broker:
        run = scenario(broker.bootstrap_servers, "broker exits on a full disk; space freed, broker restarted")
        sent = messages(steps=150, seed=13)
        worker = run.worker()
        with run.streaming(sent, rate_per_s=500):
            run.wait(additional=len(sent) // 4)
            filler = small_disk / "filler"
            fill_disk(filler)
            wait_for(lambda: not broker.running, "the broker to exit", run.workers)
            filler.unlink()
            broker.restart()
            run.supervise(worker, len(sent))
        run.stop()
        run.end(recompute=True)
