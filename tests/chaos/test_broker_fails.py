"""A broker that dies, is cut off, is slow or has a full disk: the worker waits, and then nothing is missing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.kafka import QUICK_START, LocalKafka
from deploy.ports import choose_port
from tests.chaos.conftest import MakeScenario
from tests.chaos.harness import wait_for
from tests.chaos.proxy import Proxy
from tests.chaos.stream import messages

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

DISK_MB = 96


def test_a_broker_that_is_killed_and_comes_back_costs_nothing(scenario: MakeScenario, tmp_path: Path) -> None:
    with LocalKafka(tmp_path / "kafka", jvm_options=QUICK_START) as broker:
        it = scenario(broker.bootstrap_servers, "broker killed, started again 2 s later")
        sent = messages(steps=150, seed=11)
        it.worker()
        with it.streaming(sent):
            it.wait(more=len(sent) // 4)
            broker.kill()
            time.sleep(2)
            broker.restart()
            it.wait(all_of=len(sent))
        it.stop()
        it.end(recompute=True)


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[LocalKafka, Proxy]]:
    """A broker, and the only way to it that a worker knows."""
    port = choose_port()
    with Proxy(port) as proxy, LocalKafka(by_proxy=(port, proxy.port), jvm_options=QUICK_START) as broker:
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
    ("what", "harm"),
    [
        ("no byte passes for 3 s", held_for(3)),
        ("no byte passes for 15 s, and the group gives it up after 6", held_for(15)),
        ("connections reset, 12 times in 6 s", reset_often),
        ("0.5 s a packet for 6 s", slow),
    ],
    ids=["held", "held-beyond-the-session", "reset", "slow"],
)
def test_a_network_that_fails_between_worker_and_broker_heals(
    what: str, harm: Callable[[Proxy], None], proxied: tuple[LocalKafka, Proxy], scenario: MakeScenario
) -> None:
    broker, proxy = proxied
    it = scenario(broker.bootstrap_servers, f"worker and broker apart: {what}")
    sent = messages(steps=150, seed=12)
    worker = it.worker(kafka=proxy.address)
    with it.streaming(sent):
        it.wait(more=len(sent) // 4)
        harm(proxy)
        it.supervise(worker, len(sent))
    it.stop()
    it.end(recompute=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of DISK_MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a disk that fills up takes the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_broker_whose_disk_is_full_dies_and_loses_nothing_that_it_took(
    scenario: MakeScenario, small_disk: Path
) -> None:
    # A segment's indexes are made at their full size, which would be the disk.
    properties = {"log.index.size.max.bytes": "65536", "log.segment.bytes": "1048576"}
    with LocalKafka(small_disk / "kafka", properties=properties, jvm_options=QUICK_START) as broker:
        it = scenario(broker.bootstrap_servers, "the broker's disk is full, it ends; room made, started again")
        sent = messages(steps=150, seed=13)
        worker = it.worker()
        with it.streaming(sent, rate_per_s=500):
            it.wait(more=len(sent) // 4)
            filler = small_disk / "filler"
            fill(filler, small_disk)
            wait_for(lambda: not broker.running, "the broker to end", it.workers)
            filler.unlink()
            broker.restart()
            it.supervise(worker, len(sent))
        it.stop()
        it.end(recompute=True)


def fill(filler: Path, disk: Path) -> None:
    """Take all the room there is."""
    with filler.open("wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            pass
    assert os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize < 65536
