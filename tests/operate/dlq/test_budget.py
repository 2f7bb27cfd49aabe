"""Letters and rows that would fill the memory of a reader: said in a line, sent back whole, or refused."""

import pyarrow as pa
import pytest

from glaim_stream.core.errors import RecordError
from glaim_stream.operate.dlq.description import value_text
from glaim_stream.operate.dlq.subset import keep_readings
from glaim_stream.output import SCHEMA, read_rows
from tests.decode.bombs import HEADERS, JSON_NAMES, NAMES, bombs, json_bombs, stream

LARGE = [name for name in NAMES if name != "a long name in every row"]


@pytest.mark.parametrize("name", LARGE)
def test_arrow_beyond_the_budget_is_not_shown_and_goes_back_whole(name: str) -> None:
    value = bombs()[name]
    text = value_text(value, HEADERS)
    assert text.startswith("not shown: expected at most ") or name == "views of one long text"
    assert len(text) < 10_000
    if name != "views of one long text":
        assert keep_readings(value, HEADERS, [0, 1]) is value


def test_a_long_name_is_cut_where_it_is_shown() -> None:
    assert len(value_text(bombs()["a long name in every row"], HEADERS)) < 10_000


def test_json_beyond_the_budget_is_not_shown_and_goes_back_whole() -> None:
    value = json_bombs()[JSON_NAMES[2]]
    assert value_text(value, []) == "not shown: expected at most 4000000 bytes of JSON, found 30000014"
    assert keep_readings(value, [], [0]) is value


def test_rows_that_expand_are_refused_before_they_are_read() -> None:
    batch = pa.record_batch([pa.nulls(3_000_000, field.type) for field in SCHEMA], schema=SCHEMA)
    with pytest.raises(RecordError, match="that claim to decompress to"):
        read_rows(stream(batch, compression="zstd"))


def test_rows_that_share_a_long_name_are_refused() -> None:
    columns = [pa.nulls(3_000, field.type) for field in SCHEMA]
    name = pa.array(["x" * 100_000])
    columns[0] = pa.DictionaryArray.from_arrays(pa.array([0] * 3_000, pa.int32()), name)
    with pytest.raises(RecordError, match="expected names of groups and sensors, found texts of 100000 bytes"):
        read_rows(stream(pa.record_batch(columns, schema=SCHEMA), compression="zstd"))
