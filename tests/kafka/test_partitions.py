"""A producer sends to partitions that it knows, and those that are absent are added first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from glaim_stream.core.errors import SendError, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.kafka import partitions as module
from glaim_stream.kafka.partitions import require_partition

SETTINGS = Settings()


@dataclass
class Broker:
    """A topic's partitions as the broker has them, and as a producer's client believes; also that client."""

    there: set[int] | None  # None: no broker answers
    known: set[int] | None
    tracked: bool = True  # whether the client asks for the topic
    updates: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> Broker:
        return self

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        self.asked.append(topic)
        return self.known

    async def force_metadata_update(self) -> None:
        self.updates += 1
        self.known = None if self.there is None else set(self.there)

    async def add_topic(self, topic: str) -> None:
        self.asked.append(topic)
        if not self.tracked:
            await self.force_metadata_update()
        self.tracked = True


async def required(broker: Broker, partition: int) -> None:
    client: Any = broker
    await require_partition(client, SETTINGS, "imputed-readings", partition)
    assert set(broker.asked) == {"imputed-readings"}


async def test_a_known_partition_costs_no_request() -> None:
    broker = Broker({0, 1}, {0, 1})
    await required(broker, 1)
    assert broker.updates == 0


async def test_a_new_producer_learns_the_topic_first() -> None:
    broker = Broker({0, 1}, None, tracked=False)
    await required(broker, 1)
    assert broker.updates == 1


async def test_a_partition_is_added_where_a_new_producer_finds_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({0, 1}, None, tracked=False)
    monkeypatch.setattr(module, "ensure_topics", lambda settings: broker.there.add(2))
    await required(broker, 2)
    assert broker.known == {0, 1, 2}


async def test_a_topic_of_which_no_broker_tells_is_tried_again() -> None:
    with pytest.raises(SendError, match="nothing is known of imputed-readings yet"):
        await required(Broker(None, None, tracked=False), 1)


async def test_a_partition_that_another_worker_added_is_learned() -> None:
    broker = Broker({0, 1, 2}, {0, 1})
    await required(broker, 2)
    assert broker.updates == 1


async def test_an_absent_partition_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({0, 1}, {0, 1})
    monkeypatch.setattr(module, "ensure_topics", lambda settings: broker.there.add(2))
    await required(broker, 2)
    assert broker.updates == 2


async def test_what_the_broker_refuses_is_said_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(settings: Settings) -> None:
        raise SettingsError("imputed-readings needs at least the 3 partitions of sensor-readings, found 2")

    monkeypatch.setattr(module, "ensure_topics", refuse)
    with pytest.raises(SendError, match="needs at least the 3 partitions"):
        await required(Broker({0, 1}, {0, 1}), 2)
    assert "sensor-readings-2 publishes nothing: imputed-readings needs at least the 3" in caplog.text


async def test_a_partition_that_is_not_there_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ensure_topics", lambda settings: None)
    with pytest.raises(SendError, match="no partition 2 yet"):
        await required(Broker({0, 1}, {0, 1}), 2)
