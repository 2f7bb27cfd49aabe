"""The parts of a random run: broker, Triton, proxies between them and the workers, and a supervisor of the workers."""

import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock, Thread

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.runner import LocalServer
from deploy.triton import LocalTriton
from glaim_stream.core.contract import FORM_FILE
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics
from tests.chaos.harness import STARTED
from tests.chaos.proxy import Proxy
from tests.chaos.randomised.feed import CATALOGUE, PARTITIONS
from tests.chaos.randomised.schedule import SESSION_S, WORKERS
from tests.integration.worker_process import WorkerProcess

PROGRAM = ("-m", "tests.chaos.randomised.worker")
DISK_MB = 256
# Of the network to the broker, each way: a transaction takes several round trips, so most faults hit one that is open.
LATENCY_S = 0.02
# Kafka allocates a segment's indexes at full size, which by default would fill a small disk.
SMALL_FILES = {"log.index.size.max.bytes": "65536", "log.segment.bytes": "1048576"}


class Member:
    """A worker under a supervisor, its proxy to the broker and its wall clock."""

    def __init__(self, settings: Settings, network: Proxy, directory: Path, number: int, without: str | None) -> None:
        self.network = network
        network.delay(LATENCY_S)
        self.restarts = 0  # after exits of its own accord
        self._clock = directory / f"clock-{number}"
        self._log_from = 0
        self._wanted = False
        self._lock = RLock()
        self.set_clock(0)
        environment = {"CHAOS_CLOCK": str(self._clock), "CHAOS_WITHOUT": without or ""}
        self.process = WorkerProcess(settings, directory / f"worker-{number}.log", PROGRAM, environment)

    def set_clock(self, seconds: float) -> None:
        """Make the wall clock wrong by so many seconds."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    def start(self) -> None:
        """Start it, with a clock that is right."""
        with self._lock:
            self._wanted = True
            self.set_clock(0)
            self._log_from = self.process.log.stat().st_size if self.process.log.exists() else 0
            self.process.start()

    @property
    def up(self) -> bool:
        """Whether it has installed its signal handlers: before, SIGTERM kills the process outright."""
        return STARTED in self.process.log.read_text()[self._log_from :]

    def kill(self) -> None:
        """Send SIGKILL."""
        with self._lock:
            self._wanted = False
            if self.process.running:
                self.process.kill()

    def stop(self, grace_s: float) -> int | None:
        """Send SIGTERM, and SIGKILL after `grace_s`; return the exit status, None where it was killed."""
        with self._lock:
            self._wanted = False
            if not self.process.running:
                return None
        try:
            return self.process.stop(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP, then SIGCONT."""
        pid = self.process.pid if self.process.running else None
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            if pid is not None and self.process.running and self.process.pid == pid:
                os.kill(pid, signal.SIGCONT)

    def supervise(self) -> None:
        """Start it again if it has exited by itself."""
        with self._lock:
            if self._wanted and not self.process.running:
                self.restarts += 1
                self.start()


@dataclass
class Parts:
    """Everything that a fault may damage."""

    broker: LocalKafka
    triton: LocalTriton
    model_network: Proxy
    members: list[Member]
    settings: Settings
    small_disk: Path | None  # with the broker's data; None where none may be mounted
    ended: Event = field(default_factory=Event)

    def supervise(self) -> None:
        """Restart workers that exit, until `ended`."""
        while not self.ended.wait(0.3):
            for member in self.members:
                member.supervise()


@contextmanager
def started(directory: Path, prefix: str, *, named: bool, without: str | None) -> Iterator[Parts]:
    """Start broker, Triton and proxies, and supervise the workers, which are not started yet.

    Args:
        directory: for logs and for what the servers keep.
        prefix: of topics and of the consumer group.
        named: whether the workers are static members of their group.
        without: a name of worker.REMOVALS; None: the worker is whole.
    """
    with ExitStack() as stack:
        listeners = [choose_port() for _ in range(WORKERS + 1)]
        networks = [stack.enter_context(Proxy(port)) for port in listeners]
        disk = stack.enter_context(_small_disk(directory / "disk"))
        broker = stack.enter_context(
            LocalKafka(
                (disk or directory) / "kafka",
                by_proxies=[(port, proxy.port) for port, proxy in zip(listeners, networks, strict=True)],
                properties=SMALL_FILES if disk else {},
                jvm_options=QUICK_START,
            )
        )
        repository = _models(directory / "models")
        triton = stack.enter_context(LocalTriton(repository))
        model_network = stack.enter_context(Proxy(int(triton.grpc_url.rsplit(":", 1)[1])))
        catalogue = directory / "groups.yaml"
        catalogue.write_text(CATALOGUE)
        settings = Settings(
            kafka=broker.bootstrap_servers,
            input_topic=prefix + "in",
            output_topic=prefix + "out",
            consumer_group=prefix + "worker",
            partitions=PARTITIONS,
            delivery="exactly_once",
            kafka_extra={"session_timeout_ms": round(SESSION_S * 1000)},
            catalogue=catalogue,
            model_repository=repository,
            triton=model_network.address,
        )
        ensure_topics(settings)
        members = [
            Member(_member_settings(settings, number, network, named=named), network, directory, number, without)
            for number, network in enumerate(networks)
        ]
        parts = Parts(broker, triton, model_network, members, settings, disk)
        supervisor = Thread(target=parts.supervise, daemon=True)
        supervisor.start()
        try:
            yield parts
        finally:
            parts.ended.set()
            supervisor.join(30)
            for member in members:
                member.kill()


def _member_settings(settings: Settings, number: int, network: Proxy, *, named: bool) -> Settings:
    changes = {
        "kafka": network.address,
        "metrics_port": choose_port(),
        "metrics_host": LOOPBACK,
        "instance_id": f"worker-{number}" if named else None,
    }
    return settings.model_copy(update=changes)


def _models(repository: Path) -> Path:
    """The plant's model for steps of a second, so that a minute has many of them."""
    ignored = shutil.ignore_patterns("manifest.json", FORM_FILE)  # neither fits the changed contract
    shutil.copytree(CHECKOUT / "model_repo" / "plant-pump", repository / "plant-pump", ignore=ignored)
    for contract in repository.rglob("contract.json"):
        text = contract.read_text()
        assert '"step_s": 60.0' in text
        contract.write_text(text.replace('"step_s": 60.0', '"step_s": 1.0'))
    return repository


@contextmanager
def _small_disk(mount_point: Path) -> Iterator[Path | None]:
    mount_point.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(mount_point)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


@contextmanager
def paused(server: LocalServer) -> Iterator[None]:
    """SIGSTOP, as for a machine that hangs; then SIGCONT."""
    pid = server.pid
    if pid is not None:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if pid is not None:
            os.kill(pid, signal.SIGCONT)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll a condition; return whether it came true in time."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if condition():
            return True
        time.sleep(0.2)
    return False
