"""Partitions that were added to the input while a worker runs: the topics of rows and outages get as many."""

from __future__ import annotations

import asyncio
import logging

from aiokafka.client import AIOKafkaClient

from glaim_stream.core.errors import SendError, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka.topics import ensure_topics

log = logging.getLogger(__name__)


async def require_partition(client: AIOKafkaClient, settings: Settings, topic: str, partition: int) -> None:
    """Make sure that a producer knows a partition before it sends there, and add it to the topic where it is absent.

    aiokafka's producer asserts that it knows the partition, and looks for new ones only every five minutes.

    Args:
        client: the producer's client.
        settings: the worker's settings.
        topic: topic of rows or outages.
        partition: the number of the input partition.

    Raises:
        SendError: the partition is not there, and cannot be added now.
    """
    if _has(client, topic, partition):
        return
    await client.add_topic(topic)  # a new producer knows no topic; what it learned here may be older than the partition
    if not _has(client, topic, partition):
        await client.force_metadata_update()
    if client.cluster.partitions_for_topic(topic) is None:
        raise SendError(f"nothing is known of {topic} yet")
    if _has(client, topic, partition):
        return
    try:
        await asyncio.to_thread(ensure_topics, settings)
    except SettingsError as error:
        log.error("%s-%d publishes nothing: %s", settings.input_topic, partition, error)
        raise SendError(str(error)) from error
    await client.force_metadata_update()
    if not _has(client, topic, partition):
        raise SendError(f"{topic} has no partition {partition} yet")


def _has(client: AIOKafkaClient, topic: str, partition: int) -> bool:
    return partition in (client.cluster.partitions_for_topic(topic) or ())
