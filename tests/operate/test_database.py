"""The database of a command: bounded memory, a folder of its own, and errors that name the way out."""

import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.operate.database import database


def test_a_missing_duckdb_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SettingsError, match=r"pip install 'glaim-stream\[audit\]'"), database(None):
        pass


def test_what_lies_in_the_folder_is_gone_afterwards_and_left_overs_are_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "glaim-killed").mkdir()  # what a killed command left
    with database(tmp_path, memory="100MB") as own:
        own.run("CREATE TABLE rows AS SELECT range AS number FROM range(30_000_000)")
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) > 1e6
        assert own.rows("SELECT count(*) FROM rows") == [(30_000_000,)]
    assert [path.name for path in tmp_path.iterdir()] == ["glaim-killed"]


def test_a_folder_that_is_not_there_or_takes_no_more_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected a folder for temporary files"), database(tmp_path / "absent"):
        pass
    with pytest.raises(SettingsError, match=r"expected room in .*--temp-folder"), database(tmp_path):
        raise duckdb.OutOfMemoryException("failed to offload data block\nmore")
    assert not list(tmp_path.iterdir())


def test_rows_are_numbered_in_the_order_in_which_they_were_added() -> None:
    with database(None) as own:
        own.run("CREATE TABLE numbers(number BIGINT)")
        numbers = np.random.default_rng(1).permutation(400_000)
        for part in np.array_split(numbers, 9):
            own.add("numbers", {"number": part})
        for order in ("ORDER BY rowid", ""):
            assert (own.read(f"SELECT number FROM numbers {order}")["number"] == numbers).all()
        assert sum(len(part["number"]) for part in own.parts("SELECT number FROM numbers")) == 400_000
