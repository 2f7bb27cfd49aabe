"""Which input offset may be committed, and from which one a rebuild must read. Pure bookkeeping, no Kafka.

The rule: an offset is committed only when everything before it is answered, that is, when the broker has acknowledged
its output and its dead letters. Faust's own rule may pass a single unanswered message (its `Consumer._new_offset`,
upstream issue 606), so the transport takes the offset from this ledger instead.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

METADATA_PREFIX: Final = "glaim/1 rebuild_from="
STAMPS_PREFIX: Final = " stamps="


@dataclass(slots=True, eq=False)
class Delivery:
    """One batch of records handed to the worker: offsets in `[first_offset, next_offset)`.

    `rebuild_from` is the lowest offset that still feeds a window once this batch has been applied. It is set when the
    batch is answered, and only then may it be committed.
    """

    first_offset: int
    next_offset: int
    rebuild_from: int | None = field(default=None)
    stamps: str = ""

    def answer(self, rebuild_from: int, stamps: str = "") -> None:
        """Record that everything this batch caused is acknowledged.

        Args:
            rebuild_from: lowest input offset that the windows still need after this batch, at most `next_offset`.
            stamps: see Commit.

        Raises:
            ValueError: the offset lies outside of this range.
        """
        if not 0 <= rebuild_from <= self.next_offset:
            raise ValueError(f"rebuild_from must lie in 0..{self.next_offset}, found {rebuild_from}")
        self.rebuild_from, self.stamps = rebuild_from, stamps


@dataclass(frozen=True, slots=True)
class Commit:
    """What to write to the consumer group: everything before `offset` is answered.

    `stamps` is the text of the ticks by which a rebuild judges the records' times (glaim_stream.decode.stamps).
    """

    offset: int
    rebuild_from: int
    stamps: str = ""

    @property
    def metadata(self) -> str:
        """The commit's metadata string, which carries `rebuild_from` to the next owner of the partition."""
        return f"{METADATA_PREFIX}{self.rebuild_from}" + (f"{STAMPS_PREFIX}{self.stamps}" if self.stamps else "")


class OffsetLedger:
    """The deliveries of one partition in order. A commit passes the answered ones at its head and no others."""

    def __init__(self) -> None:
        self._open: deque[Delivery] = deque()
        self._commit: Commit | None = None

    def deliver(self, first_offset: int, next_offset: int) -> Delivery:
        """Enter a batch, which stays until it and everything before it are answered.

        A batch that begins before the end of an earlier one means that the consumer went back: what was delivered from
        there on is delivered again, and the new deliveries replace the old ones.

        Raises:
            ValueError: the range is empty.
        """
        if next_offset <= first_offset:
            raise ValueError(f"a delivery must hold at least one offset, found [{first_offset}, {next_offset})")
        while self._open and self._open[-1].first_offset >= first_offset:
            self._open.pop()
        delivery = Delivery(first_offset, next_offset)
        self._open.append(delivery)
        return delivery

    def committable(self) -> Commit | None:
        """Return the furthest commit that passes no unanswered record; None until the first delivery is answered."""
        while self._open and (rebuild_from := self._open[0].rebuild_from) is not None:
            delivery = self._open.popleft()
            passed = Commit(delivery.next_offset, rebuild_from, delivery.stamps)
            if self._commit is None or passed.offset > self._commit.offset:  # batches delivered again end lower
                self._commit = passed
        return self._commit

    @property
    def answered_to(self) -> int | None:
        """The offset before which everything is answered; None while nothing is."""
        commit = self.committable()
        return None if commit is None else commit.offset


def rebuild_from_metadata(metadata: str | None) -> int | None:
    """Return the `rebuild_from` that a commit carries; None when the commit was not made by a worker."""
    if metadata and metadata.startswith(METADATA_PREFIX):
        digits = metadata[len(METADATA_PREFIX) :].partition(STAMPS_PREFIX)[0]
        if digits.isdecimal():
            return int(digits)
    return None


def stamps_from_metadata(metadata: str | None) -> str:
    """Return the text of the ticks that a commit carries; empty when there are none."""
    return (metadata or "").partition(STAMPS_PREFIX)[2].partition(" ")[0]
