"""`glaim-stream check` against a real Triton and a real Kafka with access rules."""

import json
import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from deploy.cache import CHECKOUT
from deploy.kafka import ExternalKafka, LocalKafka
from deploy.ports import LOOPBACK, choose_port
from deploy.triton import ExternalTriton, LocalTriton
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import ensure_topics, topics
from glaim_stream.operate.check import Grade
from glaim_stream.operate.check.broker import kafka_findings
from tests.integration.worker_process import WorkerProcess, call_command, plant_settings

ANONYMOUS_USER = "User:ANONYMOUS"  # the principal of a client on a listener without authentication


def settings_for(kafka: str, prefix: str, **more: object) -> Settings:
    return plant_settings(
        kafka,
        prefix,
        partitions=2,
        **more,  # type: ignore[arg-type]
    )


def run_check(settings: Settings, *arguments: str) -> tuple[int, list[str]]:
    done = call_command(settings, "check", *arguments)
    assert done.stderr == "", "findings go to stdout, and there must be no traceback"
    return done.returncode, done.stdout.splitlines()


def failures(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("failed")]


def rules_of(admin: KafkaAdminClient) -> list[ACL]:
    everything = ACLFilter(
        None,
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    return list(admin.describe_acls(everything)[0])


def wait_for_rules(admin: KafkaAdminClient, count: int) -> None:
    """Wait until the broker enforces the rules: the controller acknowledges them before the broker has applied them."""
    end_s = time.monotonic() + 60
    while len(rules := rules_of(admin)) < count:
        assert time.monotonic() < end_s, f"expected {count} rules, found {rules}"
        time.sleep(0.05)


def test_a_working_setup_passes_and_the_check_creates_no_topic(
    kafka: LocalKafka | ExternalKafka, triton: LocalTriton | ExternalTriton, topic_prefix: str
) -> None:
    settings = settings_for(kafka.bootstrap_servers, topic_prefix, triton=triton.grpc_url)
    status, lines = run_check(settings)
    assert status == 0, lines
    absent = [line for line in lines if "none of that name" in line]
    assert len(absent) == 5, "the check must not create topics"
    ensure_topics(settings)
    status, lines = run_check(settings, "--json")
    report = json.loads("\n".join(lines))
    assert (status, report["good"]) == (0, True), report
    assert {each["outcome"] for each in report["checks"]} == {"ok"}, report
    (answered,) = [each for each in report["checks"] if each["subject"].startswith("model plant-pump on triton")]
    assert answered["found"].startswith("version 1 answered in")


@pytest.mark.parametrize(("foreign", "expected", "status"), [(40, None, 1), (40, "0.45", 0), (1, None, 0)])
def test_newest_records_that_cannot_be_used_fail_the_check(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, foreign: int, expected: str | None, status: int
) -> None:
    settings = settings_for(kafka.bootstrap_servers, topic_prefix, imputer="interpolation")
    if expected is not None:
        settings = settings.model_copy(update={"dead_letter_share": float(expected)})
    ensure_topics(settings)
    producer = KafkaProducer(bootstrap_servers=settings.kafka)
    for number in range(100):
        good = {"ts": time.time_ns() // 1_000_000, "sensor": "flow", "value": 1}
        value = b"\0\0\0\0\x2a\2x" if number < foreign else json.dumps(good).encode()
        producer.send(settings.input_topic, key=b"pump-1", value=value)
    producer.close()
    found, lines = run_check(settings, "--only", "kafka")
    assert found == status, lines
    (line,) = [line for line in lines if f"records of {settings.input_topic}" in line]
    if status:
        assert "found 40: undecodable 40; for example partition " in line
        assert "begins like Avro of a schema registry (id 42)" in line
    else:
        assert f"{100 - foreign} of the newest 100 can be used" in line


def test_problems_with_topics_and_permissions_are_reported(kafka_with_acls: LocalKafka, topic_prefix: str) -> None:
    settings = settings_for(kafka_with_acls.bootstrap_servers, topic_prefix, imputer="interpolation")
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    try:
        admin.create_topics(
            [
                NewTopic(settings.input_topic, 3, 1, topic_configs={"retention.ms": "60000"}),
                NewTopic(settings.output_topic, 2, 1, topic_configs={"cleanup.policy": "compact"}),
            ]
        )
        # Once a resource has a rule, only operations that a rule allows are permitted.
        rules = [
            (ResourceType.TOPIC, settings.input_topic, ACLOperation.READ, ACLPermissionType.DENY),
            (ResourceType.TOPIC, settings.input_topic, ACLOperation.DESCRIBE, ACLPermissionType.ALLOW),
            (ResourceType.TOPIC, settings.input_topic, ACLOperation.DESCRIBE_CONFIGS, ACLPermissionType.ALLOW),
            (ResourceType.TOPIC, settings.dlq_topic, ACLOperation.DESCRIBE, ACLPermissionType.DENY),
            (ResourceType.GROUP, settings.consumer_group, ACLOperation.READ, ACLPermissionType.DENY),
        ]
        admin.create_acls(
            [
                ACL(ANONYMOUS_USER, "*", operation, permission, ResourcePattern(kind, name))
                for kind, name, operation, permission in rules
            ]
        )
        wait_for_rules(admin, len(rules))
    finally:
        admin.close()
    status, lines = run_check(settings, "--only", "kafka")
    assert status == 1
    found = "\n".join(failures(lines))
    assert f"topic {settings.input_topic}: expected this user to have READ, found " in found
    assert f"topic {settings.dlq_topic}: expected the broker to describe it, found TopicAuthorizationFailed" in found
    assert f"topic {settings.output_topic}: expected cleanup.policy delete, found compact" in found
    group = f"consumer group {settings.consumer_group}"
    assert f"{group}: expected this user to have READ, found GroupAuthorizationFailedError; kafka-acls.sh " in found
    warnings = "\n".join(line for line in lines if line.startswith("warning"))
    assert "expected message.timestamp.type LogAppendTime, found CreateTime" in warnings
    assert f"topic {settings.output_topic}: expected the 3 partitions of {settings.input_topic}, found 2: " in warnings
    # A window of 96 one-minute steps, the open step after it, and the allowed lead of stamps. Interpolation alone needs
    # no history of expert errors, because it is not blended.
    assert f"expected retention.ms of at least {(96 + 1) * 60_000 + 300_000}" in warnings


def test_who_may_not_create_topics_is_told_the_command(kafka_with_acls: LocalKafka, topic_prefix: str) -> None:
    settings = settings_for(kafka_with_acls.bootstrap_servers, topic_prefix, imputer="interpolation")
    patterns = [
        ResourcePattern(ResourceType.TOPIC, settings.input_topic),
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
    ]
    rules = [ACL(ANONYMOUS_USER, "*", ACLOperation.CREATE, ACLPermissionType.DENY, each) for each in patterns]
    rules += [  # a resource with a rule permits only what a rule allows
        ACL(ANONYMOUS_USER, "*", operation, ACLPermissionType.ALLOW, patterns[1])
        for operation in (ACLOperation.DESCRIBE, ACLOperation.ALTER, ACLOperation.CLUSTER_ACTION)
    ]
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    try:
        before = len(rules_of(admin))
        admin.create_acls(rules)
        wait_for_rules(admin, before + len(rules))
        with pytest.raises(SettingsError) as error:
            ensure_topics(settings)
    finally:
        for each in patterns:
            admin.delete_acls([ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, each)])
        admin.close()
    assert str(error.value) == (
        f"topic {settings.input_topic}: expected it to be there, or this user to have DESCRIBE and CREATE, found "
        f"TopicAuthorizationFailedError; kafka-topics.sh --create --topic '{settings.input_topic}' --partitions 2 "
        "--config message.timestamp.type=LogAppendTime"
    )


def test_unreachable_servers_are_findings_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = f"{LOOPBACK}:{choose_port()}"
    settings = settings_for(nowhere, "x-", triton=nowhere, triton_deadline_s=0.5)
    status, lines = run_check(settings, "--only", "triton")
    assert status == 1
    assert f"model plant-pump on triton {nowhere}: expected answers as the contract of version 1 promises" in lines[-1]
    monkeypatch.setattr(topics, "_BOOTSTRAP_TIMEOUT_MS", 500)
    (finding,) = kafka_findings(settings, None)
    assert finding.outcome is Grade.FAILED
    assert str(finding).startswith(f"kafka {nowhere}: expected a broker that answers, found ")


@pytest.mark.parametrize(
    ("catalogue", "sentence"),
    [
        ("models: []", "expected a catalogue that can be used"),
        (
            "models: [{name: plant-pump, step_s: 60, sensors: [{id: a}]}]\ngroups: [{model: plant-pump, pattern: '*'}]",
            "contract of plant-pump: expected a contract that fits the catalogue, found model plant-pump version 1",
        ),
    ],
)
def test_an_unusable_catalogue_is_reported(tmp_path: Path, catalogue: str, sentence: str) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(catalogue)
    settings = settings_for("localhost:1", "x-").model_copy(update={"catalogue": file})
    status, lines = run_check(settings, "--only", "catalogue")
    assert status == 1
    assert sentence in "\n".join(failures(lines))


@pytest.mark.slow  # quicker: tests/imputers/test_triton_check.py
def test_a_server_whose_answers_do_not_fit_the_contract_fails(
    triton: LocalTriton | ExternalTriton, tmp_path: Path
) -> None:
    """The catalogue and the contract agree with each other but not with the served model."""
    contract = json.loads((CHECKOUT / "model_repo" / "plant-pump" / "contract.json").read_text())
    model = tmp_path / "plant-pump"
    model.mkdir()
    (model / "contract.json").write_text(json.dumps(contract | {"emitted_steps": contract["emitted_steps"] + 1}))
    settings = settings_for("localhost:1", "x-", triton=triton.grpc_url).model_copy(
        update={"model_repository": tmp_path}
    )
    status, lines = run_check(settings, "--only", "triton")
    assert status == 1
    assert "served model plant-pump: the contract expects" in failures(lines)[0]


@pytest.mark.slow  # quicker: the findings above, and tests/operate/check
def test_a_worker_logs_the_findings_of_a_check_when_it_starts(
    kafka: LocalKafka | ExternalKafka, topic_prefix: str, tmp_path: Path
) -> None:
    settings = settings_for(kafka.bootstrap_servers, topic_prefix, imputer="interpolation")
    ensure_topics(settings)
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka)
    admin.alter_configs([_config(settings.input_topic, {"message.timestamp.type": "CreateTime"})])
    admin.close()
    sentence = f"topic {settings.input_topic}: expected message.timestamp.type LogAppendTime, found CreateTime"
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        end_s = time.monotonic() + 60
        while sentence not in worker.log.read_text():
            assert worker.running, worker.log.read_text()
            assert time.monotonic() < end_s, worker.log.read_text()
            time.sleep(0.1)


def _config(topic: str, values: dict[str, str]) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic, values)
