"""Forms of files: what fits once is read, what fits twice is a question, and sentinels are told from readings."""

import datetime as dt
import gzip
import json
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import NO_TIME, text_of_ms
from glaim_stream.feed import read_source
from glaim_stream.files.form import Reading
from glaim_stream.files.read import read
from glaim_stream.files.text import raw_cells

HOUR = dt.timedelta(hours=1)


def span(reading: Reading) -> tuple[str, str]:
    return text_of_ms(reading.form.first_ms), text_of_ms(reading.form.last_ms)


def stamped(pattern: str, rows: int, step: dt.timedelta = HOUR, start: dt.datetime = dt.datetime(2025, 3, 1)) -> bytes:
    lines = [f"{(start + step * row).strftime(pattern)},{row * 7919 % 100 / 8}" for row in range(rows)]
    return "\n".join(["time,a", *lines, ""]).encode()


def column(cells: list[object], *, separator: str = ",") -> bytes:
    start = dt.datetime(2025, 1, 1)
    lines = [f"{start + dt.timedelta(minutes=row)}{separator}{cell}" for row, cell in enumerate(cells)]
    return "\n".join([f"time{separator}a", *lines]).encode()


def values(count: int, low: float, high: float) -> list[object]:
    return [round(float(each), 3) for each in np.random.default_rng(count).uniform(low, high, count)]


def air_quality() -> bytes:
    """Ten days in the original form of UCI Air Quality: decimal commas, 18.00.00, empty columns and rows, -200."""
    random = np.random.default_rng(1)
    lines = ["Date;Time;CO(GT);PT08.S1(CO);NOx(GT);T;;"]
    for row in range(240):
        time = dt.datetime(2004, 3, 10, 18) + HOUR * row
        co, s1, nox, t = (
            random.uniform(0.3, 9),
            random.integers(700, 2000),
            random.integers(2, 1400),
            random.normal(15, 5),
        )
        cells = [f"{co:.1f}".replace(".", ","), f"{s1}", f"{nox}", f"{t:.1f}".replace(".", ",")]
        if row % 30 == 7:
            cells = ["-200", "-200", "-200", "-200"]
        if 60 <= row < 80:
            cells[2] = "-200"
        lines.append(f"{time:%d/%m/%Y};{time:%H.%M.%S};{';'.join(cells)};;")
    return "\r\n".join([*lines, *[";" * 7] * 20, ""]).encode()


def test_uci_air_quality_is_read_in_its_original_form() -> None:
    reading = read(air_quality())
    assert reading.form.time == "Date+Time"
    assert span(reading) == ("2004-03-10T18:00:00Z", "2004-03-20T17:00:00Z")
    assert reading.form.sensors == ("CO(GT)", "PT08.S1(CO)", "NOx(GT)", "T")
    assert np.isnan(reading.values[:, reading.timed]).sum(axis=1).tolist() == [8, 8, 27, 8]
    assert (reading.form.untimed, reading.rows) == (20, 260)
    assert not (reading.values == -200).any()
    assert [each.count for each in reading.form.sentinels] == [8, 8, 27, 8]


@pytest.mark.parametrize(
    ("content", "first", "last"),
    [
        (stamped("%d/%m/%Y %H:%M", 300, start=dt.datetime(2025, 1, 1)), "2025-01-01T00:00:00Z", "2025-01-13T11:00:00Z"),
        (stamped("%d/%m/%Y %H:%M", 264), "2025-03-01T00:00:00Z", "2025-03-11T23:00:00Z"),
        (stamped("%m/%d/%Y %H:%M", 264), "2025-03-01T00:00:00Z", "2025-03-11T23:00:00Z"),
        (stamped("%d/%m/%Y", 12, dt.timedelta(days=1)), "2025-03-01T00:00:00Z", "2025-03-12T00:00:00Z"),
        (stamped("%d/%m/%y %H:%M", 500), "2025-03-01T00:00:00Z", "2025-03-21T19:00:00Z"),
        (stamped("%d-%b-%Y %H:%M", 50), "2025-03-01T00:00:00Z", "2025-03-03T01:00:00Z"),
        (stamped("%Y%m%d%H%M", 50), "2025-03-01T00:00:00Z", "2025-03-03T01:00:00Z"),
        (stamped("%Y%m%d%H", 50), "2025-03-01T00:00:00Z", "2025-03-03T01:00:00Z"),
        (stamped("%Y%m%d", 50, dt.timedelta(days=1)), "2025-03-01T00:00:00Z", "2025-04-19T00:00:00Z"),
        (stamped("%Y-%m-%dT%H:%M:%S+01:00", 50), "2025-02-28T23:00:00Z", "2025-03-03T00:00:00Z"),
    ],
)  # fmt: skip
def test_dates_are_read_by_the_whole_column_and_then_by_their_steps(content: bytes, first: str, last: str) -> None:
    assert span(read(content)) == (first, last)


def test_one_date_in_thirty_thousand_decides_the_order_of_all() -> None:
    start = dt.datetime(2025, 1, 1)
    lines = [f"{(start if row < 30_000 else start + dt.timedelta(days=12)):%d/%m/%Y} {row % 86_400 // 3600}:"
             f"{row // 60 % 60:02d}:{row % 60:02d},{row % 7}.5" for row in range(40_000)]  # fmt: skip
    reading = read("\n".join(["time,a", *lines]).encode())
    assert reading.form.date_order == "dmy"


@pytest.mark.parametrize(
    "content",
    [
        stamped("%d/%m/%Y %H:%M", 20, start=dt.datetime(2025, 4, 3)),  # one day
        "\n".join(
            ["time,a", *(f"01/{month:02d}/2020,{month**2}.5" for month in range(1, 13))]
        ).encode(),  # or a month each
    ],
)
def test_dates_that_fit_twice_are_a_question_with_both_spans(content: bytes) -> None:
    with pytest.raises(
        SettingsError, match=r"day, month, year: from .* to .*; month, day, year: from .* to .*dmy or mdy"
    ):
        read(content)
    assert read(content, date_order="dmy").form.date_order == "dmy"


def test_names_in_a_comment_are_the_header() -> None:
    lines = ["#YY  MM DD hh mm WDIR WSPD GST", "#yr  mo dy hr mn degT m/s  m/s"]
    lines += [
        f"2024 01 01 {row // 6:02d} {row % 6 * 10:02d} {row * 37 % 359} {row % 7}.5  {row % 11}.25" for row in range(60)
    ]
    reading = read("\n".join(lines).encode())
    assert (reading.form.time, reading.form.step_ms) == ("YY+MM+DD+hh+mm", 600_000)
    assert reading.form.sensors == ("WDIR", "WSPD", "GST")
    assert reading.form.units == {"WDIR": "degT", "WSPD": "m/s", "GST": "m/s"}


@pytest.mark.parametrize("unit", [1, 1000, 10**6, 10**9])
def test_epochs_are_read_in_their_unit(unit: int) -> None:
    lines = [f"{(1_740_787_200 + 60 * row) * unit},{row % 7}.5" for row in range(50)]
    assert span(read("\n".join(["time,a", *lines]).encode())) == ("2025-03-01T00:00:00Z", "2025-03-01T00:49:00Z")


def test_parts_of_a_date_in_columns_are_put_together() -> None:
    lines = ["No,year,month,day,hour,PM2.5,wd,station"]
    lines += [
        f"{row + 1},2013,3,{1 + row // 24},{row % 24},{'NA' if row == 7 else row * 37 % 90},NNW,A" for row in range(60)
    ]
    reading = read("\n".join(lines).encode())
    assert (reading.form.time, reading.form.sensors) == ("year+month+day+hour", ("PM2.5",))
    assert span(reading) == ("2013-03-01T00:00:00Z", "2013-03-03T11:00:00Z")
    assert reading.form.unused == {"No": "counts the rows", "wd": "no numbers", "station": "no numbers"}


def test_a_row_counter_with_gaps_is_no_sensor() -> None:
    lines = [f"{row},2026-03-02 00:{row:02d}:00,{row % 7}.5" for row in range(1, 50) if row % 11]
    assert read("\n".join(['"#",time,temp', *lines]).encode()).form.unused == {"#": "numbers that name something"}


def test_ids_are_groups_and_flags_codes_and_places_are_no_sensors() -> None:
    lines = ["ts,station_id,latitude,flag,code,temp"]
    for row in range(240):
        lines.append(f"2025-01-01T{row // 12:02d}:00:00Z,{101 + row % 12},{40 + row % 12 / 8},{row * 7 % 3 // 2},"
                     f"{1 + row * 11 % 5},{row * 37 % 101 / 4}")  # fmt: skip
    reading = read("\n".join(lines).encode())
    assert (reading.form.group, reading.form.sensors) == ("station_id", ("temp",))
    assert reading.groups == tuple(str(number) for number in range(101, 113))
    assert reading.form.unused == {"latitude": "a place", "flag": "flags or codes", "code": "flags or codes"}


def test_of_two_times_the_even_one_counts_and_two_even_ones_are_a_question() -> None:
    random = np.random.default_rng(2)
    lines = [
        f"2025-01-01T00:{row:02d}:{random.integers(60):02d}Z,2025-01-01T00:{row:02d}:00Z,{row**2}" for row in range(60)
    ]
    reading = read("\n".join(["created_at,measured_at,a", *lines]).encode())
    assert reading.form.time == "measured_at"
    assert "time is 'measured_at' and not created_at: its steps are even" in reading.form.notes
    lines = [f"2025-01-01T{row:02d}:00:00Z,2025-01-01T{row + 1:02d}:00:00Z,{row**2}" for row in range(20)]
    with pytest.raises(SettingsError, match=r"start, end all hold even times: .*--time 'start' or --time 'end'"):
        read("\n".join(["start,end,a", *lines]).encode())


def test_rows_that_share_a_time_untold_are_an_error() -> None:
    lines = ["date,a", *(f"2025-01-0{1 + row // 24},{row * row % 83}.5" for row in range(48))]
    with pytest.raises(SettingsError, match="46 of 48 rows repeat a time"):
        read("\n".join(lines).encode())


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_the_doubled_hour_is_kept_apart_by_the_order_of_the_rows(zone: str) -> None:
    start = (
        dt.datetime(2024, 10, 26, 22, tzinfo=dt.UTC)
        if zone.startswith("E")
        else dt.datetime(2024, 11, 3, tzinfo=dt.UTC)
    )
    moments = [start + dt.timedelta(minutes=15 * row) for row in range(60)]
    lines = [f"{each.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M},{row * row % 97}" for row, each in enumerate(moments)]
    content = "\n".join(["time,a", *lines]).encode()
    reading = read(content, timezone=zone)
    assert reading.times_ms.tolist() == [round(each.timestamp() * 1000) for each in moments]
    assert any("4 rows are of its second pass" in note for note in reading.form.notes)
    assert any("stamps go back by an hour" in note for note in read(content).form.notes)


@pytest.mark.parametrize(
    ("cells", "read_as"),
    [
        (["1.234"] * 900 + ["1.234,5"], [1234.0, 1234.5]),
        (["12\u00a0345", "1\u00a0234", "999"], [999.0, 1234.0, 12345.0]),
        (["1'234", "12'345,5"], [1234.0, 12345.5]),
        (["1,23,456", "12,345"], [12345.0, 123456.0]),
        (["5,0E+02", "1,2E+01"], [12.0, 500.0]),
        (["0,125", "1,250"], [0.125, 1.25]),
        (["\u22125", "3"], [-5.0, 3.0]),
    ],
)
def test_one_way_of_writing_numbers_holds_for_all_cells_of_a_column(cells: list[object], read_as: list[float]) -> None:
    assert np.unique(read(column(cells, separator=";")).values).tolist() == read_as


@pytest.mark.parametrize("cells", [["1,234", "2,345"], ["1.234", "2.345"], ["999", "1.001"], ["12.345", "999"]])
def test_numbers_that_fit_twice_are_a_question_with_both_values(cells: list[object]) -> None:
    with pytest.raises(SettingsError, match=r"may be [\d.]+ or [\d.]+, .* \(--decimal \. or --decimal ,\)"):
        read(column(cells, separator=";"))
    plain = [float(str(each).replace(",", ".")) for each in cells]
    decimal = "," if "," in str(cells[0]) else "."
    assert read(column(cells, separator=";"), decimal=decimal).values.tolist() == [plain]


def test_another_column_proves_the_decimal_sign() -> None:
    lines = ["time;a;b", *(f"2025-01-{day:02d};1.{234 + day * day};{day * day},5" for day in range(1, 20))]
    reading = read("\n".join(lines).encode())
    assert reading.values[0, 0] == 1235.0
    assert reading.form.numbers["a"].thousands == "."


def test_a_column_with_mostly_cells_that_are_no_numbers_is_left_out_with_a_reason() -> None:
    lines = ["time;a;b", *(f"2025-01-{day:02d};{day * day};{'-5-' if day % 2 else day}" for day in range(1, 20))]
    reading = read("\n".join(lines).encode())
    assert reading.form.sensors == ("a",)
    assert reading.form.unused["b"] == "mostly texts such as '-5-', beside 9 numbers"


@pytest.mark.parametrize(
    ("cells", "taken"),
    [
        ([-200 if row % 9 == 2 else each for row, each in enumerate(values(200, 2, 1479))], [-200]),
        ([-999.25] * 20 + values(180, 10, 150), [-999.25]),
        ([-9999, *values(180, 10, 150)], [-9999]),
        ([9999 if row % 9 == 2 else each for row, each in enumerate(values(200, -20, 35))], [9999]),
        ([-99 if row % 9 == 2 else each for row, each in enumerate(values(200, -20, 30))], [-99]),
        ([0 if row % 20 else 3.5 + row % 7 for row in range(200)], []),  # rain
        ([50 if 50 < row < 80 else 0 for row in range(200)], []),  # a switch
        ([0 if 50 < row < 80 else 50 + row % 2 for row in range(200)], []),  # one of three states
        ([row * 7 % 14 - 1 for row in range(200)], []),  # -1 degree
        ([975 + row * 7 % 47 for row in range(200)], []),  # 999 hectopascal
        ([0 if row % 24 < 10 else each for row, each in enumerate(values(200, 5, 900))], []),  # solar power
        ([9500 + row * 5 % 500 for row in range(200)] + [9999] * 4, []),  # a counter's top
        ([123_456_789 if row == 50 else each for row, each in enumerate(values(200, 1, 5))], []),  # a spike, once
    ],
)  # fmt: skip
def test_only_what_is_impossible_and_repeated_is_taken_as_no_value(cells: list[object], taken: list[float]) -> None:
    reading = read(column(cells))
    assert [each.value for each in reading.form.sentinels if each.taken] == taken
    assert 0.0 not in [each.value for each in reading.form.sentinels], "zeros may stand for no value"
    assert np.isnan(reading.values).sum() == sum(cells.count(each) for each in taken)


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ([0 if 50 < row < 80 else each for row, each in enumerate(values(200, 2, 4.5))], 0.0),
        ([-1 if row % 20 == 0 else each for row, each in enumerate(values(200, 1, 400))], -1.0),
    ],
)
def test_what_may_stand_for_no_value_is_reported_with_its_count_and_kept(cells: list[object], value: float) -> None:
    reading = read(column(cells))
    (found,) = reading.form.sentinels
    assert (found.value, found.count, found.taken) == (value, cells.count(value), False)
    assert f"state --missing 'a={value:g}'" in reading.form.notes[-1]
    assert np.isnan(read(column(cells), missing=[f"{value:g}"]).values).sum() == cells.count(value)


def test_a_line_of_units_with_a_1_above_the_readings_is_none_of_them() -> None:
    readings = [f"2025-01-{day:02d};{day**2};{day**3};{-(day**2)};{-(day**3)}" for day in range(1, 20)]
    reading = read("\n".join(["time;pump;fan;flow;level", ";m3;1;m;kPa", *readings]).encode())
    assert reading.form.sensors == ("pump", "fan", "flow", "level")
    assert "units in the line below the names" in reading.form.notes


def test_words_for_no_value_are_noticed_by_column() -> None:
    reading = read(column(["Bad" if row in (0, 3) else row * row for row in range(20)]))
    assert reading.form.words == {"a": ("Bad",)}
    assert np.isnan(reading.values).sum() == 2


def test_duplicates_and_rows_out_of_order_are_counted() -> None:
    order = [0, 1, 2, 2, 5, 3, 4, 6, 7, 8, 9]
    lines = [f"2025-01-01T00:{minute:02d}:00Z,{minute * minute}.5" for minute in order]
    form = read("\n".join(["ts,a", *lines]).encode()).form
    assert (form.duplicates, form.out_of_order, form.lateness_ms, form.step_ms) == (1, 2, 120_000, 60_000)


def test_the_kind_is_told_by_content(tmp_path: Path) -> None:
    plain = stamped("%Y-%m-%d %H:%M", 20)
    path = tmp_path / "zipped.csv"
    path.write_bytes(gzip.compress(plain))
    assert read(path).form.compression == "gzip"
    table = pa.table({"ts": pa.array([0, 60_000, 120_000], pa.timestamp("ms", "UTC")), "a": [1.5, None, 4.0]})
    for write in (pa.ipc.new_file, pa.ipc.new_stream):
        sink = pa.BufferOutputStream()
        with write(sink, table.schema) as writer:
            writer.write_table(table)
        assert read(sink.getvalue().to_pybytes()).form.kind == "arrow"
    lines = "".join(f'{{"ts":"2025-01-01T00:{row:02d}:00Z","values":{{"a":{row * row}.5}}}}\n' for row in range(9))
    reading = read(lines.encode())
    assert (reading.form.kind, reading.form.sensors) == ("jsonl", ("a",))
    for data, reason in ((b"PK\x03\x04", "Excel"), (bytes(range(256)) * 9, "binary"), (b"", "empty")):
        with pytest.raises(SettingsError, match=reason):
            read(data)


def test_preambles_comments_units_and_footers_are_no_readings() -> None:
    lines = ["Station: 7;", "Owner;A;B", "", "# made by a logger", "Zeit;Fluss;Druck", ";m³/h;bar"]
    lines += [f"{1 + row // 24:02d}.03.2025 {row % 24:02d}:00;{row * row},5;{row % 7},25" for row in range(48)]
    lines[20:20] = ["# battery changed"]
    reading = read("\r\n".join([*lines, "end of file", ""]).encode("latin-1"))
    form = reading.form
    assert form.text is not None
    assert (form.text.header_line, form.text.encoding, form.text.newline) == (4, "latin-1", "\r\n")
    assert (form.units, form.text.footer, reading.rows) == ({"Fluss": "m³/h", "Druck": "bar"}, ("end of file",), 48)
    assert reading.line_of_row is not None
    assert lines[int(reading.line_of_row[30])].startswith("02.03.2025 06:00")


@pytest.mark.parametrize("line", ["a,b", 'x,"1,5",', '"a ""b""",2 , 3', "", '5" pipe,3'])
def test_raw_cells_joined_are_the_line(line: str) -> None:
    assert ",".join(raw_cells(line, ",")) == line


def test_a_form_that_was_found_out_is_kept_for_the_next_file() -> None:
    first = read(air_quality())
    later = air_quality().splitlines(keepends=True)
    part = b"".join([later[0], *later[8:20]])
    reading = read(part, first.form)
    assert reading.form.sensors == first.form.sensors
    assert not (reading.values == -200).any()


def test_rows_without_a_time_are_marked() -> None:
    reading = read(b"ts,a\n2025-01-01T00:00:00Z,1.5\n,2.5\n2025-01-01T00:02:00Z,7.5\n")
    assert (reading.times_ms == NO_TIME).tolist() == [False, True, False]


def test_what_stands_for_no_value_is_never_sent_as_a_reading(tmp_path: Path) -> None:
    path = tmp_path / "AirQualityUCI.csv"
    path.write_bytes(air_quality())
    source = read_source(path)
    assert source.groups == ["AirQualityUCI"]
    assert source.value.min() > -200
    assert (len(source), source.gaps) == (4 * 240 - 51, 51)


@pytest.mark.parametrize(
    "line", [b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"]
)
def test_json_whose_objects_lie_too_deep_is_a_sentence(line: bytes) -> None:
    with pytest.raises(SettingsError, match="line 2 has objects or lists inside one another more than 100 times"):
        read(b'{"t":1}\n' + line, name="deep.jsonl")


def test_brackets_in_text_and_many_shallow_objects_are_not_deep() -> None:
    rows = [{"ts": f"2024-01-01T00:{minute:02}:00", "a": minute + 0.5, "note": "{" * 300} for minute in range(60)]
    found = read("\n".join(map(json.dumps, rows)).encode(), name="text.jsonl")
    assert found.rows == 60
    assert read(json.dumps(rows).encode(), name="array.json").rows == 60


@pytest.mark.filterwarnings("error")
def test_json_lines_with_nan_and_infinity_are_holes_and_warn_of_nothing() -> None:
    odd = {7: "NaN", 8: "Infinity", 9: "-Infinity"}
    rows = [f'{{"ts": "2026-03-01T00:{minute:02}:00Z", "a": {odd.get(minute, minute + 0.5)}}}' for minute in range(60)]
    found = read("\n".join(rows).encode(), name="gateway.jsonl")
    assert np.flatnonzero(~np.isfinite(found.values[0])).tolist() == [7, 8, 9]


@pytest.mark.filterwarnings("error")
def test_seconds_with_nan_among_them_are_times() -> None:
    rows = [f'{{"ts": {"NaN" if row == 7 else 1_767_225_600.5 + row}, "a": {row}.5}}' for row in range(60)]
    found = read("\n".join(rows).encode(), name="gateway.jsonl")
    assert np.flatnonzero(found.times_ms == NO_TIME).tolist() == [7]
    assert found.times_ms[8] == 1_767_225_608_500
