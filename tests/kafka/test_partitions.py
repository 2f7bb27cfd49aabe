"""A producer sends to partitions that it knows, and those that are absent are added first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from glaim_stream.errors import SendError, SettingsError
from glaim_stream.kafka import partitions as module
from glaim_stream.kafka.partitions import require_partition
from glaim_stream.settings import Settings

SETTINGS = Settings()


@dataclass
class Broker:
    """A topic's partitions as the broker has them, and as a producer's client believes; also that client."""

    there: set[int]
    known: set[int] | None
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
        self.known = set(self.there)


async def required(broker: Broker, partition: int) -> None:
    client: Any = broker
    await require_partition(client, SETTINGS, "imputed-readings", partition)
    assert set(broker.asked) == {"imputed-readings"}


@pytest.mark.parametrize("known", [{0, 1}, None])
async def test_a_known_partition_and_an_unknown_topic_cost_no_request(known: set[int] | None) -> None:
    broker = Broker({0, 1}, known)
    await required(broker, 1)
    assert broker.updates == 0


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
