"""Logging of a running worker: its level, and what the libraries below it may write."""

from __future__ import annotations

import logging
from typing import cast

from glaim_stream.worker.log_limit import LogLimit

_DUMP, _WAITING = "Agent tracebacks:", "wait_empty: Waiting for tasks"


def prepare_logging(level: str) -> None:
    """Set the level of the root logger and filter its handlers; called once Faust has made them.

    Faust leaves the root logger at DEBUG whatever level it is given, which costs a saturated worker 14 %.
    """
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers:
        handler.addFilter(WaitLines())
        handler.addFilter(LogLimit())


class WaitLines(logging.Filter):
    """A filter that turns Faust's report of a slow rebalance into one plain line.

    Before a rebalance Faust waits until the delivered batches are answered. Every 10 s it logs all of their records
    and the tracebacks of all agents, although nothing has failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the tracebacks, and count the batches instead of printing them."""
        text = str(record.msg)
        if _WAITING in text and isinstance(record.args, tuple):
            (waiting,) = record.args
            record.msg = "a rebalance waits for %d batches whose output is not acknowledged yet"
            record.args = (len(cast("list[object]", waiting)),)
        return _DUMP not in text
