"""Files of many programs: separator, decimal sign, encoding and dates are detected, or the file is rejected."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.errors import SettingsError
from glaim_stream.feed.files import CsvForm, csv_form, read_file
from glaim_stream.feed.sources import read_source
from glaim_stream.feed.time_columns import column_ms, in_seconds
from glaim_stream.times import text_of_ms


def written(tmp_path: Path, text: str, *, name: str = "data.csv", encoding: str = "utf-8") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("t,a,b\n1,2.5,3\n", CsvForm()),
        ("t;a;b\n1;2,5;\n2;;3,5\n", CsvForm(separator=";", decimal=",")),
        ("t;a;b\n1;2.5;3\n2;;\n", CsvForm(separator=";")),
        ("t;Level, m;Flow, l/s\n1;2,5;3,0\n", CsvForm(separator=";", decimal=",")),  # as many commas as semicolons
        ("t\ta\n1\t2,5\n", CsvForm(separator="\t", decimal=",")),
        ("t|a\n1|2.5\n", CsvForm(separator="|")),
        ("t,flow; l/s\n1,2\n2,3\n", CsvForm()),
        ('t;a\n1;"x;y"\n2;"one\nline"\n', CsvForm(separator=";")),
        ("t;a\n1;2\n2;3\n3;4;5\n", CsvForm(separator=";")),  # one bad row does not affect detection
        ("only\n1\n", CsvForm()),
        ("t,a,b,c\n,m3/h,°C,\n1,2,3,4\n", CsvForm(units={"a": "m3/h", "b": "°C"})),
        ("t,a,b\n2026-01-01,Bad,Bad\n2026-01-02,2,3\n", CsvForm()),  # a time: these are readings
        ("a,b\nNaN,\n1,2\n", CsvForm()),
        ("a,b\nm,s\n", CsvForm()),  # no data below the units
        ("", CsvForm()),
    ],
)
def test_the_form_of_a_csv_file_is_detected(tmp_path: Path, text: str, form: CsvForm) -> None:
    assert csv_form(written(tmp_path, text)) == form


def test_numbers_with_a_decimal_comma_are_read(tmp_path: Path) -> None:
    table = read_file(written(tmp_path, "t;a;b\n1;2,5;\n2;-0,5;1e3\n"))
    assert table.to_pydict() == {"t": [1, 2], "a": [2.5, -0.5], "b": [None, 1000.0]}


def test_a_line_of_units_is_skipped(tmp_path: Path) -> None:
    table = read_file(written(tmp_path, "ts;g.a;g.b\n;m3/h;bar\n01.02.2026;2,5;1\n"))
    assert table.to_pydict() == {"ts": ["01.02.2026"], "g.a": [2.5], "g.b": [1]}


def test_separators_at_the_ends_of_lines_make_no_column(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, "t;a;;\n1;2;;\n")).column_names == ["t", "a"]


@pytest.mark.parametrize(
    ("encoding", "found"), [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("latin-1", "latin-1"), ("utf-16", "utf-16")]
)
def test_names_are_read_in_their_encoding(tmp_path: Path, encoding: str, found: str) -> None:
    path = written(tmp_path, "t;Temperatur (°C)\n1;2,5\n", encoding=encoding)
    assert csv_form(path).encoding == found
    assert read_file(path).to_pydict() == {"t": [1], "Temperatur (°C)": [2.5]}


def test_a_character_cut_by_the_end_of_the_sample_is_still_utf_8(tmp_path: Path) -> None:
    path = written(tmp_path, "t,a\n" + "x" * ((1 << 20) - 5) + "°,1\n")
    assert csv_form(path).encoding == "utf-8"


def test_declared_texts_are_read_as_missing(tmp_path: Path) -> None:
    path = written(tmp_path, "t,a\n1,Bad\n2,2.5\n3,-\n4,n/a\n")
    assert read_file(path, no_value=("Bad", "-")).column("a").to_pylist() == [None, 2.5, None, None]
    assert pa.types.is_string(read_file(path).column("a").type)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("none.csv", None, "expected a data file at .*none.csv, found none"),
        ("data.xlsx", b"PK", "expected a file named .csv, .tsv, .txt, .parquet, .pq, found data.xlsx"),
        ("data.parquet", b"PAR1", "data.parquet cannot be read"),
        ("data.csv", b"", "data.csv cannot be read: Empty CSV file"),
        ("data.csv", b"t,a,a\n1,2,3\n", "data.csv: expected columns of different names, found several 'a'"),
        ("data.csv", b"a;b\n1;2\n3;4;5\n1;2\n", "Expected 2 columns, got 3"),
        ("data.csv", b"\xff\xfea", "data.csv cannot be read"),  # a byte order mark of UTF-16, and half a character
    ],
)
def test_an_unreadable_file_is_rejected_with_a_reason(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=reason):
        read_file(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


CELLS = st.sampled_from(
    ["1", "2,5", "2.5", "", "Bad", "-", '"', "°", "2026-01-01", "31.12.2026", "\x00", ";", ",", "\t"]
)


@given(st.one_of(st.binary(max_size=60), st.lists(CELLS, max_size=30).map(lambda cells: "\n".join(cells).encode())))
def test_any_bytes_are_read_or_rejected_with_a_reason(folder: Path, content: bytes) -> None:
    path = folder / "data.csv"
    path.write_bytes(content)
    try:
        table = read_file(path)
    except SettingsError as error:
        reason = str(error)
    else:
        reason = None
    if reason is not None:
        assert "data.csv" in reason
        return
    assert len({*table.column_names}) == table.num_columns
    with suppress(SettingsError):
        source = read_source(path, group="g")
        assert len(source) > 0
        assert np.isfinite(source.value).all()
        assert (np.diff(source.time_ms) >= 0).all()
        assert {group for group, _ in source.cells} == {"g"}


def times(*texts: str, order: str = "") -> list[str]:
    return [text_of_ms(int(each)) for each in column_ms(pa.array(texts), timezone="UTC", what="ts", order=order)]


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (("31.01.2026 07:05:00", "1.2.2026 7:05"), ["2026-01-31T07:05:00Z", "2026-02-01T07:05:00Z"]),
        (("1/31/2026 7:05 PM", "1/1/2026 12:05 am"), ["2026-01-31T19:05:00Z", "2026-01-01T00:05:00Z"]),
        (
            ("1/2/2026", "13/2/2026"),
            ["2026-02-01T00:00:00Z", "2026-02-13T00:00:00Z"],
        ),  # the second date determines the order of the first
        (("1/2/2026", "2/13/2026"), ["2026-01-02T00:00:00Z", "2026-02-13T00:00:00Z"]),
        (("4/4/2026 1:00",), ["2026-04-04T01:00:00Z"]),  # the same in both orders
        (("2026/1/31 7:05",), ["2026-01-31T07:05:00Z"]),
        ((" 31-12-2026T23:59:59.250 ",), ["2026-12-31T23:59:59.250Z"]),
        (("2026-01-31T07:05:00.123456789+01:00",), ["2026-01-31T06:05:00.123Z"]),
    ],
)
def test_common_date_formats_are_read(texts: tuple[str, ...], read: list[str]) -> None:
    assert times(*texts) == read


def test_a_date_column_and_a_time_column_are_combined(tmp_path: Path) -> None:
    path = written(tmp_path, "Datum;Uhr;g.a\n31.01.2026;07:05:00;1,5\n01.02.2026;7:06;2,5\n")
    source = read_source(path, time_column="Datum+Uhr")
    assert [text_of_ms(each) for each in source.time_ms.tolist()] == ["2026-01-31T07:05:00Z", "2026-02-01T07:06:00Z"]
    assert source.cells == [("g", "a")]


def test_an_ambiguous_order_of_dates_must_be_given() -> None:
    with pytest.raises(SettingsError, match="1/2/2026 and all others may have the day or the month first"):
        times("1/2/2026", "3/4/2026")
    assert times("1/2/2026", order="dmy") == ["2026-02-01T00:00:00Z"]
    assert times("1/2/2026", order="mdy") == ["2026-01-02T00:00:00Z"]


@pytest.mark.parametrize(
    "texts", [("31.02.2026",), ("2026-02-31",), ("1.2.26",), ("13/2/2026", "2/13/2026"), ("1.1.2026 24:00",)]
)
def test_invalid_dates_are_reported(texts: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=r"year of four digits, all in one order: .*parse string"):
        times(*texts)


def test_times_with_am_and_pm_use_a_twelve_hour_clock() -> None:
    hours = {"12:05 am": "00:05", "1:05 AM": "01:05", "11:05 am": "11:05", "12:05 pm": "12:05", "1:05 PM": "13:05"}
    assert times(*(f"31.1.2026 {text}" for text in hours)) == [f"2026-01-31T{hour}:00Z" for hour in hours.values()]


@pytest.mark.parametrize(("number", "seconds"), [(599_999_999, 0), (600_000_000, 1), (4_200_000_000, 1)])
def test_numbers_from_1989_to_2103_are_seconds(number: int, seconds: bool) -> None:
    found = column_ms(pa.array([number]), timezone="UTC", what="ts").tolist()
    assert found == [number * (1000 if seconds else 1)]
    assert not in_seconds(pa.array([number, 4_200_000_001]))
    assert not in_seconds(pa.array([], pa.int64()))


def test_epoch_seconds_are_distinguished_from_milliseconds() -> None:
    def read(*numbers: float) -> list[int]:
        return column_ms(pa.array(numbers), timezone="UTC", what="ts").tolist()

    assert read(1_767_225_600, 1_767_225_660) == [1_767_225_600_000, 1_767_225_660_000]
    assert read(1_767_225_600.25) == [1_767_225_600_250]
    assert read(1_767_225_600_000) == [1_767_225_600_000]
    assert read(0, 1_767_225_600) == [0, 1_767_225_600]  # a clock that starts at 0 counts milliseconds
    with pytest.raises(SettingsError, match="found double"):
        read(0.5)
