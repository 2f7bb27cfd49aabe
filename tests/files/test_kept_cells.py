"""A cell is a hole, a reading, or a text that may be one, which stays as it is and fills nothing."""

import datetime as dt
import io
from collections.abc import Callable

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.files import Cells
from glaim_stream.tables import cells_of, fill_cells, open_file, write

START = dt.datetime(2026, 3, 2)


def table(texts: dict[int, str], *, rows: int = 100, number: Callable[[int], str] | None = None) -> list[str]:
    number = number or (lambda row: f"{20 + 5 * np.sin(row / 9):.2f}")
    cells = (texts.get(row, number(row)) for row in range(rows))
    return [
        "time,flow,temp",
        *(f"{START + dt.timedelta(minutes=row)},{cell},{row % 7}.5" for row, cell in enumerate(cells)),
    ]


def filled(lines: list[str], **stated: object) -> tuple[Cells, list[str]]:
    file, out = open_file("a.csv", "\n".join([*lines, ""]).encode(), **stated), io.BytesIO()
    cells = cells_of(file)
    write(file, cells, fill_cells(cells), out)
    return cells, out.getvalue().decode().splitlines()


@pytest.mark.parametrize(
    "text",
    [
        *("Low", "High", "<0.10", ">1000", "12.45*", "12.45 e", "\u20134.2", "\ufffd4.2", "\u221e", "inf", "-Infinity"),
        *("1.2 kW", "Trace", "on", "1e999", "####", "22..5", "0x1F", "5.1.2", "OVER", "no change"),
    ],
)  # fmt: skip
def test_a_text_that_may_be_a_reading_stays_and_fills_nothing(text: str) -> None:
    lines = table({20: text, 21: "", 22: text, 60: ""})
    cells, out = filled(lines)
    assert cells.sensors == ("flow", "temp")
    assert (cells.holes, int(cells.columns[0].kept.sum())) == (2, 2)
    changed = [row for row, (before, after) in enumerate(zip(lines, out, strict=True)) if before != after]
    assert changed == [22, 61]
    for row in changed:
        assert float(out[row].split(",")[1]) == pytest.approx(20 + 5 * np.sin((row - 1) / 9), abs=0.1)


@pytest.mark.parametrize(
    "text",
    [
        *("", "NA", "n/a", "null", "-", "***", "\u2014", "#DIV/0!", "#N/A", "Bad", "I/O Timeout", "No Data"),
        *("Comm Fail", "unavailable", "Unknown", "sensor error", "NODATA", "missing", "[Failed]", "M"),
    ],
)  # fmt: skip
def test_a_word_for_no_reading_is_a_hole(text: str) -> None:
    lines = table({20: text, 60: text})
    cells, out = filled(lines)
    assert (cells.holes, int(cells.columns[0].kept.sum())) == (2, 0)
    assert [float(out[row].split(",")[1]) for row in (21, 61)] == pytest.approx([23.98, 21.87], abs=0.1)


def test_many_kinds_of_texts_do_not_remove_a_sensor() -> None:
    kinds = {3 * at + 1: f"state {'abcdefghij'[at % 10]}{'klmno'[at // 10]}" for at in range(50)}
    lines = table({**kinds, 5: ""}, rows=300)
    cells, out = filled(lines)
    assert (cells.sensors, cells.holes, int(cells.columns[0].kept.sum())) == (("flow", "temp"), 1, 50)
    assert [row for row, (before, after) in enumerate(zip(lines, out, strict=True)) if before != after] == [6]


def test_one_odd_cell_of_ten_thousand_is_named() -> None:
    file = open_file("a.csv", "\n".join(table({777: "12x4"}, rows=10_000)).encode())
    assert file.form.sensors == ("flow", "temp")
    assert any("no numbers in 1 cells of 'flow': '12x4' (1)" in note for note in file.form.notes)


def test_numbers_below_a_limit_in_most_cells_leave_a_sensor_and_names_do_not() -> None:
    limits = {row: "<0.10" for row in range(100) if row % 5 > 1}
    file = open_file("a.csv", "\n".join(table(limits)).encode())
    assert file.form.sensors == ("flow", "temp")
    words = {row: f"note {'abcdefghijklmnopqrst'[row % 20]}" * (1 + row // 20) for row in range(100) if row % 5 > 1}
    file = open_file("a.csv", "\n".join(table(words)).encode())
    assert file.form.sensors == ("temp",)
    assert "flow" in file.form.unused


def test_a_set_point_with_a_word_is_one_of_few_numbers() -> None:
    lines = table({row: "Off" for row in range(100) if row % 5 == 0}, number=lambda row: f"{20.5 + row // 50}")
    assert open_file("a.csv", "\n".join(lines).encode()).form.sensors == ("flow", "temp")


def test_whole_numbers_beside_names_like_them_stay_names() -> None:
    rooms = [f"{room}" if room != 3 else "3A" for room in range(1, 13)]
    lines = [
        "time,room,temp",
        *(f"{START + dt.timedelta(minutes=at)},{room},{at}.5" for at in range(30) for room in rooms),
    ]
    assert open_file("a.csv", "\n".join(lines).encode()).form.group == "room"


def test_units_that_change_inside_a_column_are_not_mixed() -> None:
    cells, _ = filled(table({}, number=lambda row: f"{900 + row % 50}.0 W" if row < 60 else f"0.{row} kW"))
    assert (int(cells.columns[0].kept.sum()), np.nanmin(cells.columns[0].value)) == (40, 900)


def test_a_value_is_stated_for_one_column() -> None:
    lines = table({20: "3.5", 21: "Low", 22: "3.5"})
    cells, _ = filled(lines, missing=("flow=3.5", "flow=Low"))
    assert (int(cells.columns[0].hole.sum()), int(cells.columns[1].hole.sum()), cells.columns[0].kept.sum()) == (
        3,
        0,
        0,
    )
    with pytest.raises(SettingsError, match=r"expected a column or sensor, as in COLUMN=VALUE, found 'flaw'.*flow"):
        open_file("a.csv", "\n".join(lines).encode(), missing=("flaw=99",))


def test_texts_of_other_entities_are_left_alone_and_a_word_is_stated_for_one_sensor() -> None:
    times = [START + dt.timedelta(minutes=at) for at in range(40)]
    rows = [f"sensor.temp,{'Low' if at == 9 else f'20.{at}'},{time.isoformat()}Z" for at, time in enumerate(times)]
    rows += [f"sensor.flow,{'Low' if at == 9 else f'3.{at}'},{time.isoformat()}Z" for at, time in enumerate(times)]
    rows += [f"climate.x,{('heat', 'off')[at % 2]},{time.isoformat()}Z" for at, time in enumerate(times)]
    raw = "\n".join(["entity_id,state,last_changed", *rows]).encode()
    cells, out = filled(raw.decode().splitlines(), missing=("sensor.temp=Low",))
    assert cells.sensors == ("sensor.temp", "sensor.flow")
    assert (cells.holes, int(cells.columns[0].kept.sum())) == (1, 1)
    assert out[50] == raw.decode().splitlines()[50]
    assert open_file("a.csv", raw).form.unused == {"climate.x": "texts, no numbers"}


def test_empty_cells_of_columns_that_are_left_out_are_counted() -> None:
    lines = [
        "time,flow,alarm",
        *(f"{START + dt.timedelta(minutes=at)},{at}.5,{'' if at % 9 == 4 else at % 2}" for at in range(60)),
    ]
    notes = open_file("a.csv", "\n".join(lines).encode()).form.notes
    assert "empty cells of columns that are left out, and stay empty: alarm 7" in notes
