"""The commit of a consumer group for a partition."""

from __future__ import annotations

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import OffsetAndMetadata

from glaim_stream.core.settings import Settings
from glaim_stream.kafka.connection import admin_options


async def read_commit(settings: Settings, tp: TopicPartition) -> OffsetAndMetadata | None:
    """Return the commit of the settings' consumer group; None if it never committed in this partition.

    An open transaction does not count.
    """
    admin = AIOKafkaAdminClient(**admin_options(settings))
    await admin.start()
    try:
        commits = await admin.list_consumer_group_offsets(settings.consumer_group, partitions=[tp])
    finally:
        await admin.close()
    commit = commits.get(tp)
    return None if commit is None or commit.offset < 0 else OffsetAndMetadata(commit.offset, commit.metadata or "")
