"""Output messages as columns of rows, in the codes that the input's decoder uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.errors import RecordError
from glaim_stream.core.vocabulary import METHODS, Quality, Status, severity
from glaim_stream.decode import UNKNOWN_GROUP
from glaim_stream.kafka import ONCE_FROM
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.output import read_rows

NO_EVENT_TIME_MS = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows of one partition's output in the order of the topic; columns of length n."""

    model: NDArray[np.int32]
    group: NDArray[np.int32]
    sensor: NDArray[np.int32]
    step: NDArray[np.int64]
    value: NDArray[np.float64]  # NaN for null
    observed: NDArray[np.bool_]
    final: NDArray[np.bool_]
    method: NDArray[np.int8]
    gap_age: NDArray[np.int32]
    revision: NDArray[np.int32]
    event_time_ms: NDArray[np.int64]  # time of the reading; NO_EVENT_TIME_MS where not observed
    quality: NDArray[np.int8]  # vocabulary.Quality, as the reading reported it
    once: NDArray[np.bool_]  # True for a row published in a transaction
    version: NDArray[np.int32]  # a number for each `model_version`

    def __len__(self) -> int:
        return len(self.group)

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> OutputRows:
        """The rows at `keep`, bool [n] or index."""
        return OutputRows(*(getattr(self, column.name)[keep] for column in fields(self)))


class OutputReader:
    """Collector of output messages."""

    def __init__(self, columns: ModelColumns) -> None:
        self._columns = columns
        self._parts: list[OutputRows] = []
        self._versions: dict[str, int] = {}
        self.unreadable = 0  # number of messages that are not in the schema
        self.foreign = 0  # number of rows of groups or sensors that the catalogue does not name
        self.once_from: int | None = None  # input offset from which exactly-once delivery holds up to the end

    def add(self, message: bytes, headers: Iterable[tuple[str, bytes]] = ()) -> None:
        """Add the rows of one message."""
        once_from = next((int(value) for name, value in headers if name == ONCE_FROM and value.isdigit()), None)
        if once_from is None or self.once_from is None:
            self.once_from = once_from
        try:
            table = read_rows(message)
        except RecordError:
            self.unreadable += 1
            return
        for batch in table.to_batches():
            self._add_batch(batch, once=once_from is not None)

    def rows(self) -> OutputRows:
        """The rows that were added since the last call, in order."""
        parts, self._parts = self._parts, []
        if not parts:
            return _no_rows()
        return OutputRows(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(OutputRows)))

    def _add_batch(self, batch: pa.RecordBatch, *, once: bool) -> None:
        column: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
        models = self._columns
        groups = [models.index.group(name) for name in column["group"].dictionary.to_pylist()]
        group_code = _numpy(column["group"].indices)
        group = np.array(groups, np.int32)[group_code]
        model = np.array([0 if code < 0 else models.index.model_of_group[code] for code in groups], np.int32)[
            group_code
        ]
        names = column["sensor"].dictionary.to_pylist()
        rows_of_model = np.array(
            [[models.sensor_row(row, name) for name in names] for row in range(len(models.step_ms))], np.int32
        )
        sensor = rows_of_model[model, _numpy(column["sensor"].indices)]
        methods = [METHODS.index(name) for name in column["method"].dictionary.to_pylist()]
        versions = [
            self._versions.setdefault(name, len(self._versions))
            for name in column["model_version"].dictionary.to_pylist()
        ]
        ts_ms = _numpy(column["ts"].cast(pa.int64()))
        rows = OutputRows(
            model,
            group,
            sensor,
            ts_ms // models.step_ms[model],
            _numpy(column["value"]).astype(np.float64, copy=False),
            _numpy(column["observed"]),
            _numpy(column["final"]),
            np.array(methods, np.int8)[_numpy(column["method"].indices)],
            _numpy(column["gap_age"]).astype(np.int32),
            _numpy(column["revision"]).astype(np.int32),
            _numpy(column["event_time"].cast(pa.int64()).fill_null(NO_EVENT_TIME_MS)),
            _reported_quality(_numpy(column["status"])),
            np.full(batch.num_rows, once),
            np.array(versions, np.int32)[_numpy(column["model_version"].indices)],
        )
        known = (group != UNKNOWN_GROUP) & (sensor >= 0)
        if not known.all():
            self.foreign += int((~known).sum())
            rows = rows.where(known)
        self._parts.append(rows)


def _reported_quality(status: NDArray[np.uint32]) -> NDArray[np.int8]:
    """The quality that a reading had: a worker that doubts a good reading records that only in the row's status."""
    doubted = status == Status.UNCERTAIN_SENSOR_NOT_ACCURATE
    return np.where(doubted, np.int8(Quality.GOOD), severity(status))


def _no_rows() -> OutputRows:
    ints, blank = np.empty(0, np.int32), np.empty(0, np.bool_)
    longs, bytes_ = np.empty(0, np.int64), np.empty(0, np.int8)
    return OutputRows(
        ints, ints, ints, longs, np.empty(0), blank, blank, bytes_, ints, ints, longs, bytes_, blank, ints
    )


def same_values(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True where two values are the same to the last bit."""
    same: NDArray[np.bool_] = one.view(np.int64) == other.view(np.int64)
    return same


def _numpy(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array
