"""What the topics hold in the end, for a reader of committed records. Uses kafka-python and pyarrow alone."""

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

NUMBER_HEADER = "chaos-number"  # of a message of the feed; letters keep it
_COMMITTED, _ABORTED = 4, 5  # states of a transaction in the coordinator's log
_ENDS = {_COMMITTED: "committed", _ABORTED: "aborted"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the output, and where it was found."""

    partition: int
    offset: int
    group: str
    sensor: str
    ts_ms: int
    revision: int
    value: float | None
    observed: bool
    final: bool
    event_time_ms: int | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter: headers by name, and the topic."""

    topic: str
    headers: Mapping[str, bytes]


def records_of(kafka: str, topic: str, *, isolation: str = "read_committed") -> list[ConsumerRecord]:
    """All records of a topic, in order within each partition."""
    consumer = KafkaConsumer(
        bootstrap_servers=kafka, isolation_level=isolation, enable_auto_commit=False, exclude_internal_topics=False
    )
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for part in consumer.poll(500).values():
                found += part
        return found
    finally:
        consumer.close()


def rows_in(records: list[ConsumerRecord]) -> list[Row]:
    """The rows of Arrow messages."""
    rows = []
    for record in records:
        columns = pa.ipc.open_stream(record.value).read_all().to_pydict()
        rows += [
            Row(
                record.partition, record.offset, group, sensor, _ms(ts), revision, value, observed, final,
                None if event_time is None else _ms(event_time),
            )
            for group, sensor, ts, revision, value, observed, final, event_time in zip(
                *(
                    columns[name]
                    for name in (
                        "group", "sensor", "ts", "revision", "value", "observed", "final", "event_time",
                    )
                ),
                strict=True,
            )
        ]  # fmt: skip
    return rows


def _ms(moment: object) -> int:
    return round(moment.timestamp() * 1000)  # type: ignore[attr-defined]


def letters_in(records: list[ConsumerRecord]) -> list[Letter]:
    """The letters of a topic."""
    return [Letter(record.topic, dict(record.headers)) for record in records]


def held_back(kafka: str, topic: str) -> int:
    """Records that a reader of committed records does not reach, because a transaction before them is open."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = KafkaConsumer(bootstrap_servers=kafka, isolation_level=isolation, enable_auto_commit=False)
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        ends.append(sum(consumer.end_offsets(partitions).values()))
        consumer.close()
    return ends[1] - ends[0]


def commits_of(kafka: str, consumer_group: str, topic: str) -> dict[int, int]:
    """The committed offset of each partition."""
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    try:
        commits = admin.list_group_offsets(consumer_group).get(consumer_group, {})
        return {tp.partition: commit.offset for tp, commit in commits.items() if tp.topic == topic}
    finally:
        admin.close()


def ends_of(kafka: str, topic: str) -> dict[int, int]:
    """The end offset of each partition."""
    consumer = KafkaConsumer(bootstrap_servers=kafka, enable_auto_commit=False)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        return {tp.partition: end for tp, end in consumer.end_offsets(partitions).items()}
    finally:
        consumer.close()


def transactions(kafka: str, prefix: str, *, until_ms: int) -> Counter[str]:
    """How the transactions whose id begins so have ended, from the log of the broker's coordinator.

    `committed_by_then` were committed before `until_ms`. `owners` counts the epochs after the first of each partition:
    each of them fenced the producers of the earlier ones.
    """
    counts: Counter[str] = Counter()
    epochs: dict[str, set[tuple[int, int]]] = {}
    for record in records_of(kafka, "__transaction_state", isolation="read_uncommitted"):
        if record.value is None or record.key is None:
            continue
        (length,) = struct.unpack_from(">h", record.key, 2)
        name = record.key[4 : 4 + length].decode()
        if not name.startswith(prefix):
            continue
        producer, epoch, _, state = struct.unpack_from(">qhib", record.value, 2)
        epochs.setdefault(name, set()).add((producer, epoch))
        if state in _ENDS:
            counts[_ENDS[state]] += 1
            counts["committed_by_then"] += state == _COMMITTED and record.timestamp < until_ms
    counts["owners"] = sum(len(found) - 1 for found in epochs.values())
    return counts
