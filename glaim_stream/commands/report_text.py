"""The table that `glaim-stream report` prints."""

from __future__ import annotations

from typing import IO

from rich.table import Table

from glaim_stream.commands.console import file_width, plain_console
from glaim_stream.completeness.figures import SensorDays, summed
from glaim_stream.completeness.report import Report
from glaim_stream.completeness.texts import delay_text, filled, gap_text, methods_text, percent_text, stretch_text
from glaim_stream.printable import printable

_SHADES = "▁▂▃▄▅▆▇█"
_MOST_DAYS = 31


def show(report: Report, out: IO[str], *, worst: int) -> None:
    """Print the sums of all sensors, and a line for each of the `worst` least complete ones."""
    total = summed(report.by_day)
    print(
        printable(
            f"{report.title}: {report.groups:,} groups, {len(report.sensors):,} sensors, "
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
    plain_console(file_width(out), out).print(_table(report, worst))
    if len(report.sensors) > worst:
        print(
            f"{len(report.sensors) - worst:,} more sensors are at least as complete (--worst N, --json, --html)",
            file=out,
        )


def _table(report: Report, worst: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    days = min(len(report.days), _MOST_DAYS)
    strip = "days" if days == len(report.days) else f"last {days} days"
    table.add_column("group", overflow="fold")
    table.add_column("sensor", overflow="fold")
    names = ["good %", "value %"] if report.filled else ["good %"]
    names += ["expected", "arrived", "null", "longest gap"]
    names += ["late", "delay"] if report.stream else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    if report.filled:
        table.add_column("filled")
    table.add_column(strip, no_wrap=True)
    for each in report.sensors[:worst]:
        total = each.total
        cells = [percent_text(total["good"], total["expected"])]
        cells += [percent_text(total["expected"] - total["null"], total["expected"])] if report.filled else []
        cells += [
            f"{total['expected']:,}",
            f"{total['arrived']:,}",
            f"{total['null']:,}",
            gap_text(each.longest_gap, each.cell_ms),
        ]
        cells += [f"{total['late']:,}", delay_text(total)] if report.stream else []
        cells += [methods_text(total)] if report.filled else []
        table.add_row(printable(each.group), printable(each.sensor), *cells, _strip(each, len(report.days), days))
    return table


def _strip(each: SensorDays, all_days: int, days: int) -> str:
    """The share of good readings on each of the last days as a block; a blank where nothing was expected."""
    marks = [" "] * all_days
    for row in each.figures:
        # The full block is for a day on which nothing is missing: 99 % would look like it.
        marks[int(row["day"])] = _SHADES[int(row["good"]) * (len(_SHADES) - 1) // int(row["expected"])]
    return "".join(marks[-days:])
