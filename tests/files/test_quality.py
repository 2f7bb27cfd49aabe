"""Doubtful readings fill no other cell: columns of quality, error codes, high sentinels, meters at zero."""

import datetime as dt
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.files import Cells
from glaim_stream.files.form import Sentinel
from glaim_stream.files.sentinels import sentinels
from glaim_stream.operate.completeness import FileRequest, file_report
from glaim_stream.tables import cells_of, fill_cells, open_file, write

CASES = Path(__file__).parent / "cases"
START = dt.datetime(2026, 3, 2)


def filled(raw: bytes, **stated: object) -> tuple[Cells, dict[int, str], tuple[str, ...]]:
    """The cells, the lines that changed by their number from 1, and the notes."""
    file, out = open_file("a.csv", raw, **stated), io.BytesIO()
    cells = cells_of(file)
    write(file, cells, fill_cells(cells), out)
    lines = zip(raw.decode().splitlines(), out.getvalue().decode().splitlines(), strict=True)
    changed = {at: after for at, (before, after) in enumerate(lines, 1) if before != after}
    return cells, changed, file.form.notes


def values(changed: dict[int, str], place: int, separator: str = ",") -> list[float]:
    return [float(line.split(separator)[place].replace(",", ".")) for line in changed.values()]


@pytest.mark.parametrize(
    ("name", "holes", "place", "separator", "expected", "within"),
    [
        ("low_high_texts", 2, 1, ",", None, 0),
        ("nine_error_texts", 9, 1, ",", [105.3, 109.7, 101.4, 91.2, 92.6, 103.7, 109.9, 103.1, 92.1], 0.3),
        ("home_automation_text_entities", 2, 1, ",", [20.8, 19.03], 0.05),
        ("index_is_a_meter", 2, 1, ";", [1242067, 1242317], 5),
        ("quality_bad", 2, 2, ",", [119.8, 117.8], 0.3),
        ("wincc_validity", 2, 2, ";", [58.4, 61.2], 0.5),
        ("ds18b20_errors", 4, 1, ",", [21.8, 21.66, 21.63, 20.26], 0.1),
        ("meter_zero_blip", 4, 1, ",", [398.13, 400.2, 400.75, 400.86], 0.1),
        ("day_meter_over_midnight", 19, 1, ",", [30.0] * 19, 0),  # the last value, never one of no night
        ("qc_columns_of_one_name", 2, 5, ",", [52.6, 54.3], 0.6),
        ("sensor_all_sentinel", 75, 1, ",", None, 0),
        ("sentinel_99_999", 150, 1, ",", None, 0),
    ],
)
def test_a_case_is_filled_from_its_readings_alone(
    name: str, holes: int, place: int, separator: str, expected: list[float] | None, within: float
) -> None:
    raw = (CASES / f"{name}.csv").read_bytes()
    cells, changed, _ = filled(raw, date_order="dmy" if name == "wincc_validity" else "")
    assert cells.holes == holes
    if expected is not None:
        assert values(changed, place, separator) == pytest.approx(expected, abs=within)


def test_a_plain_number_for_no_value_spares_a_column_in_which_it_is_a_reading() -> None:
    raw = (CASES / "sentinel_99_999.csv").read_bytes()
    cells, _, notes = filled(raw, missing=("99", "999"))
    assert [int(each.hole.sum()) for each in cells.columns] == [0, 50, 50, 50]
    assert any("99 stands 2 times in 'wind_dir'" in note and "--missing 'wind_dir=99'" in note for note in notes)
    cells, _, _ = filled(raw, missing=("wind_dir=99",))
    assert [int(each.hole.sum()) for each in cells.columns] == [2, 50, 50, 50]


def test_a_sensor_that_is_the_sentinel_throughout_has_no_reading() -> None:
    for raw, sensor in (
        ((CASES / "sensor_all_sentinel.csv").read_bytes(), "ch4"),
        (rows(lambda row: "-999"), "b"),
    ):
        report = file_report("a.csv", raw, FileRequest(ZoneInfo("UTC")))
        assert {each.sensor: each.total["good"] for each in report.sensors}[sensor] == 0


def rows(
    second: Callable[[int], str], first: Callable[[int], str] = lambda row: f"{20 + np.sin(row / 7):.2f}"
) -> bytes:
    lines = (f"{START + dt.timedelta(minutes=row)},{first(row)},{second(row)}" for row in range(120))
    return "\n".join(["time,a,b", *lines, ""]).encode()


def marked(name: str, good: str, bad: str, *, value: Callable[[int], str] | None = None) -> bytes:
    """A sensor with bad marks in rows 50 to 59, whose readings are 0, and holes beside them."""
    number = value or (
        lambda row: "0.00" if 50 <= row < 60 else "" if row in (49, 60) else f"{20 + np.sin(row / 7):.2f}"
    )
    return rows(lambda row: bad if 50 <= row < 60 else good, number).replace(b"time,a,b", f"time,a,{name}".encode())


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        *(
            ("quality", "Good", "Bad"),
            ("Quality", "Good - Non-specific", "Bad: Not Connected"),
            ("a_quality", "192", "0"),
        ),
        *(("a Quality", "192", "24"), ("quality", "216", "64"), ("StatusCode", "Good", "BadCommunicationError")),
        *(("a_status", "0", "2147614720"), ("Quality", "0", "1073741824"), ("validity", "1", "0")),
        *(("is_valid", "True", "False"), ("qc", "0", "1"), ("qc", "1", "4"), ("flag", "", "S")),
        *(("aQuality", "V", "X"), ("qc_a", "2", "1"), ("quality", "Good", "Uncertain"), ("status", "Valid", "Suspect")),
    ],
)
def test_readings_that_are_marked_as_bad_stay_and_fill_nothing(name: str, good: str, bad: str) -> None:
    raw = marked(name, good, bad)
    cells, changed, notes = filled(raw)
    assert (cells.sensors, cells.holes, int(cells.columns[0].kept.sum())) == (("a",), 2, 10)
    assert values(changed, 1) == pytest.approx([20.65, 20.72], abs=0.6)
    assert any(f"'{name}' states the quality of a: 10 readings with {bad!r}" in note for note in notes)
    report = file_report("a.csv", raw, FileRequest(ZoneInfo("UTC")))
    assert [(each.total["arrived"], each.total["good"]) for each in report.sensors] == [(118, 108)]
    cells, _, _ = filled(raw, missing=(f"{name}=",))
    assert int(cells.columns[0].kept.sum()) == 0


@pytest.mark.parametrize(("name", "good", "bad"), [("qc", "0", "1"), ("flag", "A", "E"), ("status", "ok", "fault")])
def test_marks_whose_readings_are_like_all_others_do_not_remove_them(name: str, good: str, bad: str) -> None:
    cells, _, _ = filled(marked(name, good, bad, value=lambda row: f"{20 + np.sin(row / 7):.2f}" if row else ""))
    assert int(cells.columns[0].kept.sum()) == 0


def test_where_words_and_readings_disagree_the_user_is_asked() -> None:
    for name in ("validity", "qc"):
        raw = rows(lambda row: str(int(row % 4 != 0)), lambda row: "0.00" if row % 4 else f"{row % 40 / 2:.2f}")
        raw = raw.replace(b"time,a,b", f"time,a,{name}".encode())
        with pytest.raises(SettingsError, match=f"'{name}' may state the quality.*--missing '{name}=1'"):
            filled(raw)
        cells, _, _ = filled(raw, missing=(f"{name}=1",))
        assert int(cells.columns[0].kept.sum()) == 90


def test_columns_of_quality_judge_the_sensor_that_they_follow() -> None:
    lines = ["time,a,qc,b,qc"]
    for row in range(120):
        bad = (50 <= row < 60, 80 <= row < 90)
        cells = [("-9.9" if each else f"{20 + np.sin(row / 7):.2f}", "4" if each else "1") for each in bad]
        lines.append(",".join([str(START + dt.timedelta(minutes=row)), *cells[0], *cells[1]]))
    cells, _, _ = filled("\n".join(lines).encode())
    assert [np.flatnonzero(each.kept).tolist() for each in cells.columns] == [[*range(50, 60)], [*range(80, 90)]]


def test_one_column_of_quality_judges_all_sensors_of_a_row_and_long_files_have_one() -> None:
    raw = rows(lambda row: f"{row % 7}.5,{'Bad' if row in (5, 6) else 'Good'}").replace(
        b"time,a,b", b"time,a,b,quality"
    )
    assert [int(each.kept.sum()) for each in filled(raw)[0].columns] == [2, 2]
    lines = [
        f"{START + dt.timedelta(minutes=row)},{tag},{row % 9}.{at},{192 if row % 10 else 24}"
        for row in range(60) for at, tag in enumerate(("x", "y"))
    ]  # fmt: skip
    cells, _, _ = filled("\n".join(["time,tag,value,quality", *lines]).encode())
    assert (cells.sensors, int(cells.columns[0].kept.sum())) == (("x", "y"), 12)


def test_a_number_of_the_station_and_a_port_are_no_sensors() -> None:
    head, port = b"time,a,b", "12"
    for name in ("STN", "f_port", "ms"):
        form = open_file("a.csv", rows(lambda row: port).replace(head, f"time,a,{name}".encode())).form
        assert form.unused == {name: "one number throughout, which names something"}
    assert open_file("a.csv", rows(lambda row: "12")).form.sensors == ("a", "b")


def test_a_number_in_most_cells_is_no_error_code() -> None:
    cells, _, _ = filled(rows(lambda row: f"{99 if row % 60 < 40 else 60 + row % 9}"))
    assert not cells.columns[1].doubted.any()


def test_holes_between_doubtful_readings_are_left() -> None:
    raw = rows(
        lambda row: "",
        lambda row: "85.00" if 30 <= row < 40 and row != 35 else "" if row == 35 else f"{20 + np.sin(row):.2f}",
    )
    cells, changed, _ = filled(raw)
    assert (cells.holes, int(cells.columns[0].doubted.sum()), changed) == (1, 9, {})


@pytest.mark.parametrize("code", ["99.0", "999.0", "999", "99.00"])
@pytest.mark.parametrize("where", [(10, 11), (10, 30), (30,)])
def test_rare_nines_far_above_a_column_are_doubted(code: str, where: tuple[int, ...]) -> None:
    raw = rows(lambda row: code if row in where else f"{20 + 3 * np.sin(row / 4):.1f}")
    form, cells = open_file("a.csv", raw).form, cells_of(open_file("a.csv", raw))
    assert np.flatnonzero(cells.columns[1].doubted).tolist() == list(where)
    assert [each.value for each in form.sentinels] == [float(code)]


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(lambda row: "99.0" if row in (20, 31) else f"{(row % 11 == 0) * row % 5 * 0.4:.1f}", id="rain"),
        pytest.param(lambda row: {20: "60.2", 21: "80.4", 22: "99.0"}.get(row, f"{row % 4}.2"), id="storm"),
        pytest.param(lambda row: "99.0" if row in (40, 41) else f"{70 + 5 * np.sin(row / 9):.1f}", id="humidity"),
        pytest.param(lambda row: "99" if row % 3 else "100", id="humidity at its limit"),
        pytest.param(lambda row: "100" if row < 60 else f"{100 - (row - 60) // 6}", id="battery"),
        pytest.param(lambda row: f"{90 + 2 * row}", id="meter"),
    ],
)  # fmt: skip
def test_nines_that_are_readings_stay_readings(number: Callable[[int], str]) -> None:
    cells = cells_of(open_file("a.csv", rows(number)))
    assert (int(cells.columns[1].doubted.sum()), int(cells.columns[1].hole.sum())) == (0, 0)


def test_a_zero_does_not_hide_that_all_other_numbers_have_three_decimals() -> None:
    def table(odd: str) -> bytes:
        return rows(lambda row: odd if row == 7 else f"{1 + row % 3}.{234 + row}", lambda row: f"{20 + row % 9}")

    assert np.nanmax(cells_of(open_file("a.csv", table("0"))).columns[1].value) < 4
    with pytest.raises(SettingsError, match=r"may be 1\.234 or 1234"):
        open_file("a.csv", table("12"))


def few_levels(levels: Sequence[float], code: float, count: int) -> tuple[Sentinel, ...]:
    """What is found in a column that holds some levels in turn, and a code."""
    values = np.resize(np.asarray(levels, np.float64), 200)
    values[np.linspace(20, 150, count).astype(int)] = code
    return sentinels({"a": values})


@pytest.mark.parametrize("levels", [(20.5, 21.0, 21.5), (20.0, 21.0, 21.0, 21.0, 22.0), (1.25, 1.5, 1.75, 2.0)])
@pytest.mark.parametrize("code", [99.0, 999.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_99_and_999_far_above_a_column_of_few_levels_are_no_readings(
    levels: Sequence[float], code: float, count: int
) -> None:
    (found,) = few_levels(levels, code, count)
    assert (found.value, found.count, found.taken, found.amid) == (code, count, count >= 3, False)


@pytest.mark.parametrize(
    ("levels", "code", "count"),
    [
        ((0, 1, 2), 99, 1), ((0, 50, 100), 999, 1), ((0, 33, 66), 99, 40), ((0, 25, 50, 75), 99, 2),
        ((0, 1, 2, 4, 7), 99, 2), ((10, 20, 30), 99, 1), ((10, 20, 30), 99, 2), ((0, 0, 0, 0, 0.2, 0.4), 99, 1),
    ],
)  # fmt: skip
def test_valves_steps_of_fans_codes_and_rain_stay_readings(levels: Sequence[float], code: float, count: int) -> None:
    assert few_levels(levels, code, count) == ()


@pytest.mark.parametrize("levels", [(0, 1, 2), (10, 20, 30)])
def test_repeated_codes_of_alarms_are_never_overwritten(levels: Sequence[float]) -> None:
    assert not any(each.taken for each in few_levels(levels, 99, 6))
