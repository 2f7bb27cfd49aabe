"""The output format, written and read back."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.errors import RecordError
from glaim_stream.core.vocabulary import Status
from glaim_stream.output import records
from glaim_stream.output.records import (
    METHODS,
    QUALITIES,
    SCHEMA,
    Method,
    Rows,
    encode,
    newest_revisions,
    read_rows,
)

GROUPS, SENSORS, VERSIONS = ["g0", "g\u00e9", "g2"], ["s0", "s1"], ["", "3"]


def rows(count: int, **columns: Any) -> Rows:
    """Observed rows of g0 and s0 at 0, 1, 2, ... ms; `columns` override."""
    default = {
        "group": np.zeros(count),
        "sensor": np.zeros(count),
        "ts_ms": np.arange(count),
        "event_time_ms": np.arange(count),
        "value": np.arange(count),
        "observed": np.ones(count),
        "method": np.zeros(count),
        "status": np.zeros(count),
        "lower": np.full(count, np.nan),
        "upper": np.full(count, np.nan),
        "gap_age": np.zeros(count),
        "revision": np.zeros(count),
        "final": np.ones(count),
        "version": np.zeros(count),
    }
    dtypes = ["i4", "i4", "i8", "i8", "f8", "?", "i1", "u4", "f8", "f8", "i4", "i2", "?", "i1"]
    full = default | columns
    return Rows(*(np.asarray(full[name]).astype(dtype) for name, dtype in zip(default, dtypes, strict=True)))


def messages(part: Rows) -> list[tuple[bytes, int]]:
    return list(encode(part, group_names=GROUPS, sensor_names=SENSORS, version_names=VERSIONS))


def table(part: Rows) -> pa.Table:
    return pa.concat_tables([read_rows(message) for message, _ in messages(part)], promote_options="default")


def test_encoded_rows_are_read_back() -> None:
    written = rows(
        2,
        group=[1, 2],
        sensor=[1, 0],
        ts_ms=[-5, 1_700_000_000_000],
        value=[np.nan, 2.5],
        observed=[False, False],
        method=[Method.NONE, Method.MODEL],
        status=[Status.BAD_NO_DATA, Status.UNCERTAIN_SUBSTITUTE_VALUE],
        lower=[np.nan, 2],
        upper=[np.nan, 3],
        gap_age=[100_000, 1],
        revision=[0, 2],
        final=[True, False],
        version=[0, 1],
    )
    ((message, count),) = messages(written)
    read = read_rows(message)
    assert (count, read.schema) == (2, SCHEMA)
    assert read.select(["group", "sensor", "value", "lower", "upper", "gap_age", "revision", "final"]).to_pylist() == [
        {"group": "g\u00e9", "sensor": "s1", "value": None, "lower": None, "upper": None, "gap_age": 65535,
         "revision": 0, "final": True},
        {"group": "g2", "sensor": "s0", "value": 2.5, "lower": 2, "upper": 3, "gap_age": 1, "revision": 2,
         "final": False},
    ]  # fmt: skip
    assert read["method"].to_pylist() == ["none", "model"]
    assert read["quality"].to_pylist() == ["bad", "uncertain"]
    assert read["status"].to_pylist() == [0x809B0000, 0x40910000]
    assert read["event_time"].null_count == 2
    assert read["model_version"].to_pylist() == ["", "3"]
    assert read["ts"].cast(pa.int64()).to_pylist() == [-5, 1_700_000_000_000]
    assert read.schema.metadata == {b"glaim-schema-version": b"3"}


def test_an_observed_row_keeps_the_time_of_its_reading() -> None:
    read = table(rows(2, ts_ms=[0, 1000], event_time_ms=[37, 1999], observed=[True, False]))
    assert read["event_time"].cast(pa.int64()).to_pylist() == [37, None]


@pytest.mark.parametrize(
    ("status", "quality"),
    [
        (Status.GOOD, "good"),
        (Status.UNCERTAIN, "uncertain"),
        (Status.UNCERTAIN_LAST_USABLE_VALUE, "uncertain"),
        (Status.BAD_NO_COMMUNICATION, "bad"),
        (0xFFFFFFFF, "bad"),
    ],
)
def test_the_quality_is_the_severity_of_the_status(status: int, quality: str) -> None:
    read = table(rows(1, status=[status]))
    assert (read["quality"].to_pylist(), read["status"].to_pylist()) == ([quality], [status])


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=40))
def test_values_are_written_bit_for_bit(values: list[float]) -> None:
    """Up to 16 rows are plain, more are compressed."""
    read = table(rows(len(values), value=values))
    assert np.array_equal(read["value"].to_numpy().view(np.int64), np.array(values).view(np.int64))


# Messages


def test_plain_pyarrow_reads_a_message() -> None:
    ((message, _),) = messages(rows(3))
    assert pa.ipc.open_stream(message).read_all().num_rows == 3


def test_without_rows_there_is_no_message() -> None:
    assert messages(rows(0)) == []


def test_a_message_contains_only_the_names_that_occur() -> None:
    ((message, _),) = messages(rows(2, group=[2, 2]))
    assert read_rows(message)["group"].chunk(0).dictionary.to_pylist() == ["g2"]


@given(st.lists(st.integers(0, 39), min_size=1, max_size=8), st.integers(1, 4))
def test_names_are_the_same_for_few_and_many_rows(codes: list[int], times: int) -> None:
    names = [f"g{number}" for number in range(40)]
    part = rows(times * len(codes), group=codes * times)
    ((message, _),) = list(encode(part, group_names=names, sensor_names=SENSORS, version_names=VERSIONS))
    assert read_rows(message)["group"].to_pylist() == [names[code] for code in codes] * times


@pytest.mark.parametrize("count", [16, 17])
def test_a_message_that_compression_would_enlarge_is_not_compressed(count: int) -> None:
    ((message, _),) = messages(rows(count))
    assert (b"\x28\xb5\x2f\xfd" in message) == (count > 16)  # the magic number of a zstd frame
    assert read_rows(message)["value"].to_pylist() == list(range(count))


def test_many_rows_are_split_into_messages_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_ROWS_A_MESSAGE", 10)
    parts = messages(rows(25))
    assert [count for _, count in parts] == [10, 10, 5]
    joined = [value for message, _ in parts for value in read_rows(message)["value"].to_pylist()]
    assert joined == list(range(25))


def test_a_full_message_of_noise_fits_into_kafkas_megabyte() -> None:
    random = np.random.default_rng(0)
    count = records.MAX_ROWS_A_MESSAGE
    noise = {name: random.normal(size=count) for name in ("value", "lower", "upper")}
    ((message, _),) = messages(
        rows(count, group=random.integers(0, 3, count), ts_ms=random.integers(0, 2**40, count), **noise)
    )
    assert len(message) < 1_000_000


@pytest.mark.parametrize("message", [b"", b"nothing", b"\xff\xff\xff\xff\x00"])
def test_bytes_that_are_no_arrow_stream_are_rejected(message: bytes) -> None:
    with pytest.raises(RecordError, match=f"expected an Arrow IPC stream, found {len(message)} bytes"):
        read_rows(message)


def test_another_schema_is_rejected() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("x", pa.int8())])):
        pass
    with pytest.raises(RecordError, match=r"found \['x'\]"):
        read_rows(bytes(sink.getvalue().to_pybytes()))


def test_values_of_32_bits_are_rejected() -> None:
    fields = [field.with_type(pa.float32()) if field.name == "value" else field for field in SCHEMA]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema(fields)):
        pass
    with pytest.raises(RecordError, match="expected the column value of type double, found float"):
        read_rows(bytes(sink.getvalue().to_pybytes()))


def test_method_and_quality_codes_are_list_indices() -> None:
    assert METHODS == ["observed", "model", "blend", "interpolation", "last_value", "none", "gaussian"]
    assert QUALITIES == ["good", "uncertain", "bad"]


# Folding


def test_folding_no_tables_returns_an_empty_table() -> None:
    folded = newest_revisions([])
    assert (folded.num_rows, folded.column_names) == (0, SCHEMA.names)


def test_the_highest_revision_wins_and_the_later_row_if_equal() -> None:
    first = rows(3, ts_ms=[0, 0, 1], value=[1, 2, 3], revision=[0, 1, 0])
    second = rows(3, ts_ms=[0, 1, 0], value=[4, 5, 6], revision=[0, 0, 1])
    folded = newest_revisions([table(first), table(second)])
    assert folded.select(["value", "revision"]).to_pylist() == [
        {"value": 6, "revision": 1},
        {"value": 5, "revision": 0},
    ]


cells = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(-2, 2), st.integers(0, 3), st.integers(0, 99))


@given(st.lists(st.lists(cells, min_size=1, max_size=8), max_size=4))
def test_folding_agrees_with_a_dictionary(parts: list[list[tuple[int, int, int, int, int]]]) -> None:
    expected: dict[tuple[str, str, int], tuple[int, int]] = {}
    tables = []
    for part in parts:
        group, sensor, ts_ms, revision, value = (np.array(column) for column in zip(*part, strict=True))
        tables.append(table(rows(len(part), group=group, sensor=sensor, ts_ms=ts_ms, revision=revision, value=value)))
        for g, s, t, r, v in part:
            key = (GROUPS[g], SENSORS[s], t)
            if key not in expected or r >= expected[key][0]:
                expected[key] = (r, v)
    folded = newest_revisions(tables)
    found = {
        (row["group"], row["sensor"], ts): (row["revision"], int(row["value"]))
        for row, ts in zip(
            folded.select(["group", "sensor", "revision", "value"]).to_pylist(),
            folded["ts"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
    }
    assert folded.num_rows == len(expected)
    assert found == expected
