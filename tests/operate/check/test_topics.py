"""Findings on topics, for each fact that a broker may report."""

from dataclasses import replace

import pytest

from glaim_stream.core.settings import Settings
from glaim_stream.operate.check.findings import Grade
from glaim_stream.operate.check.topics import TopicFacts, topic_findings

SPAN_MS = 1_000_000
GOOD_CONFIG = {
    "message.timestamp.type": "LogAppendTime",
    "cleanup.policy": "delete",
    "retention.ms": str(SPAN_MS),
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
}
GOOD = TopicFacts(partitions=4, replicas=3, operations=frozenset({"READ", "WRITE", "DESCRIBE"}), config=GOOD_CONFIG)
SETTINGS = Settings(health_topic="sensor-health")
INPUT, OUTPUT, LETTERS, LATE, OUTAGES, HEALTH = SETTINGS.topics


def configured(**changes: str) -> TopicFacts:
    given = {name.replace("_", "."): value for name, value in changes.items()}
    return replace(GOOD, config=GOOD_CONFIG | given)


def findings(**changed: TopicFacts) -> list[tuple[Grade, str]]:
    """Findings that are not ok when only these topics differ from good ones."""
    names = {"source": INPUT, "output": OUTPUT, "letters": LETTERS, "late": LATE, "outages": OUTAGES, "health": HEALTH}
    facts = dict.fromkeys(SETTINGS.topics, GOOD) | {names[name]: found for name, found in changed.items()}
    found = topic_findings(SETTINGS, facts, SPAN_MS)
    return [(finding.outcome, str(finding)) for finding in found if finding.outcome is not Grade.OK]


def test_good_topics_are_one_line_each() -> None:
    findings = topic_findings(SETTINGS, dict.fromkeys(SETTINGS.topics, GOOD), SPAN_MS)
    assert [str(finding) for finding in findings] == [f"topic {name}: 4 partitions" for name in SETTINGS.topics]


@pytest.mark.parametrize(
    ("topic", "facts", "outcome", "fragments"),
    [
        ("output", TopicFacts(absent=True), Grade.WARNING, ["it to be there", "4 partitions", "1 replicas"]),
        (
            "source",
            TopicFacts(error="TopicAuthorizationFailedError"),
            Grade.FAILED,
            ["describe", "TopicAuthorizationFailedError"],
        ),
        ("source", replace(GOOD, operations=frozenset({"DESCRIBE"})), Grade.FAILED, ["to have READ", "DESCRIBE"]),
        ("output", replace(GOOD, operations=frozenset({"READ"})), Grade.FAILED, ["to have WRITE", "found READ"]),
        ("late", replace(GOOD, operations=frozenset()), Grade.FAILED, ["to have WRITE", "found nothing"]),
        ("letters", replace(GOOD, leaderless=2), Grade.FAILED, ["a leader", "none for 2 of 4"]),
        ("output", replace(GOOD, partitions=3), Grade.FAILED, [f"the 4 partitions of {INPUT}", "found 3"]),
        ("outages", replace(GOOD, partitions=1), Grade.FAILED, [f"the 4 partitions of {INPUT}", "found 1"]),
        (
            "output",
            replace(GOOD, partitions=3, operations=frozenset({"WRITE", "ALTER"})),
            Grade.WARNING,
            [f"the 4 partitions of {INPUT}", "found 3: a worker adds the others"],
        ),
        ("outages", replace(GOOD, partitions=3, operations=None), Grade.WARNING, ["a worker adds the others"]),
        ("output", replace(GOOD, partitions=6), Grade.WARNING, ["found 6", "stay empty"]),
        ("output", replace(GOOD, config={}), Grade.WARNING, ["DESCRIBE_CONFIGS"]),
        ("source", configured(message_timestamp_type="CreateTime"), Grade.WARNING, ["LogAppendTime", "CreateTime"]),
        ("source", configured(cleanup_policy="compact,delete"), Grade.FAILED, ["compact,delete", "newest record"]),
        ("source", configured(retention_ms=str(SPAN_MS - 1)), Grade.WARNING, [f"at least {SPAN_MS}", "999999"]),
        ("source", configured(retention_bytes="1000"), Grade.WARNING, ["retention.bytes", "1000 bytes"]),
        ("output", configured(cleanup_policy="compact"), Grade.FAILED, ["without a key"]),
        ("letters", configured(min_insync_replicas="4"), Grade.FAILED, ["4 replicas", "found 3", "acknowledged"]),
        ("source", configured(min_insync_replicas="4"), Grade.FAILED, ["4 replicas", "found 3", "acknowledged"]),
        ("source", configured(min_insync_replicas="1"), Grade.WARNING, ["of at least 2", "found 1 of 3 replicas"]),
        ("outages", configured(min_insync_replicas="3"), Grade.WARNING, ["below its 3 replicas", "broker is away"]),
        (
            "late",
            configured(unclean_leader_election_enable="true"),
            Grade.WARNING,
            ["unclean.leader.election.enable false", "lags may become leader"],
        ),
        ("output", configured(max_message_bytes="500000"), Grade.WARNING, ["1000000", "500000", "halves"]),
        ("late", configured(max_message_bytes="500000"), Grade.WARNING, ["1048588", "500000", "only the beginning"]),
    ],
)  # fmt: skip
def test_each_problem_is_one_sentence(topic: str, facts: TopicFacts, outcome: Grade, fragments: list[str]) -> None:
    ((found, sentence),) = findings(**{topic: facts})
    assert found is outcome
    for fragment in fragments:
        assert fragment in sentence


@pytest.mark.parametrize(
    "facts",
    [
        replace(GOOD, operations=None),  # an old broker does not report it
        configured(retention_ms="-1"),
        configured(cleanup_policy="delete"),
    ],
)
def test_unlimited_or_unknown_is_no_problem(facts: TopicFacts) -> None:
    assert findings(source=facts) == []


@pytest.mark.parametrize(
    ("topic", "facts"),
    [
        ("output", replace(configured(min_insync_replicas="2"), replicas=3)),
        ("output", configured(max_message_bytes=str(SETTINGS.max_message_bytes))),
        ("late", configured(max_message_bytes="1048588")),  # as large as in the input
        ("letters", replace(GOOD, partitions=1)),  # letters may go to any partition
        (
            "output",
            replace(GOOD, config={name: GOOD_CONFIG[name] for name in ("max.message.bytes", "min.insync.replicas")}),
        ),
    ],
)
def test_a_configuration_that_just_suffices_is_no_problem(topic: str, facts: TopicFacts) -> None:
    assert findings(**{topic: facts}) == []


def test_retention_without_limits_may_be_absent() -> None:
    assert findings(source=replace(GOOD, config={
        "message.timestamp.type": "LogAppendTime", "max.message.bytes": "1", "min.insync.replicas": "2"
    })) == []  # fmt: skip


def test_an_input_that_cannot_be_described_does_not_affect_the_others() -> None:
    (failure,) = findings(source=TopicFacts(error="X", partitions=9))
    assert failure[0] is Grade.FAILED
    assert not TopicFacts(error="X").usable
    assert not TopicFacts(absent=True).usable
    assert TopicFacts().usable


def test_the_outage_topic_may_be_compacted_since_its_events_have_keys() -> None:
    assert findings(outages=configured(cleanup_policy="compact")) == []


def test_without_an_input_topic_other_partition_counts_are_not_checked() -> None:
    assert [outcome for outcome, _ in findings(source=TopicFacts(absent=True))] == [Grade.WARNING]


def test_a_single_replica_is_a_choice_and_no_finding() -> None:
    alone = replace(configured(min_insync_replicas="1"), replicas=1)
    assert findings(source=alone, output=alone) == []


def test_defaults_that_a_broker_does_not_name_are_those_of_kafka() -> None:
    bare = replace(GOOD, replicas=1, config={name: GOOD_CONFIG[name] for name in GOOD_CONFIG if "insync" not in name})
    assert findings(late=bare) == []


QUALITY = Settings(quality_topic="quality")


def quality_findings(facts: TopicFacts) -> list[tuple[Grade, str]]:
    of_topics = dict.fromkeys(QUALITY.topics, GOOD) | {"quality": facts}
    found = topic_findings(QUALITY, of_topics, SPAN_MS)
    return [(finding.outcome, str(finding)) for finding in found if finding.outcome is not Grade.OK]


def test_the_topic_of_live_accuracy_is_compacted_and_read_as_well_as_written() -> None:
    compacted = configured(cleanup_policy="compact")
    assert quality_findings(compacted) == []
    ((outcome, sentence),) = quality_findings(GOOD)
    assert (outcome, "expected cleanup.policy compact" in sentence) == (Grade.WARNING, True)
    for operation in ("READ", "WRITE"):
        ((outcome, sentence),) = quality_findings(replace(compacted, operations=frozenset({operation})))
        missing = "WRITE" if operation == "READ" else "READ"
        assert (outcome, f"to have {missing}" in sentence) == (Grade.FAILED, True)
    ((outcome, sentence),) = quality_findings(replace(compacted, partitions=1))
    assert (outcome, "the 4 partitions" in sentence) == (Grade.FAILED, True)


def test_without_probes_there_is_no_topic_of_live_accuracy() -> None:
    for more in ({"imputer": "interpolation"}, {"score_share": 0.0}):
        assert "quality" not in Settings(quality_topic="quality", **more).topics  # type: ignore[arg-type]
