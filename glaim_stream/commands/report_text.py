"""The table that `glaim-stream report` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from rich.cells import cell_len
from rich.table import Table

from glaim_stream.commands.console import file_width, plain_console
from glaim_stream.core.printable import printable
from glaim_stream.operate.completeness import (
    CompletenessReport,
    SensorDays,
    delay_text,
    filled,
    gap_text,
    methods_text,
    percent_text,
    stretch_text,
    summed,
)

_SHADES = "▁▂▃▄▅▆▇█"
_MOST_DAYS, _LEAST_DAYS = 31, 12  # as wide as `last 12 days`
_SPACE = 2  # between columns
_NAME = 18  # of a group or sensor in a narrow terminal, before it goes on in the next line


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show(report: CompletenessReport, out: IO[str], *, worst: int) -> None:
    """Print the sums of all sensors, and a line for each of the `worst` least complete ones."""
    total = summed(report.by_day)
    print(
        printable(
            f"{report.title}: {_counted(report.groups, 'group')}, {_counted(len(report.sensors), 'sensor')}, "
            f"{stretch_text(report.begin_ms, report.end_ms, report.timezone)}"
        ),
        file=out,
    )
    for note in report.notes:
        print(printable(f"note: {note}"), file=out)
    expected = total["expected"]
    print(
        f"expected {expected:,}, arrived {total['arrived']:,}, good {percent_text(total['good'], expected)} %, "
        f"null {total['null']:,}",
        file=out,
    )
    if report.filled:
        by = f": {methods_text(total)}" if filled(total) else ""
        share = percent_text(expected - total["null"], expected)
        print(f"filled {filled(total):,}{by}; with a value {share} %", file=out)
    if report.stream:
        print(
            f"late {total['late']:,}, of which {total['too_late']:,} too late for their window; mean delay "
            f"{delay_text(total)}",
            file=out,
        )
    console = plain_console(file_width(out), out)
    console.print(_table(report, worst, console.width))
    if len(report.sensors) > worst:
        print(
            f"{len(report.sensors) - worst:,} more sensors are at least as complete (--worst N, --json, --html)",
            file=out,
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of text; the ones of a lower rank are left out first where the terminal is narrow."""

    name: str
    cells: list[str]
    rank: int

    @property
    def width(self) -> int:
        return max(cell_len(text) for text in (self.name, *self.cells)) + _SPACE


def _table(report: CompletenessReport, worst: int, width: int) -> Table:
    """The table, as wide as the terminal at most: a figure is there whole or not at all."""
    shown = report.sensors[:worst]
    totals = [each.total for each in shown]
    names = [_Column("group", [printable(each.group) for each in shown], 0)]
    names.append(_Column("sensor", [printable(each.sensor) for each in shown], 0))
    columns = [_Column("good %", [percent_text(each["good"], each["expected"]) for each in totals], 9)]
    if report.filled:
        shares = [percent_text(each["expected"] - each["null"], each["expected"]) for each in totals]
        columns.append(_Column("value %", shares, 7))
    for name, rank in (("expected", 3), ("arrived", 4), ("null", 8)):
        columns.append(_Column(name, [f"{each[name]:,}" for each in totals], rank))
    columns.append(_Column("longest gap", [gap_text(each.longest_gap, each.cell_ms) for each in shown], 6))
    if report.stream:
        columns.append(_Column("late", [f"{each['late']:,}" for each in totals], 5))
        columns.append(_Column("delay", [delay_text(each) for each in totals], 2))
    if report.filled:
        columns.append(_Column("filled", [methods_text(each) for each in totals], 1))
    widths = [min(column.width, max(_NAME, width // 5)) for column in names]
    left = width - sum(widths) - (_LEAST_DAYS + _SPACE)
    kept: set[str] = set()
    for column in sorted(columns, key=lambda each: -each.rank):
        if column.width > left and kept:
            break
        kept.add(column.name)
        left -= column.width
    table = Table(box=None, pad_edge=False, padding=(0, _SPACE, 0, 0))
    for column, name_width in zip(names, widths, strict=True):
        table.add_column(column.name, overflow="fold", width=name_width - _SPACE)
    columns = [column for column in columns if column.name in kept]
    for column in columns:
        table.add_column(column.name, justify="left" if column.name == "filled" else "right", no_wrap=True)
    days = min(len(report.days), _MOST_DAYS, max(_LEAST_DAYS + left, 1))
    table.add_column("days" if days == len(report.days) else f"last {days} days", no_wrap=True)
    for place, each in enumerate(shown):
        cells = [column.cells[place] for column in (*names, *columns)]
        table.add_row(*cells, _strip(each, len(report.days), days))
    return table


def _strip(each: SensorDays, all_days: int, days: int) -> str:
    """The share of good readings on each of the last days as a block; a blank where nothing was expected."""
    marks = [" "] * all_days
    for row in each.figures:
        # The full block is for a day on which nothing is missing: 99 % would look like it.
        marks[int(row["day"])] = _SHADES[int(row["good"]) * (len(_SHADES) - 1) // int(row["expected"])]
    return "".join(marks[-days:])
