"""Published files come back as they were, but for the cells of holes."""

import gzip
import io
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.vocabulary import Method
from glaim_stream.files import Cells, read
from glaim_stream.tables.cells import Outcome
from glaim_stream.tables.columns import FilledColumn
from glaim_stream.tables.groups import Result
from glaim_stream.tables.user_file import UserFile, cells_of, open_file, write

FOLDER = Path(__file__).parents[1] / "files" / "real_files"
TABLE = tomllib.loads((FOLDER / "table.toml").read_text())["file"]
READ = [each["name"] for each in TABLE if "asks" not in each]


def written(file: UserFile, cells: Cells, *, fill: bool) -> bytes:
    """The file with each hole filled by the mean of its column, or with none filled."""
    columns = []
    for column in cells.columns:
        value = np.full(len(column.value), np.nan)
        if fill and np.isfinite(column.value).any():
            value[column.hole] = np.nanmean(column.value)
        method = np.where(np.isfinite(column.value), Method.OBSERVED, Method.NONE).astype(np.uint8)
        doubted = np.zeros(len(value), np.bool_)
        columns.append(FilledColumn(column.place, column.name, value, value, value, method, doubted))
    outcome = Outcome(tuple(columns), Result(None, None, (), {}), {}, {}, 0, 0, 0, (), ())
    out = io.BytesIO()
    write(file, cells, outcome, out)
    return out.getvalue()


def test_whole_numbers_beyond_those_that_floats_hold_keep_their_digits() -> None:
    rows = [f"{minute},{2**53 + 1 + 2 * minute if minute % 7 else ''},{minute % 5}.5" for minute in range(60)]
    raw = "\n".join(["time_s,count,level", *rows, ""]).encode()
    file = open_file("counter.csv", raw)

    assert written(file, cells_of(file), fill=False) == raw


@pytest.mark.parametrize("name", READ)
def test_a_published_file_without_fills_comes_back_byte_for_byte(name: str) -> None:
    raw = (FOLDER / name).read_bytes()
    file = open_file(name, raw)

    found = written(file, cells_of(file), fill=False)

    if name.endswith(".parquet"):
        assert pq.read_table(io.BytesIO(found)).equals(pq.read_table(io.BytesIO(raw)), check_metadata=True)
    else:
        assert found == (gzip.decompress(raw) if name.endswith(".gz") else raw)


@pytest.mark.parametrize("name", READ)
def test_a_filled_published_file_reads_as_before_with_values_in_its_holes(name: str) -> None:
    raw = (FOLDER / name).read_bytes()
    file = open_file(name, raw)
    cells = cells_of(file)

    found = written(file, cells, fill=True)

    again = read(found, form=file.form, name=name)
    before = file.reading
    assert np.array_equal(again.times_ms, before.times_ms)
    observed = np.isfinite(before.values)
    assert np.array_equal(again.values[observed], before.values[observed])
    asked = np.any([each.hole | np.isfinite(each.value) for each in cells.columns], axis=0)  # a logger's events are not
    timed = np.isfinite(again.values[:, before.timed & asked]).all(axis=1)
    known = observed.any(axis=1)
    assert timed[known].all()
    if not name.endswith(".parquet"):
        text = gzip.decompress(raw) if name.endswith(".gz") else raw
        changed = sum(one != other for one, other in zip(text.split(b"\n"), found.split(b"\n"), strict=True))
        rows = np.zeros(before.rows, np.bool_)
        for column in cells.columns:
            rows |= column.hole & np.isfinite(column.value).any()
        assert changed == rows.sum()
