"""Topics and commits in memory, as the client's consumer and admin show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata, OffsetAndTimestamp


class Kafka:
    """Topics of two partitions, of which the second is empty, and the commits of groups; consumer and admin in one."""

    def __init__(self, topics: dict[str, list[Any]]) -> None:
        self.topics = topics
        self.commits: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.position_of: dict[TopicPartition, int] = {}
        self.asked = 0

    def records(self, tp: TopicPartition) -> list[Any]:
        return self.topics[tp.topic] if tp.partition == 0 else []

    async def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        parts = [{"partition": number} for number in (0, 1)]
        return [{"topic": name, "partitions": parts, "error_code": 0 if name in self.topics else 3} for name in names]

    async def end_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.records(tp)) for tp in tps}

    async def beginning_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        later = {tp: [each.offset for each in self.records(tp) if each.timestamp >= time] for tp, time in times.items()}
        return {tp: OffsetAndTimestamp(offsets[0], times[tp]) if offsets else None for tp, offsets in later.items()}

    def assign(self, tps: Sequence[TopicPartition]) -> None:
        self.position_of = dict.fromkeys(tps, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        assert tp in self.position_of, "not assigned"
        self.position_of[tp] = offset

    async def position(self, tp: TopicPartition) -> int:
        return self.position_of[tp]

    async def getmany(self, tp: TopicPartition, **_: Any) -> dict[TopicPartition, list[Any]]:
        found = self.records(tp)[self.position_of[tp] : self.position_of[tp] + 50]
        self.position_of[tp] += len(found)
        return {tp: found}

    async def list_consumer_groups(self) -> list[tuple[str, str]]:
        return [(name, "consumer") for name in self.commits]

    async def list_consumer_group_offsets(self, group: str, partitions: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        self.asked += 1
        return self.commits.get(group, {})
