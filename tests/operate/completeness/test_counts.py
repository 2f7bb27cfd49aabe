"""The figures of one sensor, computed by hand, and by a slow count of every cell."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from glaim_stream.core.times import moment_ms, zone_of
from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.operate.completeness.counts import CELLS, Span, counted, set_spans
from glaim_stream.operate.completeness.days import Days
from glaim_stream.operate.completeness.figures import FIGURES, FILLED_BY, Figures, SensorDays
from glaim_stream.operate.database import database

HOUR_MS = 3_600_000
BERLIN = zone_of("Europe/Berlin")


Cells = dict[str, np.ndarray]


def cells(numbers: list[int], methods: list[Method], **more: list[object]) -> Cells:
    count = len(numbers)
    return {
        "cell": np.array(numbers, np.int64),
        "method": np.array(methods, np.int8),
        **{name: np.array(more.get(name, [False] * count), np.bool_) for name in ("late", "too_late")},
        "good": np.array(more.get("good", [method == Method.OBSERVED for method in methods]), np.bool_),
        "has_row": np.array(more.get("has_row", [True] * count), np.bool_),
        "delay_ms": np.array(more.get("delay_ms", [np.nan] * count), np.float64),
    }


def span_between(first_ms: int, end_ms: int, cell_ms: int, *, origin_ms: int = 0) -> Span:
    return Span.between("g", "s", first_ms, end_ms, cell_ms, origin_ms=origin_ms)


def tally(days: Days, span: Span, *parts: Cells) -> tuple[SensorDays, int]:
    """The figures of a sensor, and its late cells outside of its span; beside one without any cell."""
    with database(None) as counting:
        counting.run(CELLS)
        for part in parts:
            counting.add("cells", {"series": np.full(len(part["cell"]), 3), **part})
        spans = {3: span, 1: span_between(0, 0, 1)}
        set_spans(counting, spans)
        sensors, outside = counted(counting, spans, days)
    return sensors[0] if sensors else SensorDays("g", "s", span.cell_ms, np.empty(0, FIGURES), 0), outside


def test_two_days_by_hand() -> None:
    """Steps of 6 hours; o: observed, m: model, 0: null, a blank: no row.

    2026-01-01  o m . 0      the longest gap has 3 cells, and goes on for one after midnight
    2026-01-02  . o o u      u: reported as uncertain
    """
    first_ms = moment_ms("2026-01-01T00:00:00Z")
    days = Days(zone_of("UTC"), first_ms, first_ms + 48 * HOUR_MS)
    begin = first_ms // (6 * HOUR_MS)
    methods = [Method.OBSERVED, Method.MODEL, Method.NONE, Method.OBSERVED]
    found, _ = tally(
        days, span_between(first_ms, first_ms + 48 * HOUR_MS, 6 * HOUR_MS),
        cells([begin, begin + 1, begin + 3, begin + 5], methods, delay_ms=[1000, np.nan, np.nan, 3000]),
        cells([begin + 6, begin + 7], methods[:1] * 2, good=[1, 0], late=[0, 1], delay_ms=[5000, np.nan]),
    )  # fmt: skip
    one, two = found.figures
    assert days.names == ["2026-01-01", "2026-01-02"]
    assert (one["expected"], one["arrived"], one["good"], one["model"]) == (4, 1, 1, 1)
    assert (one["null"], one["without_row"], one["longest_gap"]) == (2, 1, 3)
    assert (one["delays"], one["delay_ms"]) == (1, 1000)
    assert (two["expected"], two["arrived"], two["good"], two["late"]) == (4, 3, 2, 1)
    assert (two["null"], two["without_row"], two["longest_gap"]) == (1, 1, 1)
    assert (two["delays"], two["delay_ms"]) == (2, 8000)
    assert found.longest_gap == 4


@pytest.mark.parametrize(("date", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_a_day_of_summer_time_has_23_or_25_hours(date: str, hours: int) -> None:
    first_ms, end_ms = moment_ms("2026-01-01", timezone="Europe/Berlin"), moment_ms("2027-01-01T00:00:00Z")
    days = Days(BERLIN, first_ms, end_ms)
    figures = tally(days, span_between(first_ms, end_ms, 900_000))[0].figures
    found = {days.names[int(each["day"])]: int(each["expected"]) for each in figures}
    assert found[date] == 4 * hours
    assert sum(found.values()) == (end_ms - first_ms) // 900_000


def test_a_day_that_a_zone_skipped_is_absent_and_a_skipped_midnight_begins_later() -> None:
    samoa = zone_of("Pacific/Apia")  # crossed the date line: there was no 2011-12-30
    first_ms, end_ms = (moment_ms(each, timezone="Pacific/Apia") for each in ("2011-12-29", "2012-01-01"))
    days = Days(samoa, first_ms, end_ms)
    figures = tally(days, span_between(first_ms, end_ms, HOUR_MS))[0].figures
    found = [(days.names[int(each["day"])], int(each["expected"])) for each in figures]
    assert found == [("2011-12-29", 24), ("2011-12-31", 24)]
    cairo = Days(zone_of("Africa/Cairo"), moment_ms("2026-04-24T12:00:00Z"), moment_ms("2026-04-24T13:00:00Z"))
    assert np.diff(cairo.starts_ms).tolist() == [23 * HOUR_MS]  # its clocks go from 00:00 to 01:00


def test_a_step_across_midnight_counts_where_it_begins() -> None:
    """In India the day begins at 18:30 UTC, within a step of an hour."""
    first_ms = moment_ms("2026-01-01T00:00:00Z")
    days = Days(zone_of("Asia/Kolkata"), first_ms, first_ms + 24 * HOUR_MS)
    figures = tally(days, span_between(first_ms, first_ms + 24 * HOUR_MS, HOUR_MS))[0].figures
    assert [(days.names[int(each["day"])], int(each["expected"])) for each in figures] == [
        ("2026-01-01", 19),  # 00:00 to 18:00 UTC
        ("2026-01-02", 5),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_figures_are_those_of_a_count_of_every_cell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    zone = zone_of(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"][seed % 4])
    cell_ms = int(rng.choice([600_000, HOUR_MS, 7 * HOUR_MS, 50 * HOUR_MS]))
    origin_ms = int(rng.integers(0, cell_ms)) if seed % 3 else 0
    first_ms = moment_ms("2026-03-27T05:13:20Z")
    end_ms = first_ms + int(rng.integers(1, 6 * 24 * HOUR_MS))
    span = span_between(first_ms, end_ms, cell_ms, origin_ms=origin_ms)
    days = Days(zone, first_ms, end_ms)
    known = span.first + np.flatnonzero(rng.random(max(0, span.end - span.first)) < 0.8)
    methods = rng.choice([*Method], len(known))
    order = rng.permutation(len(known))
    parts = [cells(known[part].tolist(), methods[part].tolist()) for part in np.array_split(order, 1 + seed)]
    found, _ = tally(days, span, *parts)
    figures = found.figures

    expected: dict[str, dict[str, int]] = {}
    gaps: dict[str, int] = {}
    run = longest = 0
    by_cell = dict(zip(known.tolist(), methods.tolist(), strict=True))
    for number in range(span.first, span.end):
        begin_ms = origin_ms + number * cell_ms
        date = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=begin_ms)).astimezone(zone).date().isoformat()
        method = Method(by_cell.get(number, Method.NONE))
        count = expected.setdefault(date, {})
        count["expected"] = count.get("expected", 0) + 1
        name = {Method.OBSERVED: "arrived", Method.NONE: "null"}.get(method, METHODS[method])
        count[name] = count.get(name, 0) + 1
        if date not in gaps:
            gaps[date] = day_run = 0
        run, day_run = (0, 0) if method == Method.OBSERVED else (run + 1, day_run + 1)
        longest, gaps[date] = max(longest, run), max(gaps[date], day_run)
    assert [days.names[int(each["day"])] for each in figures] == list(expected)
    names = ["expected", "arrived", "null", *FILLED_BY]
    for row, (date, counts) in zip(figures, expected.items(), strict=True):
        assert {name: int(row[name]) for name in names} == {name: counts.get(name, 0) for name in names}
        assert int(row["longest_gap"]) == gaps[date]
    assert found.longest_gap == longest
    require_whole(figures)


def require_whole(figures: Figures) -> None:
    """What arrived, was filled and stayed null is what was expected, day by day."""
    parts = figures["arrived"] + figures["null"] + sum(figures[name] for name in FILLED_BY)
    assert (parts == figures["expected"]).all()
    assert (figures["without_row"] <= figures["null"]).all()


def test_a_late_cell_outside_of_the_span_is_counted_apart() -> None:
    days = Days(ZoneInfo("UTC"), 0, HOUR_MS)
    outside_and_in = cells([3, 9, 10], [Method.NONE] * 3, late=[True] * 3, too_late=[True] * 3, has_row=[False] * 3)
    found, outside = tally(days, Span("g", "s", 0, 60_000, 10, 60), outside_and_in)
    (figures,) = found.figures
    assert (outside, int(figures["late"]), int(figures["expected"]), int(figures["without_row"])) == (2, 1, 50, 50)
