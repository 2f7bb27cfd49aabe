"""Writes a range of the input topic to a long table of readings for training, decoded as in the worker."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.readings import Readings
from glaim_stream.core.settings import Settings
from glaim_stream.decode import Decoder, GroupIndex
from glaim_stream.kafka.ranges import Range, read_range, reader
from glaim_stream.windows import Lateness

ENDINGS = (".parquet", ".csv")
# The names that training expects by default; `--group group` names the additional column.
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("ms", "UTC")),
        ("group", pa.string()),
        ("sensor", pa.string()),
        ("value", pa.float64()),
    ]
)
# Rows of a Parquet row group: 20 bytes each as columns here, so at most about 20 MB wait for the writer.
_ROW_GROUP_ROWS = 1 << 20


@dataclass(slots=True)
class DumpReport:
    """Counts of a dump."""

    records: int = 0
    rows: int = 0
    dropouts: int = 0  # reported dropouts (null, NaN or bad): training sees a gap there, as the windows do
    other_models: int = 0  # readings of groups of other models
    late: int = 0  # readings of the model that came too late for their window
    rejects: Counter[str] = field(default_factory=Counter)  # rejected records by cause
    first_ms: int | None = None  # oldest and newest event time
    last_ms: int | None = None
    groups: int = 0


async def dump(
    settings: Settings,
    catalogue: Catalogue,
    ranges: Sequence[Range],
    out: Path,
    *,
    model: str,
    with_late: bool = False,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> DumpReport:
    """Write the readings of one model's groups, in the order of the topic, partition by partition.

    A group is in one partition, so of two readings with the same time the later one comes later in the file: training
    takes that one, as the windows do. Records that the worker would reject are counted and left out.

    Args:
        settings: connection to Kafka.
        catalogue: models and groups.
        ranges: offsets to read.
        out: .parquet or .csv file; it appears whole at the end.
        model: name of the model.
        with_late: also write readings that came too late.
        on_progress: called with the number of records done and the total.

    Raises:
        SettingsError: the file has another ending, or no reading was found; then there is no file.
    """
    index = GroupIndex(catalogue)
    decoder = Decoder(index, settings.budget)
    model_index = [each.name for each in catalogue.models].index(model)
    sensor_names = np.array(catalogue.models[model_index].sensor_ids, object)
    report = DumpReport()
    total = sum(map(len, ranges))
    seen: set[int] = set()
    no_readings = f"expected readings of the groups of {model} in {total} records of {settings.input_topic}, found none"
    if not total:
        raise SettingsError(no_readings)
    async with reader(settings) as consumer:
        with _LongFile(out) as file:
            for part in ranges:
                lateness = Lateness(catalogue)
                async for records in read_range(consumer, part):
                    for decoded in decoder.decode_parts(records, now_ms=time.time_ns() // 1_000_000):
                        for reject in decoded.rejects:
                            report.rejects[reject.cause.value] += reject.count
                        late = lateness.too_late(decoded.readings)
                        if with_late:
                            late[:] = False
                        kept = _readings_of_model(decoded.readings, late, model_index, report)
                        seen.update(np.unique(kept.group).tolist())
                        file.add(_table(kept, index.names, sensor_names))
                    report.records += len(records)
                    on_progress(report.records, total)
            report.rows, report.groups = file.rows, len(seen)
            if not file.rows:
                raise SettingsError(no_readings)
    return report


def _readings_of_model(readings: Readings, late: NDArray[np.bool_], model_index: int, report: DumpReport) -> Readings:
    of_model = readings.model == model_index
    observed = np.isfinite(readings.value)
    report.other_models += int((~of_model).sum())
    report.dropouts += int((of_model & ~observed).sum())
    report.late += int((of_model & observed & late).sum())
    kept = readings.where(of_model & observed & ~late)
    if len(kept):
        times = [int(kept.event_time_ms.min()), int(kept.event_time_ms.max())]
        report.first_ms = min([times[0], *([] if report.first_ms is None else [report.first_ms])])
        report.last_ms = max([times[1], *([] if report.last_ms is None else [report.last_ms])])
    return kept


def _table(readings: Readings, group_names: Sequence[str], sensor_names: np.ndarray) -> pa.Table:
    codes, group = np.unique(readings.group, return_inverse=True)
    names = np.array([group_names[code] for code in codes.tolist()], object)
    columns: list[Any] = [
        pa.array(readings.event_time_ms, pa.timestamp("ms", "UTC")),
        pa.array(names[group] if len(names) else [], pa.string()),
        pa.array(sensor_names[readings.sensor], pa.string()),
        pa.array(readings.value, pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


class _LongFile:
    """A file that grows under a temporary name and is renamed when it is whole, or removed."""

    def __init__(self, path: Path) -> None:
        if path.suffix not in ENDINGS:
            raise SettingsError(f"expected a file ending in {' or '.join(ENDINGS)}, found {path}")
        self.rows = 0
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._writer: Any = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.suffix == ".parquet":
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(self._partial, SCHEMA, compression="zstd")
        else:
            from pyarrow import csv

            self._writer = csv.CSVWriter(self._partial, SCHEMA)
        return self

    def add(self, table: pa.Table) -> None:
        """Add rows."""
        self._held.append(table)
        self._held_rows += table.num_rows
        self.rows += table.num_rows
        if self._held_rows >= _ROW_GROUP_ROWS:
            self._flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is not None:
            self._partial.unlink()
            return
        with self._partial.open("rb") as file:  # else a crash of the node could leave the name without the content
            os.fsync(file.fileno())
        self._partial.replace(self._path)

    def _flush(self) -> None:
        if self._held_rows:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held, self._held_rows = [], 0
