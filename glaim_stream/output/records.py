"""The output format: encodes and reads the Arrow messages of `imputed-readings`.

A message is one Arrow IPC stream of rows in the schema below. `read_rows` reads a message into a table; plain pyarrow
does too: `pyarrow.ipc.open_stream(message.value).read_all()`. Method, Quality,
METHODS and QUALITIES are re-exported from glaim_stream.core.vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from glaim_stream.core.budget import DEFAULT
from glaim_stream.core.errors import RecordError
from glaim_stream.core.vocabulary import METHODS as METHODS
from glaim_stream.core.vocabulary import QUALITIES as QUALITIES
from glaim_stream.core.vocabulary import Method as Method
from glaim_stream.core.vocabulary import Quality as Quality
from glaim_stream.core.vocabulary import severity
from glaim_stream.decode import claim_of

SCHEMA_VERSION = "3"
CONTENT_TYPE = b"application/vnd.apache.arrow.stream"
MAX_ROWS_A_MESSAGE = 20_000  # rows compress to some 10 to 20 bytes each, so this is well below Kafka's usual 1 MB

# Each column is compressed separately, which takes some 10 us whatever its length (zstd). The writer's own threads cost
# more than they save: 570 us per message of one row with them, 226 us without, 14 us uncompressed (AMD EPYC,
# 2026-11-21).
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_PLAIN_ROWS = 16  # up to this many rows, compression frames add more bytes than compression saves
_NAME = pa.dictionary(pa.int32(), pa.string())
_FLAG = pa.dictionary(pa.int8(), pa.string())
_TIME = pa.timestamp("ms", tz="UTC")
_VERSION_KEY = "glaim-schema-version"
_MOST_BYTES, _MOST_GROWTH = DEFAULT.record_bytes, 100  # limits of a decompressed message; ours grow 12-fold
_MOST_TEXT_BYTES = 256_000_000  # bytes of a column of names, written row by row
_METHODS, _QUALITIES = pa.array(METHODS), pa.array(QUALITIES)

SCHEMA = pa.schema(
    [
        pa.field("group", _NAME, nullable=False),
        pa.field("sensor", _NAME, nullable=False),
        pa.field("ts", _TIME, nullable=False),  # start of the step
        pa.field("event_time", _TIME),  # time of the reading that represents the step; null unless observed
        pa.field("value", pa.float64()),  # sensor units; null if unknown
        pa.field("observed", pa.bool_(), nullable=False),  # a reading arrived
        pa.field("method", _FLAG, nullable=False),  # how the value was made
        pa.field("quality", _FLAG, nullable=False),  # the severity of the status
        pa.field("status", pa.uint32(), nullable=False),  # OPC UA StatusCode, see vocabulary.py
        pa.field("lower", pa.float64()),  # 90 % interval; null unless the method is model, blend or gaussian
        pa.field("upper", pa.float64()),
        pa.field("gap_age", pa.uint16(), nullable=False),  # steps since the sensor's last observation, at most 65535
        pa.field("revision", pa.uint16(), nullable=False),  # 0 first; a higher revision replaces a lower one
        pa.field("final", pa.bool_(), nullable=False),  # no revision follows, except after late readings
        pa.field("model_version", _NAME, nullable=False),  # empty unless the method is model, blend or gaussian
    ],
    metadata={_VERSION_KEY: SCHEMA_VERSION},
)
PLAIN_SCHEMA = pa.schema(
    [field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in SCHEMA],
    metadata=SCHEMA.metadata,
)  # names as strings: the schema of tables and files of many messages


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of `imputed-readings` as columns of length n; names are codes into lists that `encode` takes."""

    group: NDArray[np.int32]  # code into group_names
    sensor: NDArray[np.int32]  # code into sensor_names
    ts_ms: NDArray[np.int64]
    event_time_ms: NDArray[np.int64]  # ignored unless observed
    value: NDArray[np.float64]  # NaN for null
    observed: NDArray[np.bool_]
    method: NDArray[np.int8]
    status: NDArray[np.uint32]  # the quality follows from it
    lower: NDArray[np.float64]  # NaN for null
    upper: NDArray[np.float64]
    gap_age: NDArray[np.int32]
    revision: NDArray[np.int16]
    final: NDArray[np.bool_]
    version: NDArray[np.int32]  # code into version_names

    def __len__(self) -> int:
        return len(self.group)

    def where(self, keep: NDArray[np.bool_]) -> Rows:
        """The selected rows."""
        return Rows(*(getattr(self, column.name)[keep] for column in fields(self)))

    def slice(self, start: int, stop: int) -> Rows:
        """Rows `[start, stop)`."""
        return Rows(*(getattr(self, column.name)[start:stop] for column in fields(self)))


def encode(
    rows: Rows,
    *,
    group_names: Sequence[str],
    sensor_names: Sequence[str],
    version_names: Sequence[str],
    max_bytes: int = 1_000_000,
) -> Iterator[tuple[bytes, int]]:
    """Encode rows as Arrow IPC streams of at most MAX_ROWS_A_MESSAGE rows and `max_bytes` each.

    A single row that exceeds `max_bytes` is still one stream.

    Yields:
        Each stream and its number of rows.
    """
    for start in range(0, len(rows), MAX_ROWS_A_MESSAGE):
        part = rows.slice(start, min(start + MAX_ROWS_A_MESSAGE, len(rows)))
        stream = _stream(_record_batch(part, group_names, sensor_names, version_names))
        if len(stream) <= max_bytes or len(part) == 1:
            yield stream, len(part)
            continue
        half = len(part) // 2
        for piece in (part.slice(0, half), part.slice(half, len(part))):
            yield from encode(
                piece,
                group_names=group_names,
                sensor_names=sensor_names,
                version_names=version_names,
                max_bytes=max_bytes,
            )


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    options = _PLAIN if batch.num_rows <= _PLAIN_ROWS else _COMPRESSED
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def read_rows(message: bytes) -> pa.Table:
    """Read one message into a table in SCHEMA.

    Raises:
        RecordError: the bytes are not an Arrow stream, or have another schema.
    """
    try:
        claimed_bytes = claim_of(message).size_bytes
        if claimed_bytes > max(_MOST_BYTES, _MOST_GROWTH * len(message)):
            raise RecordError(f"expected rows, found {len(message)} bytes that claim to decompress to {claimed_bytes}")
        with pa.ipc.open_stream(message) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RecordError(f"expected an Arrow IPC stream, found {len(message)} bytes that are none: {error}") from error
    if table.schema.names != SCHEMA.names:
        raise RecordError(f"expected the columns {SCHEMA.names}, found {table.schema.names}")
    for field, found in zip(SCHEMA, table.schema, strict=True):
        if found.type != field.type:
            raise RecordError(f"expected the column {field.name} of type {field.type}, found {found.type}")
    _require_short_names(table)
    return table


def _require_short_names(table: pa.Table) -> None:
    """Require that names which dictionaries share fit the memory once they are written row by row."""
    for column in table.columns:
        if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
            continue
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary)
            if len(lengths) and (pc.max(lengths).as_py() or 0) * len(chunk) > _MOST_TEXT_BYTES:
                raise RecordError(f"expected names of groups and sensors, found texts of {pc.max(lengths)} bytes")


def halves(message: bytes) -> list[bytes]:
    """Split one message into two with half of the rows each; a message of one row stays whole."""
    (batch,) = read_rows(message).to_batches()
    if batch.num_rows < 2:
        return [message]
    middle = batch.num_rows // 2
    return [_stream(batch.slice(0, middle)), _stream(batch.slice(middle))]


def newest_revisions(tables: Iterable[pa.Table]) -> pa.Table:
    """Keep one row for each (group, sensor, ts): the highest revision, and the last in the topic of equal ones.

    Args:
        tables: rows in SCHEMA or PLAIN_SCHEMA, in the order of the topic.

    Returns:
        Rows in PLAIN_SCHEMA, sorted by group, sensor and ts.
    """
    plain = [without_dictionaries(each) for each in tables]
    table = pa.concat_tables(plain or [PLAIN_SCHEMA.empty_table()])
    table = table.append_column("order", pa.array(np.arange(table.num_rows)))
    table = table.sort_by(
        [(name, "ascending") for name in ("group", "sensor", "ts")]
        + [("revision", "descending"), ("order", "descending")]
    ).drop_columns(["order"])
    keys = [table[name].combine_chunks() for name in ("group", "sensor", "ts")]
    if table.num_rows == 0:
        return table
    first = np.ones(table.num_rows, np.bool_)
    first[1:] = False
    for key in keys:
        codes = key.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        first[1:] |= codes[1:] != codes[:-1]
    return table.filter(pa.array(first))


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The table in PLAIN_SCHEMA: names as strings instead of dictionary codes.

    Dictionaries differ from message to message; tables in PLAIN_SCHEMA can be joined and written to one file.

    Args:
        table: rows in SCHEMA or PLAIN_SCHEMA.
    """
    return table.cast(PLAIN_SCHEMA)


def _record_batch(
    rows: Rows, group_names: Sequence[str], sensor_names: Sequence[str], version_names: Sequence[str]
) -> pa.RecordBatch:
    columns = [
        _dictionary(rows.group, group_names, pa.int32()),
        _dictionary(rows.sensor, sensor_names, pa.int32()),
        pa.array(rows.ts_ms, _TIME),
        pa.array(rows.event_time_ms, _TIME, mask=~rows.observed),
        _nullable(rows.value),
        pa.array(rows.observed),
        pa.DictionaryArray.from_arrays(pa.array(rows.method, pa.int8()), _METHODS),
        pa.DictionaryArray.from_arrays(pa.array(severity(rows.status), pa.int8()), _QUALITIES),
        pa.array(rows.status, pa.uint32()),
        _nullable(rows.lower),
        _nullable(rows.upper),
        pa.array(np.minimum(rows.gap_age, 65535), pa.uint16()),
        pa.array(rows.revision, pa.uint16()),
        pa.array(rows.final),
        _dictionary(rows.version, version_names, pa.int32()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def _nullable(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def _dictionary(codes: NDArray[np.signedinteger], names: Sequence[str], index_type: pa.DataType) -> pa.DictionaryArray:
    """A dictionary of the names that occur, so that a message does not contain the whole catalogue."""
    if len(codes) * 8 < len(names):  # few rows of a large catalogue: sort the codes
        used, local = np.unique(codes, return_inverse=True)
    else:  # one flag per name: five times as fast as sorting 20,000 rows
        occurs = np.zeros(len(names), np.bool_)
        occurs[codes] = True
        used = np.flatnonzero(occurs)
        local = (np.cumsum(occurs, dtype=np.int32) - 1)[codes]
    return pa.DictionaryArray.from_arrays(
        pa.array(local, index_type), pa.array([names[code] for code in used.tolist()], pa.string())
    )
