"""Decodes the newest records of the input topic: a worker that can use none of them would run, and fill nothing."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from aiokafka.errors import KafkaError

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.rejects import DeadLetterCause, causes_said, first_of_records, too_many
from glaim_stream.core.settings import Settings
from glaim_stream.decode import Decoder, GroupIndex
from glaim_stream.kafka import ranges_of, read_range, reader
from glaim_stream.operate.check.findings import CheckFinding, failed, ok

_NEWEST = 500  # records of all partitions


async def record_findings(settings: Settings, catalogue: Catalogue) -> list[CheckFinding]:
    """A finding on the newest records of the input topic; none where the topic is empty or cannot be read."""
    topic = settings.input_topic
    decoder = Decoder(GroupIndex(catalogue), settings.budget)
    now_ms = time.time_ns() // 1_000_000
    count, times, causes, examples = 0, [now_ms], Counter[DeadLetterCause](), dict[DeadLetterCause, str]()
    try:
        async with reader(settings) as consumer:
            ranges = await ranges_of(settings, consumer, topic)
            for part in ranges:
                newest = replace(part, begin=max(part.begin, part.end - max(1, _NEWEST // len(ranges))))
                async for records in read_range(consumer, newest):
                    count += len(records)
                    times += [record.timestamp for record in records if record.timestamp >= 0]
                    _, rejects = decoder.decode(records, now_ms=now_ms)
                    for reject in reversed(first_of_records(rejects)):
                        causes[reject.cause] += 1
                        examples[reject.cause] = f"partition {part.partition} offset {reject.offset}: {reject.detail}"
    except (SettingsError, KafkaError):  # the findings on the broker and the topic name the reason
        return []
    subject, unusable, share = f"records of {topic}", causes.total(), settings.dead_letter_share
    if not count:
        return []
    if unusable < count and not too_many(unusable, count, share, (now_ms - min(times)) / 60_000):
        return [ok(subject, f"{count - unusable} of the newest {count} can be used")]
    return [
        failed(
            subject,
            expected=f"at most {share:.0%} of the newest {count} to be unusable (GLAIM_DEAD_LETTER_SHARE)",
            found=f"{unusable}: {causes_said(causes, examples)}",
        )
    ]
