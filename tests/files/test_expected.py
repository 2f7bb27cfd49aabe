"""Empty cells in which no reading is expected are no holes, and rows whose times a clock repeats stay."""

import datetime as dt
import io
from pathlib import Path

import numpy as np
import pytest

from glaim_stream.commands.fill import ReadFlags, WriteFlags, fill_file
from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import text_of_ms, zone_of
from glaim_stream.feed import read_source
from glaim_stream.files import Cells, read, series_of
from glaim_stream.operate.completeness import FileRequest, file_report, summed
from glaim_stream.tables import Outcome, cells_of, fill_cells, open_file, write

REPEATED = "in rows with the times of others and other readings, as of a clock that was set back"
START = dt.datetime(2026, 3, 2)


def reading(row: int) -> str:
    return f"{20 + 5 * np.sin(row / 9):.2f}"


def filled(text: str, **stated: object) -> tuple[Cells, Outcome, list[int]]:
    """Cells and outcome, and the lines that changed."""
    file, out = open_file("a.csv", text.encode(), **stated), io.BytesIO()
    cells = cells_of(file)
    found = series_of(cells)
    cells = found.expected(cells)
    outcome = fill_cells(cells, found)
    write(file, cells, outcome, out)
    lines = zip(text.splitlines(), out.getvalue().decode().splitlines(), strict=True)
    return cells, outcome, [at for at, (before, after) in enumerate(lines) if before != after]


def slow_table(every: int, *, rows: int = 240, without: tuple[int, ...] = (), seed: int | None = None) -> str:
    """A sensor that is read in all rows but one, and a slower one."""
    picked = np.arange(rows) % every == 0
    if seed is not None:
        picked = np.random.default_rng(seed).random(rows) < 1 / every
    lines = [
        f"{START + dt.timedelta(hours=at)},{'' if at == 7 else reading(at)},"
        f"{reading(at) if picked[at] and at not in without else ''}"
        for at in range(rows)
    ]
    return "\n".join(["time,temp,rain", *lines, ""])


@pytest.mark.parametrize("every", [2, 3, 6, 12, 24])
def test_a_sensor_of_slower_cadence_is_filled_at_its_own_times_alone(every: int) -> None:
    without = (every * 3, every * 5)
    cells, outcome, changed = filled(slow_table(every, without=without))
    assert changed == sorted([8, *(at + 1 for at in without)])
    assert (cells.holes, outcome.left) == (3, {})
    off = 240 - 240 // every
    assert cells.notes == (
        f"sensors read less often than the file has rows: rain every {f'{every} h' if every < 24 else '1 d'} "
        f"({off:,}): empty cells in between are no holes",
    )


def test_a_report_expects_one_reading_in_each_interval_of_a_slower_sensor() -> None:
    report = file_report("a.csv", slow_table(6, without=(18, 30)).encode(), FileRequest(zone_of("+05:30")))
    figures = {each.sensor: summed(each.figures) for each in report.sensors}
    assert [figures["rain"][name] for name in ("expected", "arrived", "null")] == [40, 38, 2]
    assert [figures["temp"][name] for name in ("expected", "arrived", "null")] == [240, 239, 1]
    assert report.timezone == "+05:30"


@pytest.mark.parametrize("seed", range(5))
def test_a_sensor_that_is_mostly_missing_has_no_cadence(seed: int) -> None:
    cells, _, _ = filled(slow_table(6, seed=seed))
    assert not cells.notes
    assert cells.holes > 180


def test_rows_without_any_reading_are_holes_though_every_sixth_has_some() -> None:
    lines = [f"{START + dt.timedelta(hours=at)},{reading(at) if at % 6 == 0 else ''}" for at in range(120)]
    cells, _, _ = filled("\n".join(["time,temp", *lines, ""]))
    assert cells.holes == 100


def test_a_day_of_hourly_rows_leaves_sums_of_six_twelve_and_twenty_four_hours() -> None:
    lines = [
        f"{START + dt.timedelta(hours=at)},{reading(at)},{'1.5' if at % 6 == 0 else ''},"
        f"{'2.5' if at % 12 == 6 else ''},{'4.5' if at == 6 else ''}"
        for at in range(25)
    ]
    cells, _, changed = filled("\n".join(["time,temp,r6,r12,r24", *lines, ""]))
    assert (cells.holes, changed) == (0, [])
    assert "r6 every 6 h (20), r12 with one or two readings (23), r24 with one or two readings (24)" in cells.notes[0]


def hobo(zone: str = "GMT-06:00", *, hole: bool = False) -> str:
    rows = [f"{START + dt.timedelta(minutes=15 * at):%m/%d/%y %I:%M:%S %p}" for at in range(96)]
    lines = [f"{row},{'' if hole and at == 40 else reading(at)},,," for at, row in enumerate(rows)]
    lines.insert(0, "03/01/26 11:58:12 PM,,Logged,,")
    lines.insert(30, "03/02/26 07:03:44 AM,,,Logged,")
    lines += ["03/03/26 12:08:21 AM,,Logged,,", "03/03/26 12:09:21 AM,,,,Logged"]
    lines = [f"{number + 1},{line}" for number, line in enumerate(lines)]
    names = f'"#","Date Time, {zone}","Temp, °C (LGR S/N: 1)","Host Connected","Coupler Attached","End Of File"'
    return "\n".join(['"Plot Title: 1"', names, *lines, ""])


def test_rows_that_log_events_are_no_holes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.csv"
    source.write_text(hobo())
    fill_file(str(source), ReadFlags(date_order="mdy"), WriteFlags(out=str(tmp_path / "b.csv")))
    said = capsys.readouterr().out
    assert "rows of events without a reading: 4: their cells are no holes and stay empty" in said
    assert "holes: 0" in said
    assert (tmp_path / "b.csv").read_text() == source.read_text()
    cells, _, changed = filled(hobo(hole=True), date_order="mdy")
    assert (cells.holes, len(changed)) == (1, 1)


def test_a_comment_beside_a_missing_reading_makes_no_event_of_it() -> None:
    lines = [
        f"{START + dt.timedelta(minutes=at)},{'' if at in (20, 50) else reading(at)},{'offline' if at == 20 else ''}"
        for at in range(90)
    ]
    cells, _, changed = filled("\n".join(["time,flow,comment", *lines, ""]))
    assert (cells.holes, changed) == (2, [21, 51])


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("GMT-06:00", "2026-03-02T06:00:00Z"),
        ("GMT+05:30", "2026-03-01T18:30:00Z"),
        ("UTC+5.5", "2026-03-01T18:30:00Z"),
        ("UTC+5:45", "2026-03-01T18:15:00Z"),
        ("GMT-03:30", "2026-03-02T03:30:00Z"),
        ("UTC+13", "2026-03-01T11:00:00Z"),
    ],
)
def test_the_zone_in_the_name_of_the_time_counts_in_fill_and_produce(zone: str, first: str, tmp_path: Path) -> None:
    lines = [f"{START + dt.timedelta(minutes=15 * at)};{reading(at)}" for at in range(40)]
    source = tmp_path / "a.csv"
    source.write_text("\n".join([f"Time ({zone});flow", *lines, ""]))
    assert text_of_ms(read(source).form.first_ms) == first
    made = read_source(source)
    assert text_of_ms(int(made.time_ms[0])) == first
    assert any("states the zone of its times" in note for note in made.notes)
    assert text_of_ms(int(read_source(source, timezone="UTC").time_ms[0])) == "2026-03-02T00:00:00Z"


@pytest.mark.parametrize(
    ("column", "words", "first"),
    [
        ("tz_cd", ("CST",), "2026-03-02T06:00:00Z"),
        ("tz_cd", ("CST", "CDT"), "2026-03-02T06:00:00Z"),
        ("tz_cd", ("MST",), "2026-03-02T07:00:00Z"),
        ("tz_cd", ("AKST", "AKDT"), "2026-03-02T09:00:00Z"),
        ("timezone", ("CST",), "2026-03-02T00:00:00Z"),
        ("timezone", ("XYZ",), "2026-03-02T00:00:00Z"),
    ],
)
def test_a_column_of_zone_words_is_used_or_named(column: str, words: tuple[str, ...], first: str) -> None:
    lines = [f"{START + dt.timedelta(hours=at)},{words[at * len(words) // 40]},{reading(at)}" for at in range(40)]
    file = open_file("a.csv", "\n".join([f"time,{column},flow", *lines, ""]).encode())
    assert text_of_ms(file.form.first_ms) == first
    used = f"the zones of the times are in {column!r}"
    unknown = f"{column!r} states zones by words that are not known, or mean several ({words[0]})"
    assert any(note.startswith(used if column == "tz_cd" else unknown) for note in file.form.notes)


def set_back(*, jump_h: int = 1, equal: bool = False) -> str:
    """A clock that jumps ahead at 02:00 and is set back as far later, with holes where times are doubled."""
    lines = []
    for at in range(300):
        ahead = jump_h if 120 <= at < 180 else 0
        time = START + dt.timedelta(minutes=at, hours=ahead)
        cell = reading(at + (60 if equal and ahead else 0))
        lines.append(f"{time},{'' if at in (60, 150, 210, 280) else cell}")
    return "\n".join(["time,flow", *lines, ""])


def test_holes_of_rows_that_a_clock_repeats_are_left() -> None:
    _, outcome, changed = filled(set_back())
    assert changed == [61, 281]
    assert outcome.left == {REPEATED: 2}


def test_rows_that_were_exported_twice_are_filled() -> None:
    _, outcome, _ = filled(set_back(equal=True))
    assert REPEATED not in outcome.left


def test_a_clock_that_jumps_and_is_set_back_gets_no_advice_on_zones() -> None:
    rows = [
        f"{START + dt.timedelta(minutes=5 * at, hours=1 if 24 <= at < 36 else 0)},{reading(at)}" for at in range(60)
    ]
    text = "\n".join(["time,flow", *rows, ""]).replace("2026-03-02", "2026-03-29")
    notes = open_file("a.csv", text.encode()).form.notes
    assert any(note.startswith("the clock jumps ahead to 2026-03-29T03:00:00") for note in notes)
    assert not any("--timezone" in note for note in notes)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("time,temp,hum", "a second line of names in line 34"),
        ("2026-03-02 00:30:00,1,2,3,4", "found 5 in line 34"),
    ],
)
def test_a_refusal_counts_the_lines_of_cells_that_span_some(line: str, said: str) -> None:
    notes = {3: '"opened\nand\nclosed"'}
    lines = [f"{START + dt.timedelta(minutes=at)},{reading(at)},{notes.get(at, '')}" for at in range(60)]
    text = "\n".join(["time,flow,note", *lines[:30], line, *lines[30:], ""])
    assert text.splitlines()[33] == line
    with pytest.raises(SettingsError, match=said):
        open_file("a.csv", text.encode())


def sine(ms: float) -> float:
    return 40 + 9 * float(np.sin(ms / 1.5e7))


def test_a_row_whose_step_has_another_reading_is_filled_at_its_own_time() -> None:
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.choice([10, 60, 60, 60, 60, 60, 120, 180], 300)) * 60_000.0
    holes = {at for at in range(2, 299) if times[at] - times[at - 1] == 600_000}
    lines = [
        f"{START + dt.timedelta(milliseconds=each)},{'' if at in holes else f'{sine(each):.2f}'}"
        for at, each in enumerate(times)
    ]
    cells, outcome, changed = filled("\n".join(["time,flow", *lines, ""]))
    assert (cells.holes, len(changed), outcome.left) == (len(holes), len(holes), {})
    (column,) = outcome.columns
    rows = sorted(holes)
    truth = np.array([sine(times[at]) for at in rows])
    assert np.median(np.abs(column.value[rows] - truth)) < 0.1
    assert ((column.lower[rows] <= truth) & (truth <= column.upper[rows])).mean() >= 0.8


def test_rows_of_one_stamp_are_filled_in_their_order() -> None:
    """Five readings a second under stamps of seconds."""
    holes = (57, 58, 203)
    lines = [
        f"{START + dt.timedelta(seconds=at // 5)},{name},{'' if name == 'a' and at in holes else f'{base + at:.1f}'}"
        for at in range(400)
        for name, base in (("a", 100.0), ("b", 900.0))
    ]
    cells, outcome, changed = filled("\n".join(["time,series,value", *lines, ""]))
    assert (cells.sensors, cells.holes, len(changed)) == (("a", "b"), 3, 3)
    assert outcome.columns[0].value[[2 * at for at in holes]] == pytest.approx([157, 158, 303], abs=0.11)


def test_a_row_at_the_time_of_another_reading_stays_empty() -> None:
    lines = [f"{START + dt.timedelta(minutes=at)},{cells}" for at in range(60) for cells in (f"{at}.5,", f",{at}.2")]
    _, outcome, changed = filled("\n".join(["time,flow,temp", *lines, ""]))
    assert (changed, outcome.left) == ([], {"another row of the same step has the reading": 120})
