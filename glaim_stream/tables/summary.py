"""Summaries of a file and its fill, as lines of text for people."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glaim_stream.core.errors import listed
from glaim_stream.core.times import NO_TIME
from glaim_stream.core.vocabulary import METHODS, Method
from glaim_stream.files import Cells, FileForm, Series, StrayRows
from glaim_stream.tables.cells import Outcome
from glaim_stream.tables.long_gaps import LONGEST_GAP

METHOD_NAMES = {
    METHODS[Method.MODEL]: "the trained network",
    METHODS[Method.GAUSSIAN]: "closed form",
    METHODS[Method.LAST_VALUE]: "last value",
}
_KINDS = {"csv": "CSV", "las": "LAS", "jsonl": "JSON lines", "parquet": "Parquet", "arrow": "Arrow"}


def described(
    name: str, form: FileForm, cells: Cells, found: Series, stray: StrayRows | None, *, gzipped: bool
) -> list[str]:
    """Describe the file, its step and the rows that are not used."""
    kind = _KINDS.get(form.kind, form.kind) + (", gzip inside" if gzipped else "")
    lines = [f"{name}: {kind}; {len(cells.times_ms):,} rows and {len(form.columns):,} columns"]
    dated = cells.times_ms[cells.times_ms != NO_TIME]
    if len(dated):
        step_ms = found.step_ms if found.even else form.step_ms
        step = f", a step every {form.length(step_ms)}" if form.step_ms else ""
        lines.append(f"from {form.moment(int(dated.min()))} to {form.moment(int(dated.max()))}{step}")
    lines += [f"sensors: {listed(form.sensors)}", *form.notes, *cells.notes]
    return lines if stray is None else [*lines, stray.said(form.moment(stray.time_ms))]


def summed(outcome: Outcome, holes: int, inserted: int | None, moment: Callable[[int], str]) -> list[str]:
    """Describe the filled and unfilled holes and the errors to expect; `moment` formats a time."""
    filled = sum(outcome.filled.values())
    by = ", ".join(f"{count:,} by {method_name(method)}" for method, count in outcome.filled.items())
    lines = [f"holes: {holes:,}, of which {filled:,} are filled" + (f": {by}" if by else "")]
    for reason, count in outcome.left.items():
        lines.append(f"left as they are: {count:,} cells: {reason}")
    if inserted is not None:
        lines.append(f"rows inserted for steps that had none: {inserted:,}")
    elif outcome.missing_rows and outcome.even and outcome.uneven is not None:
        irregular = outcome.uneven
        whose = f" of {outcome.result.groups[irregular.group].name!r}" if len(outcome.grids) > 1 else ""
        lines.append(
            f"rows missing: not counted, as {irregular.count:,} of {irregular.of:,} distances between rows{whose} are "
            "no multiples of the step"
        )
    elif outcome.missing_rows and outcome.even:
        hint = "" if outcome.long else "; --insert-rows inserts them where it can"
        lines.append(f"rows missing: {outcome.missing_rows:,} steps have no row{hint}")
    if outcome.doubts:
        lines.append(_doubtful(outcome, moment))
    if outcome.shared_rows:
        lines.append(f"rows that share their step with an earlier one: {outcome.shared_rows:,}; each keeps its cells")
    return [*lines, *error_lines(outcome)] if holes else lines


def _doubtful(outcome: Outcome, moment: Callable[[int], str]) -> str:
    """Describe the doubtful readings, with the first of each sensor."""
    each = [
        f"{sensor} {doubts.count:,} ({'first ' if doubts.count > 1 else ''}{doubts.value:.10g} at "
        f"{moment(doubts.time_ms)})"
        for sensor, doubts in outcome.doubts.items()
    ]
    return (
        f"readings far from those around them: {listed(each)}: kept as they are, and not used to fill others; "
        "--no-plausibility uses them"
    )


def error_lines(outcome: Outcome) -> list[str]:
    """Describe the expected error, measured at readings that were hidden on purpose."""
    result = outcome.result
    lines = [f"no closed form: {result.refused}"] if result.form is None and result.refused else []
    if not result.expected_error:
        return [*lines, "expected error: unknown, as there are too few readings to hide some"]
    each = [
        f"{sensor} {error:.3g}" + (f" ({result.line_error[sensor]:.3g})" if sensor in result.line_error else "")
        for sensor, error in result.expected_error.items()
        if outcome.sensor_holes.get(sensor, (0, 0))[0]
    ]
    if not each:
        return lines
    short = f" in gaps of up to {LONGEST_GAP} steps" if result.long_gap_error else ""
    lines.append(f"expected absolute error{short}, on hidden readings (interpolation's in brackets): {listed(each)}")
    percent = gain_percent(outcome)
    if percent is not None:
        lines.append(f"that is {compared(percent)} interpolation's, on average")
    if result.long_gap_error:
        each = [f"{sensor} {error:.3g} ({usual:.3g})" for sensor, (error, usual) in result.long_gap_error.items()]
        lines.append(
            f"expected absolute error in gaps of more than {LONGEST_GAP} steps, on long hidden stretches (that of the "
            f"sensor's mean in brackets): {listed(each)}"
        )
    return lines


def compared(percent: float) -> str:
    """Describe in words how much smaller one error is than another, in percent."""
    if round(percent) == 0:
        return "as much as"
    return f"{abs(percent):.0f} % {'less' if percent > 0 else 'more'} than"


def gain_percent(outcome: Outcome) -> float | None:
    """Reduction of the expected error against interpolation, mean over sensors; None if unknown."""
    result = outcome.result
    ratios = [
        error / result.line_error[sensor]
        for sensor, error in result.expected_error.items()
        if result.line_error.get(sensor, 0.0) > 0 and np.isfinite(error) and outcome.sensor_holes.get(sensor, (0, 0))[0]
    ]
    return 100.0 * (1.0 - float(np.mean(ratios))) if ratios else None


def method_name(method: str) -> str:
    """A readable name of a method."""
    return METHOD_NAMES.get(method, method)
