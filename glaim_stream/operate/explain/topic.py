"""Finds the published row of a cell in the output topic, and reads the input from which it was made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from glaim_stream.core.catalogue import Catalogue, Model
from glaim_stream.core.errors import RecordError, SettingsError, listed
from glaim_stream.core.settings import Settings
from glaim_stream.core.times import text_of_ms
from glaim_stream.decode import HEADER_PREFIX
from glaim_stream.kafka import Range, ranges_of, read_range, reader
from glaim_stream.operate.explain.estimates import CellEstimates
from glaim_stream.output import read_rows, without_dictionaries
from glaim_stream.windows import history_ms

_CLOCK_SKEW_MS = 60_000  # most difference between the clocks of producers, brokers and workers

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class PublishedRow:
    """A row of the output topic, and the last input record that its batch includes."""

    row: dict[str, Any]
    partition: int
    offset: int


async def find_published(
    settings: Settings,
    catalogue: Catalogue,
    model: Model,
    group: str,
    sensor: str,
    ts_ms: int,
    on_progress: Progress = lambda done, total: None,
) -> PublishedRow:
    """Return the newest revision of a cell's row.

    Args:
        settings: connection to Kafka, and the output topic.
        catalogue: states how far ahead of its record a reading may be stamped.
        model: model of the group.
        group: group of the cell.
        sensor: sensor of the cell.
        ts_ms: start of the cell's step.
        on_progress: called with the number of records read and the total.

    Raises:
        SettingsError: the topic or the row does not exist.
    """
    newest: PublishedRow | None = None
    first_ms = last_ms = None
    others: set[str] = set()
    # A row is published no earlier than the earliest time of its readings.
    since_ms = ts_ms - catalogue.max_ahead_ms(model) - _CLOCK_SKEW_MS
    async with reader(settings) as consumer:
        ranges = await ranges_of(settings, consumer, settings.output_topic, since_ms=since_ms)
        done, total = 0, sum(map(len, ranges))
        for part in ranges:
            async for records in read_range(consumer, part):
                for record in records:
                    try:
                        table = without_dictionaries(read_rows(record.value or b""))
                    except RecordError:
                        continue
                    of_group = table.filter(pc.equal(table["group"], group))
                    if not of_group.num_rows:
                        others.update(table["group"].unique().to_pylist())
                        continue
                    times = of_group["ts"].cast("int64")
                    span = pc.min_max(times).as_py()
                    first_ms = span["min"] if first_ms is None else min(first_ms, span["min"])
                    last_ms = span["max"] if last_ms is None else max(last_ms, span["max"])
                    own = of_group.set_column(of_group.column_names.index("ts"), "ts", times)
                    own = own.filter(pc.and_(pc.equal(own["ts"], ts_ms), pc.equal(own["sensor"], sensor)))
                    for row in own.to_pylist():
                        if newest is None or row["revision"] >= newest.row["revision"]:
                            newest = PublishedRow(row, *_origin(record))
                done += len(records)
                on_progress(done, total)
    if newest is not None:
        return newest
    where = f"{settings.output_topic} since {text_of_ms(since_ms)}"
    if first_ms is None or last_ms is None:
        raise SettingsError(
            f"expected rows of {group} in {where}, found rows of {listed(sorted(others)) or 'no group'}"
        )
    raise SettingsError(
        f"expected a row of {group}/{sensor} at {text_of_ms(ts_ms)} in {where}, found rows of {group} from "
        f"{text_of_ms(first_ms)} to {text_of_ms(last_ms)}"
    )


async def read_input(
    settings: Settings,
    catalogue: Catalogue,
    published: PublishedRow,
    ts_ms: int,
    estimates: CellEstimates,
    on_progress: Progress = lambda done, total: None,
) -> Range:
    """Apply the records on which a row depends, and return their range.

    Args:
        settings: connection to Kafka, and the input topic.
        catalogue: the models.
        published: the row.
        ts_ms: start of the row's step.
        estimates: collects the rows of the cell.
        on_progress: called with the number of records read and the total.

    Raises:
        SettingsError: the topic or its partition does not exist.
    """
    async with reader(settings) as consumer:
        (part,) = await ranges_of(
            settings,
            consumer,
            settings.input_topic,
            until_offset={published.partition: published.offset + 1},
            since_ms=ts_ms - history_ms(catalogue, scored=False),
            partitions=(published.partition,),
        )
        done = 0
        async for records in read_range(consumer, part):
            estimates.add(records, now_ms=time.time_ns() // 1_000_000)
            done += len(records)
            on_progress(done, len(part))
    return part


def _origin(record: Any) -> tuple[int, int]:
    """Partition and offset of the last input record of a message's batch.

    Raises:
        SettingsError: the message does not name them.
    """
    headers = {name: value for name, value in record.headers if name.startswith(HEADER_PREFIX)}
    try:
        return int(headers[HEADER_PREFIX + "input-partition"]), int(headers[HEADER_PREFIX + "input-offset"])
    except (KeyError, ValueError) as error:
        raise SettingsError(
            f"{record.topic}-{record.partition} offset {record.offset}: expected the header "
            f"{HEADER_PREFIX}input-offset, found none: the input of this row is not known"
        ) from error
