"""A CSV file is written back with its own bytes: only the changed cells differ."""

import codecs
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glaim_stream.core.errors import SettingsError
from glaim_stream.tables.text import Beside, Changes, TextTable, encoding_of


def written(table: TextTable, changes: Changes | None = None) -> bytes:
    return b"".join(table.written(changes or Changes()))


PUMPS = (
    '\ufefftime;"inlet; bar";flow;remark\r\n'
    '2026-01-01 00:00;"1,5";007;"said ""ok"""\r\n'
    "2026-01-01 00:01;;NA ;\r\n"
    "\r\n"
    '2026-01-01 00:02;""; 1e3 ;"two\r\nlines"\r\n'
    '2026-01-01 00:03;"1,50";  ;5" pipe'
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_file_without_changes_is_written_byte_for_byte(encoding: str) -> None:
    raw = PUMPS.encode(encoding)
    form = "" if encoding != "utf-8" else encoding

    assert written(TextTable(raw, separator=";", encoding=form)) == raw


def test_cells_are_read_without_quotes_and_names_without_the_byte_order_mark() -> None:
    table = TextTable(PUMPS.encode(), separator=";")

    assert table.names == ["time", "inlet; bar", "flow", "remark"]
    assert len(table) == 4
    assert table.texts(1, range(4)) == ["1,5", "", "", "1,50"]
    assert table.texts(2, range(4)) == ["007", "NA ", " 1e3 ", "  "]
    assert table.texts(3, range(4)) == ['said "ok"', "", "two\r\nlines", '5" pipe']


def test_a_filled_cell_keeps_its_quotes_and_blanks_and_all_else_stays() -> None:
    table = TextTable(PUMPS.encode(), separator=";")

    out = written(table, Changes({1: {1: "1,25", 2: "1,30"}, 2: {1: "8", 3: "9"}})).decode()

    expected = PUMPS.replace("00:01;;NA ;", "00:01;1,25;8 ;").replace('00:02;"";', '00:02;"1,30";')
    assert out == expected.replace('00:03;"1,50";  ;', '00:03;"1,50"; 9;')


def test_a_filled_cell_with_the_separator_in_it_is_quoted() -> None:
    table = TextTable(b'time,flow\n1,"2,5"\n2,\n')

    assert written(table, Changes({1: {1: "2,6"}})) == b'time,flow\n1,"2,5"\n2,"2,6"\n'


def test_latin_1_bytes_survive() -> None:
    raw = "time;temperature °C;µ\n1;2;3\n2;;4".encode("latin-1")

    assert encoding_of(raw) == "latin-1"
    assert written(TextTable(raw, separator=";"), Changes({1: {1: "5"}})) == raw.replace(b"2;;4", b"2;5;4")


def test_a_row_that_ends_early_is_told_by_its_width() -> None:
    table = TextTable(b'time,a,b\n1,2\n2,,"x, y"\n')

    assert table.widths.tolist() == [2, 3]
    assert written(table, Changes({2: {0: "9"}})) == b'time,a,b\n1,2\n2,,"x, y"\n'


def test_a_quote_that_nothing_closes_is_a_character() -> None:
    raw = b'time,a,b\n1,"2,3\n2,4,5\n3,6,7\n'

    table = TextTable(raw)

    assert (len(table), written(table)) == (3, raw)


def test_a_carriage_return_inside_a_cell_is_no_line_end() -> None:
    raw = b'time,a,"b"\n1,x\ry,\n2,"z\r",3\n'

    table = TextTable(raw)

    assert (len(table), table.texts(1, [0])) == (2, ["x\ry"])
    assert written(table, Changes({2: {0: "5"}})) == raw.replace(b"x\ry,", b"x\ry,5")


def test_lines_above_the_names_and_below_the_rows_are_kept() -> None:
    raw = b"# station 7\n\ntime,a\nUTC,bar\n1,2\n# gap\n2,\nend of file\n"

    table = TextTable(raw, header_line=2, row_lines=[4, 6])
    beside = Changes({1: {1: "3"}}, {1: Beside(["a_method"], [["observed"], ["gaussian"]])})

    assert written(table, beside) == (
        b"# station 7\n\ntime,a,a_method\nUTC,bar,\n1,2,observed\n# gap\n2,3,gaussian\nend of file\n"
    )


def test_columns_of_blanks_keep_their_blanks() -> None:
    raw = b"time   a   b\n   1  2.5  NaN\n   2  NaN  7 \n"

    table = TextTable(raw, separator=" ")

    assert table.names == ["time", "a", "b"]
    assert table.texts(2, range(2)) == ["NaN", "7"]
    assert written(table, Changes({1: {1: "2.6"}, 2: {0: "6"}})) == b"time   a   b\n   1  2.5    6\n   2  2.6  7 \n"


def test_rows_are_inserted_below_a_row() -> None:
    table = TextTable(b"time,a\r\n1,2\r\n3,4")

    out = written(table, Changes(inserted={0: [["2", "3,0"]]}))

    assert out == b'time,a\r\n1,2\r\n2,"3,0"\r\n3,4'


def test_bytes_that_are_no_text_of_the_encoding_are_a_sentence() -> None:
    with pytest.raises(SettingsError, match="expected text in utf-16-le"):
        TextTable(codecs.BOM_UTF16_LE + b"a")


cells = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=6)


@given(st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=6), st.sampled_from([",", ";", "\t"]))
def test_any_text_is_written_back(rows: list[list[str]], separator: str) -> None:
    raw = "\n".join(separator.join(row) for row in [["a", "b"], *rows]).encode()

    assert written(TextTable(raw, separator=separator, encoding="utf-8")) == raw


def test_the_cells_of_a_wide_row_are_found_once_for_all_columns() -> None:
    columns, rows = 300, 300
    line = ",".join(f"{column}.25" for column in range(columns))
    lines = "".join(line + "\n" for _ in range(rows))
    table = TextTable((",".join(f"c{column}" for column in range(columns)) + "\n" + lines).encode())
    every = range(rows)
    began = time.perf_counter()
    first = table.texts(0, every)
    one = time.perf_counter() - began
    began = time.perf_counter()
    rest = [table.texts(column, every) for column in range(1, columns)]
    others = time.perf_counter() - began
    assert first == ["0.25"] * rows
    assert [cells[-1] for cells in rest] == [f"{column}.25" for column in range(1, columns)]
    assert others < 60 * one  # one column after the other, each with a search of its own, takes 299 times as long
