"""Checks the topics and the consumer group at a broker, and changes nothing.

The broker states the rights on a group only once the group exists. So the check of the group sends a heartbeat of a
member that does not exist, which is authorised like that of one that does, and then refused.
"""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import GroupAuthorizationFailedError, KafkaError, for_code
from kafka.protocol.consumer import HeartbeatRequest
from kafka.protocol.metadata import CoordinatorType

from glaim_stream.core.errors import BrokerUnready, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import connected_admin
from glaim_stream.operate.check.findings import CheckFinding, Grade, failed, ok, warning
from glaim_stream.operate.check.rights import grant
from glaim_stream.operate.check.topics import TopicFacts, access_findings, topic_findings
from glaim_stream.operate.check.transactions import transaction_findings

_UNKNOWN_TOPIC = 3
_PATIENCE_S = 8.0  # a new cluster first creates the topic that holds the commits; one that cannot says so within 10 s
_PAUSE_S = 0.2
_NOBODY, _NO_GENERATION = "glaim-stream-check", 0


def kafka_findings(settings: Settings, span_ms: int | None) -> list[CheckFinding]:
    """Findings on the broker, every topic and the consumer group.

    Args:
        settings: connection to Kafka, and names of topics and group.
        span_ms: record time that a rebuild may have to read again, milliseconds; None: unknown, and not checked.
    """
    subject = f"kafka {settings.kafka}"
    try:
        with connected_admin(settings) as admin:
            facts = topic_facts(admin, settings)
            return [
                ok(subject, "answers"),
                *topic_findings(settings, facts, span_ms or 0),
                *transaction_findings(admin, settings, facts[settings.input_topic].partitions),
                group_finding(admin, settings.consumer_group),
            ]
    except SettingsError as error:
        return [failed(subject, expected="a broker that answers", found=str(error))]
    except KafkaError as error:
        return [failed(subject, expected="a broker that answers", found=repr(error))]


def notable_topics(settings: Settings, span_ms: int) -> list[CheckFinding]:
    """Warnings and failures of the topics, for the log of a worker that starts."""
    try:
        with connected_admin(settings) as admin:
            findings = topic_findings(settings, topic_facts(admin, settings), span_ms)
    except (SettingsError, KafkaError) as error:
        return [warning("topics", expected="the broker to describe them", found=repr(error.__cause__ or error))]
    return [finding for finding in findings if finding.outcome is not Grade.OK]


def topic_facts(admin: KafkaAdminClient, settings: Settings) -> dict[str, TopicFacts]:
    """Describe every topic of the settings, by name."""
    described = {each["name"]: each for each in admin.describe_topics(list(settings.topics))}
    configs = _configs(admin, [name for name, each in described.items() if each["error_code"] == 0])
    return {name: _facts(described.get(name), configs.get(name, {})) for name in settings.topics}


def _facts(described: dict[str, Any] | None, config: dict[str, str]) -> TopicFacts:
    if described is None or described["error_code"] == _UNKNOWN_TOPIC:
        return TopicFacts(absent=True)
    if described["error_code"] != 0:
        return TopicFacts(error=for_code(described["error_code"]).__name__)
    parts = described["partitions"]
    operations = described.get("authorized_operations")
    return TopicFacts(
        partitions=len(parts),
        leaderless=sum(part["leader_id"] < 0 for part in parts),
        replicas=min((len(part["replica_nodes"]) for part in parts), default=0),
        operations=frozenset(operations) if isinstance(operations, list) else None,
        config=config,
    )


def _configs(admin: KafkaAdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    """Configuration by topic; empty for a topic whose configuration this user may not read."""
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
    found = admin.describe_configs(resources, config_filter="all").get("topic", {})
    return {name: {key: str(each["value"]) for key, each in entries.items()} for name, entries in found.items()}


def require_rights(settings: Settings) -> None:
    """Check the rights of a starting worker on its topics and group.

    Raises:
        BrokerUnready: some rights are missing.
        SettingsError: the broker refuses the connection.
    """
    with connected_admin(settings) as admin:
        found = [
            *access_findings(settings, topic_facts(admin, settings)),
            group_finding(admin, settings.consumer_group),
        ]
    missing = [str(finding) for finding in found if finding.outcome is Grade.FAILED]
    if missing:
        raise BrokerUnready("; ".join(missing))


def group_finding(admin: KafkaAdminClient, name: str) -> CheckFinding:
    """Whether this user may join a consumer group, which need not be there yet."""
    subject = f"consumer group {name}"
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            error: type[Exception] = admin._manager.run(_heartbeat, admin, name)
        except KafkaError as raised:
            error = type(raised)
        if issubclass(error, GroupAuthorizationFailedError):
            found = f"{error.__name__}; {grant('group', name, 'Read')}"
            return failed(subject, expected="this user to have READ", found=found)
        if not getattr(error, "retriable", False):
            return ok(subject, "this user may join it")
        if time.monotonic() > end_s:
            return failed(subject, expected="a coordinator", found=f"{error.__name__} for {_PATIENCE_S:.0f} s")
        time.sleep(_PAUSE_S)


async def _heartbeat(admin: KafkaAdminClient, name: str) -> type[Exception]:
    node_id = await admin._find_coordinator_id(name, CoordinatorType.GROUP)
    request = HeartbeatRequest(group_id=name, generation_id=_NO_GENERATION, member_id=_NOBODY, max_version=3)
    response = await admin._manager.send(request, node_id=node_id)
    found: type[Exception] = for_code(response.error_code)
    return found
