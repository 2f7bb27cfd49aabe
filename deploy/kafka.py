"""Runs a real Apache Kafka on this machine: one KRaft node, without containers or installation.

    with LocalKafka() as kafka:
        print(kafka.bootstrap_servers)

From a terminal: `python -m deploy.kafka --port 9092 --data-dir ./kafka-data`. Ctrl-C stops it.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from deploy.cache import Report, try_lock
from deploy.errors import ServerFailed
from deploy.fetch import fetch
from deploy.java import find_java
from deploy.kafka_artifacts import kafka_jars
from deploy.ports import LOOPBACK, choose_port, claim_port, is_free
from deploy.process import ServerProcess, log_tail
from deploy.runner import LocalServer, run_in_foreground

# Settings for a single node, for tests and laptops. All of them can be overridden.
DEFAULT_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "auto.create.topics.enable": "false",  # a typo in a topic name is an error
    # One broker cannot hold three replicas.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The default is 50 partitions each, and the first consumer would have to wait until they are created.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",  # by default the first member waits 3 s for others
    # Retention uses the record's timestamp: a replay of readings from 2017 would be deleted on arrival.
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "16777216",  # the default of 128 MiB is a quarter of the heap
    # After a crash the controller admits the broker again once its old session has expired: 9 s by default.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "num.network.threads": "2",
    "num.io.threads": "4",
}

# Cuts the CPU time of a start from 4.1 to 2.3 seconds by disabling the optimising compiler, which pays off only later.
# For tests and short demonstrations, not for measurements of throughput.
QUICK_START = ("-XX:TieredStopAtLevel=1",)

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""


@dataclass(frozen=True)
class ExternalKafka:
    """A Kafka that was started elsewhere."""

    bootstrap_servers: str


@dataclass(frozen=True)
class Listener:
    """A further listener for clients. What its protocol needs goes into the broker's properties.

    Args:
        name: In capitals, as in the properties `listener.name.<name in small letters>...`.
        protocol: SSL, SASL_PLAINTEXT or SASL_SSL.
        port: Port on which it listens.
    """

    name: str
    protocol: str
    port: int

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self.port}"


class LocalKafka(LocalServer):
    """One Kafka node that ends with this process.

    Args:
        data_dir: Directory of the topics, kept after `stop`. None: a temporary directory that `stop` deletes.
        port: Port for clients. None: a free port, which stays the same after `restart`.
        properties: Entries of `server.properties` that override `DEFAULT_PROPERTIES`, such as
            `{"message.max.bytes": "5000000"}`.
        heap: The JVM's -Xmx.
        jvm_options: More JVM options, such as `QUICK_START`.
        start_deadline_s: Time limit of a start; usually 4 s, longer after the broker was killed.
        by_proxies: (port, advertised port) of further listeners, for clients that connect through a proxy at the
            advertised port.
        listeners: Further listeners, such as one with TLS.
        report: Receives the progress lines of a download.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        port: int | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm_options: Sequence[str] = (),
        start_deadline_s: float = 90.0,
        by_proxies: Sequence[tuple[int, int]] = (),
        listeners: Sequence[Listener] = (),
        report: Report = print,
    ) -> None:
        super().__init__()
        self._requested_port = port
        self._by_proxies = by_proxies
        self._listeners = list(listeners)
        self._requested_dir = data_dir
        self._properties = {**DEFAULT_PROPERTIES, **(properties or {})}
        self._heap = heap
        self._jvm_options = list(jvm_options)
        self._start_deadline_s = start_deadline_s
        self._report = report
        self._ports: tuple[int, int] | None = None  # clients, controller
        self.data_dir: Path | None = data_dir.resolve() if data_dir is not None else None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; it stays the same for the lifetime of this object.

        Raises:
            ServerFailed: Before the first start.
        """
        if self._ports is None:
            raise ServerFailed("Kafka has not been started")
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def log(self) -> Path:
        """The broker's log file."""
        if self.data_dir is None:
            raise ServerFailed("Kafka has not been started")
        return self.data_dir / "broker.log"

    def start(self) -> Self:
        """Start the broker and wait until a metadata request returns it.

        Raises:
            PortInUse: The requested port is taken.
            FetchError: The jars could not be downloaded.
            JavaUnavailable: There is no Java to run it.
            ServerFailed: The broker ended or did not respond in time; the message ends with the tail of its log.
        """
        if self.running:
            raise ServerFailed(f"Kafka is already running at {self.bootstrap_servers}")
        java = find_java()
        class_path = os.pathsep.join(str(jar) for jar in kafka_jars(self._report))
        ports = self._choose_ports()
        if self.data_dir is None:
            self.data_dir = Path(tempfile.mkdtemp(prefix="glaim-kafka-"))
        self.data_dir.mkdir(parents=True, exist_ok=True)
        # Kafka locks its directory too late: a second broker would first damage the metadata of the running one.
        lock = try_lock(self.data_dir / ".lock")
        if lock is None:
            raise ServerFailed(f"another Kafka runs on {self.data_dir}: stop it, or choose another directory")
        with lock:
            properties = self._write_configuration(self.data_dir, ports)
            logging = f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}"
            jvm = [str(java.path), f"-Xmx{self._heap}", logging]
            self._format([*jvm, *QUICK_START, "-cp", class_path], properties)
            self._process = ServerProcess(
                "Kafka",
                # Without ExitOnOutOfMemoryError a JVM that runs out of memory half-works for minutes.
                [
                    *jvm,
                    *self._jvm_options,
                    "-XX:+ExitOnOutOfMemoryError",
                    "-cp",
                    class_path,
                    "kafka.Kafka",
                    str(properties),
                ],
                environment=os.environ,
                log=self.log,
                orphan_dirs=[self.data_dir] if self._requested_dir is None else [],
            )
            self._ports = ports
            self._process.start(keep_open=[lock.fileno()])
        self._process.wait_ready(self._missing, self._start_deadline_s)
        return self

    def stop(self) -> None:
        """Shut the broker down, with SIGKILL after 20 s, and delete a temporary data directory. Idempotent."""
        if self._process is not None:
            self._process.stop()
        if self._requested_dir is None and self.data_dir is not None:
            shutil.rmtree(self.data_dir, ignore_errors=True)
            self.data_dir = None

    def _choose_ports(self) -> tuple[int, int]:
        if self._ports is None:
            clients = claim_port(self._requested_port, "Kafka", "--port")
            return clients, choose_port()
        clients, controller = self._ports
        # Clients know the first port; the second is internal and may change.
        return claim_port(clients, "Kafka", "--port"), controller if is_free(controller) else choose_port()

    def _write_configuration(self, data_dir: Path, ports: tuple[int, int]) -> Path:
        clients, controller = ports
        listeners = [f"PLAINTEXT://{LOOPBACK}:{clients}"]
        advertised = list(listeners)
        protocols = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
        for number, (port, advertised_port) in enumerate(self._by_proxies):
            listeners.append(f"PROXIED{number}://{LOOPBACK}:{port}")
            advertised.append(f"PROXIED{number}://{LOOPBACK}:{advertised_port}")
            protocols.append(f"PROXIED{number}:PLAINTEXT")
        further = [f"{listener.name}://{listener.address}" for listener in self._listeners]
        protocols += [f"{listener.name}:{listener.protocol}" for listener in self._listeners]
        lines = {
            "listeners": ",".join([*listeners, *further, f"CONTROLLER://{LOOPBACK}:{controller}"]),
            "advertised.listeners": ",".join([*advertised, *further]),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(protocols),
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "log.dirs": str(data_dir / "topics"),
            **self._properties,
        }
        path = data_dir / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        (data_dir / "log4j2.properties").write_text(LOG4J)
        return path

    def _format(self, jvm: list[str], properties: Path) -> None:
        """Write a cluster id into a new data directory; leave a formatted one unchanged."""
        if (properties.parent / "topics" / "meta.properties").exists():
            return
        # Kafka's own random-uuid does the same, but costs a start of the JVM. An id must not begin with a dash.
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x")
        command = [*jvm, "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", str(properties)]
        log = properties.with_name("format.log")
        with log.open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise ServerFailed(f"Kafka could not format {properties.parent}; the output ends with\n{log_tail(log)}")

    def _missing(self) -> str | None:
        return missing_broker(self.bootstrap_servers)


def missing_broker(bootstrap_servers: str) -> str | None:
    """None once a real metadata request returns at least one broker, otherwise a description of the problem."""
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    # While the port is closed the client logs warnings and backs off for seconds, so probe the port first.
    addresses = [address.strip().rsplit(":", 1) for address in bootstrap_servers.split(",")]
    if not any(_listens(host, port) for host, port in (pair for pair in addresses if len(pair) == 2)):
        return f"no server listens at {bootstrap_servers}"
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=1000)
    except (KafkaError, OSError, ValueError) as error:
        return f"no response from {bootstrap_servers} ({error})"
    try:
        brokers = admin.describe_cluster()["brokers"]
    except (KafkaError, OSError) as error:
        return f"metadata request to {bootstrap_servers} failed ({error})"
    finally:
        admin.close()
    return None if brokers else f"{bootstrap_servers} answers, but no broker has joined the cluster yet"


def _listens(host: str, port: str) -> bool:
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def kafka_from_environment(
    data_dir: Path | None = None,
    port: int | None = None,
    *,
    properties: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] = (),
    report: Report = print,
) -> Iterator[LocalKafka | ExternalKafka]:
    """The Kafka at `GLAIM_KAFKA` (`host:port,...`) if that is set, or a `LocalKafka` with these arguments.

    Raises:
        ServerFailed: The Kafka at `GLAIM_KAFKA` does not respond.
    """
    address = os.environ.get("GLAIM_KAFKA")
    if address:
        missing = missing_broker(address)
        if missing is not None:
            raise ServerFailed(f"GLAIM_KAFKA={address}: {missing}")
        yield ExternalKafka(address)
        return
    with LocalKafka(data_dir, port, properties=properties, jvm_options=jvm_options, report=report) as kafka:
        yield kafka


def main(arguments: list[str] | None = None) -> int:
    """Run a broker until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m deploy.kafka", description="Run one real Kafka node here.")
    parser.add_argument("--port", type=int, help="port for clients (default: a free port)")
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="directory of the topics, kept at the end (default: a temporary one, deleted at the end)",
    )
    parser.add_argument("--heap", default="512m", help="-Xmx of the JVM (default: %(default)s)")
    parser.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="a line of server.properties; repeatable"
    )
    parser.add_argument("--fetch-only", action="store_true", help="download the jars and exit")
    options = parser.parse_args(arguments)
    bad = [line for line in options.property if "=" not in line]
    if bad:
        parser.error(f"--property expects NAME=VALUE, found {bad[0]!r}")
    properties = dict(line.split("=", 1) for line in options.property)
    if options.fetch_only:
        return fetch(_fetched_jars, named="Kafka")
    kafka = LocalKafka(options.data_dir, options.port, properties=properties, heap=options.heap)
    return run_in_foreground(kafka, "Kafka", lambda: f"{kafka.bootstrap_servers} (log: {kafka.log}); Ctrl-C stops it")


def _fetched_jars() -> str:
    jars = kafka_jars()
    size_bytes = sum(jar.stat().st_size for jar in jars)
    return f"Kafka: {len(jars)} jars, {size_bytes / 1e6:.0f} MB, in {jars[0].parent}"


if __name__ == "__main__":
    raise SystemExit(main())
