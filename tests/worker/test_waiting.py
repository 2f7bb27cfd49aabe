"""A worker waits, says why, and goes on; tests/integration/test_starts.py has the real broker."""

import logging

import pytest
from kafka.errors import NodeNotReadyError

from glaim_stream.core.errors import BrokerUnready, SettingsError
from glaim_stream.core.settings import Settings
from glaim_stream.worker import run
from glaim_stream.worker.health import Health
from glaim_stream.worker.run import wait_for_broker, wait_until

JOINED = "the worker is not a member of its consumer group yet"


class Scene:
    """Something that is missing in this order, and a clock that only pauses move."""

    def __init__(self, *missing: str) -> None:
        self.health, self.missing = Health(), list(missing)
        self.now_s, self.pauses = 0.0, list[float]()
        self.seen: list[tuple[str, ...]] = []

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        self.seen.append(self.health.started.why_not)

    def run(self) -> None:
        wait_until(
            lambda: self.missing.pop(0) if self.missing else None,
            self.health, sleep=self.sleep, now_s=lambda: self.now_s,
        )  # fmt: skip


def test_the_pages_show_what_is_missing() -> None:
    scene = Scene("nothing answers", "no right")
    scene.run()
    assert scene.seen == [("nothing answers", JOINED), ("no right", JOINED)]


def test_a_reason_is_logged_at_once_and_then_every_minute(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(*["nothing answers"] * 40, "no right")
    with caplog.at_level(logging.WARNING):
        scene.run()
    first = [message for message in caplog.messages if "nothing answers" in message]
    assert set(first) == {"nothing answers. The worker waits and tries again"}
    waited_s = sum(scene.pauses[:40])
    assert waited_s / 80 <= len(first) <= 1 + waited_s / 60
    assert caplog.messages[-1] == "no right. The worker waits and tries again"
    assert max(scene.pauses) <= 10


def test_errors_of_the_broker_are_waited_for_and_others_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [BrokerUnready("no right"), NodeNotReadyError("0")]

    def ensure_topics(settings: Settings) -> None:
        if errors:
            raise errors.pop(0)

    monkeypatch.setattr(run, "ensure_topics", ensure_topics)
    monkeypatch.setattr(run, "require_rights", lambda settings: None)
    monkeypatch.setattr(run, "require_transactions", lambda settings: None)
    health = Health()
    wait_for_broker(Settings(), health)
    assert (errors, health.started.why_not) == ([], (JOINED,))
    errors.append(SettingsError("refused"))
    with pytest.raises(SettingsError, match="refused"):
        wait_for_broker(Settings(), Health())
