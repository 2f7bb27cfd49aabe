"""What exactly-once delivery needs of a broker, as `glaim-stream check` and a starting worker report it."""

import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from deploy.kafka import QUICK_START, LocalKafka
from deploy.ports import choose_port
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import TransactionalPublisher, ensure_topics
from glaim_stream.operate.check import Grade, require_transactions
from glaim_stream.operate.check.broker import kafka_findings
from glaim_stream.operate.check.findings import CheckFinding
from tests.integration.old_broker import TRANSACTIONS, HidingProxy
from tests.integration.test_check import ANONYMOUS_USER, rules_of, wait_for_rules
from tests.integration.worker_process import WorkerProcess, plant_settings, run_command


def settings_for(kafka: LocalKafka, prefix: str, **more: object) -> Settings:
    return plant_settings(
        kafka.bootstrap_servers,
        prefix,
        partitions=2,
        imputer="interpolation",
        delivery="exactly_once",
        **more,
    )


def on_transactions(settings: Settings) -> list[CheckFinding]:
    return [finding for finding in kafka_findings(settings, None) if finding.subject.startswith("transactions")]


async def test_a_check_uses_the_ids_of_the_workers_and_fences_none(
    kafka_with_acls: LocalKafka, topic_prefix: str
) -> None:
    async def yes() -> bool | None:
        return True

    settings = settings_for(kafka_with_acls, topic_prefix)
    ensure_topics(settings)
    publisher = TransactionalPublisher(settings, settings.input_topic, 0, yes)
    await publisher.begin()
    assert publisher._producer is not None
    await publisher._producer.begin_transaction()
    await publisher._producer.send(settings.output_topic, b"x")
    (finding,) = on_transactions(settings)
    assert str(finding) == f"transactions: this user may use 2 ids, the first one {publisher.transactional_id}"
    await publisher._producer.commit_transaction()  # a fenced producer could not
    await publisher.close()


@pytest.mark.slow  # quicker: the other findings, from a broker that is shared
@pytest.mark.parametrize(
    ("resource", "name", "operation", "sentences"),
    [
        (
            ResourceType.TRANSACTIONAL_ID, "{group}-{input}-1-{length}", ACLOperation.WRITE,
            ("transactions of {group}-{input}-1-{length}: expected this user to have WRITE and DESCRIBE",
             "kafka-acls.sh --add --operation Write --operation Describe --transactional-id '{group}-{input}-'"),
        ),
        (
            ResourceType.TRANSACTIONAL_ID, "{group}-{input}-0-{length}", ACLOperation.DESCRIBE,
            ("transactions of {group}-{input}-0-{length}: expected this user to have WRITE and DESCRIBE",),
        ),
        (
            ResourceType.GROUP, "{group}", ACLOperation.READ,
            ("expected this user to have READ on the consumer group, found GroupAuthorizationFailedError",),
        ),
    ],
)  # fmt: skip
def test_a_missing_right_is_named_with_its_command(
    kafka_with_acls: LocalKafka, topic_prefix: str, resource: ResourceType, name: str, operation: ACLOperation,
    sentences: tuple[str, ...],
) -> None:  # fmt: skip
    settings = settings_for(kafka_with_acls, topic_prefix)
    ensure_topics(settings)
    names = {"group": settings.consumer_group, "input": settings.input_topic, "length": len(settings.consumer_group)}
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    try:
        pattern = ResourcePattern(resource, name.format(**names), ACLResourcePatternType.LITERAL)
        before = len(rules_of(admin))
        admin.create_acls([ACL(ANONYMOUS_USER, "*", operation, ACLPermissionType.DENY, pattern)])
        wait_for_rules(admin, before + 1)
    finally:
        admin.close()
    (finding,) = on_transactions(settings)
    assert finding.outcome is Grade.FAILED
    for sentence in sentences:
        assert sentence.format(**names) in str(finding)
    with pytest.raises(SettingsError) as error:
        require_transactions(settings)
    assert str(error.value) == str(finding)


def test_a_longer_timeout_than_the_brokers_is_reported(kafka_with_acls: LocalKafka, topic_prefix: str) -> None:
    settings = settings_for(kafka_with_acls, topic_prefix, kafka_extra={"transaction_timeout_ms": 3_600_000})
    (finding,) = on_transactions(settings)
    assert "at least the worker's transaction_timeout_ms, 3600000" in str(finding)
    assert "; with GLAIM_DELIVERY=at_least_once the worker runs without transactions" in str(finding)


@pytest.mark.slow  # quicker: the other findings, from a broker that is shared
def test_a_broker_that_knows_no_transactions_ends_check_and_worker_with_the_alternative(topic_prefix: str) -> None:
    """A proxy hides the requests of transactions, as services that speak a part of the protocol do."""
    port = choose_port()
    with (
        HidingProxy(port, TRANSACTIONS) as proxy,
        LocalKafka(jvm_options=QUICK_START, by_proxies=[(port, proxy.port)]),
    ):
        settings = plant_settings(
            proxy.address, topic_prefix, partitions=1, imputer="interpolation", delivery="exactly_once"
        )
        ensure_topics(settings)
        start_s = time.monotonic()
        (finding,) = on_transactions(settings)
        assert time.monotonic() - start_s < 10
        assert str(finding).startswith(
            "transactions: expected a broker with transactions, as GLAIM_DELIVERY=exactly_once needs, found "
        )
        assert "with GLAIM_DELIVERY=at_least_once the worker runs without transactions" in str(finding)
        run = run_command(settings, "worker", timeout_s=60)
        assert (run.returncode, str(finding) in run.stderr) == (2, True), run.stderr
        assert "Traceback" not in run.stderr


def test_without_transactions_nothing_of_them_is_checked(kafka_with_acls: LocalKafka, topic_prefix: str) -> None:
    assert (
        on_transactions(settings_for(kafka_with_acls, topic_prefix).model_copy(update={"delivery": "at_least_once"}))
        == []
    )


@pytest.mark.slow  # quicker: the other findings, from a broker that is shared
def test_a_log_of_transactions_that_cannot_be_created_is_named_by_check_and_worker(
    tmp_path: Path, topic_prefix: str
) -> None:
    """One broker, and the default of three replicas: the first transaction would wait for ever."""
    properties = {"transaction.state.log.replication.factor": "3"}
    with LocalKafka(properties=properties, jvm_options=QUICK_START) as kafka:
        settings = settings_for(kafka, topic_prefix)
        with WorkerProcess(settings, tmp_path / "worker.log") as worker:
            start_s = time.monotonic()
            (finding,) = on_transactions(settings)
            assert time.monotonic() - start_s < 20, "8 s of patience, and two processes on a busy machine"
            sentence = "transaction.state.log.replication.factor is 3, above the number of brokers, 1"
            assert sentence in str(finding)
            end_s = time.monotonic() + 60
            while sentence not in worker.log.read_text():
                assert time.monotonic() < end_s, worker.log.read_text()
                time.sleep(0.1)
            assert worker.running, "another broker may come"
    log = (tmp_path / "worker.log").read_text()
    assert "Traceback" not in log
