"""The rules of topics for a worker, applied to what the broker reports. Pure: without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from glaim_stream.core.settings import Settings
from glaim_stream.operate.check.findings import CheckFinding, failed, ok, warning
from glaim_stream.operate.check.rights import grant

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The report of a broker on a topic.

    error: reason why the broker reports nothing else, "" if it does; `absent`: there is no topic of that name.
    partitions, leaderless: number of partitions, and number of those without a leader.
    replicas: fewest replicas of a partition.
    operations: operations that this user may do with the topic; None if the broker does not report them.
    config: the topic's configuration; empty if this user may not read it.
    """

    error: str = ""
    absent: bool = False
    partitions: int = 0
    leaderless: int = 0
    replicas: int = 0
    operations: frozenset[str] | None = None
    config: Mapping[str, str] | None = None

    @property
    def usable(self) -> bool:
        """Whether the topic exists and was described."""
        return not self.error and not self.absent


def topic_findings(settings: Settings, facts: Mapping[str, TopicFacts], span_ms: int) -> list[CheckFinding]:
    """Findings on every topic of the settings.

    Args:
        settings: names of the topics, and the worker's use of them.
        facts: facts by name of the topic.
        span_ms: record time that a rebuild may have to read again, milliseconds.
    """
    out: list[CheckFinding] = []
    for name in settings.topics:
        found = list(_topic(settings, name, facts[name], facts[settings.input_topic], span_ms))
        if not found:
            found = [ok(f"topic {name}", f"{facts[name].partitions} partitions")]
        out += found
    return out


def access_findings(settings: Settings, facts: Mapping[str, TopicFacts]) -> list[CheckFinding]:
    """Findings only on rights that this user lacks on existing topics."""
    return [
        finding
        for name in settings.topics
        if facts[name].usable
        for finding in _access(f"topic {name}", facts[name], name, _needed(settings, name))
    ]


def _needed(settings: Settings, name: str) -> tuple[str, ...]:
    if name == settings.quality_topic:  # a worker deletes records that an earlier one has left there
        return "Write", "Read"
    return ("Read",) if name == settings.input_topic else ("Write",)


def _topic(
    settings: Settings, name: str, facts: TopicFacts, source: TopicFacts, span_ms: int
) -> Iterator[CheckFinding]:
    subject = f"topic {name}"
    if facts.absent:
        partitions = source.partitions or settings.partitions
        yield warning(
            subject,
            expected="it to be there",
            found=f"none of that name: a worker creates it, with {partitions} partitions and "
            f"{settings.replication_factor} replicas",
        )
        return
    if facts.error:
        found = facts.error + (f"; {grant('topic', name, 'Describe')}" if "Authorization" in facts.error else "")
        yield failed(subject, expected="the broker to describe it", found=found)
        return
    is_input = name == settings.input_topic
    yield from _access(subject, facts, name, _needed(settings, name))
    if facts.leaderless:
        yield failed(
            subject,
            expected="a leader for every partition",
            found=f"none for {facts.leaderless} of {facts.partitions}",
        )
    # Messages on these topics go to the partition number that their reading came from.
    if name in settings.parallel_topics and source.usable:
        yield from _partitions(subject, facts, source, settings.input_topic)
    if not facts.config:
        yield warning(
            subject, expected="DESCRIBE_CONFIGS on it", found="no configuration: settings of the topic are not checked"
        )
        return
    yield from _durability(subject, facts)
    yield from _input(subject, facts.config, span_ms) if is_input else _output(settings, name, facts, source)


def _access(subject: str, facts: TopicFacts, name: str, needed: Sequence[str]) -> Iterator[CheckFinding]:
    for operation in needed:
        if facts.operations is not None and operation.upper() not in facts.operations:
            yield failed(
                subject,
                expected=f"this user to have {operation.upper()}",
                found=f"{', '.join(sorted(facts.operations)) or 'nothing'}; {grant('topic', name, operation)}",
            )


def _partitions(subject: str, facts: TopicFacts, source: TopicFacts, of: str) -> Iterator[CheckFinding]:
    expected = f"the {source.partitions} partitions of {of}"
    if facts.partitions < source.partitions and facts.operations is not None and "ALTER" not in facts.operations:
        yield failed(subject, expected=expected, found=f"{facts.partitions}, and this user may not ALTER it to add any")
    elif facts.partitions < source.partitions:
        yield warning(subject, expected=expected, found=f"{facts.partitions}: a worker adds the others when it starts")
    elif facts.partitions > source.partitions:
        yield warning(subject, expected=expected, found=f"{facts.partitions}: the additional ones stay empty")


def _durability(subject: str, facts: TopicFacts) -> Iterator[CheckFinding]:
    """Check that acknowledged records survive failures: once a commit covers them, nothing sends them again."""
    config = facts.config or {}
    in_sync = int(config.get("min.insync.replicas", 1))
    if in_sync > facts.replicas:
        yield failed(
            subject,
            expected=f"at least the {in_sync} replicas of min.insync.replicas",
            found=f"{facts.replicas}: no write to it is ever acknowledged",
        )
    elif in_sync == facts.replicas > 1:
        yield warning(
            subject,
            expected=f"min.insync.replicas below its {facts.replicas} replicas",
            found=f"{in_sync}: no write to it is acknowledged while one broker is away",
        )
    elif in_sync == 1 < facts.replicas:
        yield warning(
            subject,
            expected="min.insync.replicas of at least 2",
            found=f"1 of {facts.replicas} replicas: what one broker alone has acknowledged is lost with it",
        )
    if config.get("unclean.leader.election.enable", "false") == "true":
        yield warning(
            subject,
            expected="unclean.leader.election.enable false",
            found="true: a replica that lags may become leader, and what it lacks is lost though it was acknowledged",
        )


def _input(subject: str, config: Mapping[str, str], span_ms: int) -> Iterator[CheckFinding]:
    kind = config.get("message.timestamp.type", "")
    if kind != "LogAppendTime":
        yield warning(
            subject,
            expected="message.timestamp.type LogAppendTime",
            found=f"{kind}: a producer whose clock is ahead moves the watermark of its partition, and the readings of "
            "all others are too late",
        )
    if "compact" in config.get("cleanup.policy", ""):
        yield failed(
            subject,
            expected="cleanup.policy delete",
            found=f"{config['cleanup.policy']}: of each group only the newest record is kept, and no window",
        )
    retention_ms = int(config.get("retention.ms", UNLIMITED))
    if retention_ms != UNLIMITED and retention_ms < span_ms:
        yield warning(
            subject,
            expected=f"retention.ms of at least {span_ms}, the history that a rebuild needs",
            found=f"{retention_ms}: after a rebuild windows hold less than before",
        )
    if config.get("retention.bytes", str(UNLIMITED)) != str(UNLIMITED):
        yield warning(
            subject,
            expected="no retention.bytes, or one that holds the history that a rebuild needs",
            found=config["retention.bytes"] + " bytes per partition: the time that they hold depends on the load",
        )


def _output(settings: Settings, name: str, facts: TopicFacts, source: TopicFacts) -> Iterator[CheckFinding]:
    subject, config = f"topic {name}", facts.config or {}
    policy = config.get("cleanup.policy", "delete")
    if name == settings.quality_topic and "compact" not in policy:
        yield warning(
            subject,
            expected="cleanup.policy compact, which keeps the newest record of each key",
            found=f"{policy}: the topic grows until its retention, and then loses the newest records too",
        )
    if policy == "compact" and name not in (settings.outage_topic, settings.health_topic, settings.quality_topic):
        yield failed(
            subject, expected="cleanup.policy delete", found="compact: it rejects messages without a key, such as rows"
        )
    largest = int(config.get("max.message.bytes", 0))
    if name == settings.output_topic and largest < settings.max_message_bytes:
        yield warning(
            subject,
            expected=f"max.message.bytes of at least GLAIM_MAX_MESSAGE_BYTES, {settings.max_message_bytes}",
            found=f"{largest}: larger messages are sent again in halves",
        )
    letters = (settings.dlq_topic, settings.late_topic)
    incoming = int((source.config or {}).get("max.message.bytes", 0))
    if name in letters and largest < incoming:
        yield warning(
            subject,
            expected=f"max.message.bytes of at least that of {settings.input_topic}, {incoming}",
            found=f"{largest}: only the beginning of larger records is kept",
        )
