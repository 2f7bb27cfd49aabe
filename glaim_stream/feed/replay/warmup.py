"""Finds the records before a range that warm up its windows, so that its rows equal those of the live worker.

The bound is exact: the decoder rejects readings stamped further ahead of their record than the catalogue allows. So a
record that was produced before a moment holds no reading beyond that moment plus the allowance. Records older than the
windows' span before the range's watermark can therefore be left out by their times alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.decode import Decoder, GroupIndex
from glaim_stream.kafka import Range, read_range
from glaim_stream.windows import history_ms

_PROBE_RECORDS = 2000


def nothing_before(part: Range) -> Range:
    """Return an empty warm-up range: the windows start empty."""
    return replace(part, end=part.begin)


async def warm_up_range(consumer: Any, part: Range, catalogue: Catalogue) -> Range:
    """Return the range of records before `part` that the rows of `part` depend on; it may be empty.

    Args:
        consumer: consumer from `ranges.reader`.
        part: range to replay.
        catalogue: catalogue of the models whose windows are warmed up.
    """
    before = replace(part, begin=part.oldest, end=part.begin)
    if not len(before):
        return before
    newest_ms = await _newest_event_ms(consumer, before, catalogue)
    if newest_ms is None:
        return before
    # The newest reading just before the range is at most the newest of all, so the bound can only be too early.
    bound_ms = newest_ms - history_ms(catalogue, scored=True)
    at = (await consumer.offsets_for_times({part.tp: max(0, bound_ms)})).get(part.tp)
    return replace(before, begin=min(max(part.oldest, at.offset), part.begin)) if at is not None else before


async def _newest_event_ms(consumer: Any, before: Range, catalogue: Catalogue) -> int | None:
    decoder = Decoder(GroupIndex(catalogue))
    now_ms = time.time_ns() // 1_000_000
    newest: int | None = None
    async for records in read_range(consumer, replace(before, begin=max(before.begin, before.end - _PROBE_RECORDS))):
        readings, _ = decoder.decode(records, now_ms=now_ms)
        if len(readings):
            newest = max(int(readings.event_time_ms.max()), newest if newest is not None else -(1 << 62))
    return newest
