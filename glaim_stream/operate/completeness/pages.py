"""A report as a page: each sensor's completeness on each day, as strips of colour, the least complete sensors first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glaim_stream.core.pages import cards, document, shown
from glaim_stream.operate.completeness.figures import Figures, SensorDays, percent, summed
from glaim_stream.operate.completeness.report import CompletenessReport
from glaim_stream.operate.completeness.texts import (
    delay_text,
    duration_text,
    filled,
    gap_text,
    methods_text,
    percent_text,
    stretch_text,
)

_CSS = Path(__file__).with_name("page.css")
_MOST_SENSORS = 100  # sensors on the page; at 120 marks each it has some 1.5 MB
_MOST_MARKS = 120  # marks of a strip: three pixels each on a phone
_LEVELS = ((100.0, "all"), (99.0, "99 % or more"), (95.0, "95 %"), (80.0, "80 %"), (50.0, "50 %"), (1e-9, "less"))
_NONE = "none"


@dataclass(frozen=True, slots=True)
class _Marks:
    """The number of days of a mark of the strips, and the number of marks."""

    days: int
    count: int

    @classmethod
    def of(cls, days: int) -> _Marks:
        each = -(-days // _MOST_MARKS) or 1
        return cls(each, -(-days // each))


def page(report: CompletenessReport) -> str:
    """Return the page as HTML; it needs no other file."""
    marks = _Marks.of(len(report.days))
    total = summed(report.by_day)
    stretch = stretch_text(report.begin_ms, report.end_ms, report.timezone)
    body = (
        f"<header><p class=name>glaim-stream</p><h1>{shown(report.title)}: completeness</h1>"
        f'<p class="soft">{shown(stretch)}</p></header>'
        f"{_numbers(report)}"
        f"<section><h2>All sensors, day by day</h2>"
        f'<div class="all">{_strip(report, report.by_day, marks)}{_axis(report)}</div>{_key(marks)}</section>'
        f"{_sensors(report, marks)}{_table(report)}{_notes(report, total['without_row'])}"
    )
    return document(f"{report.title}: completeness", body, css=_CSS.read_text())


def _numbers(report: CompletenessReport) -> str:
    total = summed(report.by_day)
    expected, null = total["expected"], total["null"]
    numbers = [
        (f"{percent_text(total['good'], expected)} %", f"good: {total['good']:,} of {expected:,} expected readings"),
    ]
    if report.filled:
        methods = methods_text(total)
        label = f"with a value; {filled(total):,} filled" + (f": {methods}" if methods else "")
        numbers.append((f"{percent_text(expected - null, expected)} %", label))
    numbers.append((f"{null:,}", "null" if report.filled else "without a reading"))
    if report.stream:
        numbers.append((f"{total['late']:,}", f"late, {total['too_late']:,} of them too late for their window"))
        numbers.append((delay_text(total), "mean delay from a reading's time to its row"))
    longest = max(report.sensors, key=lambda each: each.longest_gap * each.cell_ms, default=None)
    if longest is not None and longest.longest_gap:
        where = f"longest gap: {longest.sensor} of {longest.group}"
        numbers.append((duration_text(longest.longest_gap * longest.cell_ms), where))
    return cards(numbers)


def _sensors(report: CompletenessReport, marks: _Marks) -> str:
    rows = "".join(
        f'<div><span class="of">{_name(each)}</span>{_strip(report, each.figures, marks, each)}'
        f"<b>{_good(each)} %</b></div>"
        for each in report.sensors[:_MOST_SENSORS]
    )
    more = len(report.sensors) - _MOST_SENSORS
    rest = (
        f'<p class="soft">{more:,} more sensors are at least as complete; the JSON document has all of them.</p>'
        if more > 0
        else ""
    )
    return (
        '<section><h2>Sensors, the least complete first</h2><p class="soft">Share of good readings on each day, and '
        f'over all days.</p><div class="strips">{rows}{_axis(report)}</div>{rest}</section>'
    )


def _strip(report: CompletenessReport, figures: Figures, marks: _Marks, sensor: SensorDays | None = None) -> str:
    """A rectangle for each mark with expected cells."""
    of_mark = figures["day"] // marks.days
    rectangles = []
    for mark in np.unique(of_mark[figures["expected"] > 0]).tolist():
        part = figures[of_mark == mark]
        good, expected = int(part["good"].sum()), int(part["expected"].sum())
        title = f"{_dates(report, mark, marks)}: {percent_text(good, expected)} % good, {good:,} of {expected:,}"
        gap = int(part["longest_gap"].max())
        if sensor is not None and gap:
            title += f", longest gap {duration_text(gap * sensor.cell_ms)}"
        rectangles.append(
            f'<rect class="s{_level(good, expected)}" x="{mark}" width=".92" height="1"><title>{shown(title)}</title>'
            "</rect>"
        )
    label = "share of good readings by day"
    return (
        f'<svg viewBox="0 0 {marks.count} 1" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(rectangles)}</svg>"
    )


def _dates(report: CompletenessReport, mark: int, marks: _Marks) -> str:
    names = report.days.names[mark * marks.days : (mark + 1) * marks.days]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _level(good: int, expected: int) -> int:
    share = percent(good, expected) or 0.0
    return next((level for level, (least, _) in enumerate(_LEVELS) if share >= least), len(_LEVELS))


def _key(marks: _Marks) -> str:
    labels = [*(label for _, label in _LEVELS), _NONE]
    swatches = "".join(
        f'<span><svg viewBox="0 0 1 1"><rect class="s{level}" width="1" height="1"/></svg>{label}</span>'
        for level, label in enumerate(labels)
    )
    each = "" if marks.days == 1 else f"<span>A mark stands for {marks.days} days.</span>"
    return f'<p class="key"><span>Good readings:</span>{swatches}{each}</p>'


def _axis(report: CompletenessReport) -> str:
    names = report.days.names
    dates = [names[0]] if len(names) == 1 else [names[0], names[-1]]
    return '<p class="axis">' + "".join(f"<span>{date}</span>" for date in dates) + "</p>"


def _table(report: CompletenessReport) -> str:
    columns: list[tuple[str, bool, Callable[[SensorDays], str]]] = [
        ("good %", True, _good),
        ("expected", False, lambda each: f"{each.total['expected']:,}"),
        ("arrived", False, lambda each: f"{each.total['arrived']:,}"),
        ("null", True, lambda each: f"{each.total['null']:,}"),
        ("longest gap", True, lambda each: gap_text(each.longest_gap, each.cell_ms)),
    ]
    if report.filled:
        columns.insert(1, ("value %", True, lambda each: _share(each, "expected", "null")))
    if report.stream:
        columns.append(("late", False, lambda each: f"{each.total['late']:,}"))
        columns.append(("delay", False, lambda each: delay_text(each.total)))
    if report.filled:
        columns.append(("filled", False, lambda each: methods_text(each.total) or "–"))
    head = "".join(_cell("th", name, always) for name, always, _ in columns)
    rows = "".join(
        f"<tr><td>{_name(each)}</td>"
        + "".join(_cell("td", text(each), always) for _, always, text in columns)
        + "</tr>"
        for each in report.sensors[:_MOST_SENSORS]
    )
    return (
        f'<section><h2>Figures</h2><div class="scroll"><table><thead><tr><th>sensor</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _cell(tag: str, text: str, always: bool) -> str:
    kind = "" if always else ' class="more"'  # hidden on a phone
    return f"<{tag}{kind}>{shown(text)}</{tag}>"


def _good(each: SensorDays) -> str:
    return percent_text(each.total["good"], each.total["expected"])


def _share(each: SensorDays, whole: str, less: str) -> str:
    return percent_text(each.total[whole] - each.total[less], each.total[whole])


def _name(each: SensorDays) -> str:
    return f"<bdi>{shown(each.sensor)}</bdi> <span><bdi>{shown(each.group)}</bdi></span>"


def _notes(report: CompletenessReport, without_row: int) -> str:
    notes: Sequence[str] = report.notes
    if without_row:
        notes = [*notes, f"expected readings without any row: {without_row:,}"]
    if not notes:
        return ""
    return f"<section><h2>Notes</h2><ul>{''.join(f'<li>{shown(note)}</li>' for note in notes)}</ul></section>"
