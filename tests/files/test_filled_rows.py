"""Filled rows are recognised by their columns in every kind of file, and measurements of the same names are not."""

import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from glaim_stream.commands.fill import ReadFlags, WriteFlags, fill_file
from glaim_stream.core.errors import SettingsError
from glaim_stream.feed import read_source
from glaim_stream.files.read import read

TIMES = [f"2026-01-01T00:{minute:02}:00Z" for minute in range(60)]
ROWS = pa.table(
    {
        "group": ["g"] * 60,
        "sensor": ["a"] * 60,
        "ts": TIMES,
        "value": [float(minute) for minute in range(60)],
        "observed": [False] * 60,
        "method": ["gaussian"] * 60,
    }
)


def content(ending: str, table: pa.Table = ROWS) -> bytes:
    """A table as a file with that ending."""
    sink = io.BytesIO()
    if ending.endswith(".gz"):
        return gzip.compress(content(ending.removesuffix(".gz"), table))
    if ending.lower() in (".parquet", ".bin"):
        pq.write_table(table, sink)
    elif ending == ".arrow":
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif ending == ".jsonl":
        sink.write("\n".join(map(json.dumps, table.to_pylist())).encode())
    else:
        separator = {".tsv": "\t", ".txt": ";"}.get(ending, ",")
        pa.csv.write_csv(table, sink, pa.csv.WriteOptions(delimiter=separator))
    return sink.getvalue()


@pytest.mark.parametrize(
    "ending", [".csv", ".csv.gz", ".txt", ".tsv", ".CSV", ".parquet", ".PARQUET", ".bin", ".arrow", ".jsonl"]
)
def test_the_columns_of_filled_rows_are_refused_whatever_the_file_is_called(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"rows{ending}").write_bytes(content(ending))
    with pytest.raises(SettingsError, match=r"found filled rows.*'method', 'observed', 'value'"):
        read_source(tmp_path / f"rows{ending}")


def filled(tmp_path: Path, text: str, **flags: object) -> Path:
    """The folder in which `fill` has filled a file."""
    (tmp_path / "data.csv").write_text(text)
    fill_file(str(tmp_path / "data.csv"), ReadFlags(), WriteFlags(**flags))  # type: ignore[arg-type]
    return tmp_path


def test_the_list_of_filled_cells_is_refused(tmp_path: Path) -> None:
    wide = "time,a,b\n" + "".join(f"{time},{n},{'' if n % 7 == 3 else n * n}\n" for n, time in enumerate(TIMES))
    folder = filled(tmp_path, wide, flags_out=tmp_path / "flags.csv")
    with pytest.raises(SettingsError, match="'lower', 'method', 'upper', 'value'"):
        read_source(folder / "flags.csv")


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_a_table_with_the_methods_beside_its_readings_is_refused(tmp_path: Path, layout: str) -> None:
    wide = "time,a,b\n" + "".join(f"{time},{n},{'' if n % 7 == 3 else n * n}\n" for n, time in enumerate(TIMES))
    long = "time,sensor,value\n" + "".join(
        f"{time},{name},{'' if n % 7 == 3 else n}\n" for n, time in enumerate(TIMES) for name in "ab"
    )
    folder = filled(tmp_path, wide if layout == "wide" else long, flags=True)
    first = "b" if layout == "wide" else "value"
    names = f"'{first}_lower', '{first}_method', '{first}_upper'"
    with pytest.raises(SettingsError, match=f"{names}.*take the file that was filled"):
        read_source(folder / "data-filled.csv")
    assert len(read(folder / "data-filled.csv").form.sensors)  # `fill` and `report` read it


def test_measurements_with_a_method_and_bounds_of_their_own_are_readings(tmp_path: Path) -> None:
    rows = "".join(f"{time},nitrate,ISO 7890,{n},1,50\n" for n, time in enumerate(TIMES))
    (tmp_path / "lab.csv").write_text("time,sensor,method,value,lower,upper\n" + rows)
    assert len(read_source(tmp_path / "lab.csv")) == 60
    rows = "".join(f"{time},{n},titration,1,50\n" for n, time in enumerate(TIMES))
    (tmp_path / "wide.csv").write_text("time,a,a_method,a_lower,a_upper\n" + rows)
    assert len(read_source(tmp_path / "wide.csv"))
