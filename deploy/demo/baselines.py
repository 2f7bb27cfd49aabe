"""Runs other imputers on the same records, in the worker's pipeline and in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from kafka.consumer.fetcher import ConsumerRecord

from deploy.demo.topic import Records
from glaim_stream.core.catalogue import Catalogue
from glaim_stream.imputers import WindowImputer
from glaim_stream.output import read_rows
from glaim_stream.pipeline import Pipeline

_BATCH = 5000


def replay(catalogue: Catalogue, imputer: WindowImputer, records: Records) -> list[pa.Table]:
    """The output rows of every partition, in order."""
    return asyncio.run(_replay(Pipeline(catalogue, {}, imputer), records))


async def _replay(pipeline: Pipeline, records: Records) -> list[pa.Table]:
    tables: list[pa.Table] = []
    now_ms = time.time_ns() // 1_000_000
    for partition in records.values():
        windows = pipeline.windows()
        for batch in _batches(partition):
            applied = pipeline.apply(windows, batch, now_ms=now_ms)
            tables += [read_rows(each.value) for each in pipeline.messages(await pipeline.fill(applied.closed))]
        closed = windows.close_end().closed
        tables += [read_rows(each.value) for each in pipeline.messages(await pipeline.fill(closed))]
    return tables


def _batches(records: Sequence[ConsumerRecord]) -> Iterator[Sequence[ConsumerRecord]]:
    for start in range(0, len(records), _BATCH):
        yield records[start : start + _BATCH]
