"""The completeness of files, computed by hand."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from glaim_stream.core.errors import SettingsError
from glaim_stream.core.times import moment_ms, zone_of
from glaim_stream.operate.completeness.document import pieces
from glaim_stream.operate.completeness.file import FileRequest, file_report
from glaim_stream.operate.completeness.report import CompletenessReport

UTC = zone_of("UTC")


def reported(lines: Sequence[str], *, name: str = "pumps.csv", zone: str = "UTC", **more: Any) -> dict[str, Any]:
    stated = {key: more.pop(key) for key in ("timezone", "time") if key in more}
    raw = ("\n".join(lines) + "\n").encode()
    return as_json(file_report(name, raw, FileRequest(zone_of(zone), **more), **stated))


def as_json(report: CompletenessReport) -> dict[str, Any]:
    found = json.loads("".join(pieces(report)))
    by_day = [day for sensor in found["sensors"] for day in sensor["days"]]
    for each in [found["total"], *found["days"], *found["sensors"], *by_day]:
        assert each["arrived"] + sum((each["filled"] or {}).values()) + each["null"] == each["expected"]
    return found  # type: ignore[no-any-return]


def of(found: dict[str, Any], sensor: str, group: str = "pumps") -> dict[str, Any]:
    (each,) = [each for each in found["sensors"] if (each["group"], each["sensor"]) == (group, sensor)]
    return each  # type: ignore[no-any-return]


FOUR_HOURS = [
    "time,flow,temp",
    "2026-01-01T00:00:00Z,1.0,20.5",
    "2026-01-01T04:00:00Z,,20.4",
    "2026-01-01T08:00:00Z,1.2,",
    # 12:00 and 16:00 have no row
    "2026-01-01T20:00:00Z,,20.1",
    "2026-01-02T00:00:00Z,,20.2",
    "2026-01-02T04:00:00Z,1.5,20.3",
    "2026-01-02T04:00:00Z,1.6,20.3",  # the row before, delivered twice
    "2026-01-02T08:00:00Z,1.5,20.6",
    "2026-01-02T12:00:00Z,1.4,20.6",
]


def test_a_small_file_by_hand() -> None:
    """flow: o . o - - . | . o o o     temp: o o . - - o | o o o o     (.: empty cell, -: no row)"""
    found = reported(FOUR_HOURS)
    flow, temp = of(found, "flow"), of(found, "temp")
    assert [each["sensor"] for each in found["sensors"]] == ["flow", "temp"]  # the worst first
    assert (flow["expected"], flow["arrived"], flow["null"], flow["without_row"]) == (10, 5, 5, 2)
    assert (flow["pct_good"], flow["longest_gap"], flow["longest_gap_s"], flow["cell_s"]) == (50.0, 4, 57_600.0, 14_400)
    assert (temp["expected"], temp["arrived"], temp["null"], temp["longest_gap"]) == (10, 7, 3, 3)
    days = [
        (day["date"], day["expected"], day["arrived"], day["without_row"], day["longest_gap"]) for day in flow["days"]
    ]
    assert days == [("2026-01-01", 6, 2, 2, 3), ("2026-01-02", 4, 3, 0, 1)]
    assert (flow["late"], flow["mean_delay_s"], flow["filled"]) == (None, None, None)
    assert found["total"]["expected"] == 20
    assert found["total"]["arrived"] == 12


def test_days_are_those_of_the_zone_and_the_range_is_cut() -> None:
    found = reported(FOUR_HOURS, zone="America/New_York")  # midnight is at 05:00 UTC
    assert [(day["date"], day["expected"]) for day in of(found, "flow")["days"]] == [
        ("2025-12-31", 2),  # 00:00 and 04:00 UTC
        ("2026-01-01", 6),
        ("2026-01-02", 2),
    ]
    bounds = {"since_ms": moment_ms("2026-01-01T03:00:00Z"), "until_ms": moment_ms("2026-01-01T21:00:00Z")}
    cut = of(reported(FOUR_HOURS, **bounds), "flow")
    assert (cut["expected"], cut["arrived"], cut["longest_gap"]) == (4, 1, 2)  # 04:00 to 16:00: 20:00 ends too late


@pytest.mark.parametrize(("date", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_days_of_23_and_of_25_hours(date: str, hours: int) -> None:
    first_ms = moment_ms(f"{date}T00:00:00", timezone="Europe/Berlin")
    steps = [first_ms + number * 3_600_000 for number in range(-24, 48)]
    lines = ["time,flow", *(f"{step_ms // 1000},{number % 7 + 0.5}" for number, step_ms in enumerate(steps))]
    days = {day["date"]: day for day in of(reported(lines, zone="Europe/Berlin"), "flow")["days"]}
    assert (days[date]["expected"], days[date]["arrived"], days[date]["pct_good"]) == (hours, hours, 100.0)


def test_a_group_that_ends_at_noon_is_expected_until_the_file_ends() -> None:
    lines = ["time,pump,flow"]
    for hour in range(24):
        for pump in ("p1", "p2"):
            if (pump, hour) not in [("p2", each) for each in (0, 1, *range(12, 24))]:
                lines.append(f"2026-01-01T{hour:02}:00:00Z,{pump},{hour}.5")
    found = reported(lines)
    assert [(each["group"], each["expected"], each["arrived"]) for each in found["sensors"]] == [
        ("p2", 22, 10),  # from its first row on
        ("p1", 24, 24),
    ]
    assert of(found, "flow", "p2")["longest_gap"] == 12
    assert of(found, "flow", "p2")["without_row"] == 12


def test_readings_in_rows_and_wanted_groups() -> None:
    lines = ["ts,group,sensor,value"]
    for minute in range(0, 60, 10):
        lines.append(f"2026-01-01T00:{minute:02}:00Z,a,flow,{minute}.0")
        if minute != 30:
            lines.append(f"2026-01-01T00:{minute:02}:00Z,b,temp,{minute}.5")
    found = reported(lines, groups=["b*"])
    assert [(each["group"], each["sensor"], each["arrived"], each["expected"]) for each in found["sensors"]] == [
        ("b", "temp", 5, 6)
    ]
    with pytest.raises(SettingsError, match=r"expected a group of pumps.csv, found 'c\*'; known: a, b"):
        reported(lines, groups=["c*"])


def test_filling_counts_by_method_and_only_what_stays_empty_is_null() -> None:
    lines = ["time,flow,temp"]
    for number in range(300):
        if number == 120:
            continue  # a step without a row
        hole = number in (50, 51, 52, 200)
        lines.append(
            f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00Z,{'' if hole else number % 24},{number % 12}.5"
        )
    plain, filled = reported(lines), reported(lines, fill=True)
    assert (of(plain, "flow")["null"], of(plain, "flow")["filled"]) == (5, None)
    assert (of(filled, "flow")["null"], of(filled, "flow")["pct_with_value"]) == (0, 100.0)
    assert sum(of(filled, "flow")["filled"].values()) == 5
    assert of(filled, "flow")["longest_gap"] == of(plain, "flow")["longest_gap"] == 3  # of readings
    assert of(filled, "flow")["pct_good"] == pytest.approx(100 * 295 / 300)


def test_the_columns_of_fill_tell_what_was_filled() -> None:
    lines = [
        "time,flow,flow_method,flow_lower,flow_upper",
        "2026-01-01T00:00:00Z,1.0,observed,,",
        "2026-01-01T01:00:00Z,1.1,gaussian,1.0,1.2",
        "2026-01-01T02:00:00Z,1.2,interpolation,,",
        "2026-01-01T03:00:00Z,,none,,",
        "2026-01-01T04:00:00Z,1.4,observed,,",
    ]
    found = reported(lines)
    (flow,) = found["sensors"]
    assert (flow["expected"], flow["arrived"], flow["null"], flow["longest_gap"]) == (5, 2, 1, 3)
    assert {name: count for name, count in flow["filled"].items() if count} == {"gaussian": 1, "interpolation": 1}
    with pytest.raises(SettingsError, match="its holes are filled, as 'flow_method' states: omit --fill"):
        reported(lines, fill=True)


def test_a_step_that_is_stated_counts_what_the_times_do_not_show() -> None:
    lines = ["time,flow", *(f"2026-01-01T{hour:02}:00:00Z,{hour}.5" for hour in range(0, 24, 2))]
    assert of(reported(lines), "flow")["pct_good"] == 100.0
    assert of(reported(lines, step_ms=3_600_000), "flow")["expected"] == 23


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["ts,group,sensor,value,method,observed,revision", "2026-01-01T00:00:00Z,g,s,1.5,model,false,1"] * 1,
         "expected a file of readings, found rows of the output topic"),
        (["seconds,flow", *(f"{number},{number % 5}.5" for number in range(50))], "expected times with dates"),
        (["time,flow", *(f"{year}-{month:02}-01,{month}.5" for year in (2024, 2025) for month in range(1, 13))],
         "expected steps below a month"),
    ],
)  # fmt: skip
def test_a_file_without_days_is_refused(lines: list[str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        reported(lines)


def test_a_reading_that_stands_apart_arrived_and_is_not_good() -> None:
    lines = [f"2026-03-01T{minute // 60:02d}:{minute % 60:02d},{50 + minute % 7}" for minute in range(300)]
    lines[120] = "2026-03-01T02:00,123456789"
    plain = "time,flow\n" + "\n".join(lines) + "\n"
    marked = "time,flow,flow_method,flow_lower,flow_upper\n" + "".join(
        f"{line},{'doubtful' if row == 120 else 'observed'},,\n" for row, line in enumerate(lines)
    )
    for text in (plain, marked):
        flow = of(reported(text.splitlines()), "flow")
        assert (flow["expected"], flow["arrived"], flow["good"]) == (300, 300, 299)
