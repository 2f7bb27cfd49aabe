"""The guessed layout of a file: the guesses, their report, and the ambiguous cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from glaim_stream.files import read
from tests.data_sets import DATA_SETS
from training.autoconfig.layout import Guess, guess
from training.data import DataSpec, load
from training.data.tables import read_table
from training.errors import DataError


def guess_layout(text: str, tmp_path: Path, given: DataSpec | None = None, stated: tuple[str, ...] = ()) -> Guess:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return guess(read_table(path), path, given or DataSpec(), stated)


WIDE = (
    "no,when,flow,state,dead,level\n1,2026-01-01 00:00,1.5,ok,,3\n"
    "2,2026-01-01 00:01,,ok,,4\n3,2026-01-01 00:02,2,bad,,9\n"
)


def test_a_wide_file_is_read_without_any_setting(tmp_path: Path) -> None:
    found = guess_layout(WIDE, tmp_path)
    assert (found.spec.time, found.spec.layout, found.spec.group_name) == ("when", "wide", "mine")
    assert found.spec.sensors == ("flow", "level")
    assert found.messages == (
        "time is column 'when'",
        "wide: a row a time, a column a sensor, one group named 'mine'",
        "left out: no (counts the rows)",
        "left out: state (no numbers)",
        "left out: dead (no value at all)",
    )
    assert found.warnings == ()


def test_stated_settings_are_never_changed(tmp_path: Path) -> None:
    given = DataSpec(time="when", sensors=("flow",), group_name="pump-1", layout="wide")
    found = guess_layout(WIDE, tmp_path, given, ("time", "sensors", "group_name", "layout"))
    assert (found.spec, found.messages) == (given, ())


def test_columns_of_groups_and_sensors_are_recognised_only_when_complete(tmp_path: Path) -> None:
    rows = "2026-01-01T00:00:00Z,1,2,3,4\n2026-01-01T00:01:00Z,2,3,4,9\n2026-01-01T00:02:00Z,2,3,7,5\n"
    assert guess_layout("t,p.x,p.y.z,q.x,q.y.z\n" + rows, tmp_path).spec.separator == "."
    assert guess_layout("t,p.x,p.y,q.x,q.z\n" + rows, tmp_path).spec.separator == ""
    assert (
        guess_layout("t,p.x,p.y,p.z,p.w\n" + rows, tmp_path).spec.separator == ""
    )  # one group: dots are part of names


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("ts,sensor,value", {"layout": "long", "sensor": "sensor", "value": "value", "group": ""}),
        ("ts,which,amount", {"layout": "long", "sensor": "which", "value": "amount", "group": ""}),
    ],
)
def test_one_reading_per_row_is_a_long_table(tmp_path: Path, header: str, expected: dict[str, str]) -> None:
    text = f"{header}\n2026-01-01,a,1\n2026-01-01,b,2\n2026-01-02,a,3\n2026-01-02,b,4\n"
    found = guess_layout(text, tmp_path).spec
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_long_table_of_several_groups(tmp_path: Path) -> None:
    rows = [f"2026-01-0{d},{g},{s},{d}.5" for d in (1, 2) for g in ("p", "q") for s in ("x", "y")]
    found = guess_layout("\n".join(["time,station,tag,reading", *rows]), tmp_path).spec
    assert (found.layout, found.group, found.sensor, found.value) == ("long", "station", "tag", "reading")
    with pytest.raises(DataError, match="station, what distinguish the rows of a time"):
        guess_layout("\n".join(["time,station,what,reading", *rows]), tmp_path)


def test_rows_per_time_and_group_are_not_merged_into_one_group(tmp_path: Path) -> None:
    text = "time,pump,flow,level\n2026-01-01,p,1,7\n2026-01-01,q,2,7\n2026-01-02,p,3,8\n2026-01-02,q,4,9\n"
    found = guess_layout(text, tmp_path)
    assert (found.spec.layout, found.spec.group) == ("wide", "pump")
    assert found.messages[1] == "wide: a row a time and group; group is 'pump', a column a sensor"


def test_sensors_with_clocks_of_their_own_are_a_long_table(tmp_path: Path) -> None:
    rows = [
        f"sensor.{name},{level + row % 7},2026-01-01T{row // 6:02d}:{row % 6}0:{second:02d}Z"
        for second, (name, level) in enumerate((("indoors", 20.5), ("cellar", 800.5)))
        for row in range(60)
    ]
    spec = guess_layout("\n".join(["entity_id,state,last_changed", *rows, ""]), tmp_path).spec
    assert (spec.layout, spec.sensor, spec.value) == ("long", "entity_id", "state")


def test_a_text_column_beside_repeated_times_is_no_group_column(tmp_path: Path) -> None:
    text = "time,state,flow\n2026-01-01,ok,1\n2026-01-01,ok,2\n2026-01-02,bad,3\n"
    assert guess_layout(text, tmp_path).spec.group == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,4\n", "expected a column of times .* found columns a, b; where each row is a step"),
        ("ts,b\n1/2/2026,2\n1/3/2026,4\n", "column 'ts': .* say which with --date-order dmy or mdy"),
        ("ts,b\n2026-01-01,x\n2026-01-02,y\n", "expected columns of numbers"),
        ("2026-01-01,2\n2026-01-02,3\n", "expected a line with the names of the columns .* found '2026-01-01,2' first"),
    ],
)
def test_an_ambiguous_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        guess_layout(text, tmp_path)


def test_an_unusual_date_order_is_reported_with_an_example(tmp_path: Path) -> None:
    found = guess_layout("when,a\n1/2/2026 7:05,2\n1/13/2026 7:05,4\n", tmp_path)
    assert found.messages[:2] == (
        "time is column 'when'",
        "its first time is 2026-01-02T07:05:00Z, read as month, day, year",
    )
    assert (
        "its first time is 2026-01-01T00:00:00Z, read as seconds"
        in guess_layout("n,b\n1767225600,2\n1767225660,4\n", tmp_path).messages[1]
    )
    given = DataSpec(date_order="dmy")
    assert (
        "is 2026-02-01"
        in guess_layout("when,a\n1/2/2026,2\n1/3/2026,4\n", tmp_path, given, ("date_order",)).messages[1]
    )


@pytest.mark.parametrize(
    "rows",
    [
        "2026-01-01,00:00:00,2\n2026-01-01,00:01:00,4\n2026-01-02,00:00:00,4\n",  # a date and a time of day
        "31.12.2025,0:00,2\n31.12.2025,0:01,4\n1.1.2026,0:00,4\n",
        "12/31/2025,1:00 AM,2\n12/31/2025,1:01 AM,4\n1/1/2026,1:00 AM,4\n",
    ],
)
def test_a_date_column_and_a_time_of_day_column_are_one_time(tmp_path: Path, rows: str) -> None:
    found = guess_layout("day,clock,a\n" + rows, tmp_path)
    assert (found.spec.time, found.spec.layout) == ("day+clock", "wide")
    assert found.messages[0] == "time is column 'day+clock'"
    assert not any("left out" in line for line in found.messages)


def test_a_column_that_counts_the_rows_may_have_no_name(tmp_path: Path) -> None:
    found = guess_layout(",ts,a,b\n0,2026-01-01,5,1\n1,2026-01-02,7,1\n2,2026-01-03,2,3\n", tmp_path)
    assert found.spec.sensors == ("a", "b")
    assert found.messages[-1] == "left out: index (counts the rows)"


def test_epoch_milliseconds_are_times_and_other_whole_numbers_are_not(tmp_path: Path) -> None:
    text = "count,ts,b\n5,1767225600000,2\n7,1767225660000,4\n"
    assert guess_layout(text, tmp_path).spec.time == "ts"
    assert guess_layout("count,time,b\n5,1767225600,2\n7,1767225660,4\n", tmp_path).spec.time == "time"
    counter = "energy,when,b\n2000000000,1.1.2026,2\n2000000009,2.1.2026,4\n"
    assert (
        guess_layout(counter, tmp_path).spec.time == "when"
    )  # a large counter is not taken for a time if there is a time column


def test_a_number_that_surely_stands_for_no_value_is_declared_and_reported(tmp_path: Path) -> None:
    rows = [f"2026-01-01 00:0{i},{20 + i},{-9999 if i in (3, 5) else i},{9999 + i},{-99 + i}" for i in range(9)]
    text = "\n".join(["time,a,b,near,low", *rows])
    found = guess_layout(text, tmp_path)
    assert found.messages[-1] == "-9999 stands 2 times in 'b'; the next value above is 0: taken as no value"
    assert found.spec.sensor_sentinels == {"b": (-9999.0,)}
    assert found.warnings == ()


def test_a_number_that_may_stand_for_no_value_is_reported_and_kept(tmp_path: Path) -> None:
    rows = [f"2026-01-01 00:{i:02d},{-1 if i % 9 == 4 else 300 + i * i % 97}" for i in range(60)]
    found = guess_layout("\n".join(["time,a", *rows]), tmp_path)
    assert found.warnings == (
        "-1 stands 7 times in 'a'; the next value above is 300: kept as a reading; if it stands for no value, state "
        "--missing -1",
    )
    assert found.spec.sensor_sentinels == {}
    text = "\n".join(["time,b", *(f"2026-01-01 00:0{i},{-9999 if i in (3, 5) else i}" for i in range(9))])
    declared = DataSpec(sensor_sentinels={"b": (-9999.0,)})
    assert guess_layout(text, tmp_path, declared, ("sensor_sentinels",)).warnings == ()
    assert guess_layout(text, tmp_path, DataSpec(sentinels=(-9999.0,)), ("sentinels",)).warnings == ()


@pytest.mark.parametrize(
    ("name", "time", "separator", "warned"),
    [
        ("ETTh1.csv", "date", "", 0),
        ("exchange_rate.csv", "date", "", 0),
        ("national_illness.csv", "date", "", 0),
        ("weather.csv", "date", "", 0),
        ("beijing_multisite.parquet", "ts", ".", 0),
    ],
)
def test_the_layouts_of_the_public_data_sets_are_recognised(name: str, time: str, separator: str, warned: int) -> None:
    path = DATA_SETS / name
    if not path.is_file():
        pytest.skip(f"no {name} in the folder that GLAIM_DATA names")
    found = guess(read_table(path), path, DataSpec(), ())
    assert (found.spec.time, found.spec.layout, found.spec.separator) == (time, "wide", separator)
    assert len(found.warnings) == warned


def test_change_of_value_events_are_a_long_table() -> None:
    path = DATA_SETS / "housezero_alldata_events.parquet"
    if not path.is_file():
        pytest.skip(f"no {path.name} in the folder that GLAIM_DATA names")
    found = guess(read_table(path), path, DataSpec(), ()).spec
    assert (found.time, found.layout, found.sensor, found.value) == ("ts", "long", "sensor", "value")


def test_parts_of_a_date_in_columns_of_numbers_are_the_time_and_no_sensors() -> None:
    path = Path(__file__).parents[2] / "files" / "made_files" / "psm3_form.csv"
    found = guess(read_table(path), path, DataSpec(), ())
    assert found.spec.time == "Year+Month+Day+Hour+Minute"
    assert found.spec.sensors == ("DHI", "DNI", "GHI", "Dew Point", "Temperature", "Pressure", "Wind Speed")
    assert load(found.spec, path).step_s == 3600


@pytest.mark.parametrize("name", ["psm3_5min.csv", "rmis_weather.csv", "serf_west.csv"])
def test_a_time_column_without_a_name_is_a_time_column(name: str) -> None:
    """The rows are no steps of their own, and parts of the date beside it are no sensors."""
    path = Path(__file__).parents[2] / "files" / "real_files" / name
    found = guess(read_table(path), path, DataSpec(), ())
    form = read(path).form
    assert found.spec.time == form.time == "index"
    series = load(found.spec, path)
    assert series.sensors == form.sensors
    assert series.step_s * 1000 == form.step_ms
