"""Whether the time of a record is believed: one that a producer has set may lie years beyond the wall clock.

The wall clock is not in the topic, and a rebuild reads the same records later. Times of the clock are therefore kept as
`Tick`s from the first record on that was not believed; a commit carries those that its windows need, and a rebuild
judges by them alone. While every record is believed there is no tick, and the clock decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.readings import InputRecord

LEAST_BOUND_MS = 60_000  # clocks of machines that are synchronised differ by far less
MAX_TICKS = 64  # some 1 kB of the 4,096 bytes that a broker keeps beside a commit
_BY_BROKER = 1  # Kafka's timestamp type LogAppendTime


class Tick(NamedTuple):
    """The wall time by which records from `offset` on are judged, until the next tick."""

    offset: int
    now_ms: int


def bound_ms(max_ahead_ms: int, span_ms: int) -> int:
    """Greatest distance of a record beyond the wall clock, milliseconds.

    Args:
        max_ahead_ms: greatest lead of a reading over its record.
        span_ms: time that a rebuild reads back; MAX_TICKS ticks, half a bound apart, have to reach so far.
    """
    return max(LEAST_BOUND_MS, max_ahead_ms, 2 * span_ms // MAX_TICKS)


class PartitionStamps:
    """The verdicts of the wall clock on the records of one partition.

    A record is believed unless it lies more than a bound beyond the last tick. The clock is looked at anew when a
    record does and the last tick is at least half a bound old, so a record is always believed when it lies less than
    half a bound beyond the clock, and never when it lies more than the bound beyond it.
    """

    def __init__(self, bound_ms: int) -> None:
        self._bound_ms = bound_ms
        self._ticks: list[Tick] = []
        self._last_doubted = -1  # offset of the last record that was not believed
        self._known_until = 0  # below this offset the ticks are complete

    def believed_until(
        self,
        records: Sequence[InputRecord],
        offset: NDArray[np.int64],
        produced_ms: NDArray[np.int64],
        now_ms: int,
    ) -> NDArray[np.int64] | None:
        """Return the wall time of each record that is not believed, and the largest int64 of the others.

        Args:
            records: records in order of offset.
            offset: int64 [r], their offsets.
            produced_ms: int64 [r], their times, epoch milliseconds.
            now_ms: wall time, epoch milliseconds.

        Returns:
            int64 [r], or None if all records are believed.
        """
        newest_ms = int(produced_ms.max())
        if not self._ticks and (newest_ms <= now_ms + self._bound_ms or offset[0] < self._known_until):
            return None
        if getattr(records[int(produced_ms.argmax())], "timestamp_type", None) == _BY_BROKER:
            return None  # the broker's clock is the better one
        self._look_at_clock(int(offset[0]), newest_ms, now_ms)
        if not self._ticks:
            return None
        index = np.searchsorted(np.array([tick.offset for tick in self._ticks]), offset, side="right") - 1
        judged_ms = np.array([tick.now_ms for tick in self._ticks])[index]
        doubted = (index >= 0) & (produced_ms > judged_ms + self._bound_ms)
        if not doubted.any():
            return None
        self._last_doubted = max(self._last_doubted, int(offset[doubted][-1]))
        return np.where(doubted, judged_ms, np.iinfo(np.int64).max)

    def needed(self, rebuild_from: int) -> list[Tick]:
        """Return, and keep, the ticks by which a rebuild from this offset judges; none where it would believe all."""
        if self._last_doubted < rebuild_from:
            self._ticks = []
        older = sum(tick.offset <= rebuild_from for tick in self._ticks)
        self._ticks = self._ticks[max(0, older - 1) :][-MAX_TICKS:]
        return list(self._ticks)

    def recall(self, ticks: Sequence[Tick], until: int) -> None:
        """Judge the records below the offset `until` by these ticks and not by the wall clock."""
        self._ticks, self._known_until = list(ticks), until

    def _look_at_clock(self, offset: int, newest_ms: int, now_ms: int) -> None:
        if offset < self._known_until:
            return
        last_ms = self._ticks[-1].now_ms if self._ticks else now_ms - self._bound_ms
        if newest_ms > last_ms + self._bound_ms and now_ms >= last_ms + self._bound_ms // 2:
            self._ticks.append(Tick(offset, now_ms))


def ticks_text(ticks: Sequence[Tick]) -> str:
    """Ticks as the text that a commit carries: offset and wall time, each less that of the tick before."""
    before = [Tick(0, 0), *ticks]
    return ",".join(
        f"{tick.offset - last.offset}:{tick.now_ms - last.now_ms}" for last, tick in zip(before, ticks, strict=False)
    )


def ticks_of(text: str) -> list[Tick]:
    """Read `ticks_text`; no ticks for any other text."""
    out = [Tick(0, 0)]
    try:
        for part in text.split(",") if text else []:
            offset, now_ms = map(int, part.split(":"))
            out.append(Tick(out[-1].offset + offset, out[-1].now_ms + now_ms))
    except ValueError:
        return []
    return out[1:]
