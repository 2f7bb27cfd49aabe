"""The rules of a consumer group's commit: it lies inside the input, and the windows can be rebuilt from it."""

from __future__ import annotations

from dataclasses import dataclass

from glaim_stream.operate.audit.arrivals import Arrivals
from glaim_stream.operate.audit.model_columns import ModelColumns
from glaim_stream.operate.audit.report import Finding, Findings, Offence


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """The commit of a consumer group for a partition; `rebuild_from` is None if another tool committed."""

    offset: int
    rebuild_from: int | None


def needed_by_windows(arrivals: Arrivals, columns: ModelColumns) -> int | None:
    """The lowest offset below the commit that the windows of these readings need; None if they need none."""
    readings = arrivals.readings
    window_start = (arrivals.closed_at_commit - columns.window)[readings.model]
    needs = arrivals.committed & ~arrivals.too_late & (arrivals.step >= window_start)
    return int(readings.offset[needs].min()) if needs.any() else None


def check_commit(commit: GroupCommit, needed: int | None, *, partition: int, end: int) -> Findings:
    """Compare a commit with the input, which ends before the offset `end`; `needed` is `needed_by_windows`."""
    detail = f"committed {commit.offset}, the input ends at {end}"
    ahead = Offence(partition, offset=commit.offset, detail=detail)
    problems = {"committed_beyond_input": _finding(max(0, commit.offset - end), ahead)}
    if commit.rebuild_from is not None:
        needed = commit.offset if needed is None else needed
        detail = f"the commit at {commit.offset} rebuilds from {commit.rebuild_from}, its windows need {needed}"
        short = Offence(partition, offset=needed, detail=detail)
        problems["rebuild_too_late"] = _finding(max(0, commit.rebuild_from - needed), short)
    return Findings({}, problems)


def _finding(count: int, offence: Offence) -> Finding:
    return Finding(count, [offence] if count else [])
