"""A worker that starts before what it needs: it waits and says for what, instead of ending again and again."""

import json
import shutil
import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from glaim_stream.core.settings import Settings
from glaim_stream.operate.audit import audit
from tests.integration.test_access import OPERATIONS
from tests.integration.test_check import ANONYMOUS_USER, rules_of, wait_for_rules
from tests.integration.test_worker_health import Pages, wait_for, waits_only_for_triton
from tests.integration.worker_process import (
    WorkerProcess,
    plant_settings,
    run_command,
    small_settings,
    wait_until_committed,
)

CATALOGUE = """
models:
  - {name: m, step_s: 60, window: 10, revise_after: 2, max_gap: 5, lateness_s: 30, idle_timeout_s: 100000,
     sensors: [{id: s0}]}
groups: [{model: m, pattern: "g*"}]
"""
WAITS = "The worker waits and tries again"
START_MS = 1_700_000_000_000 // 60_000 * 60_000


def starting(kafka: str, prefix: str, directory: Path, **changes: object) -> Settings:
    return small_settings(
        kafka, prefix, directory, CATALOGUE, metrics_host=LOOPBACK, metrics_port=choose_port(),
        kafka_extra={"auto_commit_interval_ms": 200}, **changes,
    )  # fmt: skip


def produce(settings: Settings, minutes: list[float]) -> None:
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for minute in minutes:
        reading = {"group": "g1", "sensor": "s0", "ts": START_MS + int(minute * 60_000), "value": minute}
        producer.send(settings.input_topic, json.dumps(reading).encode(), b"g1")
    producer.close()


def says(worker: WorkerProcess, sentence: str) -> None:
    """Wait for a line of the log, of a worker that goes on running."""

    def said() -> bool:
        assert worker.running, worker.log.read_text()
        return sentence in worker.log.read_text()

    wait_for(said, worker.log.read_text)


@pytest.mark.slow  # quicker: tests/worker/test_waiting.py
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_worker_without_a_broker_waits_for_it(topic_prefix: str, tmp_path: Path, delivery: str) -> None:
    broker = LocalKafka(port=choose_port(), jvm_options=QUICK_START)
    settings = starting(f"{LOOPBACK}:{broker._requested_port}", topic_prefix, tmp_path, delivery=delivery)
    pages = Pages(settings)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        sentence = f"GLAIM_KAFKA: expected a broker at {settings.kafka}, found none: nothing answers there"
        says(worker, f"{sentence}. {WAITS}")
        assert pages.statuses == (200, 503, 503)
        assert pages.why_not("started")[0] == sentence
        with broker:
            pages.wait(200, 200, 200)
            produce(settings, [0, 1, 2])
            wait_until_committed(settings, total=3)
            assert worker.stop() == 0
        assert worker.starts == 1
    assert "Traceback" not in worker.log.read_text()


@pytest.mark.slow  # quicker: tests/worker/test_waiting.py
def test_a_worker_without_its_models_waits_for_them(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = plant_settings(
        kafka.bootstrap_servers, topic_prefix, metrics_host=LOOPBACK, metrics_port=choose_port(), triton=f"{LOOPBACK}:1"
    ).model_copy(update={"model_repository": tmp_path / "models"})
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        missing = tmp_path / "models" / "plant-pump" / "contract.json"
        says(worker, f"expected model contracts, found none at {missing}. {WAITS}")
        pages = Pages(settings)
        assert pages.statuses == (200, 503, 503)
        shutil.copytree(CHECKOUT / "model_repo", tmp_path / "models")
        wait_for(lambda: waits_only_for_triton(pages, settings.triton), lambda: pages.all)
        assert worker.stop() == 0
    assert "Traceback" not in worker.log.read_text()


@pytest.mark.slow  # quicker: tests/worker/test_waiting.py
def test_a_worker_that_waits_ends_at_a_signal(tmp_path: Path) -> None:
    with WorkerProcess(starting(f"{LOOPBACK}:1", "none-", tmp_path), tmp_path / "worker.log") as worker:
        says(worker, WAITS)
        assert worker.stop(5) == 143
    assert "got SIGTERM before it had started" in worker.log.read_text()


GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def deny(kafka: LocalKafka, resource: ResourceType, name: str, operation: str) -> ACLFilter:
    """Take one right away; returns what gives it back."""
    pattern = ResourcePattern(resource, name)
    others = ["Describe"] if resource is GROUP else ["Describe", "DescribeConfigs", "Read", "Write"]
    allowed = [
        ACL(ANONYMOUS_USER, "*", OPERATIONS[each], ACLPermissionType.ALLOW, pattern)
        for each in others
        if each != operation
    ]
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    before = len(rules_of(admin))
    admin.create_acls([ACL(ANONYMOUS_USER, "*", OPERATIONS[operation], ACLPermissionType.DENY, pattern), *allowed])
    wait_for_rules(admin, before + 1 + len(allowed))
    admin.close()
    only = ResourcePatternFilter(resource, name, ACLResourcePatternType.LITERAL)
    return ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, only)


def give_back(kafka: LocalKafka, rules: ACLFilter) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    assert admin.delete_acls([rules])
    admin.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "operation", "delivery"),
    [
        ("late_topic", "Write", "exactly_once"),
        ("late_topic", "Write", "at_least_once"),
        ("input_topic", "Read", "at_least_once"),
        ("input_topic", "Read", "exactly_once"),
    ],
)
def test_a_right_that_is_taken_away_is_named_ends_nothing_and_holds_up_no_reader(
    kafka_with_acls: LocalKafka, topic_prefix: str, tmp_path: Path, named: str, operation: str, delivery: str
) -> None:
    settings = starting(kafka_with_acls.bootstrap_servers, topic_prefix, tmp_path, delivery=delivery)
    name = getattr(settings, named)
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        Pages(settings).wait(200, 200, 200)
        produce(settings, [*range(20)])
        wait_until_committed(settings, total=20)
        rules = deny(kafka_with_acls, TOPIC, name, operation)
        produce(settings, [2.5, 20, 21])  # the first one is late
        says(worker, "TopicAuthorizationFailedError")
        time.sleep(5)
        assert worker.running, worker.log.read_text()
        # Each attempt opens a transaction for a moment; one that was left open would be so through the pause after it.
        readable = [[end_of(settings, level) for level in ("read_committed", "read_uncommitted")] for _ in range(6)]
        assert sum(committed == all_ for committed, all_ in readable) >= 3, readable
        give_back(kafka_with_acls, rules)
        wait_until_committed(settings, total=23)
        assert worker.stop() == 0
    log = worker.log.read_text()
    assert name in log
    assert "fenced" not in log
    report = audit(settings)
    assert report.clean, report.problems


def end_of(settings: Settings, level: str) -> int:
    """The end of the output for readers of this isolation level."""
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka, isolation_level=level)
    tp = TopicPartition(settings.output_topic, 0)
    end: int = consumer.end_offsets([tp])[tp]
    consumer.close()
    return end


def test_a_catalogue_that_cannot_be_used_ends_the_worker_with_a_sentence(tmp_path: Path) -> None:
    settings = starting(f"{LOOPBACK}:1", "none-", tmp_path)
    (tmp_path / "groups.yaml").write_text("models: []")
    start_s = time.monotonic()
    run = run_command(settings, "worker", timeout_s=60)
    assert (run.returncode, time.monotonic() - start_s < 30) == (2, True), run.stderr
    assert "expected" in run.stderr
    assert "Traceback" not in run.stderr
