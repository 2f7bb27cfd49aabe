"""Strategies of the fuzz tests: arbitrary bytes, broken messages, and documents with valid names and wrong values."""

import copy
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from glaim_stream.decode import ARROW_CONTENT_TYPE
from tests.support import Record

NOW_MS = 1_700_000_000_000

texts = st.one_of(
    st.sampled_from(
        ["g1", "g2", "other", "s0", "s1", "good", "Bad_SensorFailure", "", "2023-11-14T22:13:20Z", "1e400"]
    ),
    st.text(max_size=12),
)
numbers = st.one_of(
    st.integers(),
    st.integers(-5, 5),
    st.sampled_from([NOW_MS, NOW_MS + 1000, -(2**63), 2**64, 10**400, 0x80350000]),
    st.floats(),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)


def documents(names: Sequence[str]) -> st.SearchStrategy[Any]:
    """JSON-like values whose objects prefer the given names."""
    keys = st.one_of(st.sampled_from(names), st.sampled_from(names), st.text(max_size=6))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=6)),
        max_leaves=12,
    )


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with some of them changed, deleted, inserted or repeated."""
    value = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(value)))
        stop = min(len(value), start + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(["change", "delete", "insert", "repeat", "truncate"]))
        if kind == "truncate":
            del value[start:]
        elif kind == "delete":
            del value[start:stop]
        elif kind == "repeat":
            value[start:start] = value[start:stop]
        else:
            new = draw(st.binary(max_size=8))
            value[start : start + (len(new) if kind == "change" else 0)] = new
    return bytes(value)


@st.composite
def altered(draw: st.DrawFn, document: Any, names: Sequence[str]) -> Any:
    """A valid document with some values replaced or removed."""
    root = [copy.deepcopy(document)]
    for _ in range(draw(st.integers(1, 3))):
        parent: Any = root
        key: Any = 0
        while isinstance(parent[key], dict | list) and parent[key] and draw(st.integers(0, 3)):
            parent = parent[key]
            key = draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
        if parent is not root and draw(st.booleans()):
            del parent[key]
        else:
            parent[key] = draw(documents(names))
    return root[0]


SINGLE = {"group": "g1", "sensor": "s0", "ts": NOW_MS, "value": 1.5, "quality": "good"}
STEP = {"group": "g1", "ts": "2023-11-14T22:13:20Z", "values": {"s0": 1.5, "s1": None}}
MANY = {"group": "g1", "readings": [{"sensor": "s0", "ts": NOW_MS, "value": 1}, {"sensor": "s1", "ts": NOW_MS}]}
NAMES = ["group", "sensor", "ts", "value", "quality", "values", "readings", "s0", "s1"]

json_values = st.one_of(
    st.binary(max_size=60),
    broken(st.sampled_from([SINGLE, STEP, MANY]).map(lambda document: json.dumps(document).encode())),
    st.one_of(documents(NAMES), *(altered(document, NAMES) for document in (SINGLE, STEP, MANY))).map(
        lambda document: json.dumps(document).encode(errors="surrogatepass")
    ),
    st.sampled_from(
        [b"", b"\n", b"[" * 100_000, b'{"a":' * 5000, b"\xef\xbb\xbf{}", b"null", b"{}\n{}", b'{"ts":1}\n']
    ),
)


def stream(table: pa.Table, *, compression: str | None = None) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


_TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), texts.filter(lambda text: text.isprintable())),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["g1", "s0", "s1"])),
    (pa.large_string(), st.sampled_from(["g1", "s0"])),
    (pa.float64(), st.floats()),
    (pa.float16(), st.sampled_from([0.5, float("nan")])),
    (pa.int64(), st.sampled_from([NOW_MS, 0, -1, 2**62])),
    (pa.uint64(), st.sampled_from([NOW_MS, 2**64 - 1])),
    (pa.timestamp("ms", "UTC"), st.sampled_from([NOW_MS, -(2**62), 2**62])),
    (pa.timestamp("ns", "Europe/Berlin"), st.sampled_from([NOW_MS * 1_000_000, 0])),
    (pa.timestamp("s"), st.sampled_from([NOW_MS // 1000, 2**60])),
    (pa.date32(), st.integers(0, 20_000)),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary(max_size=4)),
    (pa.list_(pa.float32()), st.lists(st.floats(width=32), max_size=2)),
    (pa.struct([("a", pa.int8())]), st.just({"a": 1})),
    (pa.null(), st.none()),
    (pa.duration("s"), st.integers(0, 9)),
    (pa.decimal128(10, 2), st.none()),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Small tables with known or unknown column names and any column types."""
    rows = draw(st.integers(0, 4))
    names = draw(st.lists(st.sampled_from(["group", "sensor", "ts", "value", "quality", "s0", "s1", ""]), max_size=6))
    columns = []
    for _ in names:
        kind, values = draw(st.sampled_from(_TYPES))
        column = draw(st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows))
        columns.append(pa.array(column, kind))
    return pa.Table.from_arrays(columns, names=names)


LONG = pa.table(
    {
        "group": ["g1", "g2"],
        "sensor": ["s0", "s1"],
        "ts": pa.array([NOW_MS, NOW_MS + 1], pa.timestamp("ms", "UTC")),
        "value": [1.0, None],
    }
)
WIDE = pa.table({"group": ["g1", "g1"], "ts": [NOW_MS, NOW_MS + 1000], "s0": [1.0, None], "s1": [2, 3]})
_compressions = st.sampled_from([None, "zstd", "lz4"])
arrow_values = st.one_of(
    st.binary(max_size=60),
    broken(
        st.builds(
            lambda table, compression: stream(table, compression=compression),
            st.sampled_from([LONG, WIDE]),
            _compressions,
        )
    ),
    st.builds(lambda table, compression: stream(table, compression=compression), tables(), _compressions),
    st.builds(lambda table: stream(table) * 2, st.just(LONG)),
)

_ARROW: tuple[str, bytes] = ("content-type", ARROW_CONTENT_TYPE)
_other_headers = st.lists(
    st.tuples(st.sampled_from(["content-type", "trace", "glaim-cause", "glaim-requeued", ""]), st.binary(max_size=5)),
    max_size=3,
)
_keys = st.one_of(st.none(), st.sampled_from([b"g1", b"", b"\xff", b"other"]), st.binary(max_size=4))
_stamps = st.sampled_from([-1, 0, NOW_MS, NOW_MS + 10**9, 2**62])


def _record(value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]], stamp: int) -> Record:
    return Record(value, 0, key, headers, stamp)


records = st.one_of(
    st.builds(_record, st.one_of(st.none(), json_values), _keys, _other_headers, _stamps),
    st.builds(_record, arrow_values, _keys, _other_headers.map(lambda others: [*others, _ARROW]), _stamps),
    st.builds(_record, json_values, _keys, st.just([_ARROW]), _stamps),
    st.builds(_record, arrow_values, _keys, st.just([]), _stamps),
    st.builds(_record, st.just(json.dumps(SINGLE).encode()), _keys, st.just([]), st.just(NOW_MS)),
)
