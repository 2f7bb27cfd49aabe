"""Decodes the newest published messages for the groups that browsers show.

A message holds the rows of all groups of a partition, so there are many to decode while a worker catches up. They are
then decoded less often, so that the page takes a small share of a core; a viewer sees its group move in larger leaps.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AbstractContextManager

from glaim_stream.page.recent import RecentMessages
from glaim_stream.page.watched import WatchedGroup, read_message

_SHARE = 0.005  # share of a core
_UNNOTICED_S = 0.005  # CPU time that is within the share once a second
_LONGEST_S = 2.0  # longest time between two reads; the kept messages reach further back, see MOST_BYTES


class RowReader:
    """A reader that updates the watched groups."""

    def __init__(self, recent: RecentMessages, lock: AbstractContextManager[object]) -> None:
        """Read from `recent`; `lock` guards the groups."""
        self._recent, self._lock = recent, lock
        self._due_s = 0.0

    def read(self, groups: Collection[WatchedGroup], now_s: float) -> None:
        """Take the messages since the last read, unless it is too soon; a group without rows cannot wait."""
        if not groups or (now_s < self._due_s and all(group.known_to for group in groups)):
            return
        start_s = time.thread_time()
        newest = self._recent.newest
        known_to = min(group.known_to for group in groups)
        messages = [
            (message, read_message(message.value))
            for message in self._recent.since(known_to, {group.partition for group in groups})
        ]
        for group in groups:
            own = [
                (message.number, batch)
                for message, batch in messages
                if message.partition == group.partition and message.number > group.known_to
            ]
            with self._lock:
                group.add(own)
                group.known_to = max(group.known_to, newest)
        took_s = time.thread_time() - start_s
        self._due_s = now_s + (min(_LONGEST_S, took_s / _SHARE) if took_s > _UNNOTICED_S else 0.0)
