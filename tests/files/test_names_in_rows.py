"""Names in a column tell series apart, also where each series has a clock of its own; times of day are no names."""

import datetime as dt
import io
import zoneinfo
from collections.abc import Callable
from itertools import chain

import numpy as np
import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms
from glaim_stream.files.read import read
from glaim_stream.tables import cells_of, fill_cells, open_file, write

START = dt.datetime(2025, 3, 1)
QUARTER = dt.timedelta(minutes=15)
ROWS = 200
LEVELS = {"sensor.temperature": 12.0, "sensor.humidity": 70.0, "sensor.pressure": 1013.0}


def late(row: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=1 + row * row * 37 % 401)


def history(*, in_blocks: bool, named: str = "entity_id", value: str = "state") -> bytes:
    """Three sensors that report a second after each other, a few milliseconds late, as home automation exports it."""
    series = [
        [
            f"{sensor},{'unavailable' if row % 17 == place else round(level + np.sin(row / 9 + place), 2)},"
            f"{(START + QUARTER * row + late(row) + dt.timedelta(seconds=3 + place)).isoformat()}Z"
            for row in range(ROWS)
        ]
        for place, (sensor, level) in enumerate(LEVELS.items())
    ]
    lines = chain(*series) if in_blocks else chain(*zip(*series, strict=True))
    return "\n".join([f"{named},{value},last_changed", *lines, ""]).encode()


@pytest.mark.parametrize("in_blocks", [True, False], ids=["one sensor below the other", "in order of time"])
def test_sensors_with_clocks_of_their_own_are_told_apart(in_blocks: bool) -> None:
    reading = read(history(in_blocks=in_blocks))
    form = reading.form
    assert (form.layout, form.sensor, form.value, form.sensors) == ("long", "entity_id", "state", (*LEVELS,))
    assert (form.step_ms, form.out_of_order, form.words["state"]) == (900_000, 0, ("unavailable",))
    assert reading.sensor_of_row is not None
    for place, level in enumerate(LEVELS.values()):
        assert abs(float(np.nanmean(reading.values[0][reading.sensor_of_row == place])) - level) < 0.2


@pytest.mark.parametrize("in_blocks", [True, False])
def test_their_holes_are_filled_on_a_step_of_one_sensor(in_blocks: bool) -> None:
    cells = cells_of(open_file("history.csv", history(in_blocks=in_blocks)))
    outcome = fill_cells(cells)
    assert {grid.step_ms for grid in outcome.grids} == {900_000}
    assert (outcome.missing_rows, outcome.left) == (0, {})
    (column,) = outcome.columns
    for place, level in enumerate(LEVELS.values()):
        filled = column.value[cells.columns[0].hole & (cells.columns[0].sensor == place)]
        assert len(filled) == len(range(place, ROWS, 17))
        assert np.abs(filled - level).max() < 1.5


def test_groups_in_blocks_are_told_apart_by_any_name() -> None:
    blocks = [
        [
            f"{START + QUARTER * row + dt.timedelta(seconds=7 * place)},{where},{row % 7},{row % 5 + 0.5}"
            for row in range(60)
        ]
        for place, where in enumerate(("north", "south"))
    ]
    form = read("\n".join(["time,where,a,b", *chain(*blocks)]).encode()).form
    assert (form.layout, form.group, form.sensors, form.step_ms) == ("wide", "where", ("a", "b"), 900_000)


@pytest.mark.parametrize(
    "name_of",
    [lambda row: ("early", "late", "night")[row // 32 % 3], lambda row: ("N", "E", "S", "W")[row * 7919 % 4]],
    ids=["shifts", "directions"],
)
def test_a_category_beside_even_times_is_no_group(name_of: Callable[[int], str]) -> None:
    lines = [f"{START + QUARTER * row},{name_of(row)},{row % 7 + 0.5}" for row in range(ROWS)]
    form = read("\n".join(["time,operator,flow", *lines]).encode()).form
    assert (form.group, form.sensor, form.sensors, form.step_ms) == ("", "", ("flow",), 900_000)


def test_states_with_steps_of_their_own_are_no_groups() -> None:
    """A machine that is sampled once a second while it runs, and once a minute while it stands."""
    time, lines = START, []
    for row in range(600):
        running = row // 60 % 2 == 0
        lines.append(f"{time},{'run' if running else 'stop'},{row % 7 + 0.5}")
        time += dt.timedelta(seconds=1 if running else 60)
    form = read("\n".join(["time,state,current", *lines]).encode()).form
    assert (form.layout, form.group, form.sensors) == ("wide", "", ("current",))


def test_a_category_in_a_file_that_is_out_of_order_is_no_group() -> None:
    rows = [*range(100, ROWS), *range(100)]  # two halves in the wrong order, the name changes within each
    lines = [f"{START + QUARTER * row},{'early' if row // 32 % 2 else 'late'},{row % 7 + 0.5}" for row in rows]
    form = read("\n".join(["time,operator,flow", *lines]).encode()).form
    assert (form.group, form.sensors, form.out_of_order) == ("", ("flow",), 100)


def clocked(clock: Callable[[dt.datetime], str]) -> bytes:
    times = [START + QUARTER * row for row in range(5 * 96)]
    lines = [f"{time.month}/{time:%d/%y}\t{clock(time)}\t{time.hour / 8}" for time in times]
    return "\n".join(["Date\tTime\tOut", *lines, ""]).encode()


@pytest.mark.parametrize("mark", ["a", "A", " a", " AM", "a.m."])
def test_a_clock_of_twelve_hours_may_have_one_letter(mark: str) -> None:
    afternoon = mark.replace("a", "p").replace("A", "P")
    reading = read(clocked(lambda time: f"{time.hour % 12 or 12}:{time:%M}{afternoon if time.hour >= 12 else mark}"))
    form = reading.form
    assert (form.time, form.group, form.step_ms) == ("Date+Time", "", 900_000)
    assert (text_of_ms(form.first_ms), text_of_ms(form.last_ms)) == ("2025-03-01T00:00:00Z", "2025-03-05T23:45:00Z")


def test_times_of_day_that_cannot_be_read_are_no_groups() -> None:
    with pytest.raises(
        SettingsError, match=r"""'Time', which looks like a time of day .*\(found "0:00 o'clock"\).*--group"""
    ):
        read(clocked(lambda time: f"{time.hour}:{time:%M} o'clock"))
    assert read(clocked(lambda time: f"{time.hour}:{time:%M} o'clock"), group="Time").form.group == "Time"


@pytest.mark.parametrize("dash", ["-", "–", "to", "bis"])
def test_an_interval_counts_from_its_start(dash: str) -> None:
    times = [START + QUARTER * row for row in range(ROWS)]
    lines = [f"{time:%d.%m.%Y %H:%M} {dash} {time + QUARTER:%d.%m.%Y %H:%M},{time.hour}.5" for time in times]
    form = read("\n".join(["MTU (UTC),load", *lines, ""]).encode()).form
    assert (form.time, form.date_order, text_of_ms(form.first_ms)) == ("MTU (UTC)", "dmy", "2025-03-01T00:00:00Z")
    assert text_of_ms(form.last_ms) == text_of_ms(int(times[-1].replace(tzinfo=dt.UTC).timestamp() * 1000))


def test_a_zone_behind_a_dash_is_no_interval() -> None:
    lines = [f"{START + QUARTER * row} -05:00,{row % 7}.5" for row in range(ROWS)]
    assert text_of_ms(read("\n".join(["time,a", *lines]).encode()).form.first_ms) == "2025-03-01T05:00:00Z"


def test_a_clock_without_its_halves_is_refused() -> None:
    times = [START + QUARTER * row for row in range(ROWS)]
    lines = [f"{time:%Y-%m-%d %I:%M},{time.hour}.5" for time in times]
    with pytest.raises(SettingsError, match=r"hours are 1 to 12 and run back .* AM and PM"):
        read("\n".join(["time,load", *lines]).encode())


def test_office_hours_are_no_clock_of_twelve_hours() -> None:
    lines = [f"2025-03-{1 + row // 12:02d} {1 + row % 12:02d}:00,{row % 7}.5" for row in range(12 * 20)]
    assert read("\n".join(["time,a", *lines]).encode()).form.out_of_order == 0


def test_a_column_of_zones_belongs_to_the_times() -> None:
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    first = dt.datetime(2025, 10, 25, tzinfo=dt.UTC)
    moments = [(first + QUARTER * row).astimezone(berlin) for row in range(ROWS)]
    lines = [f"{moment:%Y-%m-%d %H:%M,%Z},{row % 7}.5" for row, moment in enumerate(moments)]
    reading = read("\n".join(["time,zone,a", *lines]).encode())
    assert (reading.form.group, reading.form.duplicates, reading.form.zone) == ("", 0, "zone")
    assert np.array_equal(reading.times_ms, [round(moment.timestamp() * 1000) for moment in moments])


def test_rows_are_not_inserted_without_their_zone() -> None:
    lines = [f"{START + QUARTER * row},EST,{row % 7}.5" for row in range(ROWS) if row != 50]
    file = open_file("a.csv", "\n".join(["time,tz_cd,a", *lines, ""]).encode())
    cells = cells_of(file)
    with pytest.raises(SettingsError, match="'tz_cd' states the zone of each row"):
        write(file, cells, fill_cells(cells), io.BytesIO(), insert_rows=True)


def test_newest_first_is_no_end_of_summer_time() -> None:
    lines = [f"{START + QUARTER * row},{row % 7}.5" for row in reversed(range(ROWS))]  # over a night to Sunday, March 2
    assert not [note for note in read("\n".join(["time,a", *lines]).encode()).form.notes if "summer" in note]


@pytest.mark.parametrize(("name", "unit"), [("Time (s)", "s"), ("t [ms]", "ms"), ("Elapsed", ""), ("time", "")])
def test_times_since_a_start_are_steps(name: str, unit: str) -> None:
    lines = [f"{row * 0.5:.1f},{'' if row % 9 == 4 else row % 7 + 0.5}" for row in range(ROWS)]
    file = open_file("run.csv", "\n".join([f"{name},a", *lines, ""]).encode())
    form = file.form
    assert (form.time, form.sensors, form.step_ms) == (name, ("a",), 500)
    assert (form.moment(form.last_ms), form.length(form.step_ms)) == (f"99.5 {unit}".strip(), f"0.5 {unit}".strip())
    cells, out = cells_of(file), io.BytesIO()
    write(file, cells, fill_cells(cells), out)
    written = out.getvalue().decode().splitlines()
    assert [line.split(",")[0] for line in written[1:]] == [f"{row * 0.5:.1f}" for row in range(ROWS)]
    assert all(line.split(",")[1] for line in written)


def test_numbers_that_run_back_are_no_times() -> None:
    lines = [f"{row % 100},{row % 7}.5" for row in range(ROWS)]
    with pytest.raises(SettingsError, match="expected times such as"):
        read("\n".join(["time,a", *lines]).encode())
