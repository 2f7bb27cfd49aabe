"""Messages are decoded as soon as they come, unless that takes long."""

from threading import Lock

import pytest

from glaim_stream.output import Message, Origin, Output
from glaim_stream.page import watching
from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.watched import WatchedGroup
from glaim_stream.page.watching import RowReader
from tests.page.test_watched import STEP_MS, message


class Reader:
    """A reader of one group, on a clock whose CPU time `takes` seconds for each time that it reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float) -> None:
        self.recent, self.cpu_s = RecentMessages(), 0.0
        self.group = WatchedGroup("b", 3, ["s0", "s1"], 100 * STEP_MS)
        self.reader = RowReader(self.recent, Lock())
        self.step = 0

        def thread_time() -> float:
            self.cpu_s += takes
            return self.cpu_s

        monkeypatch.setattr(watching.time, "thread_time", thread_time)

    def read(self, now_s: float) -> int:
        """Publish a row, and read; the number of rows that are shown."""
        self.step += 1
        value = message((1, 0, self.step, 1.0, -1))
        self.recent.add([Output(3, Origin(0, 0), [Message(value, 1, "m")])])
        self.reader.read([self.group], now_s)
        return len(self.group)


def test_what_is_decoded_quickly_is_decoded_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, takes=0.004)
    assert [reader.read(now_s) for now_s in (0.0, 0.2, 0.4)] == [1, 2, 3]


def test_what_takes_long_is_decoded_less_often_but_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, takes=0.01)  # 0.5 % of two seconds
    assert [reader.read(now_s) for now_s in (0.0, 1.0, 1.9, 2.1, 3.0)] == [1, 1, 1, 4, 4]
    slow = Reader(monkeypatch, takes=1.0)
    assert [slow.read(now_s) for now_s in (0.0, 1.9, 2.1)] == [1, 1, 3], "but it is never put off for longer than 2 s"


def test_a_group_that_a_viewer_has_just_chosen_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, takes=0.01)
    assert reader.read(0.0) == 1
    other = WatchedGroup("b", 3, ["s0", "s1"], 100 * STEP_MS)
    reader.reader.read([reader.group, other], 0.5)
    assert len(other) == 1
