"""The newest published messages, which the page decodes while a browser shows their group.

The worker only appends each message that the broker has acknowledged: the bytes exist already, and only keeping them
costs. So the page shows only rows that were published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from glaim_stream.output import Output

MOST_BYTES = 2_000_000  # about 150,000 rows: 2 s of a worker that publishes 75,000 rows a second
_MOST_OUTAGES = 20


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """A message of rows that the broker has acknowledged; numbers ascend."""

    number: int
    partition: int
    value: bytes


class RecentMessages:
    """The newest messages of a worker, up to a number of bytes. The event loop adds; another thread reads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._messages: deque[PublishedMessage] = deque()
        self._bytes = 0
        self._number = 0
        self._outages: deque[bytes] = deque(maxlen=_MOST_OUTAGES)
        self._lock = Lock()

    def add(self, outputs: Sequence[Output]) -> None:
        """Keep the messages of acknowledged outputs, and drop the oldest ones beyond the limit."""
        with self._lock:
            for output in outputs:
                self._outages.extend(each.value for each in output.announcements)
                for message in output.messages:
                    self._number += 1
                    self._messages.append(PublishedMessage(self._number, output.partition, message.value))
                    self._bytes += len(message.value)
            while self._bytes > self._most_bytes and len(self._messages) > 1:
                self._bytes -= len(self._messages.popleft().value)

    def since(self, number: int, partitions: Collection[int]) -> list[PublishedMessage]:
        """The kept messages of some partitions with a number above `number`, the oldest first."""
        found: list[PublishedMessage] = []
        with self._lock:
            for message in reversed(self._messages):
                if message.number <= number:
                    break
                if message.partition in partitions:
                    found.append(message)
        return found[::-1]

    @property
    def newest(self) -> int:
        """The number of the newest message; 0 before the first."""
        return self._number

    @property
    def outages(self) -> list[bytes]:
        """The newest messages for the outage topic, the newest last."""
        with self._lock:
            return list(self._outages)
