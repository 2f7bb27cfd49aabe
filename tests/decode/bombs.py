"""Records of a few kilobytes that would fill the memory if they were decoded as they ask to be."""

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from glaim_stream.decode.arrow_records import ARROW_CONTENT_TYPE
from tests.support import Record

NOW_MS = 1_700_000_000_000
HEADERS = [("content-type", ARROW_CONTENT_TYPE)]


def stream(*batches: pa.RecordBatch, **options: Any) -> bytes:
    """An IPC stream of batches with the same schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def long_rows(count: int, sensor: pa.Array | None = None, **columns: pa.Array) -> pa.RecordBatch:
    """Equal readings in the long form."""
    given = {
        "group": pa.repeat("g0", count).dictionary_encode(),
        "sensor": pa.repeat("nobody", count).dictionary_encode() if sensor is None else sensor,
        "ts": pa.repeat(NOW_MS, count),
        "value": pa.repeat(1.0, count),
    }
    return pa.record_batch(given | columns)


def with_length(compressed: bytes, claimed: int) -> bytes:
    """A stream of which every compressed buffer that states 8,000 bytes claims others instead."""
    return compressed.replace(struct.pack("<q", 8000), struct.pack("<q", claimed))


NAMES = (
    "a claim of 8 EB",
    "a claim of 100 GB",
    "zstd that expands",
    "lz4 that expands",
    "a dictionary for ten million rows",
    "a billion nulls",
    "a dictionary of a billion nulls",
    "views of one long text",
    "a long name in every row",
    "a dictionary that grows",
)
JSON_NAMES = ("400,000 values", "400,000 readings", "30 MB of blanks")


@cache
def bombs() -> dict[str, bytes]:
    """Value of each Arrow record by its name."""
    return dict(zip(NAMES, _arrow(), strict=True))


@cache
def json_bombs() -> dict[str, bytes]:
    """Value of each JSON record by its name."""
    return dict(zip(JSON_NAMES, _json(), strict=True))


def _arrow() -> Iterator[bytes]:
    few = stream(long_rows(1000), compression="zstd")
    yield with_length(few, 2**63 - 1)
    yield with_length(few, 10**11)
    for codec in ("zstd", "lz4"):
        yield stream(long_rows(3_000_000), compression=codec)
    index = pa.array(np.zeros(10_000_000, np.int8))
    shared = pa.DictionaryArray.from_arrays(index, pa.array(["x" * 1000]))
    yield stream(long_rows(10_000_000, shared), compression="zstd")
    yield stream(pa.record_batch({name: pa.nulls(10**9) for name in ("ts", "s0", "s1")}))
    nulls = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.nulls(10**9))
    yield stream(long_rows(1, nulls))
    rows, text = 200_000, b"y" * 10_000
    views = pa.py_buffer(struct.pack("<i4sii", len(text), text[:4], 0, 0) * rows)
    viewed = pa.Array.from_buffers(pa.string_view(), rows, [None, views, pa.py_buffer(text)])
    yield stream(long_rows(rows, viewed), compression="zstd")
    long_name = pa.array(["z" * 100_000], pa.large_string())
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), long_name)
    yield stream(long_rows(rows, named), compression="zstd")
    base = ["w" * 2_000_000]
    growing = [pa.array([*base, *map(str, range(each))]) for each in range(1, 100)]
    deltas = [
        long_rows(1, pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), dictionary)) for dictionary in growing
    ]
    yield stream(*deltas, compression="zstd", emit_dictionary_deltas=True)


def _json() -> Iterator[bytes]:
    short = ",".join(f'"{number:x}":1' for number in range(400_000))
    yield f'{{"group":"g0","ts":{NOW_MS},"values":{{{short}}}}}'.encode()
    item = '{"sensor":""},'
    yield f'{{"group":"g0","ts":{NOW_MS},"readings":[{item * 399_999}{item[:-1]}]}}'.encode()
    yield b'{"group":"g0"' + b" " * 30_000_000 + b"}"


def records() -> list[Record]:
    """All of them, each between two good records."""
    good = f'{{"group":"g0","sensor":"s0","ts":{NOW_MS},"value":1}}'.encode()
    values = [(value, HEADERS) for value in bombs().values()] + [(value, []) for value in json_bombs().values()]
    out = [Record(good, 0)]
    headers: list[tuple[str, bytes]]
    for value, headers in values:
        out += [Record(value, len(out), None, headers), Record(good, len(out) + 1)]
    return out
