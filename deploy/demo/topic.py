"""Reads a topic back, and how far the worker has committed."""

from __future__ import annotations

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from glaim_stream.core.settings import Settings
from glaim_stream.kafka import consumer_options, kafka_options

Records = dict[int, list[ConsumerRecord]]


def read_topic(settings: Settings, topic: str) -> Records:
    """All records of a topic by partition, ordered by offset."""
    consumer = KafkaConsumer(**(consumer_options(settings) | {"max_poll_records": 5000}))
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        records: Records = {tp.partition: [] for tp in partitions}
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for tp, part in consumer.poll(1000).items():
                records[tp.partition] += part
        return records
    finally:
        consumer.close()


class Progress:
    """Counts the input records that the worker has not committed yet."""

    def __init__(self, settings: Settings) -> None:
        self._group = settings.consumer_group
        self._consumer = KafkaConsumer(**consumer_options(settings))
        self._admin = KafkaAdminClient(**kafka_options(settings))
        self._partitions = [
            TopicPartition(settings.input_topic, number)
            for number in sorted(self._consumer.partitions_for_topic(settings.input_topic) or ())
        ]

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()
        self._consumer.close()

    def behind(self) -> int:
        """The number of records that are written but not committed."""
        ends = self._consumer.end_offsets(self._partitions)
        try:
            commits = self._admin.list_group_offsets(self._group).get(self._group, {})
        except KafkaError:
            return sum(ends.values())  # the broker is still creating the topic of committed offsets
        return sum(max(0, end - max(0, commits[tp].offset if tp in commits else 0)) for tp, end in ends.items())
