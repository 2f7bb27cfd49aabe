"""A share of unusable records above the expected one is said once a minute, and only then."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from glaim_stream.core.rejects import DeadLetterCause, Reject, too_many
from glaim_stream.output import Origin, Output
from glaim_stream.worker.health import Health
from glaim_stream.worker.unusable import INTERVAL_S, UnusableShare


class Topic:
    """A topic whose records come at a steady rate, judged as the worker judges them."""

    def __init__(self, expected: float = 0.05) -> None:
        self.now_s = 0.0
        self.share = UnusableShare(expected, now_s=lambda: self.now_s)
        self.verdicts: list[str] = []
        self._offset = 0

    def run(self, seconds: float, *, records: int, unusable: int, late: int = 0) -> list[str]:
        """Let so many records come each interval; return the verdicts of these seconds."""
        before = len(self.verdicts)
        for _ in range(int(seconds / INTERVAL_S)):
            self.now_s += INTERVAL_S
            if records:
                rejects = [
                    Reject(self._offset + at, DeadLetterCause.MALFORMED, f"expected a number, found {at}", position)
                    for at in range(unusable)
                    for position in (0, 1)
                ]
                rejects += [Reject(self._offset + at, DeadLetterCause.TOO_LATE, "late", 0) for at in range(late)]
                origin = Origin(self._offset, 0)
                self.share.count([Output(3, origin, rejects=rejects, records=records)])
                self._offset += records
            self.verdicts.append(self.share.judge())
        return self.verdicts[before:]


def test_a_foreign_topic_is_said_within_a_minute_with_cause_and_example(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    topic = Topic()
    assert topic.run(60, records=10, unusable=10)[-1].startswith("120 of the last 120 records cannot be used")
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "malformed 30; for example partition 3 offset 29: expected a number, found 9" in line
    topic.run(240, records=10, unusable=10)
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 5  # one a minute


def test_nothing_is_said_in_the_first_ten_seconds() -> None:
    assert Topic().run(10, records=1000, unusable=1000) == ["", ""]


def test_a_declared_share_is_silent_for_a_day_and_a_higher_one_is_not() -> None:
    topic, draws = Topic(0.3), np.random.default_rng(0)
    for unusable in draws.binomial(20, 0.3, 24 * 720).tolist():
        assert topic.run(INTERVAL_S, records=20, unusable=unusable) == [""]
    assert topic.run(60, records=20, unusable=18)[-1] != ""


@pytest.mark.parametrize("records", [1, 2, 10, 100])
def test_one_broken_record_a_minute_is_silent(records: int) -> None:
    topic = Topic()
    for _ in range(60):
        assert topic.run(5, records=records, unusable=1) == [""]
        assert not any(topic.run(55, records=records, unusable=0))


def test_a_slow_foreign_topic_is_said() -> None:
    topic = Topic()
    for _ in range(10):
        topic.run(5, records=1, unusable=1)
        topic.run(55, records=0, unusable=0)
    assert topic.verdicts[-1] != ""


def test_late_readings_are_no_dead_letters() -> None:
    assert not any(Topic().run(300, records=10, unusable=0, late=10))


def test_a_report_ends_a_minute_after_its_cause_and_does_not_flap() -> None:
    topic = Topic()
    topic.run(60, records=20, unusable=10)
    ended = [bool(each) for each in topic.run(300, records=20, unusable=0)]
    assert ended == sorted(ended, reverse=True)  # from reported to not, once
    assert not ended[-1]
    assert ended[: int(60 / INTERVAL_S)] == [True] * int(60 / INTERVAL_S)


def test_a_report_stands_while_nothing_comes_and_not_for_ever() -> None:
    topic = Topic()
    topic.run(60, records=20, unusable=20)
    silent = [bool(each) for each in topic.run(900, records=0, unusable=0)]
    assert silent[0]
    assert silent[60]
    assert not silent[-1]


def test_a_degraded_worker_is_ready_and_says_why() -> None:
    health = Health()
    health.topics_are_there()
    health.joined()
    health.degraded("120 of 120")
    assert all(health.verdicts)
    assert health.document["degraded"] == ["120 of 120"]
    health.degraded("")
    assert health.document["degraded"] == []


@pytest.mark.parametrize(
    ("unusable", "records", "minutes", "expected"),
    [(4, 4, 1, False), (5, 5, 1, True), (5, 100, 1, False), (50, 500, 50, False), (50, 100, 5, True), (0, 0, 1, False)],
)
def test_few_records_are_never_too_many(unusable: int, records: int, minutes: float, expected: bool) -> None:
    assert too_many(unusable, records, 0.05, minutes) is expected
