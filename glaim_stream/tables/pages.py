"""A self-contained page on a filled file: numbers, a table by sensor, and a small picture of each sensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from glaim_stream.core.drawing import KEY_BAND, ChartSize, Curves, key_circle, key_line, legend, sensor_chart
from glaim_stream.core.pages import cards, document, shown
from glaim_stream.core.vocabulary import Method
from glaim_stream.tables.cells import Outcome
from glaim_stream.tables.groups import FilledGroup
from glaim_stream.tables.long_gaps import LONGEST_GAP
from glaim_stream.tables.summary import gain_percent, method_name

_SIZE = ChartSize(360, 150, 48)  # as wide as text on a phone, so that its letters are as large
_STEPS = 96  # steps in a picture
_MOST_PICTURES = 24


def page(
    name: str,
    lines: Sequence[str],
    outcome: Outcome,
    holes: int,
    moment: Callable[[int], str] | None = None,
) -> str:
    """Return the page as HTML.

    Args:
        name: name of the file.
        lines: output of the command.
        outcome: filled table.
        holes: number of holes.
        moment: function that formats a time; the default shows day and minute.
    """
    notes = "".join(f"<li>{shown(line)}</li>" for line in lines)
    body = (
        f"<header><p class=name>glaim-stream</p><h1>{shown(name)}, filled</h1></header>"
        f"{_numbers(outcome, holes)}<section><h2>Sensors</h2>{_table(outcome)}</section>"
        f"{_pictures(outcome, moment or _minute)}"
        f"<section><h2>What was found and done</h2><ul>{notes}</ul></section>"
    )
    return document(f"{name}, filled", body)


def _numbers(outcome: Outcome, holes: int) -> str:
    filled = sum(outcome.filled.values())
    by = ", ".join(f"{count:,} by {method_name(method)}" for method, count in outcome.filled.items())
    left = sum(outcome.left.values())
    numbers = [
        (f"{filled:,}", f"of {holes:,} holes filled" + (f": {by}" if by else "")),
        (f"{left:,}", "cells left as they are" + "".join(f"; {count:,}: {why}" for why, count in outcome.left.items())),
    ]
    percent = gain_percent(outcome)
    if percent is not None:
        numbers.append((f"{-percent:+.0f} %", "error against interpolation, on readings that were hidden on purpose"))
    if outcome.missing_rows and outcome.even and outcome.uneven is None:
        numbers.append((f"{outcome.missing_rows:,}", "steps have no row in the file"))
    return cards(numbers)


def _table(outcome: Outcome) -> str:
    ours, line, long = outcome.result.expected_error, outcome.result.line_error, outcome.result.long_gap_error
    rows = "".join(
        f"<tr><td>{shown(sensor)}</td><td>{holes:,}</td><td>{filled:,}</td>"
        f"<td>{_error(ours.get(sensor))}</td><td>{_error(line.get(sensor))}</td>"
        + (f"<td>{_error(long[sensor][0] if sensor in long else None)}</td>" if long else "")
        + "</tr>"
        for sensor, (holes, filled) in outcome.sensor_holes.items()
    )
    rows = rows or '<tr><td colspan="5">no sensor has a hole</td></tr>'
    long_head = f"<th>in gaps of more than {LONGEST_GAP} steps</th>" if long else ""
    long_note = (
        f" In gaps of more than {LONGEST_GAP} steps it was tried on long stretches of hidden readings." if long else ""
    )
    return (
        '<div class="scroll"><table><thead><tr><th>sensor</th><th>holes</th><th>filled</th><th>expected error</th>'
        f"<th>interpolation</th>{long_head}</tr>"
        f"</thead><tbody>{rows}</tbody></table></div>"
        '<p class="soft">Expected error: mean absolute error on readings that were hidden on purpose, in the '
        f"sensor&#8217;s unit; beside it that of interpolation on the same readings.{long_note}</p>"
    )


def _pictures(outcome: Outcome, moment: Callable[[int], str]) -> str:
    figures: list[str] = []
    for place, sensor in enumerate(outcome.sensors):
        found = _part(outcome, place)
        if found is None or len(figures) == _MOST_PICTURES:
            continue
        group, part = found
        filled = outcome.result.groups[group]
        times = outcome.grids[group].times_ms[part]
        label = f"{filled.name}, " if len(outcome.result.groups) > 1 else ""
        figures.append(
            f"<figure><figcaption>{shown(sensor)} <span>{shown(label + moment(int(times[0])))}</span></figcaption>"
            f"{_picture(filled, place, part, times, moment)}</figure>"
        )
    if not figures:
        return ""
    keys = [
        (key_line("observed"), "observed"),
        (KEY_BAND + key_line("filled"), "filled, with the band that should hold 90 % of the true values"),
    ]
    if outcome.doubts:
        keys.append((key_circle("doubtful"), "doubtful"))
    return (
        '<section><h2>Pictures</h2><p class="soft">Of each sensor the part with the most filled holes among '
        f'observed readings.</p>{legend(keys)}<div class="charts pictures">{"".join(figures)}</div></section>'
    )


def _part(outcome: Outcome, place: int) -> tuple[int, slice] | None:
    """The group and the steps with the most filled cells beside observed ones; None where no cell is filled."""
    best, found = 0.0, None
    for code, group in enumerate(outcome.result.groups):
        method, value = group.method[place], group.values[place]
        filled = np.isfinite(value) & (method != Method.OBSERVED)
        seen = (method == Method.OBSERVED) & ~group.doubted[place]
        length = min(_STEPS, len(value))
        sums = [_sums(each, length) for each in (filled, seen)]
        score = np.minimum(sums[0], length / 4) * (1.0 + np.minimum(sums[1], length / 2))
        start = int(np.argmax(score))
        if score[start] > best:
            middle = int(np.median(np.flatnonzero(filled[start : start + length]))) + start
            first = min(max(middle - length // 2, 0), len(value) - length)
            best, found = float(score[start]), (code, slice(first, first + length))
    return found


def _sums(chosen: NDArray[np.bool_], length: int) -> NDArray[np.int64]:
    """Number of chosen steps in each stretch of `length` steps."""
    total = np.concatenate([[0], np.cumsum(chosen)])
    sums: NDArray[np.int64] = total[length:] - total[:-length]
    return sums


def _picture(
    group: FilledGroup, place: int, part: slice, times: NDArray[np.int64], moment: Callable[[int], str]
) -> str:
    value, lower, upper = (each[place, part] for each in (group.values, group.lower, group.upper))
    doubted = group.doubted[place, part]
    seen = (group.method[place, part] == Method.OBSERVED) & ~doubted
    filled = ~seen & ~doubted
    curves = Curves(
        np.where(seen, value, np.nan), np.where(filled, value, np.nan), np.where(filled, lower, np.nan),
        np.where(filled, upper, np.nan), doubtful=np.where(doubted, value, np.nan),
    )  # fmt: skip
    marks = [(float(at), moment(int(times[at]))) for at in sorted({0, len(times) - 1})]
    return sensor_chart(curves, _SIZE, marks, "readings and filled values")


def _error(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.3g}"


def _minute(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment.day} {moment:%b %Y %H:%M}"
