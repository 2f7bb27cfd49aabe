"""The rows and late readings of a topic range in a database, and the times of each group.

A cell may have several rows: a first estimate, a final one, corrections, and copies that a worker published again
after a crash. Its highest revision counts; on a tie the last row in the topic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from glaim_stream.core.catalogue import Catalogue
from glaim_stream.core.vocabulary import METHODS, QUALITIES, Method, Quality
from glaim_stream.decode import UNKNOWN_GROUP, UNKNOWN_SENSOR, GroupIndex
from glaim_stream.operate.completeness.counts import CELLS, Span, set_spans
from glaim_stream.operate.database import Database
from glaim_stream.output import read_rows

FORGET_MS = 7 * 86_400_000  # as for `glaim_dark_groups`: a group taken out of operation is not expected for ever
TOO_LATE = -1  # stands for a method: a reading of the late topic, whose revision is below every row's
_WAITING = 1 << 15  # rows that are added at once
_OVERHEAD = 64  # rows whose memory a table of few rows takes

Codes = NDArray[np.integer[Any]]
Ints = NDArray[np.int64]

_TABLES = (
    CELLS,
    """CREATE TABLE topic(
        series INTEGER, cell BIGINT, step BIGINT, revision INTEGER, method TINYINT, good BOOLEAN, delay_ms DOUBLE)""",
    """CREATE TABLE present(
        code INTEGER, partition INTEGER, first_ms BIGINT, last_ms BIGINT, within_ms BIGINT, closed_ms BIGINT)""",
)
_ROWS = (
    "INSERT INTO topic BY NAME SELECT * EXCLUDE (code, partition, time_ms, closed_ms, within) FROM given WHERE within",
    """INSERT INTO present
        SELECT code, partition, min(time_ms), max(time_ms), min(time_ms) FILTER (within), max(closed_ms)
        FROM given GROUP BY code, partition""",
)
_LATE = ("INSERT INTO topic BY NAME SELECT * EXCLUDE (code, time_ms, within) FROM given WHERE within",)
_MET = ("INSERT INTO present BY NAME SELECT code, time_ms AS first_ms, time_ms AS last_ms FROM given",)
_GROUPS = """SELECT code, min(first_ms), max(last_ms), count(within_ms), coalesce(max(partition), -1)
    FROM present GROUP BY code"""
# A cell of a slow sensor has several steps, of which the last row without a reading names its method. A copy of the
# first observed row may come much later: the delay is that of the first.
_CELLS_OF_TOPIC = f"""INSERT INTO cells
    WITH steps AS (
        SELECT series, cell, step, arg_max(method, revision * (1::BIGINT << 46) + topic.rowid) AS newest,
            arg_max(good, revision * (1::BIGINT << 46) + topic.rowid) AS good,
            bool_or(method > {Method.OBSERVED:d}) AS guessed, bool_or(method = {TOO_LATE}) AS marked,
            bool_or(method <> {TOO_LATE}) AS has_row,
            arg_min(delay_ms, topic.rowid) FILTER (method = {Method.OBSERVED:d}) AS delay_ms
        FROM topic SEMI JOIN spans USING (series) GROUP BY series, cell, step),
    whole AS (
        SELECT series, cell, bool_or(newest = {Method.OBSERVED:d}) AS arrived,
            bool_or(newest = {Method.OBSERVED:d} AND good) AS good, bool_or(guessed) AS guessed,
            bool_or(marked) AND NOT arrived AS too_late, bool_or(has_row) AS has_row,
            arg_max(newest, step) FILTER (newest > {Method.OBSERVED:d}) AS filled,
            arg_min(delay_ms, step) FILTER (delay_ms IS NOT NULL) AS delay_ms
        FROM steps GROUP BY series, cell)
    SELECT series, cell, if(arrived, {Method.OBSERVED:d}, coalesce(filled, {Method.NONE:d})), good,
        (arrived AND guessed) OR too_late, too_late, has_row, if(arrived, delay_ms, NULL)
    FROM whole"""


class TopicRows:
    """Rows of the output topic, in the order of the topic.

    Attributes:
        foreign: rows of groups or sensors that the catalogue does not name.
    """

    def __init__(
        self, database: Database, catalogue: Catalogue, *, since_ms: int | None = None, until_ms: int | None = None
    ) -> None:
        self.catalogue = catalogue
        self.database = database
        self.index = GroupIndex(catalogue)
        self.foreign = 0
        self._since_ms, self._until_ms = since_ms, until_ms
        models = catalogue.models
        self._width = max(len(model.sensors) for model in models)
        self._step_ms = np.array([model.step_ms for model in models], np.int64)
        self._lateness_ms = np.array([model.lateness_ms for model in models], np.int64)
        self._cadence = np.ones((len(models), self._width), np.int64)
        for code, model in enumerate(models):
            self._cadence[code, : len(model.sensors)] = model.cadences
        self._waiting: dict[tuple[str, ...], list[pa.Table]] = {_ROWS: [], _LATE: [], _MET: []}
        self._waiting_rows = 0
        database.run(*_TABLES)

    def add(self, message: bytes, published_ms: int, partition: int = 0) -> int | None:
        """Add the rows of one message; return the newest step in it, epoch ms, or None without one.

        Args:
            message: an Arrow stream.
            published_ms: time at which Kafka stamped it.
            partition: partition of the message.

        Raises:
            RecordError: the message is in another format.
        """
        table = read_rows(message)
        newest = [self._add(batch, published_ms, partition) for batch in table.to_batches() if batch.num_rows]
        return max((each for each in newest if each is not None), default=None)

    def _add(self, batch: pa.RecordBatch, published_ms: int, partition: int) -> int | None:
        column: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
        group = self.index.groups(column["group"].dictionary.to_pylist())[_numpy(column["group"].indices)]
        model = self.index.models(group)
        sensors = self.index.sensors(column["sensor"].dictionary.to_pylist())
        sensor = self.index.rows(model, sensors[_numpy(column["sensor"].indices)])
        known = (group > UNKNOWN_GROUP) & (sensor > UNKNOWN_SENSOR)
        self.foreign += int((~known).sum())
        if not known.any():
            return None
        ts_ms = _numpy(column["ts"].cast(pa.int64()))
        methods = np.array([METHODS.index(name) for name in column["method"].dictionary.to_pylist()], np.int8)
        good = np.array([name == QUALITIES[Quality.GOOD] for name in column["quality"].dictionary.to_pylist()])
        event_time_ms = _numpy(column["event_time"].cast(pa.int64()).cast(pa.float64()))  # NaN for null
        rows = {
            **self._places(group, sensor, model, ts_ms),
            "partition": np.full(len(group), partition),
            "closed_ms": ts_ms + (self._step_ms + self._lateness_ms)[model],
            "revision": _numpy(column["revision"]),
            "method": methods[_numpy(column["method"].indices)],
            "good": good[_numpy(column["quality"].indices)],
            "delay_ms": published_ms - event_time_ms,
        }
        self._put(_ROWS, {name: array[known] for name, array in rows.items()})
        return int(ts_ms[known].max())

    def add_late(self, group: Ints, sensor: Ints, event_time_ms: Ints) -> None:
        """Add readings that came too late for their window; codes of groups, rows of sensors in their model, [n]."""
        rows = self._places(group, sensor, self.index.models(group), event_time_ms)
        self._put(_LATE, {**rows, "revision": np.full(len(group), -1), "method": np.full(len(group), TOO_LATE)})

    def _places(self, group: Codes, sensor: Codes, model: Codes, time_ms: Ints) -> dict[str, NDArray[Any]]:
        step = time_ms // self._step_ms[model]
        within = np.ones(len(time_ms), np.bool_)
        if self._since_ms is not None:
            within &= time_ms >= self._since_ms
        if self._until_ms is not None:
            within &= time_ms < self._until_ms
        # A foreign sensor, which counts for nothing, is below 0.
        cell = step // self._cadence[model, sensor]
        return {
            "code": group, "series": group * self._width + sensor, "cell": cell, "step": step, "time_ms": time_ms,
            "within": within,
        }  # fmt: skip

    def met(self, group: Ints, time_ms: Ints) -> None:
        """Record that groups were present at these moments; codes and epoch ms, [n]."""
        self._put(_MET, {"code": group, "time_ms": time_ms})

    @property
    def rows(self) -> int:
        """Rows that begin at or after `since_ms` and before `until_ms`."""
        self._write()
        ((count,),) = self.database.rows(f"SELECT count(*) FROM topic WHERE method <> {TOO_LATE}")
        return int(count)

    def spans(
        self, *, since_ms: int | None, until_ms: int | None, retained_ms: int | None
    ) -> dict[int, tuple[int, int]]:
        """The stretch in which each group is expected in the range, [first, end) in epoch ms by the group's code.

        A group is expected from its first row on, and from the beginning of the range if it was present before. It is
        expected up to the newest row of the topic: a silent group owes rows. A group without a row in the range counts
        if it was present within the week before, or if the catalogue names it and it was never present.

        Each partition has an event time of its own. A step that the group's partition has not closed is not owed yet,
        unless the partition is behind the others by more than the silence after which a group counts as dark.

        Args:
            since_ms: requested beginning, epoch ms.
            until_ms: requested end, epoch ms.
            retained_ms: time before which retention may have removed rows.
        """
        self._write()
        ((earliest_ms, newest_ms),) = self.database.rows("SELECT min(within_ms), max(closed_ms) FROM present")
        if earliest_ms is None:
            return {}
        starts = [each for each in (since_ms, retained_ms) if each is not None]
        begin_ms = max(starts) if starts else earliest_ms
        named = {self.index.group(name) for rule in self.catalogue.groups for name in rule.ids}
        present = {code: rest for code, *rest in self.database.rows(_GROUPS)}
        watermarks = dict(
            self.database.rows("SELECT partition, max(closed_ms) FROM present WHERE partition >= 0 GROUP BY partition")
        )
        out = {}
        for group in range(len(self.index.names)):
            group_first_ms, last_ms, in_range, partition = present.get(group, (None, None, 0, -1))
            if not in_range and (group not in named if last_ms is None else last_ms < begin_ms - FORGET_MS):
                continue
            first_ms = begin_ms if group_first_ms is None else max(group_first_ms, begin_ms)
            model = self.catalogue.models[self.index.model_of_group[group]]
            own_ms = watermarks.get(partition, newest_ms)
            watermark_ms = own_ms if newest_ms - own_ms <= model.max_gap * model.step_ms else newest_ms
            end_ms = (watermark_ms - model.lateness_ms) // model.step_ms * model.step_ms
            end_ms = end_ms if until_ms is None else min(end_ms, until_ms)
            if first_ms < end_ms:
                out[group] = first_ms, end_ms
        return out

    def make_cells(self, spans: dict[int, tuple[int, int]]) -> dict[int, Span]:
        """Make the table CELLS of these groups; return the spans of their sensors by their numbers in the table."""
        out = {}
        for group, (first_ms, end_ms) in spans.items():
            code = self.index.model_of_group[group]
            model = self.catalogue.models[code]
            for sensor, name in enumerate(model.sensor_ids):
                cell_ms = model.step_ms * int(self._cadence[code, sensor])
                span = Span.between(self.index.names[group], name, first_ms, end_ms, cell_ms)
                out[group * self._width + sensor] = span
        set_spans(self.database, out)
        self.database.run("SET preserve_insertion_order = false", _CELLS_OF_TOPIC)
        return out

    def _put(self, statements: tuple[str, ...], columns: dict[str, NDArray[Any]]) -> None:
        self._waiting[statements].append(table := pa.table(columns))
        self._waiting_rows += len(table) + _OVERHEAD
        if self._waiting_rows >= _WAITING:
            self._write()

    def _write(self) -> None:
        for statements, tables in self._waiting.items():
            if tables:
                whole = pa.concat_tables(tables)
                tables.clear()
                for each in statements:
                    self.database.insert(each, whole)
        self._waiting_rows = 0


def _numpy(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array
