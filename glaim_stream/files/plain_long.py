"""Reads large Parquet files with a row for each reading in pieces, where no judgement needs the whole table.

`plain_long` looks through a file and tells whether `read` would take each of its readings as it stands: typed columns
of group, sensor, time and value alone, names that are no numbers, each series in order of time, and no number that may
mean a missing value. It gives up at the first row that needs more than this, and `read` reads the file whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.times import NO_TIME
from glaim_stream.files.kinds import is_text
from glaim_stream.files.numbers import USUAL
from glaim_stream.files.sentinels import Ends, sentinels
from glaim_stream.files.stamps import stamps
from glaim_stream.files.zones import zone_in

_ROWS = 500_000  # rows of a piece
_SPARSE = 1_000
_NAME = re.compile(r"[A-Za-z_][\w.:/-]*")
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Readings in the order of the file; each array has length n."""

    cell: NDArray[np.int32]  # code of group and sensor, in the order of (group, sensor) codes
    time_ms: NDArray[np.int64]
    value: NDArray[np.float64] | NDArray[np.float32]


@dataclass(slots=True)
class PlainLong:
    """A file with a row for each reading.

    cells: group and sensor by cell code.
    readings, gaps: numbers of rows with and without a value.
    first_ms, last_ms: the first and last time of a reading.
    times_ms: times of one reading in a thousand, by piece.
    """

    path: Path
    columns: tuple[str, str, str, str]  # group, sensor, time, value
    groups: dict[str, int] = field(default_factory=dict)
    sensors: dict[str, int] = field(default_factory=dict)
    cells: list[tuple[str, str]] = field(default_factory=list)
    readings: int = 0
    gaps: int = 0
    first_ms: int = NO_TIME
    last_ms: int = NO_TIME
    times_ms: list[NDArray[np.int64]] = field(default_factory=list)
    _code_of_pair: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))

    def __len__(self) -> int:
        return self.readings

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences of `read` on how the file is read."""
        group, sensor, time, value = self.columns
        return (
            f"time is {time!r}",
            f"a reading a row: sensor is {sensor!r}, value {value!r}, group {group!r}",
        )

    def pieces(self) -> Iterator[Piece]:
        """The readings, in pieces."""
        for group, sensor, time_ms, value in self._rows():
            known = np.isfinite(value)
            yield Piece(self._code_of_pair[group, sensor][known], time_ms[known], value[known])

    def _rows(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Codes of group and sensor, time and value of the rows, in pieces; None for names that are not plain."""
        import pyarrow.parquet as pq

        group, sensor, time, value = self.columns
        with pq.ParquetFile(self.path, read_dictionary=[group, sensor], pre_buffer=False) as file:
            for batch in file.iter_batches(_ROWS, columns=list(self.columns)):
                codes = [
                    _codes(batch.column(name), known) for name, known in ((group, self.groups), (sensor, self.sensors))
                ]
                (stamp,) = stamps(batch.column(time))
                numbers = batch.column(value)
                kind = numbers.type if pa.types.is_float32(numbers.type) else pa.float64()
                values = pc.cast(numbers, kind, safe=False).to_numpy(zero_copy_only=False)
                yield codes[0], codes[1], stamp.ms, values


def plain_long(path: Path) -> PlainLong | None:
    """Look through a file; None if it is another one, or `read` has to judge it."""
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        columns = _columns(schema)
        if columns is None:
            return None
        found = PlainLong(path, columns)
        zoned = schema.field(columns[2]).type.tz is not None
        return found if _looked_through(found, zoned=zoned) else None
    except (pa.ArrowException, OSError, ValueError):
        return None  # which `read` reports


def _columns(schema: Any) -> tuple[str, str, str, str] | None:
    kinds = {each.name: each.type for each in schema}
    times = [name for name, kind in kinds.items() if pa.types.is_timestamp(kind)]
    if len(schema) != 4 or len(times) != 1 or {"group", "sensor", "value", times[0]} != set(kinds) or zone_in(times[0]):
        return None
    if schema.pandas_metadata or not all(_is_name(kinds[each]) for each in ("group", "sensor")):
        return None
    value = kinds["value"]
    if not (pa.types.is_float32(value) or pa.types.is_float64(value) or pa.types.is_integer(value)):
        return None
    return "group", "sensor", times[0], "value"


def _is_name(kind: Any) -> bool:
    return bool(is_text(kind.value_type if pa.types.is_dictionary(kind) else kind))


def _codes(column: Any, known: dict[str, int]) -> NDArray[np.int64] | None:
    """The code of each row's name, which are numbered as they come; None if one is absent or may be no name."""
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if column.null_count:
        return None
    indices = column.indices.to_numpy()
    names = column.dictionary.to_pylist()
    # In the order in which they come in the file, not in that of the dictionary.
    used, first = np.unique(indices, return_index=True)
    table = np.full(len(names), -1, np.int64)
    for at in used[np.argsort(first)].tolist():
        name = names[at]
        if name is None or not _NAME.fullmatch(name) or name in USUAL:
            return None
        table[at] = known.setdefault(name, len(known))
    codes: NDArray[np.int64] = table[indices]
    return codes


def _looked_through(found: PlainLong, *, zoned: bool) -> bool:
    """Whether all rows are plain; fills in what is known of them."""
    newest_of_pair = np.empty((0, 0), np.int64)
    newest_of_group = np.empty(0, np.int64)
    counts = np.empty((0, 0), np.int64)
    ends: list[Ends] = []
    midnight = False
    for group, sensor, time_ms, value in found._rows():
        if group is None or sensor is None or (time_ms == NO_TIME).any() or np.isinf(value).any():
            return False
        shape = len(found.groups), len(found.sensors)
        newest_of_pair, counts = _grown(newest_of_pair, shape, NO_TIME), _grown(counts, shape, 0)
        newest_of_group = _grown(newest_of_group, shape[:1], NO_TIME)
        if not _in_order(group * shape[1] + sensor, time_ms, newest_of_pair.reshape(-1), strictly=True):
            return False
        # Where stamps have no zone, a clock that is set back is a matter of the order in a group.
        if not zoned and not _in_order(group, time_ms, newest_of_group, strictly=False):
            return False
        midnight = midnight or bool((time_ms // _HOUR_MS % 24 == 0).any())
        known = np.isfinite(value)
        counts += np.bincount(group[known] * shape[1] + sensor[known], minlength=counts.size).reshape(shape)
        ends += [Ends() for _ in range(shape[1] - len(ends))]
        for code, each in enumerate(ends):
            each.add(value[known & (sensor == code)])
        found.gaps += int((~known).sum())
        if known.any():
            found.times_ms.append(time_ms[known][::_SPARSE])
            first, last = int(time_ms[known].min()), int(time_ms[known].max())
            found.first_ms = first if found.first_ms == NO_TIME else min(first, found.first_ms)
            found.last_ms = last if found.last_ms == NO_TIME else max(last, found.last_ms)
    found.readings = int(counts.sum())
    if not found.readings or not (zoned or midnight) or not counts.any(axis=0).all():
        return False
    if any(stamps(pa.array(list(names))) for names in (found.groups, found.sensors)):
        return False  # they may be times
    _number_cells(found, newest_of_pair)
    judged = [name for (name, _), each in zip(found.sensors.items(), ends, strict=True) if each.need_judging]
    return not any(sentinels({name: _values(found, name)}) for name in judged)


def _number_cells(found: PlainLong, newest_of_pair: NDArray[np.int64]) -> None:
    """Give codes to the pairs of group and sensor of the rows, in the order of groups, then of sensors."""
    there = newest_of_pair != NO_TIME
    groups, sensors = list(found.groups), list(found.sensors)
    found.cells = [(groups[group], sensors[sensor]) for group, sensor in np.argwhere(there).tolist()]
    found._code_of_pair = (np.cumsum(there).reshape(there.shape) - 1).astype(np.int32)


def _values(found: PlainLong, sensor: str) -> NDArray[np.float64]:
    code = found.sensors[sensor]
    return np.concatenate([value[each == code].astype(np.float64) for _, each, _, value in found._rows()])


def _grown(array: NDArray[np.int64], shape: tuple[int, ...], fill: int) -> NDArray[np.int64]:
    if array.shape == shape:
        return array
    grown = np.full(shape, fill, np.int64)
    grown[tuple(map(slice, array.shape))] = array
    return grown


def _in_order(
    series: NDArray[np.int64], time_ms: NDArray[np.int64], newest: NDArray[np.int64], *, strictly: bool
) -> bool:
    """Whether the rows of each series come in order of time; `newest` by series is brought up to date."""
    order = np.argsort(series, kind="stable")
    of, times = series[order], time_ms[order]
    same = of[1:] == of[:-1]
    steps = np.diff(times)
    if (same & (steps <= 0 if strictly else steps < 0)).any():
        return False
    first = np.append(True, ~same)
    before = newest[of[first]]
    if ((before != NO_TIME) & (times[first] <= before if strictly else times[first] < before)).any():
        return False
    newest[of[np.append(~same, True)]] = times[np.append(~same, True)]
    return True
