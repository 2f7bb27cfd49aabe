"""Repeated warnings of libraries become a few lines and a count; lines of this program always pass."""

import logging

from glaim_stream.worker.logs import LogLimit


class Log:
    """A log with the filter and an injected clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.limit = LogLimit(most=2, every_s=10, clock=lambda: self.now_s)

    def write(self, message: str, *values: object, name: str = "aiokafka.client", level: int = logging.ERROR) -> str:
        record = logging.LogRecord(name, level, __file__, 1, message, values, None)
        return record.getMessage() if self.limit.filter(record) else ""


def test_a_few_lines_of_a_kind_pass_and_the_next_one_states_how_many_were_dropped() -> None:
    log = Log()
    shown = [log.write("no connection to node %s: %d", "a", number) for number in range(100)]
    assert [line for line in shown if line] == ["no connection to node a: 0", "no connection to node a: 1"]
    log.now_s = 10.0
    assert (
        log.write("no connection to node %s: %d", "a", 100)
        == "no connection to node a: 100 (and 98 more like it before)"
    )
    log.now_s = 25.0
    assert log.write("no connection to node %s: %d", "a", 101) == "no connection to node a: 101"


def test_kinds_are_counted_separately() -> None:
    log = Log()
    for _ in range(3):
        log.write("no connection")
    assert log.write("no connection", level=logging.WARNING)
    assert log.write("no connection", name="aiokafka.conn")
    assert log.write("another message")
    assert not log.write("no connection")


def test_lines_below_a_warning_and_lines_of_this_program_always_pass() -> None:
    log = Log()
    assert all(log.write("polled", level=logging.INFO) for _ in range(100))
    assert all(log.write("a fault", name="glaim_stream.pipeline.pipeline") for _ in range(100))


def test_different_messages_use_bounded_memory() -> None:
    log = Log()
    assert all(log.write(f"attempt {number}") for number in range(5000))
    assert len(log.limit._kinds) <= 1000
