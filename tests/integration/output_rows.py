"""Output rows by group, sensor and time, the newest revision of each."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deploy.demo.topic import read_topic
from glaim_stream.core.settings import Settings
from glaim_stream.output import newest_revisions, read_rows

Key = tuple[str, str, int]


def rows_by_key(tables: Sequence[pa.Table]) -> dict[Key, dict[str, Any]]:
    rows = newest_revisions(tables)
    rows = rows.set_column(rows.column_names.index("ts"), "ts", rows["ts"].cast("int64"))
    return {(row["group"], row["sensor"], row["ts"]): row for row in rows.to_pylist()}


def published_by_key(settings: Settings) -> dict[Key, dict[str, Any]]:
    """The rows of the output topic."""
    messages = [record for part in read_topic(settings, settings.output_topic).values() for record in part]
    return rows_by_key([read_rows(record.value) for record in messages])
