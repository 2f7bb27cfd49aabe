"""Reports a share of unusable records that is above the expected one: in the log, on the page and in `/health`.

A worker that can use none of its input is ready, and a restart would not help. A topic of dead letters is often not
looked at until rows are missed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from glaim_stream.core.rejects import DeadLetterCause, causes_said, first_of_records, too_many
from glaim_stream.output import Output

log = logging.getLogger(__name__)

INTERVAL_S = 5.0
_SETTLING_S = 10.0  # after the first records: a backlog begins with whatever was left over
_WINDOW_S = 60.0
_LONG_S = 600.0  # a slow topic has too few records in a minute
_LOG_S = 60.0
_EXAMPLE_CHARS = 200


@dataclass
class _Bucket:
    """The records of some seconds."""

    start_s: float
    records: int = 0
    unusable: int = 0
    causes: Counter[DeadLetterCause] = field(default_factory=Counter)


class UnusableShare:
    """The share of records with a dead letter over the last minute and the last ten.

    It is reported from the moment at which it is above the expected share beyond chance, until it has been within it
    for a minute; without records the last report stands for ten minutes.
    """

    def __init__(self, expected: float, *, now_s: Callable[[], float] = time.monotonic) -> None:
        """Expect a share from 0 to 1."""
        self._expected, self._now_s = expected, now_s
        self._buckets: deque[_Bucket] = deque()
        self._examples: dict[DeadLetterCause, str] = {}
        self._first_s: float | None = None
        self._since_s: float | None = None  # when the share was last above the expected one; None: not reported
        self._logged_s = -_LOG_S
        self._why = ""

    def count(self, outputs: Sequence[Output]) -> None:
        """Count the records of acknowledged outputs."""
        now_s = self._now_s()
        if not self._buckets or now_s - self._buckets[-1].start_s >= INTERVAL_S:
            self._buckets.append(_Bucket(now_s))
        bucket = self._buckets[-1]
        for output in outputs:
            bucket.records += output.records
            if output.records and self._first_s is None:
                self._first_s = now_s
            unusable = first_of_records(each for each in output.rejects if each.cause is not DeadLetterCause.TOO_LATE)
            bucket.unusable += len(unusable)
            for reject in unusable:
                bucket.causes[reject.cause] += 1
                place = f"partition {output.partition} offset {reject.offset}"
                self._examples[reject.cause] = f"{place}: {reject.detail[:_EXAMPLE_CHARS]}"

    def judge(self) -> str:
        """What is wrong with the records of the last minutes, and log it once a minute; empty for nothing."""
        now_s = self._now_s()
        while self._buckets and now_s - self._buckets[0].start_s > _LONG_S:
            self._buckets.popleft()
        if self._first_s is None or now_s - self._first_s < _SETTLING_S:
            return ""
        minute = [bucket for bucket in self._buckets if now_s - bucket.start_s <= _WINDOW_S]
        parts = ((minute, 0.0), (list(self._buckets), 0.5))
        found = next((part for part, least in parts if self._too_many(part, least)), None)
        if found is not None:
            self._since_s = now_s
            self._why = self._sentence(found)
            if now_s - self._logged_s >= _LOG_S:
                self._logged_s = now_s
                log.warning("%s", self._why)
        elif self._since_s is not None and self._is_over(minute, now_s):
            self._since_s, self._why = None, ""
            log.info("the share of unusable records is within the expected one again")
        return self._why

    def _too_many(self, part: Sequence[_Bucket], least: float) -> bool:
        unusable, records = (sum(getattr(each, name) for each in part) for name in ("unusable", "records"))
        minutes = max(1.0, (part[-1].start_s - part[0].start_s) / 60) if part else 1.0
        return unusable > least * records and too_many(unusable, records, self._expected, minutes)

    def _is_over(self, minute: Sequence[_Bucket], now_s: float) -> bool:
        records = sum(bucket.records for bucket in minute)
        if not records:
            return not self._buckets
        within = sum(bucket.unusable for bucket in minute) <= max(4, self._expected * records)
        return within and self._since_s is not None and now_s - self._since_s >= _WINDOW_S

    def _sentence(self, part: Sequence[_Bucket]) -> str:
        unusable, records = (sum(getattr(each, name) for each in part) for name in ("unusable", "records"))
        causes: Counter[DeadLetterCause] = sum((bucket.causes for bucket in part), Counter())
        return (
            f"{unusable} of the last {records} records cannot be used in whole or in part, {self._expected:.0%} are "
            f"expected (GLAIM_DEAD_LETTER_SHARE): {causes_said(causes, self._examples)}"
        )


async def watch_unusable(share: UnusableShare, report: Callable[[str], None]) -> None:
    """Judge every few seconds and report the result, until cancelled."""
    while True:
        await asyncio.sleep(INTERVAL_S)
        report(share.judge())
