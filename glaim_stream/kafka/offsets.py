"""The input offset that may be committed, and the one from which a rebuild must read. Pure bookkeeping, no Kafka.

The rule: an offset is committed only when everything before it is answered, that is, when the broker has acknowledged
its output and its dead letters. Faust's own rule may pass a single unanswered message (its `Consumer._new_offset`,
upstream issue 606), so the transport takes the offset from this ledger instead.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from glaim_stream.windows import ClockClose

METADATA_PREFIX: Final = "glaim/1 rebuild_from="
AT_PREFIX: Final = " at="
TOPIC_PREFIX: Final = " topic="
STAMPS_PREFIX: Final = " stamps="
CLOCK_PREFIX: Final = " clock="
_METADATA: Final = re.compile(
    rf"{METADATA_PREFIX}(?P<rebuild_from>\d+)({AT_PREFIX}(?P<at>\d+))?({TOPIC_PREFIX}(?P<topic>\S+))?"
    rf"({STAMPS_PREFIX}(?P<stamps>\S*))?({CLOCK_PREFIX}(?P<clock>.*))?"
)
_MOST_METADATA_BYTES = 3500  # a broker takes 4,096


@dataclass(slots=True, eq=False)
class Delivery:
    """One batch of records handed to the worker: offsets in `[first_offset, next_offset)`.

    `commit` is set when the batch is answered, and only then may it be committed.
    """

    first_offset: int
    next_offset: int
    commit: Commit | None = field(default=None)

    def answer(self, rebuild_from: int, clock: tuple[ClockClose, ...] = (), stamps: str = "") -> None:
        """Record that everything this batch caused is acknowledged.

        Args:
            rebuild_from: lowest input offset that the windows still need after this batch, at most `next_offset`.
            clock: see Commit.
            stamps: see Commit.

        Raises:
            ValueError: the offset lies outside of this range.
        """
        if not 0 <= rebuild_from <= self.next_offset:
            raise ValueError(f"rebuild_from must lie in 0..{self.next_offset}, found {rebuild_from}")
        self.commit = Commit(self.next_offset, rebuild_from, clock, stamps)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the consumer group: everything before `offset` is answered.

    `rebuild_from` is the lowest offset that still feeds a window. The decisions of the wall clock are not in the topic:
    `clock` holds the steps that it published, and `stamps` the text of the ticks by which it judged the records' times
    (glaim_stream.core.stamps). A rebuild repeats both. `topic` is the topic's identity, if it is known.
    """

    offset: int
    rebuild_from: int
    clock: tuple[ClockClose, ...] = ()
    stamps: str = ""
    topic: str = ""

    @property
    def metadata(self) -> str:
        """The commit's metadata string, which carries the rest to the next owner of the partition.

        It also has the offset itself: MirrorMaker translates a commit's offset for another Kafka and copies the
        metadata unchanged, whose offsets mean other records there.
        """
        text = f"{METADATA_PREFIX}{self.rebuild_from}{AT_PREFIX}{self.offset}"
        text += f"{TOPIC_PREFIX}{self.topic}" if self.topic else ""
        text += f"{STAMPS_PREFIX}{self.stamps}" if self.stamps else ""
        for oldest in range(len(self.clock)):  # the oldest closes are left out where they do not fit
            closes = [[each.offset, each.model, each.through] for each in self.clock[oldest:]]
            clock = CLOCK_PREFIX + json.dumps(closes, separators=(",", ":"))
            if len(text) + len(clock) <= _MOST_METADATA_BYTES:
                return text + clock
        return text


class OffsetLedger:
    """The deliveries of one partition in order. A commit passes the answered ones at its head and no others."""

    def __init__(self) -> None:
        self._open: deque[Delivery] = deque()
        self._commit: Commit | None = None

    def deliver(self, first_offset: int, next_offset: int) -> Delivery:
        """Enter a batch, which stays until it and everything before it are answered.

        A batch that begins before the end of an earlier one means that the consumer went back: everything from there on
        is delivered again, and the new deliveries replace the old ones.

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
        while self._open and (passed := self._open[0].commit) is not None:
            self._open.popleft()
            if self._commit is None or passed.offset > self._commit.offset:  # batches delivered again end lower
                self._commit = passed
        return self._commit

    @property
    def answered_to(self) -> int | None:
        """The offset before which everything is answered; None while nothing is."""
        commit = self.committable()
        return None if commit is None else commit.offset

    @property
    def unanswered(self) -> tuple[int, int] | None:
        """The offsets `[first, next)` around all unanswered deliveries; None if there are none."""
        open_ = [each for each in self._open if each.commit is None]
        return (open_[0].first_offset, open_[-1].next_offset) if open_ else None


def rebuild_from_metadata(offset: int, metadata: str | None) -> int | None:
    """Return the `rebuild_from` that a commit carries; None when no worker made the commit for this offset."""
    found = _written_for(offset, metadata)
    return None if found is None else int(found["rebuild_from"])


def commit_from_metadata(offset: int, metadata: str | None) -> Commit:
    """Return the commit that this offset and metadata encode; absent parts are empty or 0."""
    found = _written_for(offset, metadata)
    if found is None:
        return Commit(offset, 0)
    clock, stamps = _clock_of(found["clock"] or "[]"), found["stamps"] or ""
    return Commit(offset, int(found["rebuild_from"]), clock, stamps, found["topic"] or "")


def _written_for(offset: int, metadata: str | None) -> re.Match[str] | None:
    """The parts of the metadata if a worker wrote them for this offset; older workers did not write the offset."""
    found = _METADATA.fullmatch(metadata or "")
    return None if found is None or int(found["at"] or offset) != offset else found


def _clock_of(text: str) -> tuple[ClockClose, ...]:
    try:
        return tuple(ClockClose(int(offset), str(model), int(through)) for offset, model, through in json.loads(text))
    except (ValueError, TypeError):
        return ()
