"""The system of compose.yaml without containers: its environments and commands, the worker's image and a real Kafka.

Kafka's image writes its configuration from the environment with a class of Kafka, KafkaDockerWrapper. The tests use the
same class, so they start the same broker as compose. Topics, producer and worker run from the result of the worker's
Containerfile with the settings of compose.yaml; only addresses, ports and the locations of /opt and /var differ.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from deploy.cache import CHECKOUT
from deploy.java import find_java
from deploy.kafka import missing_broker
from deploy.kafka_artifacts import kafka_jars
from deploy.ports import LOOPBACK, choose_port
from deploy.process import ServerProcess
from deploy.triton import ExternalTriton, LocalTriton
from tests.deploy.build_steps import Image

pytestmark = pytest.mark.slow  # quicker: tests/deploy/test_compose.py

SERVICES: dict[str, Any] = yaml.safe_load((CHECKOUT / "deploy" / "compose.yaml").read_text())["services"]
TOPICS = (
    "sensor-readings", "sensor-readings-dlq", "sensor-readings-late", "imputed-readings", "imputed-readings-outages",
    "imputation-quality", "sensor-health",
)  # fmt: skip
# Mounts the folder for temporary files as a container engine mounts /tmp.
NOEXEC = """
mount --make-rprivate /
mount -t tmpfs -o noexec,nosuid,nodev tmpfs "$TMPDIR"
"""
# Runs a program with a read-only root file system and that folder.
READ_ONLY = f"""{NOEXEC}
mount -o remount,bind,ro /
exec "$@"
"""
UNSHARED = ["unshare", "--mount", "/bin/sh", "-eu", "-c"]


@pytest.fixture(scope="module")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The broker of compose.yaml, configured in the same way as in its image."""
    root = tmp_path_factory.mktemp("compose-kafka")
    ports = {"29092": choose_port(), "9092": choose_port(), "9093": choose_port()}
    given = dict(SERVICES["kafka"]["environment"])
    data = given.pop("KAFKA_LOG_DIRS")
    assert any(volume.endswith(f":{data}") for volume in SERVICES["kafka"]["volumes"])
    options = [*given.pop("KAFKA_HEAP_OPTS").split(), *given.pop("KAFKA_OPTS").split()]
    options = [option.replace("/opt/kafka", str(root)) for option in options]
    assert any(each.startswith("/opt/kafka/unpacked:exec,") for each in SERVICES["kafka"]["tmpfs"])
    for folder in ("tmp", "unpacked"):
        (root / folder).mkdir()
    moved = {"KAFKA_LOG_DIRS": str(root / "data"), "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw"}
    for name, value in given.items():
        text = value.replace("//kafka:", "//localhost:")
        for port, free in ports.items():
            text = text.replace(f":{port}", f":{free}")
        moved[name] = text
    defaults, mounted, final = (root / name for name in ("defaults", "mounted", "final"))
    for folder in (defaults, mounted, final):
        folder.mkdir()
    # The defaults are empty: the settings come from the environment alone.
    for name in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        (defaults / name).write_text("")
    java = [str(find_java().path), "-cp", os.pathsep.join(str(jar) for jar in kafka_jars())]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")} | moved
    setup = subprocess.run(
        [*java, "kafka.docker.KafkaDockerWrapper", "setup", "--default-configs-dir", defaults, "--mounted-configs-dir",
         mounted, "--final-configs-dir", final],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert setup.returncode == 0, setup.stdout + setup.stderr
    assert {path.name for path in final.iterdir()} >= {"server.properties"}
    # The JVM does not read TMPDIR. Options on its command line prevail over those of this variable.
    environment |= {"TMPDIR": str(root / "tmp"), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={root / 'tmp'}"}
    unshared = [*UNSHARED, f'{NOEXEC}\nexec "$@"', "noexec"]
    if subprocess.run([*unshared, "true"], env=environment, capture_output=True, check=False).returncode:
        unshared = []
    options.append("-XX:TieredStopAtLevel=1")
    broker = ServerProcess(
        "the broker of compose.yaml",
        [*unshared, *java[:1], *options, *java[1:], "kafka.Kafka", str(final / "server.properties")],
        environment=environment,
        log=root / "broker.log",
    )
    broker.start()
    try:
        address = f"{LOOPBACK}:{ports['9092']}"
        broker.wait_ready(lambda: missing_broker(address), 60)
        yield address
    finally:
        broker.stop()


@dataclass
class Engine:
    """A stand-in for a container engine that starts services with the worker's image."""

    image: Image
    folder: Path  # for logs, and for the folder that replaces /tmp of the container
    address: str  # of Kafka
    read_only: list[str] = field(default_factory=list)  # command prefix; empty if the machine does not permit mounts

    def __post_init__(self) -> None:
        self.writable = self.folder / "tmp"
        self.elsewhere = self.folder / "elsewhere"
        self.writable.mkdir()
        self.elsewhere.mkdir()
        prefix = [*UNSHARED, READ_ONLY, "read-only"]
        tried = self.run([*prefix, "touch", str(self.folder / "written")], {})
        self.read_only = prefix if "Read-only file system" in tried.stderr else []

    def command(self, service: str) -> list[str]:
        """Entrypoint and command of compose.yaml, or else of the image, with the path of the program below the root."""
        given = SERVICES[service]
        entry = given.get("entrypoint") or yaml.safe_load(self.image.entrypoint)
        arguments = given.get("command") or ([] if "entrypoint" in given else yaml.safe_load(self.image.command))
        return [self.program(entry[0]), *entry[1:], *arguments]

    def program(self, name: str) -> str:
        return str(self.image.path("/opt/venv/bin") / name)

    def environment(self, changes: dict[str, str]) -> dict[str, str]:
        writable = {"HOME": str(self.writable), "TMPDIR": str(self.writable)}
        return {"LANG": "C.UTF-8", **self.image.variables(), **writable, **changes}

    def environment_of(self, service: str, **changes: str) -> dict[str, str]:
        """The environment of a service; `changes` may only change variables of compose.yaml and the metrics address."""
        given = {name: str(value) for name, value in SERVICES[service]["environment"].items()}
        assert set(changes) <= set(given) | {"GLAIM_METRICS_PORT", "GLAIM_METRICS_HOST"}
        return self.environment(given | {"GLAIM_KAFKA": self.address} | changes)

    def run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program with the read-only root until it exits."""
        return subprocess.run(
            [*self.read_only, *command], env=environment or self.environment({}), cwd=self.elsewhere,
            capture_output=True, text=True, check=False, timeout=90,
        )  # fmt: skip

    @contextmanager
    def running(self, service: str, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a service during the block; `log(service)` returns its output."""
        command = [*self.read_only, *self.command(service)]
        with (self.folder / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self.environment_of(service, **changes), cwd=self.elsewhere, stdout=log, stderr=log
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text()[-4000:]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_the_broker_handles_every_codec(kafka_address: str, codec: str) -> None:
    """Its libraries for snappy and zstd are unpacked into a folder, which must not be mounted noexec as /tmp is."""
    admin = KafkaAdminClient(bootstrap_servers=kafka_address)
    admin.create_topics([NewTopic(codec, 1, 1, topic_configs={"compression.type": codec})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka_address, retries=3)
    try:
        assert producer.send(codec, b"x" * 1000).get(timeout=30).offset == 0
    finally:
        producer.close()


def health_check(port: int) -> subprocess.CompletedProcess[bytes]:
    _, *command = SERVICES["kafka"]["healthcheck"]["test"]
    command = [word.replace("/29092", f"/{port}") for word in command]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=5)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 124, error.stdout, error.stderr)


def test_the_health_check_asks_the_broker_without_a_jvm(kafka_address: str) -> None:
    run = health_check(int(kafka_address.rpartition(":")[2]))
    assert run.returncode == 0, run.stderr
    assert "java" not in " ".join(SERVICES["kafka"]["healthcheck"]["test"])


def test_the_health_check_fails_without_a_broker() -> None:
    """Nobody listens, somebody listens and does not answer, and somebody answers something else."""
    assert health_check(choose_port()).returncode == 1
    with socket.create_server((LOOPBACK, 0)) as silent:
        assert health_check(silent.getsockname()[1]).returncode == 124
    with socket.create_server((LOOPBACK, 0)) as other:
        answering = Thread(target=lambda: other.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        answering.start()
        assert health_check(other.getsockname()[1]).returncode not in (0, 124)  # 1, or ended by the closed connection
        answering.join()


@pytest.mark.timeout(300)  # includes the steps of the image, which are slow on a busy machine
def test_topics_producer_and_worker_run_with_the_settings_of_compose(
    worker_image: Image, kafka_address: str, triton: LocalTriton | ExternalTriton, tmp_path: Path
) -> None:
    engine = Engine(worker_image, tmp_path, kafka_address)
    made = engine.run(engine.command("topics"), engine.environment_of("topics"))
    assert made.returncode == 0, made.stderr
    assert yaml.safe_load(made.stdout) == dict.fromkeys(TOPICS, 4)

    port = str(choose_port())
    given = {"GLAIM_TRITON": triton.grpc_url, "GLAIM_METRICS_PORT": port, "GLAIM_METRICS_HOST": LOOPBACK}
    with engine.running("worker", **given) as worker, engine.running("producer") as producer:
        # The health check of compose.yaml, at the port chosen above.
        program, *arguments = SERVICES["worker"]["healthcheck"]["test"][1:]
        check = [engine.program(program), *(argument.replace(":9464", f":{port}") for argument in arguments)]
        deadline = time.monotonic() + 60
        while (checked := engine.run(check, {})).returncode:
            assert worker.poll() is None, engine.log("worker")
            assert time.monotonic() < deadline, checked.stderr + engine.log("worker")
            time.sleep(0.3)

        # The same check as in the smoke script.
        tail = ["tail", "--from-beginning", "--only-imputed", "--limit", "500", "--timeout", "30", "--format", "jsonl"]
        shown = engine.run([engine.program("glaim-stream"), *tail], engine.environment_of("producer"))
        assert shown.returncode == 0, shown.stderr
        rows = [json.loads(line) for line in shown.stdout.splitlines()]
        assert len(rows) == 500
        assert {row["method"] for row in rows} & {"model", "blend"}
        assert not any(row["observed"] for row in rows)

        assert producer.poll() is None, engine.log("producer")  # it keeps producing in real time
        worker.send_signal(signal.SIGTERM)
        grace_s = int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
        assert worker.wait(timeout=grace_s) == 0, engine.log("worker")
    assert not list(engine.elsewhere.iterdir())  # no files were written to the working directory
