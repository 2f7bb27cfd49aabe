"""Files of many programs: separator, decimal sign, encoding and dates are detected, or the file is rejected."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms
from glaim_stream.feed.sources import read_source
from glaim_stream.files import read_table


def written(tmp_path: Path, text: str, *, name: str = "data.csv", encoding: str = "utf-8") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("t,a,b\n1,2.5,3\n", {"t": [1], "a": [2.5], "b": [3]}),
        ("t;a;b\n1;2,5;\n2;;3,5\n", {"t": [1, 2], "a": [2.5, None], "b": [None, 3.5]}),
        ("t;a;b\n1;2.5;3\n2;;\n", {"t": [1, 2], "a": [2.5, None], "b": [3, None]}),
        ("t;Level, m;Flow, l/s\n1;2,5;3,0\n", {"t": [1], "Level, m": [2.5], "Flow, l/s": [3.0]}),
        ("t\ta\n1\t2,5\n", {"t": [1], "a": [2.5]}),
        ("t|a\n1|2.5\n", {"t": [1], "a": [2.5]}),
        ("t a\n1  2.5\n", {"t": [1], "a": [2.5]}),
        ("t,flow; l/s\n1,2\n2,3\n", {"t": [1, 2], "flow; l/s": [2, 3]}),
        ('t;a\n1;"x;y"\n2;"one\nline"\n', {"t": [1, 2], "a": ["x;y", "one\nline"]}),
        ("t;a;b\n1;2,5;\n2;-0,5;1e3\n", {"t": [1, 2], "a": [2.5, -0.5], "b": [None, 1000.0]}),
        ("ts;g.a;g.b\n;m3/h;bar\n01.02.2026;2,5;1\n", {"ts": ["01.02.2026"], "g.a": [2.5], "g.b": [1]}),
        ("t;a;;\n1;2;;\n", {"t": [1], "a": [2]}),  # separators at the ends of lines
    ],
)
def test_a_file_is_read_in_the_form_it_has(tmp_path: Path, text: str, columns: dict[str, list[object]]) -> None:
    assert read_table(written(tmp_path, text)).arrow.to_pydict() == columns


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("latin-1", "latin-1"),
        ("utf-16", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
    ],
)
def test_names_are_read_in_their_encoding(tmp_path: Path, encoding: str, found: str) -> None:
    table = read_table(written(tmp_path, "t;Temperatur (°C)\n1;2,5\n", encoding=encoding))
    assert table.text is not None
    assert table.text.encoding == found
    assert table.arrow.to_pydict() == {"t": [1], "Temperatur (°C)": [2.5]}


def test_declared_texts_are_read_as_missing(tmp_path: Path) -> None:
    path = written(tmp_path, "t,a\n1,B7\n2,2.5\n3,B7\n4,n/a\n")
    assert read_table(path, missing=("B7",)).arrow.column("a").to_pylist() == [None, 2.5, None, None]
    assert read_table(path).arrow.column("a").to_pylist() == ["B7", "2.5", "B7", "n/a"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("none.csv", None, "expected a data file at .*none.csv, found none"),
        ("data.xlsx", b"PK\x03\x04", "expected CSV, JSON lines, Parquet or Arrow, found a zip archive"),
        ("data.parquet", b"PAR1", "data.parquet cannot be read"),
        ("data.csv", b"", "data.csv: expected readings, found an empty file"),
        ("data.csv", b"a;b\n1;2\n3;4;5\n1;2\n", "expected 2 cells in every line, .* found 3 in line 3: '3;4;5'"),
        ("data.csv", b"\xff\xfea", "data.csv cannot be read"),  # a byte order mark of UTF-16, and half a character
        ("data.csv", b"t,a\n1,2,5\n2,3,5\n", "expected a name for each column, found 2 names and 3 cells"),
    ],
)
def test_an_unreadable_file_is_rejected_with_a_reason(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=reason):
        read_table(path)


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
        table = read_table(path).arrow
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


def times(tmp_path: Path, *texts: str, order: str = "") -> list[str]:
    """Times of a file, in order."""
    path = written(tmp_path, "\n".join(["ts;g.a", *(f"{text};{row}.5" for row, text in enumerate(texts))]))
    return [text_of_ms(each) for each in read_source(path, date_order=order).time_ms.tolist()]


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (("31.01.2026 07:05:00", "1.2.2026 7:05"), ["2026-01-31T07:05:00Z", "2026-02-01T07:05:00Z"]),
        (("1/1/2026 12:05 am", "1/31/2026 7:05 PM"), ["2026-01-01T00:05:00Z", "2026-01-31T19:05:00Z"]),
        (("1/2/2026", "13/2/2026"), ["2026-02-01T00:00:00Z", "2026-02-13T00:00:00Z"]),  # the second decides
        (("1/2/2026", "2/13/2026"), ["2026-01-02T00:00:00Z", "2026-02-13T00:00:00Z"]),
        (("4/4/2026 1:00",), ["2026-04-04T01:00:00Z"]),  # the same in both orders
        (("2026/1/31 7:05",), ["2026-01-31T07:05:00Z"]),
        ((" 31-12-2026T23:59:59.250 ",), ["2026-12-31T23:59:59.250Z"]),
        (("2026-01-31T07:05:00.123456789+01:00",), ["2026-01-31T06:05:00.123Z"]),
        (("1.1.2026 24:00",), ["2026-01-02T00:00:00Z"]),
        (("27.10.2024 02:30 CEST", "27.10.2024 02:30 CET"), ["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z"]),
    ],
)
def test_common_date_formats_are_read(tmp_path: Path, texts: tuple[str, ...], read: list[str]) -> None:
    assert times(tmp_path, *texts) == read


def test_a_date_column_and_a_time_column_are_combined(tmp_path: Path) -> None:
    path = written(tmp_path, "Datum;Uhr;g.a\n31.01.2026;07:05:00;1,5\n01.02.2026;7:06;2,5\n")
    for time_column in (None, "Datum+Uhr"):
        source = read_source(path, time_column=time_column)
        found = [text_of_ms(each) for each in source.time_ms.tolist()]
        assert found == ["2026-01-31T07:05:00Z", "2026-02-01T07:06:00Z"]
        assert source.cells == [("g", "a")]


def test_an_ambiguous_order_of_dates_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="may have the day or the month first"):
        times(tmp_path, "1/2/2026", "3/4/2026")
    assert times(tmp_path, "1/2/2026", order="dmy") == ["2026-02-01T00:00:00Z"]
    assert times(tmp_path, "1/2/2026", order="mdy") == ["2026-01-02T00:00:00Z"]


@pytest.mark.parametrize("texts", [("31.02.2026",), ("2026-02-31",), ("13/2/2026", "2/13/2026"), ("1.1.2026 25:00",)])
def test_invalid_dates_are_reported(tmp_path: Path, texts: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=f"column 'ts': expected times .* found {texts[0]}"):
        times(tmp_path, *texts)


@pytest.mark.parametrize("cells", [("0", "1000"), ("599999999", "599999999"), ("0.5", "1.5")])
def test_numbers_that_are_no_times_of_our_days_are_no_times(tmp_path: Path, cells: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="expected times"):
        times(tmp_path, *cells)
