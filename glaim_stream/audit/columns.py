"""Topics as columns: output rows and dead letters, in the codes that the input's decoder uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.catalogue import Catalogue
from glaim_stream.decode.dead_letters import HEADER_PREFIX, RECEIPT_HEADER, InputRecord, positions_of
from glaim_stream.decode.groups import UNKNOWN_GROUP, GroupIndex
from glaim_stream.errors import RecordError
from glaim_stream.models.contract import Contract
from glaim_stream.output.sensor_tables import SensorTable
from glaim_stream.records import read_rows
from glaim_stream.vocabulary import METHODS, severity

Ints = NDArray[np.int64]

UNTOLD_MS = np.iinfo(np.int64).min
_MOST_POSITIONS = 1 << 24  # readings of one record: far above what fits into one


class Cells:
    """The catalogue as arrays by model, and names for codes."""

    def __init__(self, catalogue: Catalogue, contracts: Mapping[str, Contract]) -> None:
        models = catalogue.models
        self.catalogue = catalogue
        self.index = GroupIndex(catalogue)
        self.width = max(len(model.sensors) for model in models)
        self.step_ms = np.array([model.step_ms for model in models], np.int64)
        self.lateness_ms = np.array([model.lateness_ms for model in models], np.int64)
        self.window = np.array([model.window for model in models], np.int64)
        self.max_gap = np.array([model.max_gap for model in models], np.int64)
        self.revise_after = np.array([model.revise_after for model in models], np.int64)
        self.mean = np.array([model.bucket == "mean" for model in models])
        self.cadence = np.ones((len(models), self.width), np.int64)  # steps in a sensor's interval
        self.resolution = np.zeros((len(models), self.width))  # 0: values are not rounded
        for row, model in enumerate(models):
            self.cadence[row, : len(model.sensors)] = model.cadences
            table = SensorTable.of(model, contracts.get(model.name))
            self.resolution[row, : len(model.sensors)] = table.resolution
        self._model_of_group = np.empty(0, np.int64)
        self._row = [{sensor: row for row, sensor in enumerate(model.sensor_ids)} for model in models]

    def model_of_group(self) -> Ints:
        """Model of each group code, int64; grows as groups are met."""
        if len(self._model_of_group) != len(self.index.names):
            self._model_of_group = np.array(self.index.model_of_group, np.int64)
        return self._model_of_group

    def names(self, group: int, sensor: int) -> tuple[str, str]:
        """Names of a group code and of a row of its model."""
        model = self.catalogue.models[self.index.model_of_group[group]]
        return self.index.names[group], model.sensor_ids[sensor]

    def sensor_row(self, model: int, sensor: str) -> int:
        """Row of a sensor in its model, -1 when it has none of that name."""
        return self._row[model].get(sensor, -1)


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows of one partition's output in the order of the topic; columns of length n."""

    model: NDArray[np.int32]
    group: NDArray[np.int32]
    sensor: NDArray[np.int32]
    step: Ints
    value: NDArray[np.float32]  # NaN for null
    observed: NDArray[np.bool_]
    final: NDArray[np.bool_]
    method: NDArray[np.int8]
    gap_age: NDArray[np.int32]
    revision: NDArray[np.int32]
    stamp_ms: Ints  # when the reading was taken; UNTOLD_MS of rows that are not observed or of schema 1
    quality: NDArray[np.int8]  # records.Quality

    def __len__(self) -> int:
        return len(self.group)

    def where(self, keep: NDArray[np.bool_] | Ints) -> OutputRows:
        """The chosen rows, by bool [n] or index."""
        return OutputRows(*(getattr(self, column.name)[keep] for column in fields(self)))


class OutputReader:
    """Collects output messages into columns."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._parts: list[OutputRows] = []
        self.unreadable = 0  # messages that are not ours
        self.foreign = 0  # rows of a group or sensor that the catalogue does not name

    def add(self, message: bytes) -> None:
        """Take in one message."""
        try:
            table = read_rows(message)
        except RecordError:
            self.unreadable += 1
            return
        for batch in table.to_batches():
            self._add_batch(batch)

    def rows(self) -> OutputRows:
        """Everything taken in, in order."""
        if not self._parts:
            return _no_rows()
        return OutputRows(*(np.concatenate([getattr(p, f.name) for p in self._parts]) for f in fields(OutputRows)))

    def _add_batch(self, batch: pa.RecordBatch) -> None:
        columns: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
        cells = self._cells
        groups = [cells.index.group(name) for name in columns["group"].dictionary.to_pylist()]
        group_code = _numpy(columns["group"].indices)
        group = np.array(groups, np.int32)[group_code]
        model = np.array([0 if code < 0 else cells.index.model_of_group[code] for code in groups], np.int32)[group_code]
        names = columns["sensor"].dictionary.to_pylist()
        rows_of_model = np.array(
            [[cells.sensor_row(row, name) for name in names] for row in range(len(cells.step_ms))], np.int32
        )
        sensor = rows_of_model[model, _numpy(columns["sensor"].indices)]
        methods = [METHODS.index(name) for name in columns["method"].dictionary.to_pylist()]
        ts_ms = _numpy(columns["ts"].cast(pa.int64()))
        rows = OutputRows(
            model,
            group,
            sensor,
            ts_ms // cells.step_ms[model],
            _numpy(columns["value"]).astype(np.float32),
            _numpy(columns["observed"]),
            _numpy(columns["final"]),
            np.array(methods, np.int8)[_numpy(columns["method"].indices)],
            _numpy(columns["gap_age"]).astype(np.int32),
            _numpy(columns["revision"]).astype(np.int32),
            _numpy(columns["event_time"].cast(pa.int64()).fill_null(UNTOLD_MS)),
            severity(_numpy(columns["status"])),
        )
        known = (group != UNKNOWN_GROUP) & (sensor >= 0)
        if not known.all():
            self.foreign += int((~known).sum())
            rows = rows.where(known)
        self._parts.append(rows)


@dataclass(slots=True)
class Letters:
    """Dead letters of one partition's records."""

    whole: dict[int, str] = field(default_factory=dict)  # cause by offset: the record was refused as a whole
    single: dict[tuple[int, int], str] = field(default_factory=dict)  # cause by (offset, position)

    def __len__(self) -> int:
        return len(self.whole) + len(self.single)

    def holds(self, offset: Ints, position: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Where a reading, or with position -1 a whole record, is a dead letter."""
        found = np.isin(offset, np.fromiter(self.whole, np.int64, len(self.whole)))
        if self.single:
            places = np.array(list(self.single), np.int64)
            found |= np.isin(offset * _MOST_POSITIONS + position, places[:, 0] * _MOST_POSITIONS + places[:, 1])
        return found


def collect_letter(record: InputRecord, letters: dict[int, Letters], *, topic: str) -> bool:
    """Take in one dead letter by the partition its record came from; False when it is none of `topic`'s."""
    texts = {name: value for name, value in record.headers if name.startswith(HEADER_PREFIX)}
    if RECEIPT_HEADER in texts:
        return True  # says which letters were sent back, and is none
    try:
        if texts[HEADER_PREFIX + "topic"].decode() != topic:
            return False
        partition = int(texts[HEADER_PREFIX + "partition"])
        offset = int(texts[HEADER_PREFIX + "offset"])
        cause = texts[HEADER_PREFIX + "cause"].decode()
        positions = positions_of(record.headers)
    except (KeyError, ValueError):
        return False
    of_partition = letters.setdefault(partition, Letters())
    if positions is None:
        of_partition.whole[offset] = cause
    else:
        of_partition.single.update({(offset, position): cause for position in positions})
    return True


def _no_rows() -> OutputRows:
    ints, blank = np.empty(0, np.int32), np.empty(0, np.bool_)
    longs, bytes_ = np.empty(0, np.int64), np.empty(0, np.int8)
    return OutputRows(ints, ints, ints, longs, np.empty(0, np.float32), blank, blank, bytes_, ints, ints, longs, bytes_)


def _numpy(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array
