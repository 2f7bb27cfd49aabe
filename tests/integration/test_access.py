"""The rules of docs/access.md are enough for every role, and none of the workers' is superfluous.

The broker allows only what a rule names; the administrator of the tests comes over a listener without login.
"""

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from deploy.cache import CHECKOUT
from deploy.kafka import QUICK_START, Listener, LocalKafka
from deploy.ports import choose_port
from glaim_stream.core.settings import Settings
from tests.integration.worker_process import WorkerProcess, call_command, wait_until_committed

PAGE = CHECKOUT / "docs" / "access.md"
PASSWORD = "of-this-test"
MORE_TOPICS = {"quality_topic": "imputation-quality", "health_topic": "sensor-health"}
TOPICS = Settings(**MORE_TOPICS).topics
CATALOGUE = """
models:
  - name: plant-pump
    learn: true
    step_s: 60
    sensors: [{id: flow, unit: m3/h}, {id: pressure, unit: bar}]
groups:
  - {model: plant-pump, pattern: "*"}
"""
RESOURCES = {"--topic": ResourceType.TOPIC, "--group": ResourceType.GROUP,
             "--transactional-id": ResourceType.TRANSACTIONAL_ID}  # fmt: skip
OPERATIONS = {"Read": ACLOperation.READ, "Write": ACLOperation.WRITE, "Describe": ACLOperation.DESCRIBE,
              "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS}  # fmt: skip


def rules_of_page() -> list[ACL]:
    """Every rule that the commands of the page add, one operation on one resource each."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    commands = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    rules = []
    for command in commands:
        words = shlex.split(command)
        assert words.pop(0) == "$K"
        given = list(zip(words[::2], words[1::2], strict=True))
        prefixed = ("--resource-pattern-type", "prefixed") in given
        pattern = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
        (principal,) = [value for flag, value in given if flag == "--allow-principal"]
        for flag, name in given:
            if flag in RESOURCES:
                resource = ResourcePattern(RESOURCES[flag], name, pattern)
                rules += [
                    ACL(principal, "*", OPERATIONS[operation], ACLPermissionType.ALLOW, resource)
                    for flag_of, operation in given
                    if flag_of == "--operation"
                ]
    return rules


RULES = rules_of_page()
ROLES = sorted({rule.principal.removeprefix("User:") for rule in RULES})


class GuardedKafka:
    """A broker that allows nothing without a rule, with a login for each role."""

    def __init__(self) -> None:
        self.logins = Listener("LOGINS", "SASL_PLAINTEXT", choose_port())
        users = " ".join(f'user_{role}="{PASSWORD}"' for role in ROLES)
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self.kafka = LocalKafka(
            jvm_options=QUICK_START,
            listeners=[self.logins],
            properties={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "listener.name.logins.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.logins.plain.sasl.jaas.config": f"{plain} required {users};",
            },
        )


def wait_for_rules(admin: KafkaAdminClient, count: int, within_s: float = 30) -> None:
    """Wait until the broker knows so many rules: the controller confirms a change before the broker has read it."""
    every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY,
                      ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY))  # fmt: skip
    end_s = time.monotonic() + within_s
    while (found := len(admin.describe_acls(every)[0])) != count:
        assert time.monotonic() < end_s, f"expected {count} rules, the broker knows {found}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedKafka]:
    broker = GuardedKafka()
    with broker.kafka:
        admin = KafkaAdminClient(bootstrap_servers=broker.kafka.bootstrap_servers)
        admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS])
        admin.create_acls(RULES)
        wait_for_rules(admin, len(set(RULES)))
        admin.close()
        yield broker


@pytest.fixture
def admin(guarded: GuardedKafka) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=guarded.kafka.bootstrap_servers)
    yield client
    client.close()


def as_role(guarded: GuardedKafka, role: str, folder: Path, **more: object) -> Settings:
    (folder / "groups.yaml").write_text(CATALOGUE)
    (folder / "password").write_text(PASSWORD)
    given: dict[str, object] = {
        "kafka": guarded.logins.address, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
        "sasl_username": role, "sasl_secret_file": folder / "password", "catalogue": folder / "groups.yaml",
        "model_repository": folder, "imputer": "interpolation",
    }  # fmt: skip
    return Settings(**(given | more))  # type: ignore[arg-type]


def call(settings: Settings, *arguments: str) -> str:
    done = call_command(settings, *arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def readings(folder: Path) -> str:
    """Forty minutes of a pump as a file, with a hole and a sensor that the catalogue lacks."""
    rows = ["ts,flow,pressure"]
    rows += [f"2026-11-21T05:{minute:02}:00Z,{100 + minute},{'' if minute == 20 else 5}" for minute in range(40)]
    (folder / "pump-1.csv").write_text("\n".join(rows))
    return str(folder / "pump-1.csv")


def test_the_page_has_the_rules_of_every_role() -> None:
    assert ROLES == [
        "glaim-audit", "glaim-consumer", "glaim-operator", "glaim-producer", "glaim-training", "glaim-worker",
    ]  # fmt: skip
    settings = Settings()
    named = {(rule.resource_pattern.resource_type, rule.resource_pattern.resource_name) for rule in RULES}
    assert named == {
        *((ResourceType.TOPIC, topic) for topic in TOPICS),
        (ResourceType.GROUP, settings.consumer_group),
        (ResourceType.TRANSACTIONAL_ID, f"{settings.consumer_group}-{settings.input_topic}-"),
    }


@pytest.mark.slow  # quicker: the page's rules, above, and missing permissions in test_check.py
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_every_role_can_do_its_work(guarded: GuardedKafka, tmp_path: Path, delivery: str) -> None:
    worker = as_role(guarded, "glaim-worker", tmp_path, delivery=delivery)
    measured = worker.model_copy(update={"imputer": "triton", **MORE_TOPICS})
    assert "failed" not in call(measured, "check", "--only", "kafka")
    call(as_role(guarded, "glaim-producer", tmp_path), "produce", readings(tmp_path))
    administrator = worker.model_copy(update={"kafka": guarded.kafka.bootstrap_servers,
                                              "security_protocol": "PLAINTEXT", "sasl_mechanism": None})  # fmt: skip
    with WorkerProcess(worker, tmp_path / "log") as running:
        wait_until_committed(administrator)
        assert running.stop() == 0, (tmp_path / "log").read_text()[-3000:]
    rows = call(as_role(guarded, "glaim-consumer", tmp_path), "tail", "--from-beginning", "--limit", "5")
    assert "pump-1" in rows
    training = as_role(guarded, "glaim-training", tmp_path)
    call(training, "dump", "--out", str(tmp_path / f"{delivery}.csv"), "--since", "2026-11-01T00:00:00Z")
    assert "pump-1" in (tmp_path / f"{delivery}.csv").read_text()
    learned = call_command(training, "learn", "--dry-run", "--since", "2026-11-01T00:00:00Z")
    assert "Authorization" not in learned.stdout + learned.stderr
    for role in ("glaim-audit", "glaim-operator"):
        audited = call_command(as_role(guarded, role, tmp_path), "audit")
        assert "uthoriz" not in audited.stdout + audited.stderr
        assert "readings" in audited.stdout, audited.stderr
        assert "pump-1" in call(as_role(guarded, role, tmp_path), "report")
    call(as_role(guarded, "glaim-operator", tmp_path), "dlq", "list")
    call(as_role(guarded, "glaim-operator", tmp_path), "dlq", "requeue", "--yes")


WORKER_RULES = [rule for rule in RULES if rule.principal == "User:glaim-worker"]


def described(rule: ACL) -> str:
    return f"{rule.operation.name}-{rule.resource_pattern.resource_name}"


@pytest.mark.slow  # quicker: the page's rules, above, and missing permissions in test_check.py
@pytest.mark.parametrize("rule", WORKER_RULES, ids=described)
def test_a_worker_without_one_of_its_rules_is_told_which(
    guarded: GuardedKafka, admin: KafkaAdminClient, tmp_path: Path, rule: ACL
) -> None:
    pattern = rule.resource_pattern
    only = ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type)
    admin.delete_acls([ACLFilter(rule.principal, "*", rule.operation, rule.permission_type, only)])
    wait_for_rules(admin, len(set(RULES)) - 1)
    try:
        more = {"imputer": "triton", "page": "9465", **MORE_TOPICS}
        worker = as_role(guarded, "glaim-worker", tmp_path, delivery="exactly_once", **more)
        done = call_command(worker, "check", "--only", "kafka")
        problems = [line for line in done.stdout.splitlines() if line.startswith(("failed", "warning"))]
        named = [line for line in problems if pattern.resource_name in line]
        said = (rule.operation.name, "AUTHORIZATIONFAILED")
        assert any(word in line.upper() for line in named for word in said), done.stdout
        of_page = (rule.operation, pattern.resource_name) == (ACLOperation.READ, "sensor-health")
        assert done.returncode == (0 if of_page or rule.operation is ACLOperation.DESCRIBE_CONFIGS else 1)
    finally:
        admin.create_acls([rule])
        wait_for_rules(admin, len(set(RULES)))
