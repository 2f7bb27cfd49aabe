"""Tables as loggers write them: repeated lines of names, two tables, tables about the place, times in odd signs."""

from pathlib import Path

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms
from glaim_stream.files import read
from tests.command_line import call


def minutes(first: int, count: int, *, line: str = "2026-03-02 {hour:02d}:{minute:02d}:00,{at},{half}") -> list[str]:
    """Rows of a table, a minute apart."""
    return [
        line.format(hour=at // 60, minute=at % 60, at=(at * 37) % 80, half=at / 2, epoch=1_772_409_600 + 60 * at)
        for at in range(first, first + count)
    ]


def shaped(*parts: list[str]) -> bytes:
    return "\n".join([line for part in parts for line in part] + [""]).encode()


def test_a_repeated_line_of_names_is_no_row_and_stays_in_the_filled_file(tmp_path: Path) -> None:
    head = ["logger 7,,", "time,a,b", "s,degC,V"]
    rows = [line.replace(",70,", ",,") if at == 30 else line for at, line in enumerate(minutes(0, 60))]
    source = tmp_path / "in.csv"
    source.write_bytes(shaped(head, rows[:20], head, rows[20:]))
    reading = read(source)
    assert (reading.rows, reading.form.untimed, reading.form.sensors) == (60, 0, ("a", "b"))
    assert "1 lines among the readings repeat the names of the columns, first line 25" in reading.form.notes
    done = call("fill", str(source), "--out", str(tmp_path / "out.csv"), environment={})
    assert done.returncode == 0, done.stderr
    before, after = source.read_text().splitlines(), (tmp_path / "out.csv").read_text().splitlines()
    assert [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new] == [36]


@pytest.mark.parametrize("names", ["time,energy,b", "Date;Power", "time,b,a", "when,power,flow", "day,total"])
@pytest.mark.parametrize("blank", [[], [""]])
def test_a_second_table_is_refused_by_its_line(names: str, blank: list[str]) -> None:
    second = names.replace(";", ",") + "," * (2 - names.replace(";", ",").count(","))
    data = shaped(["time,a,b"], minutes(0, 40), blank, [second], minutes(0, 40))
    with pytest.raises(SettingsError, match=f"found a second line of names in line {42 + len(blank)}"):
        read(data)


def test_the_same_times_below_repeated_names_are_another_device() -> None:
    data = shaped(["time,a,b"], minutes(0, 40), ["time,a,b"], minutes(0, 40))
    with pytest.raises(SettingsError, match="the names of the columns are repeated above line 43"):
        read(data)


def test_exports_joined_in_any_order_are_one_table() -> None:
    data = shaped(["time,a,b"], minutes(40, 40), ["time,a,b"], minutes(0, 40))
    assert (read(data).rows, read(data).form.duplicates) == (80, 0)


def test_words_in_the_cells_of_a_row_without_a_time_are_no_second_table() -> None:
    data = shaped(["time,a,state"], minutes(0, 30, line="2026-03-02 {hour:02d}:{minute:02d}:00,{at},on"), [",,off"],
                  minutes(30, 30, line="2026-03-02 {hour:02d}:{minute:02d}:00,{at},off"))  # fmt: skip
    assert read(data).form.untimed == 1


@pytest.mark.parametrize("places", [1, 2])
def test_the_names_stand_below_a_table_about_the_place(places: int) -> None:
    about = ["Name;Long;Lat;Module;Type", *(["Indoor;2.0;48.0;Indoor;Base"] * places)]
    line = "{epoch};2026/03/02 {hour:02d}:{minute:02d}:00;{half};50;{at}"
    reading = read(shaped(about, ["Timestamp;Local;Temperature;Humidity;CO2"], minutes(0, 60, line=line)))
    assert reading.form.time == "Timestamp"
    assert reading.form.sensors[0] == "Temperature"
    assert reading.rows == 60


def test_repeated_names_are_numbered_and_can_be_chosen() -> None:
    data = shaped(
        ["time,Temp,Hi,Temp,Hi,Hi_2"], minutes(0, 40, line="2026-03-02 {hour:02d}:{minute:02d},{at},1.5,{half},2.5,3.5")
    )
    form = read(data).form
    assert {"Temp", "Temp_2", "Hi", "Hi_3", "Hi_2"} == {*form.sensors, *form.unused}
    assert "2 columns are named 'Temp': the others are called Temp_2, from left to right" in form.notes
    chosen = read(data, sensors=("Temp_2",))
    assert chosen.form.sensors == ("Temp_2",)
    assert float(np.nanmax(chosen.values)) == 19.5


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u2009"])
def test_no_break_spaces_in_times_are_blanks(blank: str) -> None:
    line = "2026-03-02 {hour:02d}:{minute:02d}:00 to 2026-03-02 {hour:02d}:{minute:02d}:59,{at},{half}"
    data = shaped(["period,a,b"], [row.replace(" ", blank) for row in minutes(0, 60, line=line)])
    assert text_of_ms(read(data).form.last_ms) == "2026-03-02T00:59:00Z"


def test_stamps_closer_than_a_millisecond_are_refused_with_this_cause() -> None:
    rows = [f"2026-02-24 18:15:21.{499_998_208 + 20_000 * at:09d},{(at * 37) % 80}" for at in range(80)]
    with pytest.raises(
        SettingsError, match="expected steps of a millisecond or more, found stamps that differ by less"
    ):
        read(shaped(["time,v"], rows))
    rows = [f"{1772452800_000_000 + 100 * at},{(at * 37) % 80}" for at in range(80)]
    with pytest.raises(SettingsError, match="expected steps of a millisecond or more"):
        read(shaped(["time_us,v"], rows))


def test_microseconds_behind_seconds_are_read() -> None:
    rows = [f"2026-02-24 18:{at:02d}:21.{(at * 7919) % 1_000_000:06d},{(at * 37) % 60}" for at in range(60)]
    assert read(shaped(["time,v"], rows)).form.duplicates == 0


@pytest.mark.parametrize("names", ["date,hour,a", "date,Hour (PST),a", "year,month,day,hour,a"])
def test_decimal_hours_are_hours(names: str) -> None:
    date = "2026,3,2" if names.startswith("year") else "2026-03-02"
    rows = [f"{date},{at / 4},{(at * 37) % 96}" for at in range(96)]
    form = read(shaped([names], rows)).form
    assert (form.step_ms, text_of_ms(form.last_ms), form.sensors) == (900_000, "2026-03-02T23:45:00Z", ("a",))


@pytest.mark.parametrize(
    ("name", "first"),
    [("Date Time, GMT-06:00", "06:00"), ("Time (UTC+1)", "23:00"), ("Time GMT+05:30", "18:30"), ("Time UTC", "00:00")],
)
def test_zones_in_the_name_of_the_time_are_applied(name: str, first: str) -> None:
    data = shaped([f'"{name}",a,b'], minutes(0, 60))
    form = read(data).form
    assert text_of_ms(form.first_ms)[11:16] == first
    assert any("states the zone of its times" in note for note in form.notes) == (first != "00:00")
    assert text_of_ms(read(data, timezone="Europe/Berlin").form.first_ms) == "2026-03-01T23:00:00Z"


def test_names_stand_below_a_line_with_a_date_of_the_export() -> None:
    head = ["Glucose Data,Generated on,03-02-2026 10:00 UTC", "Device Timestamp,Historic,Other"]
    assert read(shaped(head, minutes(0, 60))).form.sensors == ("Historic", "Other")


@pytest.mark.parametrize("timezone", [None, "Europe/Berlin"])
def test_a_clock_that_jumps_ahead_and_back_is_said_and_no_zone_is_advised(timezone: str | None) -> None:
    """On the last Sunday of October, where a doubled hour is near."""
    moments = [at if at < 30 or at >= 90 else at + 60 for at in range(400)]
    rows = [f"2026-10-25 {10 + at // 60:02d}:{at % 60:02d}:00,{(at * 37) % 80}" for at in moments]
    notes = read(shaped(["time,a"], rows), timezone=timezone).form.notes
    said = [
        note for note in notes if "the clock jumps ahead to 2026-10-25T11:30:00 and from 2026-10-25T12:29:00" in note
    ]
    assert len(said) == 1
    assert "60 rows in between" in said[0]
    assert not any("--timezone" in note for note in notes)


def test_other_units_below_repeated_names_are_refused_by_their_line() -> None:
    data = shaped(["time,a,b", ",degC,V"], minutes(0, 40), ["time,a,b", ",degF,V"], minutes(40, 40))
    with pytest.raises(SettingsError, match="found a second line of names in line 44: ',degF,V'"):
        read(data)


def test_the_cell_that_is_no_time_is_named() -> None:
    data = shaped(["time,a,b"], minutes(0, 60), ["Min,1,2", "Max,3,4"])
    with pytest.raises(SettingsError, match="found Min"):
        read(data)


def test_a_column_for_each_hour_of_a_day_is_refused() -> None:
    head = "date," + ",".join(f"{hour:02d}:00" for hour in range(24))
    days = [
        f"2026-03-{day:02d}," + ",".join(str((37 * day + 11 * hour) % 80) for hour in range(24)) for day in range(1, 29)
    ]
    with pytest.raises(SettingsError, match="found columns named by times of the day, such as '00:00' and '01:00'"):
        read(shaped([head], days))
    assert read(shaped([head], days), sensors=["00:00", "12:00"]).form.sensors == ("00:00", "12:00")


def test_units_of_the_sensors_of_a_long_file_are_no_groups() -> None:
    units = {"pm25": "ug/m3", "no2": "ppb", "o3": "ppb"}
    lines = [
        f"{site},{name},{5 + hour % 7}.{hour % 3},{unit},2026-03-02T{hour:02d}:00:00Z"
        for hour in range(24) for site in ("Hill", "Dale") for name, unit in units.items()
    ]  # fmt: skip
    head = "location_name,parameter,value,units,datetimeUtc"
    both = read("\n".join([head, *lines]).encode(), name="a.csv")
    assert (both.groups, both.form.sensors) == (("Hill", "Dale"), ("pm25", "no2", "o3"))
    one = read("\n".join([head, *lines[0::6], *lines[1::6], *lines[2::6]]).encode(), name="a.csv")
    assert (one.groups, one.form.sensors) == ((), ("pm25", "no2", "o3"))
    lines = [f"{hour}.5,{unit},2026-03-02T{hour:02d}:00:00Z" for hour in range(24) for unit in ("m1", "m2")]
    machines = read("\n".join(["temp,unit,time", *lines]).encode(), name="a.csv")
    assert machines.groups == ("m1", "m2") or machines.form.sensors == ("m1", "m2")
