"""Row files: complete or absent, in three formats, with all revisions or only the newest."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.output import row_files
from glaim_stream.output.records import PLAIN_SCHEMA, SCHEMA, newest_revisions, read_rows, without_dictionaries
from glaim_stream.output.row_files import RowFile, joined_rows
from tests.output.test_records import messages, rows, table


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path).read_all()
    return pa.csv.read_csv(path)


@pytest.mark.parametrize("ending", [".arrow", ".parquet", ".csv"])
def test_rows_with_and_without_dictionaries_are_written_to_one_file(tmp_path: Path, ending: str) -> None:
    import pyarrow.csv

    assert pyarrow.csv
    path = tmp_path / "new" / "folder" / f"out{ending}"
    file = RowFile(path)
    with file:
        file.add(table(rows(2, group=[0, 1], value=[1, 2])))
        file.add(without_dictionaries(table(rows(3, group=[2, 2, 2], value=[3, 4, 5]))))
        assert not path.exists()
    found = read(path)
    assert file.rows == found.num_rows == 5
    assert found["value"].to_pylist() == [1, 2, 3, 4, 5]
    assert found["group"].to_pylist() == ["g0", "g\u00e9", "g2", "g2", "g2"]
    assert found.column_names == PLAIN_SCHEMA.names
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", [".arrow", ".parquet", ".csv"])
def test_a_file_without_rows_is_valid(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    with RowFile(path):
        pass
    assert read(path).num_rows == 0


@pytest.mark.parametrize(("error", "kept"), [(KeyboardInterrupt, True), (GeneratorExit, True), (SystemExit, False)])
def test_ctrl_c_keeps_the_file_and_an_error_drops_it(tmp_path: Path, error: type[BaseException], *, kept: bool) -> None:
    path = tmp_path / "out.parquet"
    with suppress(error), RowFile(path) as file:
        file.add(table(rows(1)))
        raise error
    assert [each.name for each in tmp_path.iterdir()] == ([path.name] if kept else [])


def test_an_error_before_the_first_row_leaves_nothing(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), RowFile(tmp_path / "out.csv"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_runs_of_rows_give_the_rows_that_one_fold_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of many series come in an order of time, and revisions in a later run."""
    random = np.random.default_rng(3)
    tables = []
    for revision in (0, 1):
        group, sensor, ts_ms = (random.integers(0, top, 600) for top in (3, 2, 50))
        tables += [
            table(rows(60, group=group[at], sensor=sensor[at], ts_ms=ts_ms[at], revision=[revision] * 60))
            for at in np.array_split(np.arange(600), 10)
        ]
    expected = newest_revisions(tables)
    monkeypatch.setattr(row_files, "_RUN_ROWS", 150)
    monkeypatch.setattr(row_files, "_STRETCHES", 4)
    with RowFile(tmp_path / "out.arrow", newest_only=True) as file:
        for each in tables:
            file.add(each)
        assert (tmp_path / "out.arrow.runs").exists()
    assert read(file.path).equals(expected)
    assert [each.name for each in tmp_path.iterdir()] == ["out.arrow"]


def test_joined_files_are_in_the_order_of_groups(tmp_path: Path) -> None:
    """A group of two files, as of messages that hold several groups, gets its newest rows."""
    parts = [table(rows(3, group=[0, 1, 1], revision=[0, 1, 0])), table(rows(3, group=[1, 2, 2], revision=[2, 0, 0]))]
    paths = []
    for number, each in enumerate(parts):
        paths.append(tmp_path / f"{number}.arrow")
        with RowFile(paths[-1], newest_only=True) as file:
            file.add(each)
    found = pa.concat_tables(joined_rows(paths, newest_only=True))
    assert found.equals(newest_revisions(parts))
    assert pa.concat_tables(joined_rows(paths, newest_only=False)).num_rows == 6


def test_another_file_ending_is_rejected() -> None:
    with pytest.raises(SettingsError, match=r"expected a file ending in \.arrow, \.parquet, \.csv, found x\.txt"):
        RowFile(Path("x.txt"))


def test_dictionaries_become_strings_and_other_columns_stay() -> None:
    ((message, _),) = messages(rows(2, group=[1, 2]))
    plain = without_dictionaries(read_rows(message))
    assert plain.schema.equals(PLAIN_SCHEMA, check_metadata=True)
    assert plain["group"].to_pylist() == ["g\u00e9", "g2"]
    assert plain["method"].type == pa.string()
    assert [field.nullable for field in PLAIN_SCHEMA] == [field.nullable for field in SCHEMA]
    assert without_dictionaries(plain).equals(plain)
