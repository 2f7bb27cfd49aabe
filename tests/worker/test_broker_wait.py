"""A worker waits for its broker, says why, and goes on; tests/integration/test_starts.py has the real broker."""

from __future__ import annotations

import logging

import pytest
from kafka.errors import NodeNotReadyError

from glaim_stream.errors import BrokerUnready, SettingsError
from glaim_stream.settings import Settings
from glaim_stream.worker import broker_wait
from glaim_stream.worker.broker_wait import wait_for_broker
from glaim_stream.worker.health import Health

GONE, REFUSED = BrokerUnready("nothing answers"), BrokerUnready("no right")


class Scene:
    """A broker that fails in this order, and a clock that only pauses move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
        self.health, self.errors = Health(), list(errors)
        self.now_s, self.pauses = 0.0, list[float]()
        self.seen: list[tuple[str, ...]] = []
        monkeypatch.setattr(broker_wait, "ensure_topics", self.ensure_topics)
        monkeypatch.setattr(broker_wait, "require_rights", lambda settings: None)

    def ensure_topics(self, settings: Settings) -> None:
        if self.errors:
            raise self.errors.pop(0)

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        self.seen.append(self.health.started.why_not)

    def run(self) -> None:
        wait_for_broker(Settings(), self.health, sleep=self.sleep, now_s=lambda: self.now_s)


def test_the_pages_show_what_is_missing_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, GONE, REFUSED, NodeNotReadyError("0"))
    scene.run()
    joined = "the worker is not a member of its consumer group yet"
    assert scene.seen == [
        ("nothing answers", joined), ("no right", joined),
        ("Kafka at localhost:9092: NodeNotReadyError('0')", joined),
    ]  # fmt: skip
    assert scene.health.started.why_not == (joined,)


def test_a_reason_is_logged_at_once_and_then_every_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(monkeypatch, *[GONE] * 40, REFUSED)
    with caplog.at_level(logging.WARNING):
        scene.run()
    first = [record.getMessage() for record in caplog.records if "nothing answers" in record.getMessage()]
    assert set(first) == {"nothing answers. The worker waits and tries again"}
    waited_s = sum(scene.pauses[:40])
    assert waited_s / 80 <= len(first) <= 1 + waited_s / 60
    assert caplog.messages[-1] == "no right. The worker waits and tries again"
    assert max(scene.pauses) <= 10


def test_what_waiting_cannot_mend_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, GONE, SettingsError("refused"))
    with pytest.raises(SettingsError, match="refused"):
        scene.run()
    assert len(scene.pauses) == 1
