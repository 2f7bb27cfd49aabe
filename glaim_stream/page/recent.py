"""The newest published messages, which the page decodes while a browser shows their group, and rejects by cause.

The worker only appends each message that the broker has acknowledged: the bytes exist already, and only keeping them
costs. So the page shows only rows that were published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from glaim_stream.core.rejects import DeadLetterCause
from glaim_stream.output import Output

MOST_BYTES = 2_000_000  # about 150,000 rows: 2 s of a worker that publishes 75,000 rows a second
_MOST_OUTAGES = 20
_DETAIL_CHARS = 200


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """A message of rows that the broker has acknowledged; numbers ascend."""

    number: int
    partition: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Rejected:
    """The readings or whole records that were rejected for one cause since the start, and the newest of them."""

    cause: DeadLetterCause
    count: int
    partition: int
    offset: int
    detail: str


class RecentMessages:
    """The newest messages of a worker, up to a number of bytes. The event loop adds; another thread reads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._messages: deque[PublishedMessage] = deque()
        self._bytes = 0
        self._number = 0
        self._outages: deque[bytes] = deque(maxlen=_MOST_OUTAGES)
        self._rejected: dict[DeadLetterCause, Rejected] = {}
        self._lock = Lock()

    def add(self, outputs: Sequence[Output]) -> None:
        """Keep the messages of acknowledged outputs, and drop the oldest ones beyond the limit; count the rejects."""
        with self._lock:
            for output in outputs:
                self._outages.extend(each.value for each in output.announcements)
                for each in output.rejects:
                    known = self._rejected.get(each.cause)
                    count = each.count + (known.count if known else 0)
                    detail = each.detail[:_DETAIL_CHARS]
                    self._rejected[each.cause] = Rejected(each.cause, count, output.partition, each.offset, detail)
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

    @property
    def rejected(self) -> list[Rejected]:
        """What was rejected by cause, the most frequent cause first."""
        with self._lock:
            return sorted(self._rejected.values(), key=lambda each: -each.count)
